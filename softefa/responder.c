/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of other QPs: checked, carried out, answered. */
#include "responder.h"

#include <errno.h>
#include <string.h>

#include "conn.h"
#include "copy.h"
#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "link.h"
#include "log.h"
#include "mr.h"
#include "rng.h"
#include "rx.h"
#include "settings.h"
#include "stats.h"

#define MAX_DEFERS 3

static struct se_list arrived = SE_LIST_INIT(arrived);
static unsigned narrived;
static uint64_t rng;

bool se_responder_request(const struct se_msg *msg, const void *payload, int slot)
{
	struct se_rx *rx = se_rx_get();

	if (!rx)
		return false;
	memcpy(&rx->msg, msg, offsetof(struct se_msg, data));
	if (payload && !se_rx_payload(rx, msg->len)) {
		se_rx_put(rx);
		return false;
	}
	if (payload)
		memcpy(rx->payload, payload, msg->len);
	rx->slot = slot;
	rx->incarnation = se_slot_remote(slot) ? se_conn_incarnation(slot) : se_link_sender(slot);
	rx->state = SE_RX_ARRIVED;
	se_list_append(&arrived, &rx->node);
	narrived++;
	return true;
}

/* ---- waiting for a receive ---- */

static bool out_of_sight(const struct se_qp *qp)
{
	return se_fault_holds(SE_FAULT_RNR, qp->obj.ctx->dev, qp->qpn);
}

static bool receive_posted(const struct se_qp *qp)
{
	return se_recv_posted(qp) && !out_of_sight(qp);
}

/* A datagram; its sender does not hear of it. */
static void drop(struct se_rx *rx)
{
	se_stat_add(rx->msg.dst_dev % SE_MAX_DEV, SE_STAT_DROPS, 1);
	se_rx_finish(rx, SE_OK);
}

/* Wait for a receive, as long as the sender's retries last. */
static void park(struct se_rx *rx, uint64_t now_us)
{
	uint64_t budget = se_settings()->rnr_timer_us * ((1ull << rx->msg.rnr_retry) - 1);

	if (!rx->rnr_deadline_us)
		se_stat_add(rx->qp->obj.ctx->dev, SE_STAT_RNR, 1);
	if (rx->msg.flags & SE_MSG_UD) {
		drop(rx);
		return;
	}
	if (!rx->rnr_deadline_us)
		rx->rnr_deadline_us = rx->msg.rnr_retry == 7 ? UINT64_MAX : now_us + budget;
	if (now_us >= rx->rnr_deadline_us) {
		se_rx_finish(rx, SE_REM_RNR);
	} else if (rx->state != SE_RX_PARKED) {
		if (se_slot_remote(rx->slot))
			se_rx_drop_payload(rx);
		se_rx_set(rx, SE_RX_PARKED, &rx->qp->rq.parked);
	}
}

/*
 * A request of another host has waited: is it wanted still? Its bytes were not kept; those of a
 * send are wanted back before it takes a receive.
 */
static void fetch(struct se_rx *rx)
{
	uint32_t len = rx->msg.op == SE_OP_SEND ? rx->msg.len : 0;

	if (rx->msg.op == SE_OP_SEND && !se_rx_payload(rx, len))
		return; /* no memory: once more in the next round */
	rx->move = (struct se_move){
		.slot = rx->slot,
		.incarnation = rx->incarnation,
		.pull = {.kind = SE_PULL_REQUEST, .what = rx->msg.token},
		.into = rx->payload ? rx->payload : rx->msg.data,
		.len = len,
	};
	se_rx_set(rx, SE_RX_FETCHING, &se_rx_busy);
}

/* Take a receive; false: the request went elsewhere. */
static bool take_or_park(struct se_rx *rx, uint64_t now_us)
{
	int rc = out_of_sight(rx->qp) ? -EAGAIN : se_recv_take(rx->qp, &rx->recv);

	rx->took = rc == 0;
	if (rc == -EAGAIN)
		park(rx, now_us);
	if (rc == -EINVAL) {
		se_log(SE_LOG_ERROR, "qp %u: receive ring makes no sense at %u", rx->qp->qpn,
		       rx->qp->rq.consumed);
		se_qp_fail(rx->qp);
		se_rx_finish(rx, SE_REM_BAD_QPN);
	}
	return rc == 0;
}

/* A write with immediate consumes a receive for that alone: its buffer stays untouched. */
static bool needs_receive(const struct se_rx *rx)
{
	return rx->msg.op == SE_OP_WRITE && rx->msg.flags & SE_MSG_IMM && !rx->qp->unsolicited;
}

/* All bytes are there. A receive that is needed is taken only now, when nothing else can fail. */
static void placed(struct se_rx *rx, uint64_t now_us)
{
	rx->placed = true;
	if (needs_receive(rx) && !take_or_park(rx, now_us))
		return;
	se_rx_moved(rx, SE_OK, SE_OK);
}

/* ---- moving ---- */

/* The fault is the sender's: nothing arrived here. */
static void abandon(struct se_rx *rx, enum se_status status)
{
	if (rx->took && se_recv_give_back(rx->qp, &rx->recv))
		se_qp_fail(rx->qp); /* rather than to lose it */
	rx->took = false;
	se_rx_finish(rx, status);
}

/* False: there is nothing to do for it now. */
static bool move(struct se_rx *rx, uint64_t now_us)
{
	bool write = rx->msg.op == SE_OP_WRITE;
	enum se_move_result result = se_move_step(&rx->move);

	if (!se_rx_wanted(rx))
		result = SE_MOVE_GONE;
	switch (result) {
	case SE_MOVE_WAIT:
		return false;
	case SE_MOVE_MORE:
		break;
	case SE_MOVE_DONE:
		placed(rx, now_us);
		break;
	case SE_MOVE_BAD_SRC:
		abandon(rx, SE_INVALID_LKEY);
		break;
	case SE_MOVE_BAD_DST:
		se_rx_moved(rx, SE_INVALID_LKEY, write ? SE_REM_BAD_ADDRESS : SE_REM_BAD_STATUS);
		break;
	case SE_MOVE_GONE:
		abandon(rx, SE_REM_ABORT);
		break;
	case SE_MOVE_DENIED:
		abandon(rx, SE_QP_INTERNAL);
		break;
	}
	return true;
}

static void start_move(struct se_rx *rx, uint64_t now_us)
{
	bool write = rx->msg.op == SE_OP_WRITE;

	rx->move = (struct se_move){
		.slot = rx->slot,
		.dev = rx->msg.src_dev,
		.src = rx->msg.seg,
		.nsrc = rx->msg.nseg,
		.data = rx->payload,
		.incarnation = rx->incarnation,
		.pull = {.kind = SE_PULL_REQUEST, .what = rx->msg.token},
		.pd = rx->qp->pd,
		.access = write ? SE_REMOTE_WRITE : SE_LOCAL_WRITE,
		.dst = write ? &rx->target : rx->recv.seg,
		.ndst = write ? 1 : rx->recv.nseg,
		.len = rx->msg.len,
	};
	se_fault_landing(&rx->move, rx->qp->obj.ctx->dev, rx->qp->qpn, rx->msg.op);
	se_rx_set(rx, SE_RX_MOVING, &se_rx_busy);
	move(rx, now_us);
}

/* ---- the rules ---- */

/* Cut the GRH room off the front of the receive; what is in it is unspecified, here zero. */
static int skip_grh(struct se_rx *rx)
{
	static const uint8_t zero[SE_GRH_BYTES];
	uint32_t skip = SE_GRH_BYTES;

	for (unsigned i = 0; i < rx->recv.nseg && skip; i++) {
		struct se_seg *s = &rx->recv.seg[i];
		uint32_t n = s->len < skip ? s->len : skip;
		uint64_t at = se_mr_resolve(rx->qp->pd, s->key, s->addr, n, SE_LOCAL_WRITE);

		if (!at || se_copy_out(at, zero, n))
			return -EFAULT;
		s->addr += n;
		s->len -= n;
		rx->recv.cut[i] = (uint8_t)n;
		skip -= n;
	}
	return 0;
}

static void do_send(struct se_rx *rx, uint64_t now_us)
{
	bool ud = rx->msg.flags & SE_MSG_UD;
	uint64_t room = 0;

	if (!take_or_park(rx, now_us))
		return;
	for (unsigned i = 0; i < rx->recv.nseg; i++)
		room += rx->recv.seg[i].len;
	if (room < rx->msg.len + (ud ? SE_GRH_BYTES : 0u)) {
		se_rx_moved(rx, SE_BAD_LENGTH, SE_REM_BAD_LENGTH);
		return;
	}
	if (ud && skip_grh(rx)) {
		se_rx_moved(rx, SE_INVALID_LKEY, SE_OK);
		return;
	}
	start_move(rx, now_us);
}

static void do_write(struct se_rx *rx, uint64_t now_us)
{
	const struct se_msg *m = &rx->msg;
	struct se_qp *qp = rx->qp;
	bool imm = m->flags & SE_MSG_IMM;

	if (imm && !(m->flags & SE_MSG_UNSOLICITED) != !qp->unsolicited) {
		se_rx_finish(rx, SE_REM_FEATURE_MISMATCH);
		return;
	}
	if (rx->placed) {
		placed(rx, now_us);
		return;
	}
	if (!se_mr_resolve(qp->pd, m->rkey, m->raddr, m->len, SE_REMOTE_WRITE)) {
		se_rx_finish(rx, SE_REM_BAD_ADDRESS);
		return;
	}
	if (needs_receive(rx) && !receive_posted(qp)) {
		park(rx, now_us);
		return;
	}
	rx->target = (struct se_seg){.addr = m->raddr, .len = m->len, .key = m->rkey};
	start_move(rx, now_us);
}

static void do_read(struct se_rx *rx)
{
	const struct se_msg *m = &rx->msg;
	uint64_t here = se_mr_resolve(rx->qp->pd, m->rkey, m->raddr, m->len, SE_REMOTE_READ);

	if (!here) {
		se_rx_finish(rx, SE_REM_BAD_ADDRESS);
		return;
	}
	rx->grant = (struct se_seg){.addr = here, .len = m->len, .key = m->rkey};
	se_stat_add(rx->qp->obj.ctx->dev, SE_STAT_SERVED + SE_OP_READ, m->len);
	se_rx_finish(rx, SE_OK);
}

/* What every request must pass. SE_OK, the status, or -1: drop it silently. */
static int admit(const struct se_rx *rx, const struct se_qp *qp)
{
	const struct se_msg *m = &rx->msg;
	bool ud = m->flags & SE_MSG_UD;

	if (!qp || qp->state < SE_RTR || qp->state == SE_ERR || (qp->type == SE_QPT_UD) != ud ||
	    qp->qkey != m->qkey)
		return ud ? -1 : SE_REM_BAD_QPN;
	if (m->op != SE_OP_SEND && !se_pd_gid(qp->pd, &m->sgid))
		return SE_REM_UNKNOWN_PEER;
	return SE_OK;
}

/* The sender is of another host and behind the times: another process has the QPN now. */
static bool elsewhere(const struct se_rx *rx)
{
	int owner = se_fabric_qpn_owner(rx->msg.dst_dev % SE_MAX_DEV, rx->msg.dst_qpn);

	return se_slot_remote(rx->slot) && owner != SE_NO_SLOT && owner != se_fabric_self();
}

static void execute(struct se_rx *rx, uint64_t now_us)
{
	struct se_qp *qp = se_qp_find(rx->msg.dst_dev % SE_MAX_DEV, rx->msg.dst_qpn);
	int st = se_rx_wanted(rx) ? admit(rx, qp) : SE_REM_ABORT;

	if (se_fault_holds(SE_FAULT_DEAD, rx->msg.dst_dev, rx->msg.dst_qpn))
		st = SE_UNRESP_REMOTE;
	rx->qp = qp;
	if (!qp && elsewhere(rx)) {
		se_rx_finish(rx, (enum se_status)SE_NOT_HERE);
		return;
	}
	if (st < 0) {
		drop(rx);
		return;
	}
	if (st) {
		se_rx_finish(rx, (enum se_status)st);
		return;
	}
	switch (rx->msg.op) {
	case SE_OP_SEND:
		do_send(rx, now_us);
		break;
	case SE_OP_WRITE:
		do_write(rx, now_us);
		break;
	case SE_OP_READ:
		do_read(rx);
		break;
	default:
		se_rx_finish(rx, SE_UNSUPPORTED_OP);
	}
}

enum se_data_status se_responder_source(const struct se_pull *p, void *out)
{
	struct se_qp *qp = se_qp_find(p->dev % SE_MAX_DEV, p->qpn);
	uint64_t here = 0;

	if (qp && qp->state >= SE_RTR && qp->state != SE_ERR)
		here = se_mr_resolve(qp->pd, p->key, p->what + p->off, p->len, SE_REMOTE_READ);
	return here && !se_copy_in(out, here, p->len) ? 0 : SE_DATA_BAD;
}

/* ---- rounds ---- */

/* SRD keeps no order: one of the oldest few, and now and then one is left for a later round. */
static struct se_rx *pick(void)
{
	uint32_t window = se_fault_window(se_settings()->reorder), k;
	struct se_list *n = arrived.next;
	struct se_rx *rx;

	if (!rng)
		rng = se_settings()->seed * 0x9e3779b97f4a7c15u + (uint64_t)se_fabric_self() + 1;
	k = se_rng_below(&rng, narrived < window ? narrived : window);
	while (k--)
		n = n->next;
	rx = se_container(n, struct se_rx, node);
	if (window && rx->defers < MAX_DEFERS && se_rng_below(&rng, 16) == 0) {
		rx->defers++;
		return NULL;
	}
	return rx;
}

static unsigned run_arrived(uint64_t now_us)
{
	unsigned did = narrived;

	while (narrived) {
		struct se_rx *rx = pick();

		if (!rx)
			break;
		if (&rx->node != arrived.next)
			se_stat_add(rx->msg.dst_dev % SE_MAX_DEV, SE_STAT_REORDERS, 1);
		se_list_remove(&rx->node);
		narrived--;
		execute(rx, now_us);
	}
	return did;
}

/* Back from where it came, with what it needs; or not. */
static bool fetched(struct se_rx *rx, uint64_t now_us)
{
	switch (se_rx_wanted(rx) ? se_move_step(&rx->move) : SE_MOVE_GONE) {
	case SE_MOVE_WAIT:
		return false;
	case SE_MOVE_DONE:
		execute(rx, now_us);
		break;
	case SE_MOVE_BAD_SRC:
		se_rx_finish(rx, SE_INVALID_LKEY);
		break;
	default:
		se_rx_finish(rx, SE_REM_ABORT);
	}
	return true;
}

static unsigned run_busy(uint64_t now_us)
{
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each (n, nx, &se_rx_busy) {
		struct se_rx *rx = se_container(n, struct se_rx, node);

		switch (rx->state) {
		case SE_RX_FETCHING:
			did += fetched(rx, now_us);
			break;
		case SE_RX_MOVING:
			did += move(rx, now_us);
			break;
		case SE_RX_COMPLETING:
			did += se_rx_complete(rx);
			break;
		default:
			did += se_rx_answer(rx);
			break;
		}
	}
	return did;
}

/* Requests that wait for a receive: is there one, or is the time up? */
static unsigned run_parked(struct se_qp *qp, uint64_t now_us)
{
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each (n, nx, &qp->rq.parked) {
		struct se_rx *rx = se_container(n, struct se_rx, node);
		bool posted = receive_posted(qp);

		if (!posted && now_us < rx->rnr_deadline_us)
			continue;
		if (se_slot_remote(rx->slot) && posted)
			fetch(rx);
		else
			execute(rx, now_us);
		did++;
	}
	return did;
}

unsigned se_responder_poll(uint64_t now_us)
{
	unsigned did = run_arrived(now_us) + run_busy(now_us);
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		/* A QP in error gives back its receives. */
		while (qp->state == SE_ERR && se_rx_flush(qp))
			did++;
		if (!se_list_empty(&qp->rq.parked))
			did += run_parked(qp, now_us);
	}
	return did;
}

/* Those whose process died are wanted until somebody asks after it. */
static void drop_unwanted(struct se_list *parked, uint64_t *alive, uint64_t now_us)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, parked) {
		struct se_rx *rx = se_container(n, struct se_rx, node);

		if (se_fault_holds(SE_FAULT_DEAD, rx->msg.dst_dev, rx->msg.dst_qpn)) {
			se_rx_finish(rx, SE_UNRESP_REMOTE);
			continue;
		}
		if (se_slot_remote(rx->slot))
			se_conn_touch(rx->slot, now_us);
		else if (alive[rx->slot] != rx->incarnation &&
			 !se_fabric_gone(rx->slot, rx->incarnation))
			alive[rx->slot] = rx->incarnation;
		if (!se_rx_wanted(rx))
			se_rx_finish(rx, SE_REM_ABORT);
	}
}

void se_responder_timers(uint64_t now_us)
{
	uint64_t alive[SE_MAX_PROC] = {0}; /* incarnations asked about in this round */
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps)
		drop_unwanted(&se_container(n, struct se_qp, node)->rq.parked, alive, now_us);
	se_list_each (n, nx, &se_rx_busy) {
		struct se_rx *rx = se_container(n, struct se_rx, node);

		if (se_slot_remote(rx->slot))
			se_conn_touch(rx->slot, now_us);
	}
}

/* Of requests that lose their QP, those under way were reset, the others find no QP. */
static void orphan(struct se_rx *rx, bool flush)
{
	se_move_cancel(&rx->move);
	if (rx->state == SE_RX_ANSWERING) {
		rx->qp = NULL; /* all is done but for the answer */
		return;
	}
	if (flush && rx->took) {
		/* It stays on the busy list, whose turn completes it as soon as the CQ has room. */
		rx->rx_status = SE_FLUSHED;
		rx->status = SE_REM_ABORT;
		rx->state = SE_RX_COMPLETING;
		return;
	}
	rx->qp = NULL;
	rx->took = false;
	se_rx_finish(rx, rx->state == SE_RX_PARKED ? SE_REM_BAD_QPN : SE_REM_ABORT);
}

static void orphan_all(struct se_qp *qp, bool flush)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &qp->rq.parked)
		orphan(se_container(n, struct se_rx, node), flush);
	se_list_each (n, nx, &se_rx_busy) {
		struct se_rx *rx = se_container(n, struct se_rx, node);

		if (rx->qp == qp)
			orphan(rx, flush);
	}
}

void se_responder_drop(struct se_qp *qp)
{
	orphan_all(qp, false);
}

void se_responder_flush(struct se_qp *qp)
{
	orphan_all(qp, true);
}

void se_responder_forget_all(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps)
		se_rx_forget(&se_container(n, struct se_qp, node)->rq.parked);
	se_rx_forget(&arrived);
	narrived = 0;
	se_rx_forget_all();
}

bool se_responder_busy(void)
{
	return narrived || se_rx_parked() || !se_list_empty(&se_rx_busy);
}
