/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path: polling through libefa. */
#include "srd.h"

#include <endian.h>

#include "cqe.h"
#include "efadv_compat.h"
#include "poll.h"

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

static void read_by_calls(const struct srd_cq *cq, struct srd_wc *wc)
{
	struct ibv_cq_ex *ex = cq->ibv;

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

/* Once the entry is seen, reading it costs no calls. */
static inline void read_by_sight(const struct srd_cq *cq, struct srd_wc *wc)
{
	const struct srd_cqe *e = (const struct srd_cqe *)(cq->next - CQE_FLAGS_AT);

	wc->efa_status = e->status;
	if (e->flags & CQE_RECV)
		srd_cqe_received(e, e->flags, wc, cq->fields);
	else
		srd_cqe_sent(e->flags, wc);
	if (unlikely(cq->fields & SRD_CQ_QPN))
		wc->qpn = e->qpn;
}

/* @bytes: of an entry; 0: the ring is not seen. */
static inline void advance(struct srd_cq *cq, size_t bytes)
{
	if (!bytes)
		return;
	cq->next += bytes;
	if (unlikely(cq->next == cq->end)) {
		cq->next = cq->first;
		cq->phase ^= CQE_PHASE;
	}
}

/* Read what libefa has taken. @sight: out of the ring, which is seen and has entries we know. */
static inline __attribute__((always_inline)) void read_wc(struct srd_cq *cq, struct srd_wc *wc,
							  bool sight)
{
	wc->wr_id = cq->ibv->wr_id;
	wc->status = cq->ibv->status;
	if (sight)
		read_by_sight(cq, wc);
	else
		read_by_calls(cq, wc);
	advance(cq, sight ? sizeof(struct srd_cqe) : cq->entry_bytes);
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
		advance(cq, cq->entry_bytes);
		rc = step_once(cq, first);
	}
	return rc;
}

/* Let libefa take the next completion off the ring: 0, or ENOENT. */
static inline int step(struct srd_cq *cq, bool first)
{
	int rc = step_once(cq, first);

	return unlikely(rc) ? step_past_stale(cq, first, rc) : 0;
}

static inline __attribute__((always_inline)) int take_one(struct srd_cq *cq, struct srd_wc *wc,
							  bool sight)
{
	int rc = step(cq, true);

	if (unlikely(rc))
		return rc == ENOENT ? 0 : -rc;
	read_wc(cq, wc, sight);
	ibv_end_poll(cq->ibv);
	return 1;
}

static inline __attribute__((always_inline)) int take_many(struct srd_cq *cq, struct srd_wc *wc,
							   int n, bool sight)
{
	int got = 0, rc;

	if (n <= 0)
		return 0;
	rc = step(cq, true);
	if (unlikely(rc))
		return rc == ENOENT ? 0 : -rc;
	do {
		read_wc(cq, &wc[got], sight);
		if (++got == n || srd_cq_empty(cq))
			break;
	} while (step(cq, false) == 0);
	ibv_end_poll(cq->ibv);
	return got;
}

/* Apart, so that one completion saves few registers. */
static __attribute__((noinline)) int poll_many_by_sight(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	return take_many(cq, wc, n, true);
}

static int poll_by_sight(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	return n == 1 ? take_one(cq, wc, true) : poll_many_by_sight(cq, wc, n);
}

static int poll_by_calls(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	return take_many(cq, wc, n, false);
}

/* Where ibv_next_poll() must not be called: srd_dv_next_poll_is_safe(). */
static int poll_one_by_one(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int got = 0;

	while (got < n) {
		int rc = take_one(cq, &wc[got], false);

		if (rc <= 0)
			return got ? got : rc;
		got++;
	}
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
static int poll_classic(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	struct ibv_cq *ibv = ibv_cq_ex_to_cq(cq->ibv);
	struct ibv_wc one;
	int got = 0, stale = 0;

	while (got < n && stale <= cq->cqe) {
		int rc = ibv_poll_cq(ibv, 1, &one);

		if (rc == 0)
			break;
		advance(cq, cq->entry_bytes);
		if (rc > 0)
			convert(cq, &one, &wc[got++]);
		else
			stale++;
	}
	return got;
}

static bool take_by_poll(struct srd_cq *cq, struct srd_wc *wc)
{
	return cq->poll(cq, wc, 1) == 1;
}

void srd_poll_choose(struct srd_cq *cq)
{
	if (cq->direct)
		cq->take = cq->fields ? srd_direct_take_fields : srd_direct_take;
	else
		cq->take = take_by_poll;
	if (cq->direct)
		cq->poll = srd_direct_poll;
	else if (!cq->dv)
		cq->poll = poll_classic;
	else if (!srd_dv_next_poll_is_safe())
		cq->poll = poll_one_by_one;
	else if (cq->entry_bytes == sizeof(struct srd_cqe))
		cq->poll = poll_by_sight;
	else
		cq->poll = poll_by_calls;
}

/* libefa tells the device by itself. */
void srd_cq_tell(struct srd_cq *cq)
{
	if (cq->direct)
		srd_direct_tell(cq->direct, 0);
}

int srd_cq_poll(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	return srd_cq_empty(cq) ? 0 : cq->poll(cq, wc, n);
}
