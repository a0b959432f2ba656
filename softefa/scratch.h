/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of small messages through a memory file: write() and read() copy from and to the
 * application's memory and report what is not there, at half the cost of process_vm_readv(), which
 * pins pages for every call. Engine lock held.
 */
#ifndef SE_SCRATCH_H
#define SE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define SE_SCRATCH_MAX (256u << 10) /* bytes of one copy */

/* Is there a file? It is looked after now and then: the program may have closed it. */
bool se_scratch_up(void);
/*
 * Copy @len bytes between spans of this process's memory, of which either may be the
 * application's; one span of @dst is there whole before the next begins. 0 or -EFAULT.
 */
int se_scratch_copy(const struct iovec *dst, unsigned ndst, const struct iovec *src, unsigned nsrc,
		    size_t len);
/* From the application's memory to @dst, our own; the other way round. */
int se_scratch_in(void *dst, const void *src, size_t len);
int se_scratch_out(void *dst, const void *src, size_t len);
/* As se_scratch_copy(), from our own memory. */
int se_scratch_place(const struct iovec *dst, unsigned ndst, const void *src, size_t len);
/* In the child of fork(): it is the parent's. */
void se_scratch_forget(void);

#endif
