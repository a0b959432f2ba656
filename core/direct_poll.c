/* SPDX-License-Identifier: BSD-3-Clause */
/* Polling the ring of a direct CQ. */
#include "cqe.h"
#include "status.h"

#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE __attribute__((always_inline))

enum { UNSOLICITED = CQE_RECV | CQE_UNSOLICITED };

static inline void advance(struct srd_cq *cq)
{
	const uint8_t *next = cq->next + sizeof(struct srd_cqe);

	cq->direct->taken++;
	cq->next = next;
	if (unlikely(next == cq->end)) {
		cq->next = cq->first;
		cq->phase ^= CQE_PHASE;
	}
}

static __attribute__((noinline)) bool failed(struct srd_wc *wc, uint32_t status)
{
	wc->efa_status = status;
	wc->status = srd_status_wc(status);
	return true;
}

/* Give the request of an entry back. NULL: its QP is gone, and so is the completion. */
static inline struct srd_qp_direct *take_slot(const struct srd_cq *cq, uint32_t id,
					      struct srd_wc *wc)
{
	struct srd_cq_direct *r = cq->direct;
	struct srd_qp_direct *qp;

	if (unlikely(id >= (uint32_t)cq->cqe))
		return NULL;
	qp = r->slot[id].qp;
	wc->wr_id = r->slot[id].wr_id;
	srd_slot_put(r, (uint16_t)id);
	return qp;
}

static __attribute__((noinline)) bool take_another(struct srd_cq *cq, struct srd_wc *wc);

/*
 * The next entry, which is there; it stays until the device is told. Calls are the last thing that
 * is done: so none of the registers need be saved.
 */
static inline ALWAYS_INLINE bool take(struct srd_cq *cq, struct srd_wc *wc, uint32_t fields)
{
	const struct srd_cqe *e = (const struct srd_cqe *)(cq->next - CQE_FLAGS_AT);
	/* acquire: the phase bit, which the caller has seen, before the rest of the entry */
	uint32_t flags = __atomic_load_n(&e->flags, __ATOMIC_ACQUIRE), status = e->status;
	struct srd_qp_direct *qp;

	advance(cq);
	wc->status = IBV_WC_SUCCESS;
	wc->efa_status = 0;
	if (!(flags & CQE_RECV)) {
		qp = take_slot(cq, e->req_id, wc);
		if (unlikely(!qp))
			return take_another(cq, wc);
		qp->sq_left++;
		srd_cqe_sent(flags, wc);
	} else {
		wc->wr_id = 0;
		if ((flags & UNSOLICITED) != UNSOLICITED) {
			qp = take_slot(cq, e->req_id, wc);
			if (unlikely(!qp))
				return take_another(cq, wc);
			qp->rq_left++;
		}
		srd_cqe_received(e, flags, wc, fields);
	}
	if (unlikely(fields & SRD_CQ_QPN))
		wc->qpn = e->qpn;
	if (unlikely(status))
		return failed(wc, status);
	return true;
}

bool srd_direct_take_fields(struct srd_cq *cq, struct srd_wc *wc)
{
	return take(cq, wc, cq->fields);
}

bool srd_direct_take(struct srd_cq *cq, struct srd_wc *wc)
{
	return take(cq, wc, 0);
}

static bool take_another(struct srd_cq *cq, struct srd_wc *wc)
{
	return !srd_cq_empty(cq) && srd_direct_take_fields(cq, wc);
}

int srd_direct_poll(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int got = 0;

	while (got < n && srd_cq_take(cq, &wc[got]))
		got++;
	srd_direct_tell(cq->direct, 0);
	return got;
}
