/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: posting sends, RDMA and receives.
 *
 * A full queue is left to libefa to find. We could only know by counting completions per QP, and
 * a caller that keeps a window does that already, cheaper; libefa's complaint about a full queue
 * goes nowhere unless VERBS_LOG_LEVEL is set.
 */
#include "direct.h"

#include <assert.h>
#include <endian.h>

#define unlikely(x) __builtin_expect(!!(x), 0)

/* So that qp->ops, shifted by an opcode, says whether the QP has it. */
static_assert(IBV_QP_EX_WITH_RDMA_WRITE == 1 << IBV_WR_RDMA_WRITE, "bit");
static_assert(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM == 1 << IBV_WR_RDMA_WRITE_WITH_IMM, "bit");
static_assert(IBV_QP_EX_WITH_SEND == 1 << IBV_WR_SEND, "bit");
static_assert(IBV_QP_EX_WITH_SEND_WITH_IMM == 1 << IBV_WR_SEND_WITH_IMM, "bit");
static_assert(IBV_QP_EX_WITH_RDMA_READ == 1 << IBV_WR_RDMA_READ, "bit");

static bool is_rdma(enum ibv_wr_opcode op)
{
	return op != IBV_WR_SEND && op != IBV_WR_SEND_WITH_IMM;
}

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
	if (is_rdma(wr->op) || total > qp->max_inline)
		return -EINVAL;
	ibv_wr_set_inline_data_list(qp->ex, wr->nsge, bufs);
	return 0;
}

/* All that is not one SGE. Kept apart: its locals would cost the usual request a stack frame. */
static __attribute__((noinline)) int set_data(const struct srd_qp *qp, const struct srd_wr *wr)
{
	unsigned max = is_rdma(wr->op) ? 1 : qp->max_send_sge;

	if (wr->nsge > sizeof(wr->sge) / sizeof(wr->sge[0]))
		return -EINVAL;
	if (wr->inl)
		return set_inline(qp, wr);
	if (wr->nsge > max)
		return -EINVAL;
	ibv_wr_set_sge_list(qp->ex, wr->nsge, wr->sge);
	return 0;
}

/* Name the operation; false if the QP, or EFA, has it not. */
static inline bool set_op(const struct srd_qp *qp, struct ibv_qp_ex *ex, const struct srd_wr *wr)
{
	if (unlikely(!(qp->ops >> (wr->op & 63) & 1)))
		return false;
	ex->wr_id = wr->wr_id;
	/* Before the switch, which is a table: the write that data protocols are made of. */
	if (wr->op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		ibv_wr_rdma_write_imm(ex, wr->rkey, wr->raddr, htobe32(wr->imm));
		return true;
	}
	switch (wr->op) {
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->rkey, wr->raddr);
		return true;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->rkey, wr->raddr);
		return true;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, htobe32(wr->imm));
		return true;
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		return true;
	default:
		return false;
	}
}

static inline int add(const struct srd_qp *qp, struct ibv_qp_ex *ex, const struct srd_wr *wr)
{
	if (unlikely(!set_op(qp, ex, wr)))
		return -EOPNOTSUPP;
	if (unlikely(wr->nsge != 1 || wr->inl)) {
		int rc = set_data(qp, wr);

		if (rc)
			return rc;
	} else {
		ibv_wr_set_sge(ex, wr->sge[0].lkey, wr->sge[0].addr, wr->sge[0].length);
	}
	ibv_wr_set_ud_addr(ex, wr->to->ah, wr->to->qpn, wr->to->qkey);
	return 0;
}

static __attribute__((noinline, cold)) int take_back(struct ibv_qp_ex *ex, int rc)
{
	ibv_wr_abort(ex);
	return rc;
}

static __attribute__((noinline, cold)) int not_posted(const struct srd_qp *qp, int n, int rc)
{
	if (rc != ENOMEM)
		return -rc;
	return (uint32_t)n > qp->sq_depth ? -EINVAL : -EAGAIN;
}

int srd_post(struct srd_qp *qp, const struct srd_wr *wr, int n)
{
	struct ibv_qp_ex *ex = qp->ex;
	int rc;

	if (qp->direct)
		return srd_direct_post(qp, wr, n);
	ibv_wr_start(ex);
	/* EFA takes signaled requests only. */
	ex->wr_flags = IBV_SEND_SIGNALED;
	for (int i = 0; i < n; i++) {
		rc = add(qp, ex, &wr[i]);
		if (unlikely(rc))
			return take_back(ex, rc);
	}
	rc = ibv_wr_complete(ex);
	return unlikely(rc) ? not_posted(qp, n, rc) : 0;
}

static bool receivable(const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 1)
		return false;
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > UINT16_MAX)
			return false;
	}
	return true;
}

int srd_post_recv(struct srd_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *first_left = wr;
	int rc = 0;

	for (const struct ibv_recv_wr *w = wr; w && rc == 0; w = w->next)
		rc = receivable(w) ? 0 : EINVAL;
	if (rc == 0 && qp->direct)
		return srd_direct_post_recv(qp, wr, bad);
	if (rc == 0)
		rc = ibv_post_recv(qp->ibv, wr, &first_left);
	if (rc == 0)
		return 0;
	if (bad)
		*bad = first_left;
	return rc == ENOMEM ? -EAGAIN : -rc;
}
