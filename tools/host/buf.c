/* SPDX-License-Identifier: BSD-3-Clause */
/* Message memory. */
#include "buf.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t page_bytes = 4096, huge_bytes = 2u << 20;

int host_buf_init(struct host_buf *buf, size_t size)
{
	size_t align = size >= huge_bytes ? huge_bytes : page_bytes;
	size_t len, lead;
	char *map;

	memset(buf, 0, sizeof(*buf));
	if (size > SIZE_MAX - 2 * huge_bytes)
		return -ENOMEM;
	len = size ? (size + align - 1) / align * align : align;
	map = mmap(NULL, len + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	lead = (align - (uintptr_t)map % align) % align;
	if (lead)
		munmap(map, lead);
	if (lead < align)
		munmap(map + lead + len, align - lead);
	if (align == huge_bytes)
		madvise(map + lead, len, MADV_HUGEPAGE); /* a wish: ordinary pages do too */
	*buf = (struct host_buf){.addr = map + lead, .size = size, .mapped = len};
	return 0;
}

void host_buf_fini(struct host_buf *buf)
{
	if (buf->addr)
		munmap(buf->addr, buf->mapped);
	memset(buf, 0, sizeof(*buf));
}
