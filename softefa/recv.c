/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive rings. */
#include "recv.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

int se_recv_init(struct se_qp *qp)
{
	if (!qp->rq.depth)
		return 0;
	qp->rq.returned = calloc(qp->rq.depth, sizeof(*qp->rq.returned));
	return qp->rq.returned ? 0 : -ENOMEM;
}

void se_recv_fini(struct se_qp *qp)
{
	free(qp->rq.returned);
	qp->rq.returned = NULL;
	qp->rq.nreturned = 0;
}

static uint16_t doorbell(const struct se_qp *qp)
{
	return (uint16_t)atomic_load_explicit((_Atomic uint32_t *)(void *)(qp->db.va + SE_RQ_DB),
					      memory_order_acquire);
}

bool se_recv_posted(const struct se_qp *qp)
{
	return qp->rq.nreturned || doorbell(qp) != qp->rq.consumed;
}

/* A receive of at most @most descriptors from ring index @at on. */
static int parse(const struct se_qp *qp, uint16_t at, unsigned most, struct se_recv *recv)
{
	unsigned n = 0;
	uint32_t ctrl;

	recv->at = at;
	do {
		struct se_rx_desc d = qp->rq.ring[(at + n) & (qp->rq.depth - 1)];

		ctrl = d.lkey_ctrl;
		if (n == most || n == SE_RECV_SGE || !(ctrl & SE_RX_FIRST) != (n != 0))
			return -EINVAL;
		if (n == 0)
			recv->req_id = d.req_id;
		recv->seg[n] = (struct se_seg){
			.addr = (uint64_t)d.addr_hi << 32 | d.addr_lo,
			.len = d.length,
			.key = ctrl & SE_LKEY_MASK,
		};
		n++;
	} while (!(ctrl & SE_RX_LAST));
	recv->nseg = n;
	return 0;
}

int se_recv_take(struct se_qp *qp, struct se_recv *recv)
{
	uint16_t posted = (uint16_t)(doorbell(qp) - qp->rq.consumed);
	int rc;

	if (qp->rq.nreturned)
		return parse(qp, qp->rq.returned[--qp->rq.nreturned], qp->rq.depth, recv);
	if (!posted)
		return -EAGAIN;
	if (posted > qp->rq.depth)
		return -EINVAL;
	rc = parse(qp, qp->rq.consumed, posted, recv);
	if (!rc)
		qp->rq.consumed = (uint16_t)(qp->rq.consumed + recv->nseg);
	return rc;
}

/*
 * Others may have taken later ones meanwhile, so the ring cannot be turned back. Its descriptors
 * stay where they are: a slot is free only when its receive has completed.
 */
void se_recv_give_back(struct se_qp *qp, const struct se_recv *recv)
{
	/* There are more than the ring has only when the application lied about it. */
	if (qp->rq.nreturned < qp->rq.depth)
		qp->rq.returned[qp->rq.nreturned++] = recv->at;
}

void se_recv_drop_all(struct se_qp *qp)
{
	qp->rq.consumed = doorbell(qp);
	qp->rq.nreturned = 0;
}
