/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that cannot crash: by a memory file, or by process_vm_readv() and its twin. */
#include "copy.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log.h"
#include "scratch.h"
#include "settings.h"

#define LINE          64
#define WORD          8
#define CAP_IN_ORDER  (1u << 4) /* the device vouches for the order of aligned 128 bytes */
/*
 * Up to this length the order within lines is kept. A span of n bytes is cut at up to 2 places for
 * each whole line in it and 2 for the rest.
 */
#define ORDERED_MAX   512
#define ORDERED_SPANS (2 * (ORDERED_MAX / LINE) + 3 * SE_COPY_SPANS)

int se_copy_allowed(void)
{
	char from = 1, to = 0;
	struct iovec l = {&to, 1}, r = {&from, 1};

	if (process_vm_readv(getpid(), &l, 1, &r, 1, 0) == 1)
		return 0;
	se_log(SE_LOG_ERROR,
	       "process_vm_readv() of this process itself: %s. A seccomp profile forbids what the "
	       "adapter cannot do without",
	       strerror(errno));
	return -EPERM;
}

int se_copy_in(void *dst, uint64_t src, size_t len)
{
	struct iovec l = {dst, len}, r = {(void *)(uintptr_t)src, len};

	if (len == 0)
		return 0;
	if (len <= SE_SCRATCH_MAX && se_scratch_up())
		return se_scratch_in(dst, r.iov_base, len);
	return process_vm_readv(getpid(), &l, 1, &r, 1, 0) == (ssize_t)len ? 0 : -EFAULT;
}

int se_copy_out(uint64_t dst, const void *src, size_t len)
{
	struct iovec l = {(void *)(uintptr_t)src, len}, r = {(void *)(uintptr_t)dst, len};

	if (len == 0)
		return 0;
	if (len <= SE_SCRATCH_MAX && se_scratch_up())
		return se_scratch_out(r.iov_base, src, len);
	return process_vm_writev(getpid(), &l, 1, &r, 1, 0) == (ssize_t)len ? 0 : -EFAULT;
}

/*
 * Nobody may see a write that only tries, so the kernel is asked to make the page writable: that
 * leaves its bytes alone. Before Linux 5.14 it cannot, and a page counts as writable.
 */
static int probe_write(uint64_t addr)
{
	static const uint64_t page = 4096;
	char here;

	if (madvise((void *)(uintptr_t)(addr & ~(page - 1)), page, MADV_POPULATE_WRITE) == 0)
		return 0;
	addr = (uintptr_t)&here;
	return madvise((void *)(uintptr_t)(addr & ~(page - 1)), page, MADV_POPULATE_WRITE)
		       ? 0
		       : -EFAULT;
}

static int probe(uint64_t addr, bool write)
{
	char byte;
	int rc = se_copy_in(&byte, addr, 1);

	return rc || !write ? rc : probe_write(addr);
}

int se_copy_probe(uint64_t addr, uint64_t len, bool write)
{
	if (len == 0)
		return 0;
	return probe(addr, write) || probe(addr + len - 1, write) ? -EFAULT : 0;
}

/*
 * Cut @dst before the last word of each of its lines: the kernel copies span after span, so a
 * reader that sees the last word sees the line.
 */
static unsigned cut_lines(struct iovec *out, const struct iovec *dst, unsigned ndst)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ndst; i++) {
		uintptr_t at = (uintptr_t)dst[i].iov_base, end = at + dst[i].iov_len;

		while (at < end) {
			uintptr_t in_line = at % LINE, stop;

			stop = at - in_line + (in_line < LINE - WORD ? LINE - WORD : LINE);
			if (stop > end)
				stop = end;
			out[n++] = (struct iovec){(void *)at, stop - at};
			at = stop;
		}
	}
	return n;
}

static int pull(pid_t pid, const struct iovec *dst, unsigned ndst, const struct iovec *src,
		unsigned nsrc, size_t len)
{
	struct iovec cut[ORDERED_SPANS];
	ssize_t n;

	if (len <= ORDERED_MAX) {
		ndst = cut_lines(cut, dst, ndst);
		dst = cut;
	}
	if (pid == SE_COPY_HERE && len <= SE_SCRATCH_MAX && se_scratch_up())
		return se_scratch_copy(dst, ndst, src, nsrc, len);
	if (pid == SE_COPY_OURS && len <= SE_SCRATCH_MAX && se_scratch_up())
		return se_scratch_place(dst, ndst, src->iov_base, len);
	n = process_vm_readv(pid <= 0 ? getpid() : pid, dst, ndst, src, nsrc, 0);
	if (n == (ssize_t)len)
		return 0;
	return n >= 0 ? -EFAULT : -errno;
}

/* Spans that are consumed from the front. */
struct cursor {
	const struct iovec *iov;
	size_t off; /* in the first of them */
};

/* The next @len bytes, as spans. */
static unsigned take(struct cursor *c, struct iovec *out, size_t len)
{
	unsigned n = 0;

	while (len) {
		size_t left = c->iov->iov_len - c->off, part = left < len ? left : len;

		out[n++] = (struct iovec){(char *)c->iov->iov_base + c->off, part};
		len -= part;
		c->off += part;
		if (c->off == c->iov->iov_len)
			*c = (struct cursor){c->iov + 1, 0};
	}
	return n;
}

/* The kernel's copy of a long span is in no order that others could rely on, so it gets short ones.
 */
static int pull_in_order(pid_t pid, const struct iovec *dst, const struct iovec *src, size_t len)
{
	struct cursor to = {dst, 0}, from = {src, 0};
	struct iovec d[SE_COPY_SPANS], s[SE_COPY_SPANS];
	int rc = 0;

	for (size_t n; len && !rc; len -= n) {
		unsigned nd, ns;

		n = len < ORDERED_MAX ? len : ORDERED_MAX;
		nd = take(&to, d, n);
		ns = take(&from, s, n);
		rc = pull(pid, d, nd, s, ns, n);
	}
	return rc;
}

int se_copy_pull(pid_t pid, const struct iovec *dst, unsigned ndst, const struct iovec *src,
		 unsigned nsrc, size_t len)
{
	if (len == 0)
		return 0;
	if (len > ORDERED_MAX && se_settings()->caps & CAP_IN_ORDER)
		return pull_in_order(pid, dst, src, len);
	return pull(pid, dst, ndst, src, nsrc, len);
}
