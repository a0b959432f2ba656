/* SPDX-License-Identifier: BSD-3-Clause */
/* Polling the ring of a direct CQ. */
#include "cqe.h"
#include "status.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Give the request back; false: its QP is gone, and so is the completion. */
static inline bool take_slot(struct srd_cq_direct *r, const struct srd_cqe *e, struct srd_wc *wc,
			     bool received)
{
	struct srd_slot *slot = &r->slot[e->req_id];
	struct srd_qp *qp = slot->qp;

	wc->wr_id = slot->wr_id;
	srd_slot_put(r, e->req_id);
	if (unlikely(!qp))
		return false;
	if (received)
		qp->direct->rq_used--;
	else
		qp->direct->sq_used--;
	return true;
}

/* False: an entry that is to be passed over. */
static inline bool read_entry(struct srd_cq *cq, const struct srd_cqe *e, struct srd_wc *wc)
{
	bool received = e->flags & CQE_RECV;

	if (received && e->flags & CQE_UNSOLICITED)
		wc->wr_id = 0;
	else if (unlikely(e->req_id >= cq->cqe) || !take_slot(cq->direct, e, wc, received))
		return false;
	wc->efa_status = e->status;
	wc->status = e->status ? srd_status_wc(e->status) : IBV_WC_SUCCESS;
	if (received)
		srd_cqe_received(e, wc, cq->fields);
	else
		srd_cqe_sent(e, wc);
	if (unlikely(cq->fields & SRD_CQ_QPN))
		wc->qpn = e->qpn;
	return true;
}

int srd_direct_poll(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	struct srd_cq_direct *r = cq->direct;
	uint16_t before = r->taken;
	int got = 0;

	while (got < n) {
		/* acquire: the phase bit before the rest of the entry */
		uint8_t flags = __atomic_load_n(cq->next, __ATOMIC_ACQUIRE);

		if ((flags ^ cq->phase) & CQE_PHASE)
			break;
		got += read_entry(cq, (const struct srd_cqe *)(cq->next - CQE_FLAGS_AT), &wc[got]);
		r->taken++;
		cq->next += sizeof(struct srd_cqe);
		if (unlikely(cq->next == cq->end)) {
			cq->next = cq->first;
			cq->phase ^= CQE_PHASE;
		}
	}
	if (r->taken != before)
		srd_direct_tell(r, 0);
	return got;
}
