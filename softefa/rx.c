/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: their memory, their completion at the receiver, their answer. */
#include "rx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "fabric.h"
#include "link.h"
#include "stats.h"

#define MAX_REQUESTS 65536 /* more stay in the rings */

struct se_list se_rx_busy = SE_LIST_INIT(se_rx_busy);
static struct se_list spare = SE_LIST_INIT(spare);
static unsigned requests, parked;

struct se_rx *se_rx_get(void)
{
	struct se_rx *rx;

	if (!se_list_empty(&spare)) {
		rx = se_container(spare.next, struct se_rx, node);
		se_list_remove(&rx->node);
		memset(rx, 0, offsetof(struct se_rx, msg));
	} else {
		rx = requests < MAX_REQUESTS ? calloc(1, sizeof(*rx)) : NULL;
		if (!rx)
			return NULL;
	}
	requests++;
	return rx;
}

void se_rx_put(struct se_rx *rx)
{
	se_move_cancel(&rx->move);
	se_rx_drop_payload(rx);
	se_list_remove(&rx->node);
	requests--;
	se_list_append(&spare, &rx->node);
}

bool se_rx_payload(struct se_rx *rx, uint32_t len)
{
	rx->payload = len <= sizeof(rx->msg.data) ? rx->msg.data : malloc(len);
	return rx->payload;
}

void se_rx_drop_payload(struct se_rx *rx)
{
	if (rx->payload != rx->msg.data)
		free(rx->payload);
	rx->payload = NULL;
}

void se_rx_set(struct se_rx *rx, enum se_rx_state state, struct se_list *list)
{
	if (rx->state == SE_RX_PARKED)
		parked--;
	se_list_remove(&rx->node);
	rx->state = state;
	parked += state == SE_RX_PARKED;
	se_list_append(list, &rx->node);
}

bool se_rx_wanted(const struct se_rx *rx)
{
	if (se_slot_remote(rx->slot)) /* what else there is to know, fetching it tells */
		return se_conn_incarnation(rx->slot) == rx->incarnation;
	return se_fabric_incarnation(rx->slot) == rx->incarnation &&
	       se_fabric_qpn_life(rx->msg.src_dev % SE_MAX_DEV, rx->msg.src_qpn) == rx->msg.life;
}

/* ---- answering ---- */

/* False: no room now. */
static bool send_answer(const struct se_rx *rx, struct se_msg *m)
{
	if (!se_slot_remote(rx->slot)) {
		m->nseg = 1;
		m->seg[0] = rx->grant;
		return se_link_send(rx->slot, rx->incarnation, m) != -EAGAIN;
	}
	if (se_conn_incarnation(rx->slot) != rx->incarnation)
		return true;
	return se_conn_send(rx->slot, SE_FRAME_MESSAGE, m, (uint32_t)SE_MSG_HEAD);
}

bool se_rx_answer(struct se_rx *rx)
{
	struct se_msg m;

	memset(&m, 0, SE_MSG_HEAD);
	m.type = SE_MSG_RESPONSE;
	m.op = rx->msg.op;
	m.status = rx->status;
	m.token = rx->msg.token;
	m.len = rx->msg.len;
	if (!send_answer(rx, &m))
		return false;
	se_rx_put(rx);
	return true;
}

void se_rx_finish(struct se_rx *rx, enum se_status status)
{
	se_move_cancel(&rx->move);
	rx->status = (uint8_t)status;
	se_rx_set(rx, SE_RX_ANSWERING, &se_rx_busy);
	se_rx_answer(rx);
}

/* ---- completing ---- */

static bool needs_cqe(const struct se_rx *rx)
{
	return rx->took || (rx->msg.op == SE_OP_WRITE && rx->msg.flags & SE_MSG_IMM &&
			    rx->rx_status == SE_OK && rx->status == SE_OK);
}

/* The receive completion; the CQ has room. */
static void push_completion(const struct se_rx *rx)
{
	const struct se_msg *m = &rx->msg;
	const struct se_known *peer = se_pd_gid(rx->qp->pd, &m->sgid);
	uint32_t len = m->len + (m->flags & SE_MSG_UD ? SE_GRH_BYTES : 0);
	struct se_cqe e = {
		.req_id = rx->took ? rx->recv.req_id : 0,
		.status = rx->rx_status,
		.flags = (uint8_t)(SE_CQE_RECV | SE_CQE_OP(m->op) |
				   (rx->took ? 0 : SE_CQE_UNSOLICITED) |
				   (m->flags & SE_MSG_IMM ? SE_CQE_IMM : 0)),
		.qpn = rx->qp->qpn,
		.rx = {.length = (uint16_t)len,
		       .ahn = peer ? peer->ahn : SE_AHN_UNKNOWN,
		       .src_qpn = m->src_qpn},
		.imm = m->imm,
	};

	if (m->op == SE_OP_WRITE)
		e.length_hi = (uint16_t)(len >> 16);
	else if (!peer && rx->qp->recv_cq->sgid)
		memcpy(e.sgid, m->sgid.b, sizeof(e.sgid));
	se_cq_push(rx->qp->recv_cq, &e);
	se_stat_add(rx->qp->obj.ctx->dev, se_stat_of(SE_STAT_RECEIVES, rx->rx_status), 1);
	if (rx->rx_status == SE_OK)
		se_stat_add(rx->qp->obj.ctx->dev, SE_STAT_RECEIVED, m->len);
}

bool se_rx_complete(struct se_rx *rx)
{
	if (rx->qp && needs_cqe(rx)) {
		if (!se_cq_room(rx->qp->recv_cq))
			return false;
		push_completion(rx);
	}
	se_rx_finish(rx, rx->status);
	return true;
}

void se_rx_moved(struct se_rx *rx, enum se_status rx_status, enum se_status status)
{
	rx->rx_status = (uint8_t)rx_status;
	rx->status = (uint8_t)status;
	if (!rx_status && !status)
		se_stat_add(rx->qp->obj.ctx->dev, SE_STAT_SERVED + rx->msg.op % SE_STAT_OPS,
			    rx->msg.len);
	se_rx_set(rx, SE_RX_COMPLETING, &se_rx_busy);
	se_rx_complete(rx);
}

bool se_rx_flush(struct se_qp *qp)
{
	struct se_rx rx = {.qp = qp, .took = true, .rx_status = SE_FLUSHED};

	if (!se_recv_posted(qp) || !se_cq_room(qp->recv_cq))
		return false;
	if (se_recv_take(qp, &rx.recv)) {
		se_recv_drop_all(qp);
		return false;
	}
	push_completion(&rx);
	return true;
}

unsigned se_rx_parked(void)
{
	return parked;
}

void se_rx_forget(struct se_list *list)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, list) {
		struct se_rx *rx = se_container(n, struct se_rx, node);

		se_rx_drop_payload(rx);
		se_landing_end(&rx->move.landing);
		free(rx);
	}
	se_list_init(list);
}

void se_rx_forget_all(void)
{
	se_rx_forget(&se_rx_busy);
	se_rx_forget(&spare);
	requests = parked = 0;
}
