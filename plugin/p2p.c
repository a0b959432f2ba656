/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: requests, and which send goes into which buffer. A receiver announces the buffers
 * of a receive as lines in the sender's ring, in the order of its receives. Sends go into those of
 * the oldest receive that has buffers left, each into the first free one with its tag, as NCCL's
 * contract wants it; a send that finds none waits.
 */
#include "p2p.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "cut.h"
#include "eager.h"
#include "event.h"
#include "failover.h"
#include "flush.h"
#include "message.h"
#include "mover.h"
#include "profile.h"
#include "segment.h"
#include "stall.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Of size classes and all bytes. */
static void count_message(uint64_t *sizes, uint64_t *total, uint32_t bytes)
{
	net_count(&sizes[net_size_class(bytes)], 1);
	net_count(total, bytes);
}

/* Now and then, and at each test while something waits for credits. */
static __attribute__((noinline, cold)) void look_around(struct net_engine *e)
{
	if (net_stall_look(e))
		net_event_look(e);
	if (e->doubtful && net_engine_idle(e))
		net_eager_resolve(e);
	e->patience = e->todo || e->doubtful ? 1 : NET_STALL_CALLS;
}

/* No credits: whatever has completed may have some. */
static __attribute__((noinline)) int later(struct net_comm *c)
{
	if (c->engine->counting)
		net_count(&c->engine->counts.refused, 1);
	net_engine_poll(c->engine);
	return c->err;
}

/* ---- send ---- */

static const struct proto_cts *line(const struct net_send *s, uint32_t seq)
{
	return net_line(s->ring, seq, NET_RING_ENTRIES);
}

static bool is_here(const struct net_send *s, uint32_t seq)
{
	const struct proto_cts *l = line(s, seq);

	/* acquire: seq is the last word that lands, the rest is read after it */
	return __atomic_load_n(&l->seq, __ATOMIC_ACQUIRE) == seq && l->conn_id == s->conn_id;
}

/* All lines of the group that comes next: they land in any order. */
static __attribute__((noinline)) bool see_group(struct net_send *s)
{
	uint32_t n = line(s, s->next_seq)->n;

	if (unlikely(n == 0 || n > NET_MAX_RECVS)) {
		net_comm_fail(&s->c, -EPROTO, "a clear-to-send line", 0, NULL);
		return false;
	}
	for (uint32_t i = 1; i < n; i++)
		if (!is_here(s, s->next_seq + i))
			return false;
	s->group = (uint8_t)n;
	s->taken = 0;
	net_eager_promised(s, line(s, s->next_seq + n - 1)->eager);
	return true;
}

/* Which line of the group a send with @tag goes to, or -1. */
static int match(const struct net_send *s, int tag)
{
	for (int i = 0; i < s->group; i++)
		if (!(s->taken & 1u << i) &&
		    line(s, s->next_seq + (uint32_t)i)->tag == (uint32_t)tag)
			return i;
	return -1;
}

static void take(struct net_send *s, int i)
{
	s->taken |= (uint8_t)(1u << i);
	if (s->taken == (1u << s->group) - 1) {
		s->next_seq += s->group;
		s->group = 0;
	}
}

/* Lines whose messages are with the peer already. */
static __attribute__((noinline)) void take_ahead(struct net_send *s)
{
	uint32_t left = 0;

	for (uint32_t k = 0; k < s->nahead; k++) {
		int i = match(s, (int)s->ahead[k]);

		if (i >= 0)
			take(s, i);
		else
			s->ahead[left++] = s->ahead[k];
	}
	s->nahead = (uint8_t)left;
}

/* The oldest group with lines left; false: it is not here. */
static bool find_group(struct net_send *s)
{
	while (!s->group) {
		if (!is_here(s, s->next_seq) || !see_group(s))
			return false;
		if (unlikely(s->nahead))
			take_ahead(s);
	}
	return true;
}

static void begin(struct net_send *s, struct net_req *req, void **request)
{
	s->free &= s->free - 1;
	req->in_use = true;
	if (unlikely(s->c.engine->counting))
		count_message(s->c.engine->counts.sends, &s->c.engine->counts.send_bytes,
			      req->bytes);
	*request = req;
}

static int start_ahead(struct net_send *s, void *data, size_t size, int tag,
		       const struct net_mr *mr, void **request)
{
	struct net_req *req = &s->req[__builtin_ctzll(s->free)];
	int rc = net_eager_send(s, req, data, (uint32_t)size, tag, mr);

	if (rc == -EAGAIN)
		return rc;
	if (unlikely(rc)) {
		net_comm_fail(&s->c, rc, "post of a send", 0, NULL);
		return rc;
	}
	if (unlikely(s->c.engine->counting))
		net_count(&s->c.engine->counts.eager_sends, 1);
	begin(s, req, request);
	return 0;
}

static int start_send(struct net_send *s, int i, void *data, size_t size, const struct net_mr *mr,
		      void **request)
{
	uint32_t seq = s->next_seq + (uint32_t)i;
	const struct proto_cts *l = line(s, seq);
	struct net_req *req = &s->req[__builtin_ctzll(s->free)];
	int rc;

	req->bytes = size < l->len ? (uint32_t)size : l->len;
	req->to_come = 0;
	rc = s->c.mover->send(s, req, l, seq, data, mr);
	if (rc == -EAGAIN)
		return rc;
	if (unlikely(rc)) {
		net_comm_fail(&s->c, rc, "post of a send", 0, NULL);
		return rc;
	}
	begin(s, req, request);
	take(s, i);
	return 0;
}

/* There is none for it. */
static __attribute__((noinline)) int no_line(struct net_send *s)
{
	if (--s->c.engine->patience == 0) {
		net_stall_waits(s);
		look_around(s->c.engine);
	}
	return s->c.err;
}

/* No credits, which need no request: eager messages are the peer's now. */
static __attribute__((noinline, cold)) int send_later(struct net_send *s)
{
	later(&s->c);
	return no_line(s);
}

static int send_entered(struct net_send *s, void *data, size_t size, int tag,
			const struct net_mr *mr, void **request)
{
	int i, rc = -EAGAIN;

	if (unlikely(s->c.err))
		return s->c.err;
	if (!s->group && s->c.engine->mode != PROTO_WRITE)
		net_engine_poll(s->c.engine);
	if (likely(find_group(s))) {
		i = match(s, tag);
		if (i < 0)
			return no_line(s);
		if (likely(s->free))
			rc = start_send(s, i, data, size, mr, request);
	} else {
		if (s->c.err || !net_eager_may(s, size))
			return no_line(s);
		if (likely(s->free))
			rc = start_ahead(s, data, size, tag, mr, request);
	}
	if (unlikely(s->c.engine->todo))
		net_todo_run(s->c.engine);
	return unlikely(rc == -EAGAIN) ? send_later(s) : rc;
}

/* Lines are written, or else come as messages. */
static bool may_have_come(const struct net_send *s)
{
	return is_here(s, s->next_seq) ||
	       (unlikely(s->c.engine->mode != PROTO_WRITE) && !net_engine_idle(s->c.engine));
}

/* Apart from the look that NCCL makes far more often than there is something to do. */
static __attribute__((noinline)) int send_now(struct net_send *s, void *data, size_t size, int tag,
					      const struct net_mr *mr, void **request)
{
	int rc;

	net_owner_enter(&s->c.engine->owner);
	rc = send_entered(s, data, size, tag, mr, request);
	net_owner_leave(&s->c.engine->owner);
	return rc;
}

/* Entered by the owner, which it is not any more then. */
static __attribute__((noinline, cold)) int look_instead(struct net_send *s)
{
	int rc;

	net_stall_waits(s);
	look_around(s->c.engine);
	rc = s->c.err;
	net_owner_leave_own();
	net_stats_refresh(); /* takes locks: not in the engine */
	return rc;
}

int net_isend(struct net_send *s, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request)
{
	*request = NULL;
	if (net_owner_try(&s->c.engine->owner) && !s->c.err && !s->group && !may_have_come(s) &&
	    !net_eager_may(s, size)) {
		if (unlikely(--s->c.engine->patience == 0))
			return look_instead(s);
		net_owner_leave_own();
		return 0;
	}
	return send_now(s, data, size, tag, mr, request);
}

/* ---- receive ---- */

__attribute__((noinline)) void net_reclaim(struct net_recv *r)
{
	uint32_t oldest = r->next_seq;

	for (; r->req_first != r->req_next; r->req_first++) {
		const struct net_req *req = &r->req[r->req_first % NET_MAX_REQS];

		/* A line is not written again before its last write has completed. */
		if (req->in_use || req->busy || req->lost) {
			oldest = req->seq;
			break;
		}
		/* Nor before the peer has done with it, which eager messages do not tell. */
		if (req->eager < req->n && proto_before(r->seen, req->seq + req->n))
			r->seen = req->seq + req->n;
	}
	if (proto_before(r->seen, oldest))
		oldest = r->seen;
	r->slots_free = r->nslots - (r->next_seq - oldest);
}

/* For @n buffers: a request, and slots. */
static bool has_slots(struct net_recv *r, uint32_t n)
{
	if (unlikely(r->slots_free < n || r->req_next - r->req_first == NET_MAX_REQS)) {
		net_reclaim(r);
		return r->slots_free >= n && r->req_next - r->req_first != NET_MAX_REQS;
	}
	return true;
}

/* And promised room for the immediates to come. */
static bool has_room(struct net_recv *r, uint32_t n)
{
	return has_slots(r, n) && r->reserve + r->c.engine->imm_free >= n;
}

static void promise(struct net_recv *r, struct net_req *req)
{
	req->from_reserve = (uint8_t)(r->reserve < req->n ? r->reserve : req->n);
	r->reserve -= req->from_reserve;
	r->c.engine->imm_free -= (uint32_t)req->n - req->from_reserve;
}

static void promise_kept(struct net_recv *r, struct net_req *req)
{
	if (req->from_reserve) {
		req->from_reserve--;
		r->reserve++;
	} else {
		r->c.engine->imm_free++;
	}
}

void net_slot_filled(struct net_recv *r, struct net_slot *slot)
{
	struct net_req *req = &r->req[slot->req];

	slot->open = false;
	req->to_come--;
	promise_kept(r, req);
	if (unlikely(r->c.engine->counting))
		count_message(r->c.engine->counts.recvs, &r->c.engine->counts.recv_bytes,
			      slot->bytes);
}

static void open_slot(struct net_recv *r, const struct net_req *req, int i, void *data, size_t size,
		      int tag, const struct net_mr *mr)
{
	uint32_t seq = r->next_seq + (uint32_t)i;
	struct proto_cts *l = net_line(r->mirror, seq, r->nslots);

	*net_slot_of(r, req, (uint32_t)i) = (struct net_slot){
		.req = (uint8_t)(req - r->req),
		.open = true,
		.mr = mr,
	};
	if (r->eager)
		net_eager_promise(r, mr);
	l->addr = (uintptr_t)data;
	l->len = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	l->tag = (uint32_t)tag;
	for (int k = 0; k < r->c.nrails; k++)
		l->rkey[k] = mr->rkey[k];
	l->n = req->n;
	l->flags = 0;
	l->rail0 = r->next_rail;
	l->eager = (uint8_t)r->eager_limit;
	l->seq = seq;
}

/* In two parts where the group goes round the end. */
int net_announce(struct net_recv *r, struct net_req *req)
{
	uint32_t to_end = r->nslots - req->slot;
	uint32_t n = req->n < to_end ? req->n : to_end;
	int rc;

	if (unlikely(r->c.engine->rail[r->next_rail].ctrl_free < 2))
		return -EAGAIN;
	rc = r->c.mover->lines(r, req, req->seq, n);
	if (unlikely(rc == 0 && n < req->n))
		rc = r->c.mover->lines(r, req, req->seq + n, req->n - n);
	return rc;
}

/* Its lines are on their way. */
static void begin_recv(struct net_recv *r, struct net_req *req, uint32_t n, void **request)
{
	r->next_rail = (uint8_t)net_next_rail(&r->c, r->next_rail);
	r->next_seq += n;
	r->slots_free -= n;
	r->req_next++;
	req->in_use = true;
	*request = req;
}

static int recv_entered(struct net_recv *r, int n, void *const *data, const size_t *sizes,
			const int *tags, void *const *mrs, void **request)
{
	struct net_req *req = &r->req[r->req_next % NET_MAX_REQS];
	int rc;

	if (unlikely(r->c.err))
		return r->c.err;
	if (unlikely(!has_room(r, (uint32_t)n)))
		return later(&r->c);
	req->n = req->to_come = (uint8_t)n;
	req->eager = 0;
	req->slot = (uint16_t)((r->next_seq - 1) & (r->nslots - 1));
	for (int i = 0; i < n; i++)
		open_slot(r, req, i, data[i], sizes[i], tags[i], mrs[i]);
	req->seq = r->next_seq;
	rc = net_announce(r, req);
	if (unlikely(rc == -EAGAIN))
		goto close_slots;
	if (unlikely(rc)) {
		net_comm_fail(&r->c, rc, "post of a clear-to-send", r->next_rail, NULL);
		return rc;
	}
	promise(r, req);
	begin_recv(r, req, (uint32_t)n, request);
	if (unlikely(r->nearly))
		net_eager_posted(r, req);
	return 0;
close_slots:
	for (int i = 0; i < n; i++)
		net_slot_of(r, req, (uint32_t)i)->open = false;
	return later(&r->c);
}

/*
 * Quiet receives: NCCL's hint says that whoever waits for the data looks for them in the buffer (LL
 * and LL128). Their lines ask for writes without immediates, which cost this side nothing, and they
 * are done when the lines are there: not earlier, so that a peer that is gone is noticed.
 *
 * Nothing tells then that the peer has seen such a line. There are at most quiet_most in a row,
 * half of the ring, and what comes for the next one tells of all before it: net_reclaim() gives no
 * slot away before. So lines are never overrun, and there is always one in a full ring that will
 * tell: before the first quiet one are at most NET_EAGER_MOST whose messages went ahead and told
 * nothing, and NET_EAGER_MOST + quiet_most leave room for a group.
 *
 * A message that went ahead must be copied by a later call, and after a receive that is done there
 * may be none. So none is quiet while any may have gone ahead, and none that comes with a promise:
 * for small messages into memory of the host, these save more.
 */
static __attribute__((noinline)) bool may_be_quiet(struct net_recv *r, int n,
						   const struct net_mr *mr)
{
	if (r->next_seq != r->quiet_end)
		r->nquiet = 0; /* another was posted since */
	if (n > 1 || r->nquiet == r->quiet_most)
		return false;
	return !r->eager || (mr->gpu && r->eager_next == r->eager_limit && !r->nearly);
}

void net_quiet_expect(struct net_recv *r)
{
	if (r->nslots >= 2 * (NET_EAGER_MOST + NET_MAX_RECVS))
		r->quiet_most = r->nslots / 2 - 1;
}

static __attribute__((noinline)) int recv_quiet(struct net_recv *r, void *data, size_t size,
						int tag, const struct net_mr *mr, void **request)
{
	struct net_req *req = &r->req[r->req_next % NET_MAX_REQS];
	int rc;

	if (unlikely(r->c.err))
		return r->c.err;
	if (unlikely(!has_slots(r, 1)))
		return later(&r->c);
	req->n = req->to_come = 1;
	req->slot = (uint16_t)((r->next_seq - 1) & (r->nslots - 1));
	open_slot(r, req, 0, data, size, tag, mr);
	net_slot_of(r, req, 0)->open = false;
	net_line(r->mirror, r->next_seq, r->nslots)->flags = PROTO_QUIET;
	req->seq = r->next_seq;
	rc = net_announce(r, req);
	if (unlikely(rc == -EAGAIN))
		return later(&r->c);
	if (unlikely(rc)) {
		net_comm_fail(&r->c, rc, "post of a clear-to-send", r->next_rail, NULL);
		return rc;
	}
	req->quiet = true;
	req->eager = 1; /* as little as an eager message does what comes for it tell */
	begin_recv(r, req, 1, request);
	r->nquiet++;
	r->quiet_end = r->next_seq;
	return 0;
}

static void quiet_told(struct net_req *req)
{
	struct net_engine *e = req->comm->engine;

	req->quiet = false;
	req->to_come = 0;
	if (unlikely(e->counting))
		net_count(&e->counts.quiet_recvs, 1);
}

int net_irecv(struct net_recv *r, int n, void *const *data, const size_t *sizes, const int *tags,
	      void *const *mrs, void **request)
{
	bool quiet;
	int rc;

	net_owner_enter(&r->c.engine->owner);
	quiet = unlikely(*request == NCCL_NET_EARLY_RECV_HINT) && may_be_quiet(r, n, mrs[0]);
	*request = NULL;
	if (unlikely(quiet))
		rc = recv_quiet(r, data[0], sizes[0], tags[0], mrs[0], request);
	else
		rc = recv_entered(r, n, data, sizes, tags, mrs, request);
	net_owner_leave(&r->c.engine->owner);
	return rc;
}

static void recv_forget(struct net_recv *r, const struct net_mr *mr)
{
	net_flush_forget(r, mr);
	if (r->c.engine->mode == PROTO_WRITE && !r->eager)
		return; /* the device refuses the peer */
	for (uint32_t i = 0; i < r->nslots; i++) {
		if ((!r->slot[i].open && !r->slot[i].copy) || r->slot[i].mr != mr)
			continue;
		r->slot[i].mr = NULL;
		if (r->c.engine->mode != PROTO_SEND)
			continue;
		r->slot[i].open = false;
		r->c.err = -ECANCELED;
	}
	if (r->c.err)
		net_message_over(&r->c);
}

static void send_forget(struct net_send *s, const struct net_mr *mr)
{
	for (int i = 0; i < NET_MAX_REQS; i++)
		if (s->req[i].mr == mr)
			s->req[i].mr = NULL;
}

void net_forget(struct net_comm *c, const struct net_mr *mr)
{
	net_owner_enter(&c->engine->owner);
	if (c->kind == NET_SEND)
		send_forget((struct net_send *)c, mr);
	else
		recv_forget((struct net_recv *)c, mr);
	net_owner_leave(&c->engine->owner);
}

void net_forgotten(struct net_comm *c)
{
	net_comm_fail(c, -ECANCELED, "a request for memory that is no longer registered", 0, NULL);
	net_message_over(c);
}

/* ---- completions ---- */

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
		[WR_LINES] = "a message", [WR_NOTE] = "a message", [WR_FIN] = "a message",
		[WR_READ] = "a read",     [WR_SEGMENT] = "a send",
	};
	const char *text = what[kind];

	if (kind == WR_DATA)
		text = c->kind == NET_SEND ? "a send" : "a flush";
	else if (kind == WR_LINES && c->kind == NET_RECV)
		text = "a clear-to-send";
	net_comm_fail(c, srd_wc_err(wc), text, rail, wc);
	net_message_over(c);
}

static void leave_under_way(struct net_comm *c)
{
	if (unlikely(--c->under_way == 0 && c->closed))
		net_comm_free(c);
}

static void request_completed(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	struct net_req *req = (struct net_req *)(uintptr_t)(wc->wr_id & WR_ADDRESS);
	uint32_t which =
		(uint32_t)(wc->wr_id >> WR_SEGMENT_SHIFT | (wc->wr_id & WR_BITS) >> WR_BUF_SHIFT);
	struct net_comm *c = req->comm;
	int kind = wc->wr_id & WR_KIND;

	if (kind & WR_CTRL)
		e->rail[rail].ctrl_free++;
	else
		e->rail[rail].data_free++;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		if (!net_failover(req, kind, which, rail, wc) &&
		    !(kind == WR_LINES && net_eager_doubt(req, rail, wc)))
			request_failed(c, kind, rail, wc); /* and is never done */
	} else if (kind == WR_DATA) {
		req->to_come--;
	} else if (kind == WR_LINES || kind == WR_FIN) {
		req->busy--;
		if (unlikely(req->quiet))
			quiet_told(req);
	} else if (kind == WR_READ && net_eager_copies(req, which)) {
		net_eager_copied(req, which, rail);
	} else if (kind == WR_READ) {
		net_read_completed(req, which, rail);
	} else if (kind == WR_SEGMENT) {
		net_segment_completed(req, which);
	}
	leave_under_way(c);
}

/* True: its buffer is kept. */
static bool take_message(struct net_engine *e, int rail, const struct net_rx *rx,
			 const struct srd_wc *wc)
{
	const struct proto_note note = proto_note_unpack(wc->imm);
	const uint8_t *data = net_rx_get(rx, wc->wr_id);

	if (note.type == PROTO_EAGER)
		return net_eager_arrived(e, note.comm, rail, wc->wr_id, data, wc->byte_len);
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

void net_p2p_completed(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	if (!(wc->opcode & IBV_WC_RECV)) {
		request_completed(e, rail, wc);
		return;
	}
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

/* ---- what waits for credits ---- */

/* It counts as under way, so that the comm stays. */
void net_todo_add(struct net_req *req)
{
	struct net_engine *e = req->comm->engine;

	if (req->queued)
		return;
	req->queued = true;
	req->todo = NULL;
	req->comm->under_way++;
	*e->todo_end = req;
	e->todo_end = &req->todo;
}

/* Lines that were lost are the same whatever moves the data. False: no credits. */
static bool go_on(struct net_req *req)
{
	struct net_comm *c = req->comm;
	int rc;

	if (c->kind == NET_RECV && !req->n)
		return net_flush_run(req);
	if (c->kind == NET_RECV && req->lost && !c->closed) {
		rc = net_announce((struct net_recv *)c, req);
		if (rc == -EAGAIN)
			return false;
		req->lost = 0;
		if (rc)
			net_comm_fail(c, rc, "post on another rail", 0, NULL);
	}
	if (c->err)
		return true;
	if (c->kind == NET_SEND && net_went_ahead((struct net_send *)c, req))
		return net_eager_again((struct net_send *)c, req);
	if (c->kind == NET_RECV && !net_eager_copy((struct net_recv *)c, req))
		return false;
	return c->mover->run(req);
}

void net_todo_run(struct net_engine *e)
{
	struct net_req *req;

	if (unlikely(e->todo_after_ms)) {
		if (net_now_ms() < e->todo_after_ms)
			return;
		e->todo_after_ms = 0;
	}
	while ((req = e->todo)) {
		struct net_comm *c = req->comm;

		if (!c->err && !go_on(req))
			return;
		e->todo = req->todo;
		if (!e->todo)
			e->todo_end = &e->todo;
		req->queued = false;
		leave_under_way(c);
	}
}

/* ---- test ---- */

static void finish(struct net_req *req, int *sizes)
{
	req->in_use = false;
	if (unlikely(req->comm->events))
		net_profile_stop(req);
	if (req->comm->kind == NET_SEND) {
		struct net_send *s = (struct net_send *)req->comm;

		s->free |= 1ull << (req - s->req);
		s->eager &= ~(1ull << (req - s->req));
		if (sizes)
			sizes[0] = (int)req->bytes;
	} else if (sizes) {
		struct net_recv *r = (struct net_recv *)req->comm;

		for (uint32_t i = 0; i < req->n; i++)
			sizes[i] = (int)net_slot_of(r, req, i)->bytes;
	}
}

static int test_entered(struct net_req *req, int *done, int *sizes)
{
	struct net_engine *e = req->comm->engine;

	if (req->to_come)
		net_engine_poll(e);
	if (unlikely(e->todo))
		net_todo_run(e);
	if (req->to_come)
		return req->comm->err;
	*done = 1;
	finish(req, sizes);
	return 0;
}

int net_test_now(struct net_req *req, int *done, int *sizes)
{
	struct net_engine *e = req->comm->engine;
	bool looked = false;
	int rc;

	net_owner_enter(&e->owner);
	rc = test_entered(req, done, sizes);
	if (unlikely(e->patience == 0 || e->todo)) {
		look_around(e);
		looked = true;
	}
	net_owner_leave(&e->owner);
	/* It takes locks: not in the engine. */
	if (unlikely(looked))
		net_stats_refresh();
	return rc;
}
