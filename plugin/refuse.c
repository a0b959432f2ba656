/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection requests that are turned down. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "conn.h"

enum {
	REFUSE_MS = 5,     /* at the end, for refusals that have not left yet */
	REFUSE_TRIES = 20, /* who has asked has receives posted, unless it is no plugin of ours */
};

/* Kept until it is sent. */
struct net_refusal {
	struct net_refusal *next;
	struct net_way way;
	struct net_mail mail;
	struct proto_resp resp;
	int tries;
};

void net_refuse(struct net_cm *cm, const struct proto_req *req, int err)
{
	struct net_refusal *r = calloc(1, sizeof(*r));

	if (!r)
		return;
	if (net_cm_meet(cm, &r->way, &req->cm, &req->rail[req->nrails > 1].gid, req->spare_qpn)) {
		free(r);
		return;
	}
	r->resp = (struct proto_resp){
		.token = req->token, .conn_id = req->conn_id, .refused = (uint32_t)-err};
	r->next = cm->refusals;
	cm->refusals = r;
}

/* True when it is done with. */
static bool refusal_step(struct net_cm *cm, struct net_refusal *r)
{
	uint8_t msg[PROTO_MSG_BYTES];
	int rc;

	if (r->mail.state == MAIL_IDLE || r->mail.state == MAIL_REFUSED) {
		if (r->mail.state == MAIL_REFUSED && ++r->tries == REFUSE_TRIES)
			return true;
		rc = net_cm_send(cm, &r->mail, &r->way, msg, proto_resp_pack(msg, &r->resp));
		return rc && rc != -EAGAIN;
	}
	return r->mail.state != MAIL_SENDING;
}

void net_refusals_sweep(struct net_cm *cm, bool all)
{
	struct net_refusal **p = &cm->refusals, *r;

	while ((r = *p)) {
		if (!all && !refusal_step(cm, r)) {
			p = &r->next;
			continue;
		}
		*p = r->next;
		net_cm_drop(cm, &r->mail);
		net_cm_part(&r->way);
		free(r);
	}
}

void net_refusals_close(struct net_cm *cm)
{
	const struct timespec ms = {0, 1000000};

	for (int i = 0; i < REFUSE_MS && cm->refusals; i++) {
		net_conn_poll(cm);
		if (cm->refusals)
			nanosleep(&ms, NULL);
	}
	net_refusals_sweep(cm, true);
}
