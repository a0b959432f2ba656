/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive rings. */
#include "recv.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A receive that was taken and not used. */
struct returned {
	struct se_list node;
	struct se_recv recv;
};

void se_recv_forget_returned(struct se_qp *qp)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &qp->rq.returned)
		free(se_container(n, struct returned, node));
	se_list_init(&qp->rq.returned);
}

static uint16_t doorbell(const struct se_qp *qp)
{
	return (uint16_t)atomic_load_explicit((_Atomic uint32_t *)(void *)(qp->db.va + SE_RQ_DB),
					      memory_order_acquire);
}

bool se_recv_posted(const struct se_qp *qp)
{
	return !se_list_empty(&qp->rq.returned) || doorbell(qp) != qp->rq.consumed;
}

static void take_returned(struct se_qp *qp, struct se_recv *recv)
{
	struct returned *r = se_container(qp->rq.returned.next, struct returned, node);

	*recv = r->recv;
	se_list_remove(&r->node);
	free(r);
}

int se_recv_take(struct se_qp *qp, struct se_recv *recv)
{
	uint16_t posted = (uint16_t)(doorbell(qp) - qp->rq.consumed), n = 0;
	uint32_t ctrl;

	if (!se_list_empty(&qp->rq.returned)) {
		take_returned(qp, recv);
		return 0;
	}
	if (!posted)
		return -EAGAIN;
	if (posted > qp->rq.depth)
		return -EINVAL;
	do {
		struct se_rx_desc d = qp->rq.ring[(qp->rq.consumed + n) & (qp->rq.depth - 1)];

		ctrl = d.lkey_ctrl;
		if (n == posted || n == SE_RECV_SGE || !(ctrl & SE_RX_FIRST) != (n != 0))
			return -EINVAL;
		if (n == 0)
			recv->req_id = d.req_id;
		recv->seg[n] = (struct se_seg){
			.addr = (uint64_t)d.addr_hi << 32 | d.addr_lo,
			.len = d.length,
			.key = ctrl & SE_LKEY_MASK,
		};
		recv->cut[n] = 0;
		n++;
	} while (!(ctrl & SE_RX_LAST));
	qp->rq.consumed = (uint16_t)(qp->rq.consumed + n);
	recv->nseg = n;
	return 0;
}

/*
 * Its place in the ring is no longer its own: the application reuses it when as many others have
 * completed, and later receives may be taken already. So it is kept here.
 */
int se_recv_give_back(struct se_qp *qp, const struct se_recv *recv)
{
	struct returned *r = malloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->recv = *recv;
	for (unsigned i = 0; i < recv->nseg; i++) {
		r->recv.seg[i].addr -= recv->cut[i];
		r->recv.seg[i].len += recv->cut[i];
		r->recv.cut[i] = 0;
	}
	se_list_append(&qp->rq.returned, &r->node);
	return 0;
}

void se_recv_drop_all(struct se_qp *qp)
{
	qp->rq.consumed = doorbell(qp);
	se_recv_forget_returned(qp);
}
