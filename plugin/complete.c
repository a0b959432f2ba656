/* SPDX-License-Identifier: BSD-3-Clause */
/* What has completed on a rail, and whose it was. */
#include "complete.h"

#include "doubt.h"
#include "eager.h"
#include "event.h"
#include "failover.h"
#include "message.h"
#include "mover.h"
#include "p2p.h"
#include "rx.h"
#include "segment.h"
#include "todo.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum { AT_ONCE = 16 }; /* so that no rail keeps the others waiting */

_Static_assert(NET_RQ_BATCH - 1 + AT_ONCE < NET_TAKEN_MOST, "room for what waits to be told");

/* ---- failures ---- */

/* Takes messages, or immediates that need a receive. */
static bool receives(const struct net_comm *c)
{
	return c->kind == NET_RECV || c->engine->mode != PROTO_WRITE;
}

/* A receive that failed belongs to no comm that could be named. */
static void __attribute__((cold))
receive_failed(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	e->worn = true;
	/* What is flushed has a reason, which the device may have told. */
	if (!(e->out & 1u << rail))
		net_event_look(e);
	for (struct net_comm *c = e->comms; c; c = c->next)
		if (receives(c) && rail < c->nrails && !net_failover_rail(c, rail, wc))
			net_comm_fail(c, srd_wc_err(wc), "a receive", rail, wc);
}

static void __attribute__((cold))
request_failed(struct net_comm *c, int kind, int rail, const struct srd_wc *wc)
{
	static const char *const what[] = {
		[WR_LINES] = "a message",
		[WR_NOTE] = "a message",
		[WR_READ] = "a read",
		[WR_SEGMENT] = "a send",
	};
	const char *text = what[kind];

	if (kind == WR_DATA)
		text = c->kind == NET_SEND ? "a send" : "a flush";
	else if (kind == WR_LINES && c->kind == NET_RECV)
		text = "a clear-to-send";
	net_comm_fail(c, srd_wc_err(wc), text, rail, wc);
	net_message_over(c);
}

/* ---- requests of ours ---- */

static bool is_word(int kind)
{
	return kind == WR_LINES || kind == WR_NOTE;
}

/* All but the usual. */
static __attribute__((noinline)) void look_at_request(struct net_req *req, int kind, uint32_t which,
						      int rail, const struct srd_wc *wc)
{
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		net_event_look(req->comm->engine); /* it may be the device, which says so */
		if (net_failover(req, kind, which, rail, wc))
			return;
		if (kind == WR_LINES)
			req->busy--;
		if (!(is_word(kind) && net_doubt(req, rail, wc)))
			request_failed(req->comm, kind, rail, wc); /* and is never done */
	} else if (kind == WR_LINES) {
		req->busy--;
		net_quiet_told(req);
	} else if (kind == WR_READ && net_eager_copies(req, which)) {
		net_eager_copied(req, which, rail);
	} else if (kind == WR_READ) {
		net_read_completed(req, which, rail);
	} else if (kind == WR_SEGMENT) {
		net_segment_completed(req, which);
	}
}

static inline void request_completed(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	struct net_req *req = (struct net_req *)(uintptr_t)(wc->wr_id & WR_ADDRESS);
	struct net_comm *c = req->comm;
	int kind = wc->wr_id & WR_KIND;

	if (kind & WR_CTRL)
		e->rail[rail].ctrl_free++;
	else
		e->rail[rail].data_free++;
	if (likely(kind == WR_DATA && wc->status == IBV_WC_SUCCESS))
		req->to_come--;
	else if (likely(kind == WR_LINES && !req->quiet && wc->status == IBV_WC_SUCCESS))
		req->busy--;
	else
		look_at_request(req, kind,
				(uint32_t)(wc->wr_id >> WR_SEGMENT_SHIFT |
					   (wc->wr_id & WR_BITS) >> WR_BUF_SHIFT),
				rail, wc);
	net_comm_completed(c);
}

/* ---- what peers sent ---- */

/* True: its buffer is kept. */
static bool take_message(struct net_engine *e, int rail, const struct net_rx *rx,
			 const struct srd_wc *wc)
{
	const struct proto_note note = proto_note_unpack(wc->imm);
	const uint8_t *data = net_rx_get(rx, wc->wr_id);

	/* A peer that sends them elsewhere speaks of a buffer that is another, or none. */
	if (note.type == PROTO_EAGER)
		return wc->wr_id & WR_EAGER &&
		       net_eager_arrived(e, note.comm, rail, wc->wr_id, data, wc->byte_len);
	if (e->mode != PROTO_WRITE)
		net_message(e, wc->imm, data, wc->byte_len);
	return false;
}

static void message_completed(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	struct net_rail *r = &e->rail[rail];
	struct net_rx *rx = wc->wr_id & WR_OF_DATA ? &r->data_rx : &r->ctrl_rx;

	if (unlikely(wc->status != IBV_WC_SUCCESS))
		receive_failed(e, rail, wc);
	else if (likely(wc->flags & SRD_WC_IMM) && take_message(e, rail, rx, wc))
		return;
	/* A queue pair in error would give it back at once. */
	if (likely(wc->status != IBV_WC_WR_FLUSH_ERR))
		net_rx_put(rx, wc->wr_id);
}

/* All but the usual. */
static __attribute__((noinline)) void look_at_received(struct net_engine *e, int rail,
						       const struct srd_wc *wc)
{
	if (e->mode != PROTO_WRITE || (wc->wr_id & WR_EAGER && !(wc->flags & SRD_WC_UNSOLICITED))) {
		message_completed(e, rail, wc);
		return;
	}
	if (!(wc->flags & SRD_WC_UNSOLICITED))
		e->rail[rail].rq_missing++;
	if (unlikely(wc->status != IBV_WC_SUCCESS || !(wc->flags & SRD_WC_IMM)))
		receive_failed(e, rail, wc);
	else
		net_write_arrived(e, rail, wc);
}

static inline void received(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	if (likely(wc->flags == (SRD_WC_UNSOLICITED | SRD_WC_IMM) && wc->status == IBV_WC_SUCCESS &&
		   e->mode == PROTO_WRITE))
		net_write_arrived(e, rail, wc);
	else
		look_at_received(e, rail, wc);
}

/* ---- all of them ---- */

/*
 * Tell the device what was taken, and post receives again; with writes only now and then, for there
 * is room for what waits. Those for eager messages go back in batches, which are not promised.
 */
static __attribute__((noinline)) void tidy(struct net_engine *e, int rail)
{
	struct net_rail *r = &e->rail[rail];

	r->taken = 0;
	srd_cq_tell(&r->cq);
	if (r->rq_missing)
		net_rail_refill(e, rail);
	if (e->mode != PROTO_WRITE)
		net_rx_post(&r->ctrl_rx);
	if (e->mode == PROTO_SEND)
		net_rx_post(&r->data_rx);
}

static inline void completed(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	if (wc->opcode & IBV_WC_RECV)
		received(e, rail, wc);
	else
		request_completed(e, rail, wc);
}

static inline void complete(struct net_engine *e, int rail)
{
	struct net_rail *r = &e->rail[rail];
	struct srd_wc wc;
	uint32_t n = 0;

	for (; n < AT_ONCE && srd_cq_take(&r->cq, &wc); n++)
		completed(e, rail, &wc);
	r->taken += n;
	if (unlikely(r->taken >= r->tidy_after))
		tidy(e, rail);
}

void net_complete(struct net_engine *e)
{
	for (int i = 0; i < e->nrails; i++)
		complete(e, i);
	if (unlikely(e->todo))
		net_todo_run(e);
}
