/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the rings, and giving them up. */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

#include "efadv_compat.h"
#include "libs.h"
#include "log.h"

/*
 * Barriers against write-combining memory are stated for x86 only, in ring_post.c. The first EFA
 * splits a CQ into several rings.
 */
enum { PART_EFA0 = 0xefa0 };

#if defined(__x86_64__)
static const bool can = true;
#else
static const bool can = false;
#endif

int srd_cq_ring_init(struct srd_cq *cq, const struct srd_dev *dev)
{
	struct srd_dv_cq_ring dv = {0};
	uint32_t n = (uint32_t)cq->cqe;
	struct srd_cq_ring *r;

	if (!can || !srd_efadv.query_cq || !srd_efadv.query_qp_wqs ||
	    dev->attr.part_id == PART_EFA0 ||
	    srd_efadv.query_cq(ibv_cq_ex_to_cq(cq->ibv), &dv, sizeof(dv)) || !dv.buffer ||
	    !dv.doorbell || dv.entry_size != sizeof(struct srd_cqe)) {
		srd_info("%s: a CQ is left to libefa: it does not show its ring",
			 dev->ibv->device->name);
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	cq->ring = r;
	r->doorbell = dv.doorbell;
	r->free = malloc(n * sizeof(*r->free));
	r->slot = calloc(n, sizeof(*r->slot));
	if (!r->free || !r->slot) {
		srd_cq_ring_fini(cq);
		return -ENOMEM;
	}
	/* The last ones are taken first: start with the low numbers. */
	for (r->nfree = 0; r->nfree < n; r->nfree++)
		r->free[r->nfree] = (uint16_t)(n - 1 - r->nfree);
	return 0;
}

void srd_cq_ring_fini(struct srd_cq *cq)
{
	struct srd_cq_ring *r = cq->ring;

	if (!r)
		return;
	free(r->free);
	free(r->slot);
	free(r);
	cq->ring = NULL;
}

int srd_qp_ring_init(struct srd_qp *qp, struct srd_cq *send_cq, struct srd_cq *recv_cq)
{
	struct srd_dv_wq sq = {0}, rq = {0};
	struct srd_qp_ring *r;
	int rc = srd_efadv.query_qp_wqs(qp->ibv, &sq, &rq, sizeof(sq));

	if (rc)
		return srd_failed(qp->ibv->context, "efadv_query_qp_wqs", rc, ": qp %u",
				  qp->ibv->qp_num);
	if ((sq.entry_size != 64 && sq.entry_size != 128) ||
	    rq.entry_size != sizeof(struct srd_rx_desc)) {
		srd_err("%s: qp %u: entries of %u and %u bytes", qp->ibv->context->device->name,
			qp->ibv->qp_num, sq.entry_size, rq.entry_size);
		return -EOPNOTSUPP;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->send_cq = send_cq->ring;
	r->recv_cq = recv_cq->ring;
	r->sq = sq.buffer;
	r->sq_doorbell = sq.doorbell;
	r->sq_mask = (uint16_t)(sq.num_entries - 1);
	r->sq_shift = (uint32_t)__builtin_ctz(sq.entry_size);
	r->body_bytes = sq.entry_size == 64 ? WQE_INLINE_BYTES : WQE_INLINE_BYTES_128;
	r->sq_batch = sq.max_batch;
	r->rq = (struct srd_rx_desc *)rq.buffer;
	r->rq_doorbell = rq.doorbell;
	r->rq_mask = (uint16_t)(rq.num_entries - 1);
	qp->ring = r;
	return 0;
}

/*
 * Requests whose completion is in the ring still keep their slot until it is polled, the others
 * are free at once.
 */
static void give_up(struct srd_cq *cq, struct srd_qp *qp, uint32_t qpn)
{
	struct srd_cq_ring *r = cq->ring;
	const uint8_t *p = cq->next;
	uint8_t phase = cq->phase;

	for (int i = 0; i < cq->cqe && !((*p ^ phase) & CQE_PHASE); i++) {
		const struct srd_cqe *e = (const struct srd_cqe *)(p - CQE_FLAGS_AT);

		if (e->qpn == qpn && !(e->flags & CQE_UNSOLICITED) && e->req_id < cq->cqe)
			r->slot[e->req_id].qp = NULL;
		p += cq->entry_bytes;
		if (p == cq->end) {
			p = cq->first;
			phase ^= CQE_PHASE;
		}
	}
	for (int i = 0; i < cq->cqe; i++)
		if (r->slot[i].qp == qp)
			srd_slot_put(r, (uint16_t)i);
}

void srd_qp_ring_fini(struct srd_qp *qp, uint32_t qpn)
{
	struct srd_qp_ring *r = qp->ring;

	if (!r)
		return;
	give_up(qp->send_cq, qp, qpn);
	if (qp->recv_cq != qp->send_cq)
		give_up(qp->recv_cq, qp, qpn);
	free(r);
	qp->ring = NULL;
}
