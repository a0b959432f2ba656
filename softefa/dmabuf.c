/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory behind a descriptor. */
#include "dmabuf.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "copy.h"
#include "ctx.h"
#include "log.h"
#include "private.h"
#include "real.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif
#define PAGE 4096u

/*
 * The bytes of @fd, where in the file they begin, and the unit in which it can be mapped. A real
 * dma-buf may be a part of some memory; a memfd in place of that is open at the part's beginning.
 */
static int measure(int fd, uint64_t *size, uint64_t *first, uint64_t *unit)
{
	struct statfs fs;
	struct stat st;
	off_t at, end;

	if (se_private_fd(fd))
		return -EBADF;
	if (se_real.fstat(fd, &st) || fstatfs(fd, &fs))
		return -errno;
	*unit = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : PAGE;
	*first = 0;
	if (fs.f_type == DMA_BUF_MAGIC) {
		end = lseek(fd, 0, SEEK_END);
		*size = (uint64_t)end;
		return end < 0 ? -errno : 0;
	}
	if (!S_ISREG(st.st_mode) || se_ctx_find(&st) ||
	    (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return -EINVAL;
	at = lseek(fd, 0, SEEK_CUR);
	if (at < 0 || at > st.st_size || (uint64_t)at % *unit)
		return -EINVAL;
	*first = (uint64_t)at;
	*size = (uint64_t)(st.st_size - at);
	return 0;
}

static int refuse(int fd, const char *why)
{
	se_log(SE_LOG_ERROR, "dma-buf %d %s: the adapter cannot use it", fd, why);
	return -EOPNOTSUPP;
}

int se_dmabuf_map(struct se_dmabuf *d, int fd, uint64_t offset, uint64_t len, bool write,
		  uint64_t *addr)
{
	uint64_t size, first, unit, start, end = offset + len;
	int rc;

	*d = (struct se_dmabuf){0};
	if (end < offset)
		return -EINVAL;
	rc = measure(fd, &size, &first, &unit);
	if (rc)
		return rc;
	if (end > size || len == 0)
		return -EINVAL;
	start = offset / unit * unit;
	d->len = (end - start + unit - 1) / unit * unit;
	d->va = mmap(NULL, d->len, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd,
		     (off_t)(first + start));
	if (d->va == MAP_FAILED) {
		rc = -errno;
		*d = (struct se_dmabuf){0};
		return rc == -ENODEV || rc == -EOPNOTSUPP ? refuse(fd, "cannot be mapped") : rc;
	}
	*addr = (uintptr_t)d->va + (offset - start);
	/* Memory of devices is mapped in a way that process_vm_readv() does not follow. */
	if (se_copy_probe(*addr, len, write)) {
		se_dmabuf_unmap(d);
		return refuse(fd, "is mapped as memory of a device");
	}
	return 0;
}

void se_dmabuf_unmap(struct se_dmabuf *d)
{
	if (d->va)
		munmap(d->va, d->len);
	*d = (struct se_dmabuf){0};
}
