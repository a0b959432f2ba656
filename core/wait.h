/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a file descriptor. */
#ifndef SRD_CORE_WAIT_H
#define SRD_CORE_WAIT_H

/* 0: @fd is readable. -EAGAIN: not within @timeout_ms (-1: for ever), or a signal came. */
int srd_wait_readable(int fd, int timeout_ms);

#endif
