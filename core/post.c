/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: posting sends, RDMA and receives.
 *
 * A full queue is left to libefa to find. We could only know by counting completions per QP, and
 * a caller that keeps a window does that already, cheaper; libefa's complaint about a full queue
 * goes nowhere unless VERBS_LOG_LEVEL is set.
 */
#include "post.h"

#include <endian.h>

#include "direct.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

static int set_inline(const struct srd_qp *qp, const struct srd_wr *wr)
{
	struct ibv_data_buf bufs[2];
	uint64_t total = 0;

	for (int i = 0; i < wr->nsge; i++) {
		bufs[i].addr = (void *)(uintptr_t)wr->sge[i].addr;
		bufs[i].length = wr->sge[i].length;
		total += wr->sge[i].length;
	}
	/* An older libefa would write inline data of an RDMA over its remote address. */
	if (srd_wr_is_rdma(wr) || total > qp->max_inline)
		return -EINVAL;
	ibv_wr_set_inline_data_list(qp->ex, wr->nsge, bufs);
	return 0;
}

/* The data of a request that is not the usual one. */
static int set_data(const struct srd_qp *qp, const struct srd_wr *wr)
{
	unsigned max = srd_wr_is_rdma(wr) ? 1 : qp->max_send_sge;

	if (wr->nsge > sizeof(wr->sge) / sizeof(wr->sge[0]))
		return -EINVAL;
	if (wr->inl)
		return set_inline(qp, wr);
	if (wr->nsge > max)
		return -EINVAL;
	ibv_wr_set_sge_list(qp->ex, wr->nsge, wr->sge);
	return 0;
}

/* One of those in qp->ops. Branches in this order, not a table: the writes come first. */
static inline void set_op(struct ibv_qp_ex *ex, const struct srd_wr *wr)
{
	if (wr->op <= IBV_WR_RDMA_WRITE_WITH_IMM) {
		if (wr->op == IBV_WR_RDMA_WRITE)
			ibv_wr_rdma_write(ex, wr->rkey, wr->raddr);
		else
			ibv_wr_rdma_write_imm(ex, wr->rkey, wr->raddr, htobe32(wr->imm));
	} else if (wr->op == IBV_WR_SEND) {
		ibv_wr_send(ex);
	} else if (wr->op == IBV_WR_SEND_WITH_IMM) {
		ibv_wr_send_imm(ex, htobe32(wr->imm));
	} else {
		ibv_wr_rdma_read(ex, wr->rkey, wr->raddr);
	}
}

/* The usual request: one SGE. */
static inline bool is_usual(const struct srd_wr *wr)
{
	return wr->nsge == 1 && !wr->inl;
}

static inline void add_usual(struct ibv_qp_ex *ex, const struct srd_wr *wr)
{
	ex->wr_id = wr->wr_id;
	set_op(ex, wr);
	ibv_wr_set_sge(ex, wr->sge[0].lkey, wr->sge[0].addr, wr->sge[0].length);
	ibv_wr_set_ud_addr(ex, wr->to->ah, wr->to->qpn, wr->to->qkey);
}

static __attribute__((noinline)) int add_unusual(const struct srd_qp *qp, const struct srd_wr *wr)
{
	int rc;

	qp->ex->wr_id = wr->wr_id;
	set_op(qp->ex, wr);
	rc = set_data(qp, wr);
	if (rc == 0)
		ibv_wr_set_ud_addr(qp->ex, wr->to->ah, wr->to->qpn, wr->to->qkey);
	return rc;
}

static inline int add(const struct srd_qp *qp, struct ibv_qp_ex *ex, const struct srd_wr *wr)
{
	if (unlikely(!srd_wr_allowed(qp, wr)))
		return -EOPNOTSUPP;
	if (unlikely(!is_usual(wr)))
		return add_unusual(qp, wr);
	add_usual(ex, wr);
	return 0;
}

static inline void start(struct ibv_qp_ex *ex)
{
	ibv_wr_start(ex);
	/* EFA takes signaled requests only. */
	ex->wr_flags = IBV_SEND_SIGNALED;
}

static inline int complete(struct ibv_qp_ex *ex)
{
	int rc = ibv_wr_complete(ex);

	return rc == ENOMEM ? -EAGAIN : -rc;
}

static __attribute__((noinline, cold)) int take_back(struct ibv_qp_ex *ex, int rc)
{
	ibv_wr_abort(ex);
	return rc;
}

static __attribute__((noinline)) int post_batch(struct srd_qp *qp, const struct srd_wr *wr, int n)
{
	const struct srd_wr *end = wr + n;
	struct ibv_qp_ex *ex = qp->ex;

	if (unlikely((uint32_t)n > qp->sq_depth))
		return -EINVAL;
	start(ex);
	for (; wr < end; wr++) {
		int rc = add(qp, ex, wr);

		if (unlikely(rc))
			return take_back(ex, rc);
	}
	return complete(ex);
}

static int post_one(struct ibv_qp_ex *ex, const struct srd_wr *wr)
{
	start(ex);
	add_usual(ex, wr);
	return complete(ex);
}

/* Not inlined, as the batch is not: srd_post() of a direct QP saves no registers for it. */
static __attribute__((noinline)) int post_by_calls(struct srd_qp *qp, const struct srd_wr *wr,
						   int n)
{
	if (n == 1 && srd_wr_allowed(qp, wr) && is_usual(wr))
		return post_one(qp->ex, wr);
	return post_batch(qp, wr, n);
}

int srd_post(struct srd_qp *qp, const struct srd_wr *wr, int n)
{
	return qp->direct ? srd_direct_post(qp, wr, n) : post_by_calls(qp, wr, n);
}

static __attribute__((noinline)) bool receivable(const struct ibv_recv_wr *wr)
{
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > UINT16_MAX)
			return false;
	}
	return wr->num_sge > 0;
}

static inline bool all_receivable(const struct ibv_recv_wr *wr)
{
	for (; wr; wr = wr->next)
		if (unlikely(wr->num_sge != 1 || wr->sg_list->length > UINT16_MAX) &&
		    !receivable(wr))
			return false;
	return true;
}

static int post_recv(struct srd_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *ignored;
	int rc = ibv_post_recv(qp->ibv, wr, bad ? bad : &ignored);

	return rc == ENOMEM ? -EAGAIN : -rc;
}

int srd_post_recv(struct srd_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (unlikely(!all_receivable(wr))) {
		if (bad)
			*bad = wr;
		return -EINVAL;
	}
	return qp->direct ? srd_direct_post_recv(qp, wr, bad) : post_recv(qp, wr, bad);
}
