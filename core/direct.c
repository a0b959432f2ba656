/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the rings, and giving them up. */
#include "direct.h"

#include <stdlib.h>
#include <string.h>

#include "libs.h"
#include "log.h"

/* Barriers against write-combining memory are stated for x86 only, in direct_post.c. */
#if defined(__x86_64__)
static const bool can = true;
#else
static const bool can = false;
#endif

int srd_cq_direct_init(struct srd_cq *cq, const struct srd_dev *dev)
{
	struct srd_ring ring;
	uint32_t n = (uint32_t)cq->cqe;
	struct srd_cq_direct *r;

	if (!can || !srd_efadv.query_qp_wqs || cq->entry_bytes != sizeof(struct srd_cqe) ||
	    srd_cq_ring(cq, &ring) || !ring.doorbell) {
		srd_info("%s: a CQ is left to libefa: it does not show its ring",
			 dev->ibv->device->name);
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return srd_failed(dev->ibv, "calloc", ENOMEM, ": %zu bytes", sizeof(*r));
	cq->direct = r;
	r->doorbell = ring.doorbell;
	r->free = malloc(n * sizeof(*r->free));
	r->slot = calloc(n, sizeof(*r->slot));
	if (!r->free || !r->slot) {
		const char *call = r->free ? "calloc" : "malloc";

		srd_cq_direct_fini(cq);
		return srd_failed(dev->ibv, call, ENOMEM, ": slots of %u completions", n);
	}
	/* The last ones are taken first: start with the low numbers. */
	for (r->nfree = 0; r->nfree < n; r->nfree++)
		r->free[r->nfree] = (uint16_t)(n - 1 - r->nfree);
	return 0;
}

void srd_cq_direct_fini(struct srd_cq *cq)
{
	struct srd_cq_direct *r = cq->direct;

	if (!r)
		return;
	free(r->free);
	free(r->slot);
	free(r);
	cq->direct = NULL;
}

/* Inline data that libefa grants and a request of ours would not hold are refused as well. */
static bool known_entries(const struct srd_qp *qp, const struct srd_ring *sq,
			  const struct srd_ring *rq)
{
	uint32_t room = sq->entry_bytes == 128 ? WQE_INLINE_BYTES_128 : WQE_INLINE_BYTES;

	return (sq->entry_bytes == 64 || sq->entry_bytes == 128) && qp->max_inline <= room &&
	       rq->entry_bytes == sizeof(struct srd_rx_desc);
}

int srd_qp_direct_init(struct srd_qp *qp, struct srd_cq *send_cq, struct srd_cq *recv_cq)
{
	struct srd_ring sq, rq;
	struct srd_qp_direct *r;
	int rc = srd_qp_rings(qp, &sq, &rq);

	if (rc)
		return rc;
	if (!known_entries(qp, &sq, &rq)) {
		srd_err("%s: qp %u: not direct: entries of %u and %u bytes, %u inline bytes",
			qp->ibv->context->device->name, qp->ibv->qp_num, sq.entry_bytes,
			rq.entry_bytes, qp->max_inline);
		return -EOPNOTSUPP;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return srd_failed(qp->ibv->context, "calloc", ENOMEM, ": %zu bytes", sizeof(*r));
	r->send_cq = send_cq->direct;
	r->recv_cq = recv_cq->direct;
	r->sq = r->sq_first = sq.buffer;
	r->sq_end = r->sq + (size_t)sq.entries * sq.entry_bytes;
	r->sq_entry = sq.entry_bytes;
	r->sq_doorbell = sq.doorbell;
	r->sq_batch = sq.max_batch;
	r->rq = (struct srd_rx_desc *)rq.buffer;
	r->rq_doorbell = rq.doorbell;
	r->rq_mask = (uint16_t)(rq.entries - 1);
	r->rq_left = qp->rq_depth;
	qp->direct = r;
	return 0;
}

/*
 * Requests whose completion is in the ring still keep their slot until it is polled, the others
 * are free at once.
 */
static void give_up(struct srd_cq *cq, struct srd_qp *qp, uint32_t qpn)
{
	struct srd_cq_direct *r = cq->direct;
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
		if (r->slot[i].qp == qp->direct)
			srd_slot_put(r, (uint16_t)i);
}

void srd_qp_direct_fini(struct srd_qp *qp, uint32_t qpn)
{
	struct srd_qp_direct *r = qp->direct;

	if (!r)
		return;
	give_up(qp->send_cq, qp, qpn);
	if (qp->recv_cq != qp->send_cq)
		give_up(qp->recv_cq, qp, qpn);
	free(r);
	qp->direct = NULL;
}
