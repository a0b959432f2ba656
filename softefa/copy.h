/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving bytes from and to application memory. The application may unmap it at any time, so this
 * is never done by plain loads and stores: the kernel copies, and reports what is not there.
 */
#ifndef SE_COPY_H
#define SE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Does the kernel let us copy at all? 0, or -errno with a line in the log. */
int se_copy_allowed(void);

/* Between the application's memory in this process and ours. 0 or -EFAULT. */
int se_copy_in(void *dst, uint64_t src, size_t len);
int se_copy_out(uint64_t dst, const void *src, size_t len);

#define SE_COPY_SPANS 18 /* the most on either side */
#define SE_COPY_HERE  0  /* as a pid: this process */
#define SE_COPY_OURS  -1 /* as a pid: one span of our own memory, which is there */

/*
 * Copy @len bytes from the memory of process @pid into this process's, from spans to spans. Within
 * each 64-byte line of the destination the last 8 bytes land last, as they do from the device: of
 * short copies, and of all where the device vouches for it, where lines land one after the other.
 * 0, -EFAULT (either side), -ESRCH (no such process) or -EPERM.
 */
int se_copy_pull(pid_t pid, const struct iovec *dst, unsigned ndst, const struct iovec *src,
		 unsigned nsrc, size_t len);

/*
 * Can the first and the last of @len bytes at @addr of this process be read, or written, now? They
 * stand for all. 0 or -EFAULT.
 */
int se_copy_probe(uint64_t addr, uint64_t len, bool write);

#endif
