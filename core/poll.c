/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path: polling through libefa. */
#include "srd.h"

#include <endian.h>

#include "direct.h"
#include "efadv_compat.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Each read is an indirect call: make only those that can have an answer. */
static void read_received(const struct srd_cq *cq, struct srd_wc *wc)
{
	struct ibv_cq_ex *ex = cq->ibv;
	struct srd_dv_cq *dv = cq->dv;

	wc->byte_len = ibv_wc_read_byte_len(ex);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		/* Its flags say so too, but a flushed one would be an IBV_WC_RECV. */
		wc->flags |= SRD_WC_IMM;
		if (cq->unsolicited && dv->wc_is_unsolicited(dv))
			wc->flags |= SRD_WC_UNSOLICITED;
	} else if (ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_IMM) {
		wc->flags |= SRD_WC_IMM;
	}
	if (wc->flags & SRD_WC_IMM)
		wc->imm = be32toh(ibv_wc_read_imm_data(ex));
	if (cq->fields & SRD_CQ_SRC) {
		wc->src_qpn = ibv_wc_read_src_qp(ex);
		wc->ahn = ibv_wc_read_slid(ex);
	}
	/* A write has an AH here, and its CQE the upper half of the length where a GID would be. */
	if (cq->fields & SRD_CQ_SGID && wc->opcode == IBV_WC_RECV &&
	    dv->wc_read_sgid(dv, &wc->sgid) == 0)
		wc->flags |= SRD_WC_SGID;
}

static inline void read_wc(const struct srd_cq *cq, struct srd_wc *wc)
{
	struct ibv_cq_ex *ex = cq->ibv;

	wc->wr_id = ex->wr_id;
	wc->status = ex->status;
	wc->opcode = ibv_wc_read_opcode(ex);
	wc->flags = 0;
	wc->efa_status = ex->status == IBV_WC_SUCCESS ? 0 : ibv_wc_read_vendor_err(ex);
	if (cq->fields & SRD_CQ_QPN)
		wc->qpn = ibv_wc_read_qp_num(ex);
	if (wc->opcode & IBV_WC_RECV)
		read_received(cq, wc);
	else
		wc->byte_len = 0;
}

static inline void advance(struct srd_cq *cq)
{
	if (!cq->entry_bytes)
		return;
	cq->next += cq->entry_bytes;
	if (cq->next == cq->end) {
		cq->next = cq->first;
		cq->phase ^= CQE_PHASE;
	}
}

static inline int step_once(struct srd_cq *cq, bool first)
{
	/* libefa only reads it. */
	static struct ibv_poll_cq_attr none;

	return first ? ibv_start_poll(cq->ibv, &none) : ibv_next_poll(cq->ibv);
}

/*
 * libefa answers EINVAL for a completion of a destroyed QP, after it has taken it off the ring.
 * There are no more of them than entries; the bound is for a library that would not take it.
 */
static __attribute__((noinline, cold)) int step_past_stale(struct srd_cq *cq, bool first, int rc)
{
	for (int i = 0; i < cq->cqe && rc == EINVAL; i++) {
		advance(cq);
		rc = step_once(cq, first);
	}
	if (rc == 0)
		advance(cq);
	return rc;
}

/* Take the next completion off the ring: 0, or ENOENT. */
static inline int step(struct srd_cq *cq, bool first)
{
	int rc = step_once(cq, first);

	if (unlikely(rc))
		return step_past_stale(cq, first, rc);
	advance(cq);
	return 0;
}

/* Kept apart, as poll_one_by_one() is, so that seeing an empty queue saves no registers. */
static __attribute__((noinline)) int poll_session(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int got = 0, rc;

	if (n <= 0)
		return 0;
	rc = step(cq, true);
	if (rc)
		return rc == ENOENT ? 0 : -rc;
	do {
		read_wc(cq, &wc[got]);
		if (++got == n || srd_cq_empty(cq))
			break;
	} while (step(cq, false) == 0);
	ibv_end_poll(cq->ibv);
	return got;
}

static __attribute__((noinline)) int poll_one_by_one(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int got = 0, rc;

	do {
		rc = poll_session(cq, &wc[got], n < 1 ? 0 : 1);
		if (rc <= 0)
			return got ? got : rc;
	} while (++got < n);
	return got;
}

static void convert(const struct srd_cq *cq, const struct ibv_wc *from, struct srd_wc *wc)
{
	wc->wr_id = from->wr_id;
	wc->status = from->status;
	wc->opcode = from->opcode;
	wc->efa_status = from->status == IBV_WC_SUCCESS ? 0 : from->vendor_err;
	wc->byte_len = from->opcode & IBV_WC_RECV ? from->byte_len : 0;
	wc->flags = from->wc_flags & IBV_WC_WITH_IMM ? SRD_WC_IMM : 0;
	if (wc->flags)
		wc->imm = be32toh(from->imm_data);
	if (cq->fields & SRD_CQ_QPN)
		wc->qpn = from->qp_num;
	if (cq->fields & SRD_CQ_SRC && from->opcode & IBV_WC_RECV) {
		wc->src_qpn = from->src_qp;
		wc->ahn = from->slid;
	}
}

/* One at a time, for the reason that step_past_stale() gives. */
static __attribute__((noinline)) int poll_classic(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	struct ibv_cq *ibv = ibv_cq_ex_to_cq(cq->ibv);
	struct ibv_wc one;
	int got = 0, stale = 0;

	while (got < n && stale <= cq->cqe) {
		int rc = ibv_poll_cq(ibv, 1, &one);

		if (rc == 0)
			break;
		advance(cq);
		if (rc > 0)
			convert(cq, &one, &wc[got++]);
		else
			stale++;
	}
	return got;
}

int srd_cq_poll(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	if (srd_cq_empty(cq))
		return 0;
	if (likely(cq->direct != NULL))
		return srd_direct_poll(cq, wc, n);
	if (unlikely(!cq->dv))
		return poll_classic(cq, wc, n);
	return unlikely(cq->one_by_one) ? poll_one_by_one(cq, wc, n) : poll_session(cq, wc, n);
}
