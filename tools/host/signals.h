/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process that watches over others waits for. */
#ifndef HOST_SIGNALS_H
#define HOST_SIGNALS_H

#include <signal.h>

/*
 * From here on the ends of children, and what ends a run from outside, are @mask and blocked, to be
 * waited for; @old is what was blocked before. By the one thread that there is yet.
 */
void host_signals_block(sigset_t *mask, sigset_t *old);

#endif
