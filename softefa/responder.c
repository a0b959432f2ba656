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
#include "rng.h"
#include "settings.h"

#define GRH_BYTES  40     /* room in front of a UD message */
#define MAX_SGE    16
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
	bool took;             /* a receive, which must complete */
	uint16_t req_id;       /* of the receive */
	struct se_seg grant;   /* RDMA read */
	unsigned ndst;
	struct se_seg dst[MAX_SGE];
	struct se_move move;
	struct se_msg msg;
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
		memset(rx, 0, offsetof(struct rx, dst));
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

/* ---- the receive queue ------------------------------------------------------------------------------ */

static uint16_t rq_posted(const struct se_qp *qp)
{
	uint16_t db = (uint16_t)atomic_load_explicit((_Atomic uint32_t *)(void *)(qp->db.va + SE_RQ_DB),
						     memory_order_acquire);

	return (uint16_t)(db - qp->rq.consumed);
}

/* Take the next receive into rx->dst. 0, -EAGAIN (none posted) or -EINVAL (the ring makes no sense). */
static int rq_take(struct se_qp *qp, struct rx *rx)
{
	uint16_t posted = rq_posted(qp), n = 0;
	uint32_t ctrl;

	if (!posted)
		return -EAGAIN;
	if (posted > qp->rq.depth)
		return -EINVAL;
	do {
		struct se_rx_desc d = qp->rq.ring[(qp->rq.consumed + n) & (qp->rq.depth - 1)];

		ctrl = d.lkey_ctrl;
		if (n == posted || n == MAX_SGE || !(ctrl & SE_RX_FIRST) != (n != 0))
			return -EINVAL;
		if (n == 0)
			rx->req_id = d.req_id;
		rx->dst[n].addr = (uint64_t)d.addr_hi << 32 | d.addr_lo;
		rx->dst[n].len = d.length;
		rx->dst[n].key = ctrl & SE_LKEY_MASK;
		n++;
	} while (!(ctrl & SE_RX_LAST));
	qp->rq.consumed = (uint16_t)(qp->rq.consumed + n);
	rx->ndst = n;
	rx->took = true;
	return 0;
}

static void rq_broken(struct se_qp *qp)
{
	se_log(SE_LOG_ERROR, "qp %u: receive ring makes no sense at %u", qp->qpn, qp->rq.consumed);
	se_qp_fail(qp);
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
		.req_id = rx->took ? rx->req_id : 0,
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

/* ---- moving ---------------------------------------------------------------------------------------------- */

static void move(struct rx *rx)
{
	bool write = rx->msg.op == SE_OP_WRITE;

	switch (se_move_step(&rx->move)) {
	case SE_MOVE_MORE:
		break;
	case SE_MOVE_DONE:
		moved(rx, SE_OK, SE_OK);
		break;
	case SE_MOVE_BAD_SRC:
		moved(rx, SE_REM_ABORT, SE_INVALID_LKEY);
		break;
	case SE_MOVE_BAD_DST:
		moved(rx, SE_INVALID_LKEY, write ? SE_REM_BAD_ADDRESS : SE_REM_BAD_STATUS);
		break;
	case SE_MOVE_GONE:
		moved(rx, SE_REM_ABORT, SE_REM_ABORT);
		break;
	case SE_MOVE_DENIED:
		moved(rx, SE_REM_ABORT, SE_QP_INTERNAL);
		break;
	}
}

static void start_move(struct rx *rx, uint32_t access)
{
	rx->move = (struct se_move){
		.slot = rx->slot,
		.dev = rx->msg.src_dev,
		.src = rx->msg.seg,
		.nsrc = rx->msg.nseg,
		.data = rx->msg.flags & SE_MSG_INLINE ? rx->msg.data : NULL,
		.pd = rx->qp->pd,
		.access = access,
		.dst = rx->dst,
		.ndst = rx->ndst,
		.len = rx->msg.len,
	};
	rx_set(rx, RX_MOVING, &busy);
	move(rx);
}

/* ---- the rules ------------------------------------------------------------------------------------------- */

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
	int rc = rq_take(rx->qp, rx);

	if (rc == -EAGAIN)
		park(rx, now_us);
	if (rc == -EINVAL) {
		struct se_qp *qp = rx->qp;

		finish(rx, SE_REM_BAD_QPN);
		rq_broken(qp);
	}
	return rc == 0;
}

/* Cut the GRH room off the front of the receive; what is in it is unspecified, here zero. */
static int skip_grh(struct rx *rx)
{
	static const uint8_t zero[GRH_BYTES];
	uint32_t skip = GRH_BYTES;

	for (unsigned i = 0; i < rx->ndst && skip; i++) {
		struct se_seg *s = &rx->dst[i];
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
	for (unsigned i = 0; i < rx->ndst; i++)
		room += rx->dst[i].len;
	if (room < rx->msg.len + (ud ? GRH_BYTES : 0u)) {
		moved(rx, SE_BAD_LENGTH, SE_REM_BAD_LENGTH);
		return;
	}
	if (ud && skip_grh(rx)) {
		moved(rx, SE_INVALID_LKEY, SE_OK);
		return;
	}
	start_move(rx, SE_LOCAL_WRITE);
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
	if (!se_mr_resolve(qp->pd, m->rkey, m->raddr, m->len, SE_REMOTE_WRITE)) {
		finish(rx, SE_REM_BAD_ADDRESS);
		return;
	}
	/* A receive is consumed for the immediate only: its buffer stays untouched. */
	if (imm && !qp->unsolicited && !take_or_park(rx, now_us))
		return;
	rx->dst[0] = (struct se_seg){.addr = m->raddr, .len = m->len, .key = m->rkey};
	rx->ndst = 1;
	start_move(rx, SE_REMOTE_WRITE);
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
	int st = admit(rx, qp);

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

static unsigned run_busy(void)
{
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each(n, nx, &busy) {
		struct rx *rx = se_container(n, struct rx, node);

		switch (rx->state) {
		case RX_MOVING:
			move(rx);
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

		if (!rq_posted(qp) && now_us < rx->rnr_deadline_us)
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

	while (rq_posted(qp) && se_cq_room(qp->recv_cq)) {
		memset(&rx, 0, sizeof(rx));
		if (rq_take(qp, &rx)) {
			qp->rq.consumed = (uint16_t)(qp->rq.consumed + rq_posted(qp));
			break;
		}
		rx.qp = qp;
		rx.rx_status = SE_FLUSHED;
		push_completion(&rx);
		did++;
	}
	return did;
}

unsigned se_responder_poll(uint64_t now_us)
{
	unsigned did = run_arrived(now_us) + run_busy();
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
