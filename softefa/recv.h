/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives: read from the ring of a queue pair, where the application can write anything. */
#ifndef SE_RECV_H
#define SE_RECV_H

#include "msg.h"
#include "qp.h"

#define SE_RECV_SGE 16

struct se_recv {
	uint16_t req_id;
	unsigned nseg;
	struct se_seg seg[SE_RECV_SGE]; /* by iova */
};

/*
 * Descriptors that are posted and not taken; more than the ring has when the doorbell is nonsense.
 */
uint16_t se_recv_posted(const struct se_qp *qp);
/* Take the next one. 0, -EAGAIN (none posted) or -EINVAL (the ring makes no sense). */
int se_recv_take(struct se_qp *qp, struct se_recv *recv);
/* Undo that, before anybody takes another. */
void se_recv_give_back(struct se_qp *qp, const struct se_recv *recv);

#endif
