/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive rings. */
#include "recv.h"

#include <errno.h>
#include <stdatomic.h>

uint16_t se_recv_posted(const struct se_qp *qp)
{
	uint16_t db = (uint16_t)atomic_load_explicit(
		(_Atomic uint32_t *)(void *)(qp->db.va + SE_RQ_DB), memory_order_acquire);

	return (uint16_t)(db - qp->rq.consumed);
}

int se_recv_take(struct se_qp *qp, struct se_recv *recv)
{
	uint16_t posted = se_recv_posted(qp), n = 0;
	uint32_t ctrl;

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
		n++;
	} while (!(ctrl & SE_RX_LAST));
	qp->rq.consumed = (uint16_t)(qp->rq.consumed + n);
	recv->nseg = n;
	return 0;
}

void se_recv_give_back(struct se_qp *qp, const struct se_recv *recv)
{
	qp->rq.consumed = (uint16_t)(qp->rq.consumed - recv->nseg);
}
