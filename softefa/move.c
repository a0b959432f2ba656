/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving bytes, one piece at a time. */
#include "move.h"

#include <errno.h>
#include <string.h>

#include "conn.h"
#include "copy.h"
#include "fabric.h"
#include "log.h"
#include "mr.h"
#include "pull.h"

/* The spans of [@from, @from + @len) in @seg. */
static unsigned spans(struct iovec *iov, const struct se_seg *seg, unsigned nseg, uint32_t from,
		      uint32_t len)
{
	unsigned n = 0;

	for (unsigned i = 0; i < nseg && len; i++) {
		uint32_t part = seg[i].len;

		if (from >= part) {
			from -= part;
			continue;
		}
		part -= from;
		if (part > len)
			part = len;
		iov[n++] = (struct iovec){(void *)(uintptr_t)(seg[i].addr + from), part};
		len -= part;
		from = 0;
	}
	return n;
}

/*
 * As spans(), with the addresses that the regions have in this process. False when one has none,
 * though no byte is for it: an EFA looks at all of them.
 */
static bool dst_spans(struct iovec *iov, unsigned *n, const struct se_move *m, uint32_t from,
		      uint32_t len)
{
	struct se_seg here[SE_COPY_SPANS];

	for (unsigned i = 0; i < m->ndst; i++) {
		here[i] = m->dst[i];
		here[i].addr = se_mr_resolve(m->pd, m->dst[i].key, m->dst[i].addr, m->dst[i].len,
					     m->access);
		if (!here[i].addr)
			return false;
	}
	*n = spans(iov, here, m->ndst, from, len);
	return true;
}

static bool src_live(const struct se_move *m)
{
	for (unsigned i = 0; i < m->nsrc; i++)
		if (!se_fabric_key_live(m->dev, m->src[i].key, m->slot))
			return false;
	return true;
}

/* Once: it will not be otherwise the next time. */
static void denied(int err, pid_t pid)
{
	static bool told;

	if (!told)
		se_log(SE_LOG_ERROR,
		       "process_vm_readv() of process %d: %s. Transfers from there fail. What "
		       "forbids it: Yama (sysctl kernel.yama.ptrace_scope above 1), a seccomp "
		       "profile, another user or user namespace",
		       (int)pid, strerror(-err));
	told = true;
}

static enum se_move_result blame(int err, const struct iovec *dst, unsigned ndst, pid_t pid)
{
	if (err == -ESRCH)
		return SE_MOVE_GONE;
	if (err != -EFAULT) {
		denied(err, pid);
		return SE_MOVE_DENIED;
	}
	for (unsigned i = 0; i < ndst; i++)
		if (se_copy_probe((uintptr_t)dst[i].iov_base, dst[i].iov_len, true))
			return SE_MOVE_BAD_DST;
	return SE_MOVE_BAD_SRC;
}

enum se_move_result se_move_put(const struct se_move *m, const void *data, uint32_t from,
				uint32_t len)
{
	struct iovec src = {(void *)(uintptr_t)data, len}, dst[SE_COPY_SPANS];
	unsigned ndst;

	return !dst_spans(dst, &ndst, m, from, len) ||
			       se_copy_pull(SE_COPY_OURS, dst, ndst, &src, 1, len)
		       ? SE_MOVE_BAD_DST
		       : SE_MOVE_DONE;
}

enum se_move_result se_move_place(struct se_move *m, const void *data, uint32_t len)
{
	if (m->landing.odd)
		return se_landing_place(m, data, len);
	if (m->into)
		memcpy(m->into + m->done, data, len);
	else if (se_move_put(m, data, m->done, len) != SE_MOVE_DONE)
		return SE_MOVE_BAD_DST;
	m->done += len;
	return m->done == m->len ? SE_MOVE_DONE : SE_MOVE_WAIT;
}

void se_move_cancel(struct se_move *m)
{
	se_pull_cancel(m);
	se_landing_end(&m->landing);
}

/* The source must be registered before and after: otherwise what was read may be anything. */
static enum se_move_result copy(const struct se_move *m, pid_t pid, const struct iovec *dst,
				unsigned ndst, const struct iovec *src, unsigned nsrc, size_t len)
{
	int rc;

	if (!src_live(m))
		return SE_MOVE_BAD_SRC;
	rc = se_copy_pull(pid, dst, ndst, src, nsrc, len);
	if (rc)
		return blame(rc, dst, ndst, pid);
	return src_live(m) ? SE_MOVE_DONE : SE_MOVE_BAD_SRC;
}

enum se_move_result se_move_copy(const struct se_move *m, void *buf)
{
	struct iovec src[2], dst = {buf, m->len};
	unsigned nsrc = spans(src, m->src, m->nsrc, 0, m->len);

	return copy(m, se_fabric_pid(m->slot), &dst, 1, src, nsrc, m->len);
}

enum se_move_result se_move_part(const struct se_move *m, uint32_t from, uint32_t len)
{
	struct iovec src[2], dst[SE_COPY_SPANS];
	unsigned nsrc, ndst;
	pid_t pid;

	if (!dst_spans(dst, &ndst, m, from, len))
		return SE_MOVE_BAD_DST;
	if (m->data) {
		src[0] = (struct iovec){(void *)(uintptr_t)(m->data + from), len};
		nsrc = 1;
		pid = SE_COPY_OURS;
	} else {
		nsrc = spans(src, m->src, m->nsrc, from, len);
		pid = m->slot == se_fabric_self() ? SE_COPY_HERE : se_fabric_pid(m->slot);
	}
	return copy(m, pid, dst, ndst, src, nsrc, len);
}

enum se_move_result se_move_step(struct se_move *m)
{
	uint32_t left = m->len - m->done, len = left < SE_MOVE_PIECE ? left : SE_MOVE_PIECE;
	enum se_move_result result;

	if (se_slot_remote(m->slot) && !m->data)
		return se_pull_step(m);
	if (m->landing.odd && left)
		return se_landing_step(m);
	result = se_move_part(m, m->done, len);
	if (result != SE_MOVE_DONE)
		return result;
	m->done += len;
	return m->done == m->len ? SE_MOVE_DONE : SE_MOVE_MORE;
}
