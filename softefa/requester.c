/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests, from doorbell to completion. */
#include "requester.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "away.h"
#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "host.h"
#include "link.h"
#include "log.h"
#include "mr.h"
#include "settings.h"
#include "stats.h"
#include "wqe.h"

static struct se_list held = SE_LIST_INIT(held);

/* ---- sending ---- */

static void wait_for_nobody(struct se_tx *tx)
{
	if (tx->qp->type == SE_QPT_UD) {
		se_tx_complete(tx, SE_OK);
		return;
	}
	tx->deadline_us = se_now_us() + se_settings()->timeout_ms * 1000ull;
	se_tx_set(tx, SE_TX_NOBODY, &se_tx_in_flight);
}

/* Hand the message to the owner of the destination; false: its ring is full, try again. */
static bool try_send(struct se_tx *tx)
{
	uint64_t incarnation;
	int owner, rc;

	if (tx->host) {
		se_away_send(tx);
		return true;
	}
	owner = se_fabric_qpn_owner(tx->msg.dst_dev, tx->msg.dst_qpn);
	if (owner == SE_NO_SLOT) {
		se_tx_refuse(tx, SE_REM_BAD_QPN);
		return true;
	}
	incarnation = se_fabric_incarnation(owner);
	rc = incarnation ? se_link_send(owner, incarnation, &tx->msg) : -ESRCH;
	if (rc == -EAGAIN)
		return false;
	if (rc)
		se_tx_refuse(tx, SE_REM_BAD_QPN);
	else
		se_tx_sent(tx, owner, incarnation);
	return true;
}

static unsigned send_unsent(struct se_qp *qp)
{
	unsigned n = 0;

	while (!se_list_empty(&qp->sq.unsent) &&
	       try_send(se_container(qp->sq.unsent.next, struct se_tx, node)))
		n++;
	return n;
}

/* A fault rule lets the request go later. */
static bool hold(struct se_tx *tx)
{
	tx->deadline_us =
		se_fault_leave_us(tx->msg.src_dev, tx->msg.src_qpn, tx->msg.op, tx->msg.len);
	if (!tx->deadline_us)
		return false;
	se_tx_set(tx, SE_TX_HELD, &held);
	return true;
}

static unsigned release_held(void)
{
	uint64_t now_us = se_list_empty(&held) ? 0 : se_now_us();
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each (n, nx, &held) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (now_us < tx->deadline_us)
			continue;
		se_tx_set(tx, SE_TX_UNSENT, &tx->qp->sq.unsent);
		did++;
	}
	return did;
}

/* ---- doorbell ---- */

static void start(struct se_qp *qp, const struct se_wqe *w)
{
	struct se_tx *tx = se_tx_get(qp);
	enum se_status st = se_wqe_prepare(tx, w);
	const struct se_known *peer;

	se_stat_add(tx->msg.src_dev, SE_STAT_REQUESTS + tx->msg.op % SE_STAT_OPS, 1);
	if (qp->sl)
		se_stat_add(tx->msg.src_dev, SE_STAT_LOW_LATENCY + tx->msg.op % SE_STAT_OPS, 1);
	se_async_inject(qp, se_fault_event(tx->msg.src_dev, qp->qpn, tx->msg.op));
	if (qp->state == SE_ERR)
		st = SE_FLUSHED;
	if (!st)
		st = se_fault_status(tx->msg.src_dev, qp->qpn, tx->msg.op);
	if (st) {
		se_tx_complete(tx, st);
		return;
	}
	peer = se_pd_ahn(qp->pd, w->meta.ahn);
	if (!peer) {
		se_tx_complete(tx, SE_INVALID_AH);
		return;
	}
	tx->host = peer->host;
	tx->route_by_us = 0;
	if (peer->dev < 0 || se_fault_holds(SE_FAULT_DEAD, tx->msg.src_dev, qp->qpn)) {
		wait_for_nobody(tx);
		return;
	}
	tx->msg.dst_dev = (uint8_t)peer->dev;
	if (!hold(tx))
		se_tx_set(tx, SE_TX_UNSENT, &qp->sq.unsent);
}

/*
 * Work requests are copied out in order and at once: the provider reuses a slot when enough others
 * completed, whatever became of the one that was in it.
 */
static unsigned fetch(struct se_qp *qp)
{
	struct se_sq *sq = &qp->sq;
	uint16_t db = (uint16_t)atomic_load_explicit((_Atomic uint32_t *)(void *)qp->db.va,
						     memory_order_acquire);
	uint16_t n = (uint16_t)(db - sq->fetched);
	struct se_wqe w;

	if (!n || qp->state < SE_RTS)
		return 0;
	if (n > sq->depth - sq->outstanding) {
		se_log(SE_LOG_ERROR, "qp %u: doorbell %u is %u past %u, only %u of %u are free",
		       qp->qpn, db, n, sq->fetched, sq->depth - sq->outstanding, sq->depth);
		sq->fetched = db;
		se_qp_fail(qp);
		return 1;
	}
	memset(&w, 0, sizeof(w));
	for (uint16_t i = 0; i < n; i++) {
		memcpy(&w, sq->ring + (size_t)(sq->fetched & (sq->depth - 1)) * sq->stride,
		       sq->stride);
		sq->fetched++;
		start(qp, &w);
	}
	return n;
}

/* ---- answers ---- */

static void read_granted(struct se_tx *tx, const struct se_msg *answer)
{
	tx->remote = answer->seg[0];
	tx->move = (struct se_move){
		.slot = tx->slot,
		.incarnation = tx->incarnation,
		.pull = {.kind = SE_PULL_MEMORY,
			 .what = tx->msg.raddr,
			 .key = tx->msg.rkey,
			 .dev = tx->msg.dst_dev,
			 .qpn = tx->msg.dst_qpn},
		.dev = tx->msg.dst_dev,
		.src = &tx->remote,
		.nsrc = 1,
		.pd = tx->qp->pd,
		.access = SE_LOCAL_WRITE,
		.dst = tx->msg.seg,
		.ndst = tx->msg.nseg,
		.len = tx->msg.len,
	};
	se_fault_landing(&tx->move, tx->msg.src_dev, tx->msg.src_qpn, SE_OP_READ);
	se_tx_set(tx, SE_TX_MOVING, &se_tx_moving);
}

/* A peer that is silent from now on has been heard. */
static void note_answer(const struct se_tx *tx)
{
	struct se_known *peer = se_pd_ahn(tx->qp->pd, tx->ahn);

	if (peer)
		peer->answered = true;
}

void se_requester_answer(const struct se_msg *msg, int slot)
{
	struct se_tx *tx = se_tx_find(msg->token);

	if (!tx || tx->state != SE_TX_SENT || tx->slot != slot)
		return; /* its QP was reset or destroyed meanwhile */
	if (msg->status == SE_UNRESP_REMOTE) {
		wait_for_nobody(tx);
		return;
	}
	note_answer(tx);
	if (msg->status == SE_NOT_HERE && tx->host) {
		se_host_reroute(tx->host, tx->msg.dst_dev, tx->msg.dst_qpn);
		se_away_route(tx);
	} else if (msg->status == SE_OK && tx->msg.op == SE_OP_READ)
		read_granted(tx, msg);
	else if (msg->status == SE_INVALID_LKEY)
		se_tx_complete(tx, SE_INVALID_LKEY); /* of a datagram, too: that is seen here */
	else
		se_tx_refuse(tx, msg->status);
}

static unsigned move_reads(void)
{
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each (n, nx, &se_tx_moving) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		did++;
		switch (se_move_step(&tx->move)) {
		case SE_MOVE_WAIT:
			did--;
			break;
		case SE_MOVE_MORE:
			break;
		case SE_MOVE_DONE:
			se_tx_complete(tx, SE_OK);
			break;
		case SE_MOVE_BAD_SRC:
			se_tx_complete(tx, SE_REM_BAD_ADDRESS);
			break;
		case SE_MOVE_BAD_DST:
			se_tx_complete(tx, SE_INVALID_LKEY);
			break;
		case SE_MOVE_GONE:
			se_tx_complete(tx, tx->host ? SE_UNRESP_REMOTE : SE_REM_ABORT);
			break;
		case SE_MOVE_DENIED:
			se_tx_complete(tx, SE_QP_INTERNAL);
			break;
		}
	}
	return did;
}

/* ---- rounds ---- */

unsigned se_requester_poll(void)
{
	struct se_list *n, *nx;
	unsigned did = release_held();

	se_away_poll();
	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		if (qp->failed)
			se_qp_flush(qp);
		did += fetch(qp);
		did += send_unsent(qp);
		if (se_tx_waiting())
			did += se_tx_retry(qp->send_cq);
	}
	return did + move_reads();
}

/* The device died under requests of @qp: what is on its way is void, nobody will answer. */
static void die(struct se_qp *qp)
{
	bool renewed = false;

	for (uint32_t i = 0; i < qp->sq.fresh; i++) {
		struct se_tx *tx = &qp->sq.tx[i];

		if (tx->state == SE_TX_FREE || tx->state == SE_TX_DONE || tx->state == SE_TX_NOBODY)
			continue;
		if (!renewed)
			se_fabric_qpn_renew((int)qp->obj.ctx->dev, qp->qpn);
		renewed = true;
		se_move_cancel(&tx->move);
		wait_for_nobody(tx);
	}
}

static void look_for_dead(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		if (se_fault_holds(SE_FAULT_DEAD, qp->obj.ctx->dev, qp->qpn))
			die(qp);
	}
}

void se_requester_timers(uint64_t now_us)
{
	uint64_t alive[SE_MAX_PROC] = {0}; /* incarnations asked about in this round */
	struct se_list *n, *nx;

	if (se_fault_any(SE_FAULT_DEAD))
		look_for_dead();
	se_list_each (n, nx, &se_tx_in_flight) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (tx->state == SE_TX_NOBODY) {
			if (now_us >= tx->deadline_us)
				se_tx_complete(tx, se_tx_silent(tx));
		} else if (tx->host) {
			se_away_check(tx, now_us);
		} else if (alive[tx->slot] == tx->incarnation) {
			continue;
		} else if (se_fabric_gone(tx->slot, tx->incarnation)) {
			se_tx_refuse(tx, se_tx_lost(tx));
		} else {
			alive[tx->slot] = tx->incarnation;
		}
	}
	se_away_timers(now_us);
}

void se_requester_drop(struct se_qp *qp)
{
	se_fabric_qpn_renew((int)qp->obj.ctx->dev, qp->qpn);
	for (uint32_t i = 0; i < qp->sq.fresh; i++)
		if (qp->sq.tx[i].state != SE_TX_FREE)
			se_tx_put(&qp->sq.tx[i]);
}

void se_requester_flush(struct se_qp *qp)
{
	/* First: a flushed completion gives the buffer back, which must not be sent any more. */
	se_fabric_qpn_renew((int)qp->obj.ctx->dev, qp->qpn);
	for (uint32_t i = 0; i < qp->sq.fresh; i++)
		if (qp->sq.tx[i].state != SE_TX_FREE && qp->sq.tx[i].state != SE_TX_DONE)
			se_tx_complete(&qp->sq.tx[i], SE_FLUSHED);
}

void se_requester_forsake(const struct se_pd *pd, uint16_t ahn)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		for (uint32_t i = 0; qp->pd == pd && i < qp->sq.fresh; i++) {
			struct se_tx *tx = &qp->sq.tx[i];

			if (tx->ahn == ahn && tx->state != SE_TX_FREE && tx->state != SE_TX_DONE)
				se_tx_complete(tx, SE_FLUSHED);
		}
	}
}

void se_requester_forget_all(void)
{
	se_list_init(&held);
	se_away_forget_all();
	se_tx_forget_all();
}
