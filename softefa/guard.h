/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain loads and stores in the application's memory under the guard of a signal handler: the
 * memory may go at any time, and then the copy fails and not the process. A system call that
 * copies takes 1.5 us and pins pages.
 *
 * Only for the device thread, and only while the program leaves SIGSEGV and SIGBUS to their
 * defaults. One that handles either, before or later, keeps its handler, and the kernel copies.
 */
#ifndef SE_GUARD_H
#define SE_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Put the handler, if the program has none. Before the device thread starts. */
void se_guard_install(void);
/* The caller is the device thread, and has all signals blocked. */
void se_guard_enter(void);
/* A round begins: is it time to look whether the handler is still there? */
void se_guard_round(uint64_t now_us);

/* May se_guard_copy() be called? */
bool se_guard_up(void);
/*
 * Fill the spans @dst from the spans @src, which are as long or longer; one span of @dst is there
 * whole before the next begins. 0 or -EFAULT.
 */
int se_guard_copy(const struct iovec *dst, unsigned ndst, const struct iovec *src, unsigned nsrc);

#endif
