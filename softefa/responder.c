// SPDX-License-Identifier: BSD-3-Clause
/* Requests of other QPs: checked, carried out, answered. */
#include "responder.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "engine.h"
#include "fabric.h"
#include "link.h"
#include "log.h"
#include "move.h"
#include "mr.h"
#include "recv.h"
#include "rng.h"
#include "settings.h"

#define GRH_BYTES  40     /* room in front of a UD message */
#define MAX_REQUESTS 65536 /* more stay in the rings */
#define MAX_DEFERS 3

enum rx_state {
	RX_ARRIVED,  /* on the list of arrivals */
	RX_PARKED,   /* on qp->rq.parked: waits for a posted receive */
	RX_MOVING,   /* these three on the busy list */
	RX_COMPLETING, /* the CQ has no room */
	RX_ANSWERING,  /* the ring has no room */
};

/* A request from arrival to answer. */
struct rx {
	struct se_list node;
	enum rx_state state;
	struct se_qp *qp;      /* NULL once it has none any more */
	int slot;              /* who asks */
	uint64_t incarnation;
	uint64_t rnr_deadline_us; /* 0: not waiting */
	uint8_t defers;
	uint8_t status;        /* to the requester */
	uint8_t rx_status;     /* to the receiver */
	bool took;             /* recv, which must complete */
	bool placed;           /* the bytes are there already */
	struct se_seg grant;   /* RDMA read */
	struct se_seg target;  /* RDMA write */
	struct se_move move;
	struct se_msg msg;
	struct se_recv recv;
};

static struct se_list arrived = SE_LIST_INIT(arrived);
static struct se_list busy = SE_LIST_INIT(busy);
static struct se_list spare = SE_LIST_INIT(spare);
static unsigned requests, narrived, nparked;
static uint64_t rng;

/* ---- requests ---------------------------------------------------------------------------------- */

static struct rx *rx_get(void)
{
	struct rx *rx;

	if (!se_list_empty(&spare)) {
		rx = se_container(spare.next, struct rx, node);
		se_list_remove(&rx->node);
		memset(rx, 0, offsetof(struct rx, msg));
	} else {
		rx = requests < MAX_REQUESTS ? calloc(1, sizeof(*rx)) : NULL;
		if (!rx)
			return NULL;
	}
	requests++;
	return rx;
}

static void rx_put(struct rx *rx)
{
	se_list_remove(&rx->node);
	requests--;
	se_list_append(&spare, &rx->node);
}

static void rx_set(struct rx *rx, enum rx_state state, struct se_list *list)
{
	if (rx->state == RX_PARKED)
		nparked--;
	se_list_remove(&rx->node);
	rx->state = state;
	nparked += state == RX_PARKED;
	se_list_append(list, &rx->node);
}

bool se_responder_request(const struct se_msg *msg, int slot)
{
	struct rx *rx = rx_get();

	if (!rx)
		return false;
	memcpy(&rx->msg, msg, offsetof(struct se_msg, data));
	if (msg->flags & SE_MSG_INLINE)
		memcpy(rx->msg.data, msg->data, msg->len <= SE_INLINE_MAX ? msg->len : SE_INLINE_MAX);
	rx->slot = slot;
	rx->incarnation = se_fabric_incarnation(slot);
	rx->state = RX_ARRIVED;
	se_list_append(&arrived, &rx->node);
	narrived++;
	return true;
}

/* ---- answering ------------------------------------------------------------------------------------ */

/* True when the request is done with. */
static bool answer(struct rx *rx)
{
	struct se_msg *m;
	int err;

	m = se_link_reserve(rx->slot, rx->incarnation, &err);
	if (!m && err == -EAGAIN)
		return false;
	if (m) {
		memset(m, 0, offsetof(struct se_msg, data));
		m->type = SE_MSG_RESPONSE;
		m->op = rx->msg.op;
		m->status = rx->status;
		m->token = rx->msg.token;
		m->len = rx->msg.len;
		m->nseg = 1;
		m->seg[0] = rx->grant;
		se_link_commit(rx->slot);
	}
	rx_put(rx);
	return true;
}

static void finish(struct rx *rx, enum se_status status)
{
	rx->status = (uint8_t)status;
	rx_set(rx, RX_ANSWERING, &busy);
	answer(rx);
}

/* ---- completing --------------------------------------------------------------------------------------- */

static bool needs_cqe(const struct rx *rx)
{
	return rx->took || (rx->msg.op == SE_OP_WRITE && rx->msg.flags & SE_MSG_IMM &&
			    rx->rx_status == SE_OK && rx->status == SE_OK);
}

/* The receive completion; the CQ has room. */
static void push_completion(const struct rx *rx)
{
	const struct se_msg *m = &rx->msg;
	const struct se_known *peer = se_pd_gid(rx->qp->pd, &m->sgid);
	uint32_t len = m->len + (m->flags & SE_MSG_UD ? GRH_BYTES : 0);
	struct se_cqe e = {
		.req_id = rx->took ? rx->recv.req_id : 0,
		.status = rx->rx_status,
		.flags = (uint8_t)(SE_CQE_RECV | SE_CQE_OP(m->op) | (rx->took ? 0 : SE_CQE_UNSOLICITED) |
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
}

static bool complete(struct rx *rx)
{
	if (rx->qp && needs_cqe(rx)) {
		if (!se_cq_room(rx->qp->recv_cq))
			return false;
		push_completion(rx);
	}
	finish(rx, rx->status);
	return true;
}

/* The bytes are there, or will never be: to the CQ, then to the requester. */
static void moved(struct rx *rx, enum se_status rx_status, enum se_status status)
{
	rx->rx_status = (uint8_t)rx_status;
	rx->status = (uint8_t)status;
	rx_set(rx, RX_COMPLETING, &busy);
	complete(rx);
}

/* ---- waiting for a receive ------------------------------------------------------------------------------- */

/* Wait for a receive, as long as the sender's retries last. */
static void park(struct rx *rx, uint64_t now_us)
{
	uint64_t budget = se_settings()->rnr_timer_us * ((1ull << rx->msg.rnr_retry) - 1);

	if (rx->msg.flags & SE_MSG_UD) {
		finish(rx, SE_OK); /* dropped */
		return;
	}
	if (!rx->rnr_deadline_us)
		rx->rnr_deadline_us = rx->msg.rnr_retry == 7 ? UINT64_MAX : now_us + budget;
	if (now_us >= rx->rnr_deadline_us)
		finish(rx, SE_REM_RNR);
	else if (rx->state != RX_PARKED)
		rx_set(rx, RX_PARKED, &rx->qp->rq.parked);
}

/* Take a receive; false: the request went elsewhere. */
static bool take_or_park(struct rx *rx, uint64_t now_us)
{
	int rc = se_recv_take(rx->qp, &rx->recv);

	rx->took = rc == 0;
	if (rc == -EAGAIN)
		park(rx, now_us);
	if (rc == -EINVAL) {
		se_log(SE_LOG_ERROR, "qp %u: receive ring makes no sense at %u", rx->qp->qpn,
		       rx->qp->rq.consumed);
		se_qp_fail(rx->qp);
		finish(rx, SE_REM_BAD_QPN);
	}
	return rc == 0;
}

/* A write with immediate consumes a receive for that alone: its buffer stays untouched. */
static bool needs_receive(const struct rx *rx)
{
	return rx->msg.op == SE_OP_WRITE && rx->msg.flags & SE_MSG_IMM && !rx->qp->unsolicited;
}

/* All bytes are there. A receive that is needed is taken only now, when nothing else can fail. */
static void placed(struct rx *rx, uint64_t now_us)
{
	rx->placed = true;
	if (needs_receive(rx) && !take_or_park(rx, now_us))
		return;
	moved(rx, SE_OK, SE_OK);
}

/* ---- moving ---------------------------------------------------------------------------------------------- */

/* Does the sender still want it? What it gave up must not be carried out: its memory is reused. */
static bool wanted(const struct rx *rx)
{
	return se_fabric_incarnation(rx->slot) == rx->incarnation &&
	       se_fabric_qpn_life(rx->msg.src_dev % SE_MAX_DEV, rx->msg.src_qpn) == rx->msg.life;
}

/* The fault is the sender's: nothing arrived here. */
static void abandon(struct rx *rx, enum se_status status)
{
	if (rx->took)
		se_recv_give_back(rx->qp, &rx->recv);
	rx->took = false;
	finish(rx, status);
}

static void move(struct rx *rx, uint64_t now_us)
{
	bool write = rx->msg.op == SE_OP_WRITE;
	enum se_move_result result = se_move_step(&rx->move);

	if (!wanted(rx))
		result = SE_MOVE_GONE;
	switch (result) {
	case SE_MOVE_MORE:
		break;
	case SE_MOVE_DONE:
		placed(rx, now_us);
		break;
	case SE_MOVE_BAD_SRC:
		abandon(rx, SE_INVALID_LKEY);
		break;
	case SE_MOVE_BAD_DST:
		moved(rx, SE_INVALID_LKEY, write ? SE_REM_BAD_ADDRESS : SE_REM_BAD_STATUS);
		break;
	case SE_MOVE_GONE:
		abandon(rx, SE_REM_ABORT);
		break;
	case SE_MOVE_DENIED:
		abandon(rx, SE_QP_INTERNAL);
		break;
	}
}

static void start_move(struct rx *rx, uint64_t now_us)
{
	bool write = rx->msg.op == SE_OP_WRITE;

	rx->move = (struct se_move){
		.slot = rx->slot,
		.dev = rx->msg.src_dev,
		.src = rx->msg.seg,
		.nsrc = rx->msg.nseg,
		.data = rx->msg.flags & SE_MSG_INLINE ? rx->msg.data : NULL,
		.pd = rx->qp->pd,
		.access = write ? SE_REMOTE_WRITE : SE_LOCAL_WRITE,
		.dst = write ? &rx->target : rx->recv.seg,
		.ndst = write ? 1 : rx->recv.nseg,
		.len = rx->msg.len,
	};
	rx_set(rx, RX_MOVING, &busy);
	move(rx, now_us);
}

/* ---- the rules ------------------------------------------------------------------------------------------- */

/* Cut the GRH room off the front of the receive; what is in it is unspecified, here zero. */
static int skip_grh(struct rx *rx)
{
	static const uint8_t zero[GRH_BYTES];
	uint32_t skip = GRH_BYTES;

	for (unsigned i = 0; i < rx->recv.nseg && skip; i++) {
		struct se_seg *s = &rx->recv.seg[i];
		uint32_t n = s->len < skip ? s->len : skip;
		uint64_t at = se_mr_resolve(rx->qp->pd, s->key, s->addr, n, SE_LOCAL_WRITE);

		if (!at || se_copy_out(at, zero, n))
			return -EFAULT;
		s->addr += n;
		s->len -= n;
		skip -= n;
	}
	return 0;
}

static void do_send(struct rx *rx, uint64_t now_us)
{
	bool ud = rx->msg.flags & SE_MSG_UD;
	uint64_t room = 0;

	if (!take_or_park(rx, now_us))
		return;
	for (unsigned i = 0; i < rx->recv.nseg; i++)
		room += rx->recv.seg[i].len;
	if (room < rx->msg.len + (ud ? GRH_BYTES : 0u)) {
		moved(rx, SE_BAD_LENGTH, SE_REM_BAD_LENGTH);
		return;
	}
	if (ud && skip_grh(rx)) {
		moved(rx, SE_INVALID_LKEY, SE_OK);
		return;
	}
	start_move(rx, now_us);
}

static void do_write(struct rx *rx, uint64_t now_us)
{
	const struct se_msg *m = &rx->msg;
	struct se_qp *qp = rx->qp;
	bool imm = m->flags & SE_MSG_IMM;

	if (imm && !(m->flags & SE_MSG_UNSOLICITED) != !qp->unsolicited) {
		finish(rx, SE_REM_FEATURE_MISMATCH);
		return;
	}
	if (rx->placed) {
		placed(rx, now_us);
		return;
	}
	if (!se_mr_resolve(qp->pd, m->rkey, m->raddr, m->len, SE_REMOTE_WRITE)) {
		finish(rx, SE_REM_BAD_ADDRESS);
		return;
	}
	if (needs_receive(rx) && !se_recv_posted(qp)) {
		park(rx, now_us);
		return;
	}
	rx->target = (struct se_seg){.addr = m->raddr, .len = m->len, .key = m->rkey};
	start_move(rx, now_us);
}

static void do_read(struct rx *rx)
{
	const struct se_msg *m = &rx->msg;
	uint64_t here = se_mr_resolve(rx->qp->pd, m->rkey, m->raddr, m->len, SE_REMOTE_READ);

	if (!here) {
		finish(rx, SE_REM_BAD_ADDRESS);
		return;
	}
	rx->grant = (struct se_seg){.addr = here, .len = m->len, .key = m->rkey};
	finish(rx, SE_OK);
}

/* What every request must pass. SE_OK, the status, or -1: drop it silently. */
static int admit(const struct rx *rx, const struct se_qp *qp)
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

static void execute(struct rx *rx, uint64_t now_us)
{
	struct se_qp *qp = se_qp_find(rx->msg.dst_dev % SE_MAX_DEV, rx->msg.dst_qpn);
	int st = wanted(rx) ? admit(rx, qp) : SE_REM_ABORT;

	rx->qp = qp;
	if (st) {
		finish(rx, st < 0 ? SE_OK : (enum se_status)st);
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
		finish(rx, SE_UNSUPPORTED_OP);
	}
}

/* ---- rounds ------------------------------------------------------------------------------------------------ */

/* SRD keeps no order: one of the oldest few, and now and then one is left for a later round. */
static struct rx *pick(void)
{
	uint32_t window = se_settings()->reorder, k;
	struct se_list *n = arrived.next;
	struct rx *rx;

	if (!rng)
		rng = se_settings()->seed * 0x9e3779b97f4a7c15u + (uint64_t)se_fabric_self() + 1;
	k = se_rng_below(&rng, narrived < window ? narrived : window);
	while (k--)
		n = n->next;
	rx = se_container(n, struct rx, node);
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
		struct rx *rx = pick();

		if (!rx)
			break;
		se_list_remove(&rx->node);
		narrived--;
		execute(rx, now_us);
	}
	return did;
}

static unsigned run_busy(uint64_t now_us)
{
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each(n, nx, &busy) {
		struct rx *rx = se_container(n, struct rx, node);

		switch (rx->state) {
		case RX_MOVING:
			move(rx, now_us);
			did++;
			break;
		case RX_COMPLETING:
			did += complete(rx);
			break;
		default:
			did += answer(rx);
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

	se_list_each(n, nx, &qp->rq.parked) {
		struct rx *rx = se_container(n, struct rx, node);

		if (!se_recv_posted(qp) && now_us < rx->rnr_deadline_us)
			continue;
		execute(rx, now_us);
		did++;
	}
	return did;
}

/* A QP in error gives back its receives. */
static unsigned flush_receives(struct se_qp *qp)
{
	unsigned did = 0;
	struct rx rx;

	while (se_recv_posted(qp) && se_cq_room(qp->recv_cq)) {
		memset(&rx, 0, sizeof(rx));
		if (se_recv_take(qp, &rx.recv)) {
			qp->rq.consumed = (uint16_t)(qp->rq.consumed + se_recv_posted(qp));
			break;
		}
		rx.qp = qp;
		rx.took = true;
		rx.rx_status = SE_FLUSHED;
		push_completion(&rx);
		did++;
	}
	return did;
}

unsigned se_responder_poll(uint64_t now_us)
{
	unsigned did = run_arrived(now_us) + run_busy(now_us);
	struct se_list *n, *nx;

	se_list_each(n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		if (qp->state == SE_ERR)
			did += flush_receives(qp);
		else if (!se_list_empty(&qp->rq.parked))
			did += run_parked(qp, now_us);
	}
	return did;
}

/* Of requests that lose their QP, those under way were reset, the others find no QP. */
static void orphan(struct rx *rx, bool flush)
{
	if (rx->state == RX_ANSWERING) {
		rx->qp = NULL; /* all is done but for the answer */
		return;
	}
	if (flush && rx->took) {
		/* It stays on the busy list, whose turn completes it as soon as the CQ has room. */
		rx->rx_status = SE_FLUSHED;
		rx->status = SE_REM_ABORT;
		rx->state = RX_COMPLETING;
		return;
	}
	rx->qp = NULL;
	rx->took = false;
	finish(rx, rx->state == RX_PARKED ? SE_REM_BAD_QPN : SE_REM_ABORT);
}

static void orphan_all(struct se_qp *qp, bool flush)
{
	struct se_list *n, *nx;

	se_list_each(n, nx, &qp->rq.parked)
		orphan(se_container(n, struct rx, node), flush);
	se_list_each(n, nx, &busy) {
		struct rx *rx = se_container(n, struct rx, node);

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
	se_list_init(&arrived);
	se_list_init(&busy);
	se_list_init(&spare);
	requests = narrived = nparked = 0;
}

bool se_responder_busy(void)
{
	return narrived || nparked || !se_list_empty(&busy);
}
