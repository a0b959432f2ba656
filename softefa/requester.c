/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests, from doorbell to completion. */
#include "requester.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "copy.h"
#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "host.h"
#include "link.h"
#include "log.h"
#include "mr.h"
#include "settings.h"
#include "stats.h"

#define CAP_RDMA_READ  (1u << 0)
#define CAP_RDMA_WRITE (1u << 5)
#define EAGER_WRITE    16384 /* bytes that a write to another host brings along */

static struct se_list in_flight = SE_LIST_INIT(in_flight); /* SE_TX_SENT and SE_TX_NOBODY */
static struct se_list moving = SE_LIST_INIT(moving);
static struct se_list held = SE_LIST_INIT(held);
static struct se_list routing = SE_LIST_INIT(routing);
static unsigned outstanding, waiting; /* requests not free; of these, SE_TX_DONE */

/* ---- request structures ---- */

int se_requester_init(struct se_qp *qp)
{
	se_list_init(&qp->sq.free);
	se_list_init(&qp->sq.unsent);
	if (!qp->sq.depth)
		return 0;
	qp->sq.tx = calloc(qp->sq.depth, sizeof(*qp->sq.tx));
	return qp->sq.tx ? 0 : -ENOMEM;
}

void se_requester_fini(struct se_qp *qp)
{
	free(qp->sq.tx);
	qp->sq.tx = NULL;
}

static struct se_tx *tx_get(struct se_qp *qp)
{
	struct se_sq *sq = &qp->sq;
	struct se_tx *tx;

	if (!se_list_empty(&sq->free)) {
		tx = se_container(sq->free.next, struct se_tx, node);
		se_list_remove(&tx->node);
	} else {
		tx = &sq->tx[sq->fresh];
		tx->qp = qp;
		tx->index = (uint16_t)sq->fresh++;
	}
	tx->generation++;
	sq->outstanding++;
	outstanding++;
	return tx;
}

/* Off whatever list it is on, and free; an answer that comes later finds another generation. */
static void tx_put(struct se_tx *tx)
{
	if (tx->state == SE_TX_DONE)
		waiting--;
	se_move_cancel(&tx->move);
	se_list_remove(&tx->node);
	tx->state = SE_TX_FREE;
	se_list_append(&tx->qp->sq.free, &tx->node);
	tx->qp->sq.outstanding--;
	outstanding--;
}

static uint64_t token(const struct se_tx *tx)
{
	return (uint64_t)tx->qp->obj.ctx->dev << 48 | (uint64_t)tx->qp->qpn << 32 |
	       (uint32_t)tx->index << 16 | tx->generation;
}

static struct se_tx *tx_find(uint64_t t)
{
	struct se_qp *qp = se_qp_find((uint32_t)(t >> 48) % SE_MAX_DEV, (uint16_t)(t >> 32));
	uint16_t index = (uint16_t)(t >> 16);

	if (!qp || index >= qp->sq.fresh || qp->sq.tx[index].generation != (uint16_t)t)
		return NULL;
	return &qp->sq.tx[index];
}

/* ---- completion ---- */

static void count_completion(const struct se_tx *tx)
{
	uint32_t dev = tx->qp->obj.ctx->dev;

	se_stat_add(dev, se_stat_of(SE_STAT_COMPLETIONS, tx->status), 1);
	if (tx->status == SE_OK)
		se_stat_add(dev, SE_STAT_BYTES + tx->msg.op % SE_STAT_OPS, tx->msg.len);
}

static void push_completion(const struct se_tx *tx)
{
	struct se_cqe e = {
		.req_id = (uint16_t)tx->req_id,
		.status = tx->status,
		.flags = (uint8_t)(SE_CQE_SEND | SE_CQE_OP(tx->msg.op)),
		.qpn = tx->qp->qpn,
	};

	if (tx->qp->req_id_64) {
		e.tx.req_id_hi[0] = (uint16_t)(tx->req_id >> 16);
		e.tx.req_id_hi[1] = (uint16_t)(tx->req_id >> 32);
		e.tx.req_id_hi[2] = (uint16_t)(tx->req_id >> 48);
	}
	se_cq_push(tx->qp->send_cq, &e);
	count_completion(tx);
}

static void complete(struct se_tx *tx, enum se_status status)
{
	struct se_cq *cq = tx->qp->send_cq;

	se_move_cancel(&tx->move);
	tx->status = (uint8_t)status;
	if (status)
		se_log(SE_LOG_ALL, "qp %u: request %u ends with status %d", tx->qp->qpn,
		       (unsigned)tx->req_id, status);
	if (se_cq_room(cq) && se_list_empty(&cq->waiting)) {
		push_completion(tx);
		tx_put(tx);
		return;
	}
	se_list_remove(&tx->node);
	tx->state = SE_TX_DONE;
	waiting++;
	se_list_append(&cq->waiting, &tx->node);
}

static unsigned retry_completions(struct se_cq *cq)
{
	unsigned n = 0;

	while (!se_list_empty(&cq->waiting) && se_cq_room(cq)) {
		struct se_tx *tx = se_container(cq->waiting.next, struct se_tx, node);

		push_completion(tx);
		tx_put(tx);
		n++;
	}
	return n;
}

/* ---- checks of a work request ---- */

static enum se_status check_op(const struct se_qp *qp, const struct se_meta *m)
{
	uint32_t caps = se_settings()->caps;
	const uint8_t ctrl2 = SE_META_FIRST | SE_META_LAST | SE_META_COMP;

	if (!(m->ctrl1 & SE_META_META) || m->ctrl1 & SE_META_EXT || (m->ctrl2 & ctrl2) != ctrl2)
		return SE_QP_INTERNAL;
	switch (SE_META_OP(m->ctrl1)) {
	case SE_OP_SEND:
		return SE_OK;
	case SE_OP_READ:
		if (m->ctrl1 & (SE_META_IMM | SE_META_INLINE))
			return SE_UNSUPPORTED_OP;
		return qp->type == SE_QPT_SRD && caps & CAP_RDMA_READ ? SE_OK : SE_UNSUPPORTED_OP;
	case SE_OP_WRITE:
		if (m->ctrl1 & SE_META_INLINE && qp->sq.stride != SE_WQE_128)
			return SE_UNSUPPORTED_OP;
		return qp->type == SE_QPT_SRD && caps & CAP_RDMA_WRITE ? SE_OK : SE_UNSUPPORTED_OP;
	default:
		return SE_UNSUPPORTED_OP;
	}
}

static enum se_status set_inline(struct se_msg *msg, const struct se_qp *qp, const struct se_wqe *w)
{
	uint32_t max = qp->sq.stride == SE_WQE_128 ? SE_INLINE_MAX : SE_INLINE_64;

	if (w->meta.length > max)
		return SE_BAD_LENGTH;
	msg->flags |= SE_MSG_INLINE;
	msg->len = w->meta.length;
	memcpy(msg->data, msg->op == SE_OP_WRITE ? w->rdma.write_inline : w->send_inline, msg->len);
	return SE_OK;
}

/* The local buffers, with the addresses they have in this process: the responder reads them. */
static enum se_status set_segments(struct se_msg *msg, const struct se_qp *qp,
				   const struct se_wqe *w)
{
	const struct se_buf *buf = msg->op == SE_OP_SEND ? w->sgl : &w->rdma.local;
	uint32_t access = msg->op == SE_OP_READ ? SE_LOCAL_WRITE : 0;
	uint64_t total = 0;

	if (w->meta.length > (msg->op == SE_OP_SEND ? se_settings()->max_sq_sge : 1))
		return SE_BAD_LENGTH;
	for (unsigned i = 0; i < w->meta.length; i++) {
		uint32_t key = buf[i].key & SE_LKEY_MASK;
		uint64_t here =
			se_mr_resolve(qp->pd, key, se_buf_addr(&buf[i]), buf[i].length, access);

		if (!here)
			return SE_INVALID_LKEY;
		/* A read writes here later: looked up by iova then. */
		msg->seg[i].addr = msg->op == SE_OP_READ ? se_buf_addr(&buf[i]) : here;
		msg->seg[i].len = buf[i].length;
		msg->seg[i].key = key;
		total += buf[i].length;
	}
	msg->nseg = (uint8_t)w->meta.length;
	if (total > UINT32_MAX)
		return SE_BAD_LENGTH;
	msg->len = (uint32_t)total;
	return SE_OK;
}

static enum se_status set_remote(struct se_msg *msg, const struct se_wqe *w)
{
	if (msg->op == SE_OP_SEND)
		return msg->len > se_settings()->max_msg_size ? SE_BAD_LENGTH : SE_OK;
	msg->raddr = se_buf_addr(&w->rdma.remote);
	msg->rkey = w->rdma.remote.key;
	if (w->rdma.remote.length != msg->len || msg->len > se_settings()->max_rdma_size)
		return SE_BAD_LENGTH;
	return SE_OK;
}

/* Turn a work request into a message. Everything that can be seen to be wrong here ends here. */
static enum se_status prepare(struct se_tx *tx, const struct se_wqe *w)
{
	struct se_qp *qp = tx->qp;
	struct se_msg *msg = &tx->msg;
	enum se_status st = check_op(qp, &w->meta);

	memset(msg, 0, offsetof(struct se_msg, data));
	msg->type = SE_MSG_REQUEST;
	msg->op = SE_META_OP(w->meta.ctrl1);
	msg->src_dev = (uint8_t)qp->obj.ctx->dev;
	tx->req_id = w->meta.req_id;
	tx->ahn = w->meta.ahn;
	if (qp->req_id_64)
		tx->req_id |= (uint64_t)w->meta.req_id_hi[0] << 16 |
			      (uint64_t)w->meta.req_id_hi[1] << 32 |
			      (uint64_t)w->meta.req_id_hi[2] << 48;
	if (st)
		return st;
	msg->flags = (uint8_t)((w->meta.ctrl1 & SE_META_IMM ? SE_MSG_IMM : 0) |
			       (qp->unsolicited ? SE_MSG_UNSOLICITED : 0) |
			       (qp->type == SE_QPT_UD ? SE_MSG_UD : 0));
	msg->rnr_retry = qp->rnr_retry;
	msg->src_qpn = qp->qpn;
	msg->dst_qpn = w->meta.dest_qpn;
	msg->qkey = w->meta.qkey;
	msg->imm = w->meta.imm;
	msg->token = token(tx);
	msg->sgid = se_gid_of(se_settings(), qp->obj.ctx->dev);
	msg->life = se_fabric_qpn_life(msg->src_dev, msg->src_qpn);
	st = w->meta.ctrl1 & SE_META_INLINE ? set_inline(msg, qp, w) : set_segments(msg, qp, w);
	return st ? st : set_remote(msg, w);
}

/* ---- sending ---- */

/* A UD sender never learns what became of its message. */
static void refused(struct se_tx *tx, enum se_status status)
{
	complete(tx, tx->qp->type == SE_QPT_UD ? SE_OK : status);
}

static void set_state(struct se_tx *tx, enum se_tx_state state, struct se_list *list)
{
	se_list_remove(&tx->node);
	tx->state = state;
	se_list_append(list, &tx->node);
}

static void wait_for_nobody(struct se_tx *tx)
{
	if (tx->qp->type == SE_QPT_UD) {
		complete(tx, SE_OK);
		return;
	}
	tx->deadline_us = se_now_us() + se_settings()->timeout_ms * 1000ull;
	set_state(tx, SE_TX_NOBODY, &in_flight);
}

/* @len bytes of a request from @off on, as they are now. 0, or -EFAULT: not (all) registered. */
static int source(const struct se_tx *tx, uint32_t off, uint32_t len, uint8_t *out)
{
	const struct se_msg *m = &tx->msg;

	if (m->flags & SE_MSG_INLINE) {
		memcpy(out, m->data + off, len);
		return 0;
	}
	for (unsigned i = 0; i < m->nseg && len; i++) {
		const struct se_seg *s = &m->seg[i];
		uint32_t n = off < s->len ? s->len - off : 0;

		if (n > len)
			n = len;
		if (n && (!se_fabric_key_live(m->src_dev, s->key, se_fabric_self()) ||
			  se_copy_in(out, s->addr + off, n)))
			return -EFAULT;
		off -= n ? off : s->len;
		out += n;
		len -= n;
	}
	return len ? -EFAULT : 0;
}

enum se_data_status se_requester_source(int slot, const struct se_pull *p, void *out)
{
	struct se_tx *tx = tx_find(p->what);

	if (!tx || tx->state != SE_TX_SENT || tx->slot != slot || tx->msg.op == SE_OP_READ)
		return SE_DATA_VOID;
	if (p->off > tx->msg.len || p->len > tx->msg.len - p->off)
		return SE_DATA_BAD;
	return source(tx, p->off, p->len, out) ? SE_DATA_BAD : 0;
}

static void sent(struct se_tx *tx, int slot, uint64_t incarnation)
{
	tx->slot = slot;
	tx->incarnation = incarnation;
	se_fault_sent(tx->msg.src_dev, tx->msg.src_qpn, tx->msg.op);
	set_state(tx, SE_TX_SENT, &in_flight);
}

/* Try again when there is news, but not for ever. */
static void route(struct se_tx *tx)
{
	if (tx->state == SE_TX_ROUTING)
		return;
	if (!tx->route_by_us)
		tx->route_by_us = se_now_us() + se_settings()->timeout_ms * 1000ull;
	set_state(tx, SE_TX_ROUTING, &routing);
}

/*
 * To the process of another host, with its bytes if they are few. Without a way there or room it
 * is put aside, for that must not delay what goes elsewhere.
 */
static void send_remote(struct se_tx *tx)
{
	int slot = se_host_route(tx->host, tx->msg.dst_dev, tx->msg.dst_qpn);
	bool brings = tx->msg.op == SE_OP_SEND || tx->msg.flags & SE_MSG_INLINE ||
		      (tx->msg.op == SE_OP_WRITE && tx->msg.len <= EAGER_WRITE);
	uint32_t len = brings ? tx->msg.len : 0;
	struct se_msg head;
	uint8_t *p;

	if (slot == -ENOENT) {
		refused(tx, SE_REM_BAD_QPN);
		return;
	}
	p = slot < 0 ? NULL : se_conn_reserve(slot, (uint32_t)SE_MSG_HEAD + len);
	if (!p) {
		route(tx);
		return;
	}
	memcpy(&head, &tx->msg, SE_MSG_HEAD);
	head.flags &= (uint8_t)~SE_MSG_INLINE;
	head.nseg = 0; /* addresses and keys are nobody else's business */
	memset(head.seg, 0, sizeof(head.seg));
	memcpy(p, &head, SE_MSG_HEAD);
	if (source(tx, 0, len, p + SE_MSG_HEAD)) {
		complete(tx, SE_INVALID_LKEY);
		return;
	}
	se_conn_commit(slot, SE_FRAME_MESSAGE, brings ? SE_FRAME_PAYLOAD : 0,
		       (uint32_t)SE_MSG_HEAD + len);
	sent(tx, slot, se_conn_incarnation(slot));
}

static void send_routing(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &routing)
		send_remote(se_container(n, struct se_tx, node));
}

/* Hand the message to the owner of the destination; false: its ring is full, try again. */
static bool try_send(struct se_tx *tx)
{
	uint64_t incarnation;
	int owner, rc;

	if (tx->host) {
		send_remote(tx);
		return true;
	}
	owner = se_fabric_qpn_owner(tx->msg.dst_dev, tx->msg.dst_qpn);
	if (owner == SE_NO_SLOT) {
		refused(tx, SE_REM_BAD_QPN);
		return true;
	}
	incarnation = se_fabric_incarnation(owner);
	rc = incarnation ? se_link_send(owner, incarnation, &tx->msg) : -ESRCH;
	if (rc == -EAGAIN)
		return false;
	if (rc)
		refused(tx, SE_REM_BAD_QPN);
	else
		sent(tx, owner, incarnation);
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
	tx->state = SE_TX_HELD;
	se_list_append(&held, &tx->node);
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
		se_list_remove(&tx->node);
		tx->state = SE_TX_UNSENT;
		se_list_append(&tx->qp->sq.unsent, &tx->node);
		did++;
	}
	return did;
}

/* ---- doorbell ---- */

static void start(struct se_qp *qp, const struct se_wqe *w)
{
	struct se_tx *tx = tx_get(qp);
	enum se_status st = prepare(tx, w);
	const struct se_known *peer;

	se_stat_add(tx->msg.src_dev, SE_STAT_REQUESTS + tx->msg.op % SE_STAT_OPS, 1);
	se_async_inject(qp, se_fault_event(tx->msg.src_dev, qp->qpn, tx->msg.op));
	if (qp->state == SE_ERR)
		st = SE_FLUSHED;
	if (!st)
		st = se_fault_status(tx->msg.src_dev, qp->qpn, tx->msg.op);
	if (st) {
		complete(tx, st);
		return;
	}
	peer = se_pd_ahn(qp->pd, w->meta.ahn);
	if (!peer) {
		complete(tx, SE_INVALID_AH);
		return;
	}
	tx->host = peer->host;
	tx->route_by_us = 0;
	if (peer->dev < 0 || se_fault_holds(SE_FAULT_DEAD, tx->msg.src_dev, qp->qpn)) {
		wait_for_nobody(tx);
		return;
	}
	tx->msg.dst_dev = (uint8_t)peer->dev;
	if (hold(tx))
		return;
	tx->state = SE_TX_UNSENT;
	se_list_append(&qp->sq.unsent, &tx->node);
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
	set_state(tx, SE_TX_MOVING, &moving);
}

/* A peer that is silent from now on has been heard. */
static void note_answer(const struct se_tx *tx)
{
	struct se_known *peer = se_pd_ahn(tx->qp->pd, tx->ahn);

	if (peer)
		peer->answered = true;
}

/* 15 or 13: did it ever answer? */
static enum se_status silence(const struct se_tx *tx)
{
	const struct se_known *peer = se_pd_ahn(tx->qp->pd, tx->ahn);

	return peer && peer->answered ? SE_UNRESP_REMOTE : SE_UNREACH_REMOTE;
}

void se_requester_answer(const struct se_msg *msg, int slot)
{
	struct se_tx *tx = tx_find(msg->token);

	if (!tx || tx->state != SE_TX_SENT || tx->slot != slot)
		return; /* its QP was reset or destroyed meanwhile */
	if (msg->status == SE_UNRESP_REMOTE) {
		wait_for_nobody(tx);
		return;
	}
	note_answer(tx);
	if (msg->status == SE_NOT_HERE && tx->host) {
		se_host_reroute(tx->host, tx->msg.dst_dev, tx->msg.dst_qpn);
		route(tx);
	} else if (msg->status == SE_OK && tx->msg.op == SE_OP_READ)
		read_granted(tx, msg);
	else if (msg->status == SE_INVALID_LKEY)
		complete(tx, SE_INVALID_LKEY); /* of a datagram, too: that is seen here */
	else
		refused(tx, msg->status);
}

static unsigned move_reads(void)
{
	struct se_list *n, *nx;
	unsigned did = 0;

	se_list_each (n, nx, &moving) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		did++;
		switch (se_move_step(&tx->move)) {
		case SE_MOVE_WAIT:
			did--;
			break;
		case SE_MOVE_MORE:
			break;
		case SE_MOVE_DONE:
			complete(tx, SE_OK);
			break;
		case SE_MOVE_BAD_SRC:
			complete(tx, SE_REM_BAD_ADDRESS);
			break;
		case SE_MOVE_BAD_DST:
			complete(tx, SE_INVALID_LKEY);
			break;
		case SE_MOVE_GONE:
			complete(tx, tx->host ? SE_UNRESP_REMOTE : SE_REM_ABORT);
			break;
		case SE_MOVE_DENIED:
			complete(tx, SE_QP_INTERNAL);
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

	if (!se_list_empty(&routing) && se_conn_news())
		send_routing();
	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		if (qp->failed)
			se_qp_flush(qp);
		did += fetch(qp);
		did += send_unsent(qp);
		if (waiting)
			did += retry_completions(qp->send_cq);
	}
	return did + move_reads();
}

/* One packet gets no answer from a QP that is gone; of several, the rest do not. */
static enum se_status lost(const struct se_tx *tx)
{
	return tx->msg.len > se_settings()->max_msg_size ? SE_REM_ABORT : SE_REM_BAD_QPN;
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

/* Sent to another host: is the connection there? */
static void check_remote(struct se_tx *tx, uint64_t now_us)
{
	switch (se_conn_end(tx->slot, tx->incarnation)) {
	case SE_CONN_NONE:
		se_conn_touch(tx->slot, now_us);
		break;
	case SE_CONN_REFUSED:
		route(tx);
		break;
	case SE_CONN_LOST:
		refused(tx, SE_UNRESP_REMOTE);
		break;
	case SE_CONN_BYE:
		refused(tx, lost(tx));
		break;
	}
}

static void check_routing(uint64_t now_us)
{
	struct se_list *n, *nx;

	send_routing();
	se_list_each (n, nx, &routing) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (now_us >= tx->route_by_us)
			refused(tx, silence(tx));
	}
	se_list_each (n, nx, &moving) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (tx->host)
			se_conn_touch(tx->slot, now_us);
	}
}

void se_requester_timers(uint64_t now_us)
{
	uint64_t alive[SE_MAX_PROC] = {0}; /* incarnations asked about in this round */
	struct se_list *n, *nx;

	if (se_fault_any(SE_FAULT_DEAD))
		look_for_dead();
	se_list_each (n, nx, &in_flight) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (tx->state == SE_TX_NOBODY) {
			if (now_us >= tx->deadline_us)
				complete(tx, silence(tx));
		} else if (tx->host) {
			check_remote(tx, now_us);
		} else if (alive[tx->slot] == tx->incarnation) {
			continue;
		} else if (se_fabric_gone(tx->slot, tx->incarnation)) {
			refused(tx, lost(tx));
		} else {
			alive[tx->slot] = tx->incarnation;
		}
	}
	check_routing(now_us);
}

void se_requester_drop(struct se_qp *qp)
{
	se_fabric_qpn_renew((int)qp->obj.ctx->dev, qp->qpn);
	for (uint32_t i = 0; i < qp->sq.fresh; i++)
		if (qp->sq.tx[i].state != SE_TX_FREE)
			tx_put(&qp->sq.tx[i]);
}

void se_requester_flush(struct se_qp *qp)
{
	/* First: a flushed completion gives the buffer back, which must not be sent any more. */
	se_fabric_qpn_renew((int)qp->obj.ctx->dev, qp->qpn);
	for (uint32_t i = 0; i < qp->sq.fresh; i++)
		if (qp->sq.tx[i].state != SE_TX_FREE && qp->sq.tx[i].state != SE_TX_DONE)
			complete(&qp->sq.tx[i], SE_FLUSHED);
}

void se_requester_forsake(const struct se_pd *pd, uint16_t ahn)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		for (uint32_t i = 0; qp->pd == pd && i < qp->sq.fresh; i++) {
			struct se_tx *tx = &qp->sq.tx[i];

			if (tx->ahn == ahn && tx->state != SE_TX_FREE && tx->state != SE_TX_DONE)
				complete(tx, SE_FLUSHED);
		}
	}
}

void se_requester_forget_all(void)
{
	se_list_init(&in_flight);
	se_list_init(&moving);
	se_list_init(&held);
	se_list_init(&routing);
	outstanding = waiting = 0;
}

bool se_requester_busy(void)
{
	return outstanding != 0;
}
