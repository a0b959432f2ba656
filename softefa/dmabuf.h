/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the application names by a file descriptor: a dma-buf, or a memfd in place of one,
 * from its position on. It is mapped here for as long as the region lives; the descriptor is not
 * kept.
 */
#ifndef SE_DMABUF_H
#define SE_DMABUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct se_dmabuf {
	uint8_t *va; /* NULL: nothing is mapped */
	size_t len;
};

/*
 * Map the pages of [@offset, @offset + @len) of @fd, writable if @write. The address of its first
 * byte goes to @addr. -EBADF (no such file), -EINVAL (no dma-buf, beyond its end, empty),
 * -EOPNOTSUPP (memory that processes cannot reach), or what mmap() says.
 */
int se_dmabuf_map(struct se_dmabuf *d, int fd, uint64_t offset, uint64_t len, bool write,
		  uint64_t *addr);
void se_dmabuf_unmap(struct se_dmabuf *d);

#endif
