/* SPDX-License-Identifier: BSD-3-Clause */
/* Message memory. */
#ifndef HOST_BUF_H
#define HOST_BUF_H

#include <stddef.h>

struct host_buf {
	void *addr;
	size_t size;
	size_t mapped; /* bytes to unmap from addr */
};

/*
 * @size bytes (0 gives a valid address too) at a page boundary; of 2 MiB and asking for huge pages
 * when that large, so that TLB misses and registration cost what they cost NCCL's buffers.
 * 0 or -errno.
 */
int host_buf_init(struct host_buf *buf, size_t size);
void host_buf_fini(struct host_buf *buf);

#endif
