/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives: read from the ring of a queue pair, where the application can write anything. */
#ifndef SE_RECV_H
#define SE_RECV_H

#include <stdbool.h>

#include "msg.h"
#include "qp.h"

#define SE_RECV_SGE 16

struct se_recv {
	uint16_t req_id;
	unsigned nseg;
	struct se_seg seg[SE_RECV_SGE]; /* by iova */
	uint8_t cut[SE_RECV_SGE];       /* bytes cut off the front of each */
};

/* Is there any to take? A doorbell that is nonsense says so, too. */
bool se_recv_posted(const struct se_qp *qp);
/* Take the next one. 0, -EAGAIN (none posted) or -EINVAL (the ring makes no sense). */
int se_recv_take(struct se_qp *qp, struct se_recv *recv);
/* It was not used: whoever takes the next one gets it. 0 or -ENOMEM. */
int se_recv_give_back(struct se_qp *qp, const struct se_recv *recv);
/* Take all, for nothing. */
void se_recv_drop_all(struct se_qp *qp);
/* The queue starts anew, or ends. */
void se_recv_forget_returned(struct se_qp *qp);

#endif
