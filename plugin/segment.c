/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by messages, for EFAs or libraries without RDMA: lines come as messages, a send goes out in
 * segments as large as the smaller MTU allows, the receiver copies each to its place. Host memory
 * only.
 *
 * A segment begins with its number, which is sent from a table of all numbers: so many headers
 * may be on their way and none is written.
 *
 * No segment leaves before the receiver has granted it one of its posted receives. Grants count up
 * from 0 for the life of a connection; lines carry the count, or else a message that says nothing
 * else does.
 */
#include "segment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cut.h"
#include "log.h"
#include "message.h"
#include "mover.h"
#include "numbers.h"
#include "p2p.h"
#include "todo.h"
#include "window.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

static uint32_t segments(uint32_t bytes, uint32_t segment)
{
	return bytes ? (bytes - 1) / segment + 1 : 1;
}

/* ---- sender ---- */

/* What of a send is where. */
struct net_flight {
	struct net_window there;        /* acknowledged */
	uint64_t lost[NET_WINDOW / 64]; /* to be sent again, a bit each as in the window */
	uint32_t total;
	bool waits;           /* is in the comm's list */
	struct net_req *next; /* there */
};

static struct net_flight *flight_of(const struct net_send *s, const struct net_req *req)
{
	return &s->flight[req - s->req];
}

int net_segment_open_send(struct net_send *s)
{
	s->flight = calloc(NET_MAX_REQS, sizeof(*s->flight));
	return s->flight ? 0 : -ENOMEM;
}

static int send_segments(struct net_send *s, struct net_req *req, const struct proto_cts *l,
			 uint32_t seq, const void *data, const struct net_mr *mr)
{
	uint32_t total = segments(req->bytes, s->c.segment);

	(void)l;
	if (total > s->c.engine->numbers->n)
		return -EMSGSIZE;
	*flight_of(s, req) = (struct net_flight){.total = total};
	req->to_come = total;
	req->next = 0;
	req->seq = seq;
	req->data = data;
	req->mr = mr;
	net_todo_add(req);
	return 0;
}

static int post_segment(struct net_send *s, struct net_req *req, uint32_t k, int rail)
{
	struct net_engine *e = s->c.engine;
	uint32_t off = k * s->c.segment, left = req->bytes - off;
	bool last = k + 1 == flight_of(s, req)->total;
	uint32_t len = last ? left : s->c.segment;
	struct srd_wr wr = {
		.wr_id = (uintptr_t)req | WR_SEGMENT | (uint64_t)k << WR_SEGMENT_SHIFT,
		.to = &s->data_to[rail],
		.sge[0] = {.addr = (uintptr_t)&e->numbers->mem[k],
			   .length = sizeof(e->numbers->mem[k]),
			   .lkey = e->numbers->mr[rail].lkey},
		.imm = proto_note_pack(last ? PROTO_LAST_SEGMENT : PROTO_SEGMENT, s->c.peer_id,
				       (req->seq - 1) % NET_RING_ENTRIES,
				       (req->seq - 1) / NET_RING_ENTRIES),
		.op = IBV_WR_SEND_WITH_IMM,
		.nsge = 1,
	};

	if (len) {
		wr.sge[1].addr = (uintptr_t)req->data + off;
		wr.sge[1].length = len;
		wr.sge[1].lkey = req->mr->lkey[rail];
		wr.nsge = 2;
	}
	return net_data_post(&s->c, rail, &wr, len);
}

/* -EAGAIN: no room on the rail whose turn it is. */
static int post_in_turn(struct net_send *s, struct net_req *req, uint32_t k)
{
	int rail = net_live_rail(&s->c, (uint8_t)((req->seq + k) % (uint32_t)s->c.nrails)), rc;

	if (!s->c.engine->rail[rail].data_free)
		return -EAGAIN;
	rc = post_segment(s, req, k, rail);
	if (unlikely(rc))
		net_comm_fail(&s->c, rc, "post of a segment", rail, NULL);
	return rc;
}

static int post_lost(struct net_send *s, struct net_req *req)
{
	struct net_flight *f = flight_of(s, req);
	int rc = 0;

	for (uint32_t i = 0; i < NET_WINDOW / 64 && !rc; i++) {
		while (f->lost[i] && !rc) {
			uint32_t low = i * 64 + (uint32_t)__builtin_ctzll(f->lost[i]);

			rc = post_in_turn(s, req, net_window_number(&f->there, low));
			if (!rc)
				f->lost[i] &= f->lost[i] - 1;
		}
	}
	return rc;
}

/* Until the receiver grants more: the request is none that others would have to wait for. */
static void wait_for_grant(struct net_send *s, struct net_req *req)
{
	struct net_flight *f = flight_of(s, req);

	if (f->waits)
		return;
	f->waits = true;
	f->next = NULL;
	if (s->waiting)
		flight_of(s, s->last_waiting)->next = req;
	else
		s->waiting = req;
	s->last_waiting = req;
}

/* 0 also when what is left must wait for a grant, or until what is under way is acknowledged. */
static int post_new(struct net_send *s, struct net_req *req)
{
	struct net_flight *f = flight_of(s, req);
	int rc;

	while (req->next < f->total && net_window_awaits(&f->there, req->next, NET_WINDOW)) {
		if (s->sent == s->granted) {
			wait_for_grant(s, req);
			return 0;
		}
		rc = post_in_turn(s, req, req->next);
		if (rc)
			return rc;
		req->next++;
		s->sent++;
	}
	return 0;
}

static bool is_lost(const struct net_flight *f)
{
	uint64_t any = 0;

	for (int i = 0; i < NET_WINDOW / 64; i++)
		any |= f->lost[i];
	return any;
}

static bool run_send(struct net_send *s, struct net_req *req)
{
	struct net_flight *f = flight_of(s, req);
	int rc;

	/* Nothing is sent any more from what may not be there any more. */
	if (s->c.closed)
		return true;
	if (unlikely(!req->mr && req->bytes && (req->next < f->total || is_lost(f)))) {
		net_forgotten(&s->c);
		return true;
	}
	rc = post_lost(s, req);
	if (!rc)
		rc = post_new(s, req);
	return rc != -EAGAIN;
}

void net_segment_completed(struct net_req *req, uint32_t low)
{
	struct net_flight *f = flight_of((struct net_send *)req->comm, req);

	net_window_add(&f->there, net_window_number(&f->there, low));
	req->to_come--;
	if (req->next < f->total && !f->waits)
		net_todo_add(req);
}

void net_segment_lost(struct net_req *req, uint32_t low)
{
	struct net_flight *f = flight_of((struct net_send *)req->comm, req);

	f->lost[low / 64] |= 1ull << low % 64;
	net_todo_add(req);
}

void net_segment_granted(struct net_send *s, uint32_t grant)
{
	/* Those that came late say less than is known. */
	if ((int32_t)(grant - s->granted) <= 0)
		return;
	s->granted = grant;
	while (s->waiting) {
		struct net_flight *f = flight_of(s, s->waiting);

		net_todo_add(s->waiting);
		f->waits = false;
		s->waiting = f->next;
	}
}

/* ---- receiver ---- */

int net_segment_open_recv(struct net_recv *r)
{
	r->window = calloc(r->nslots, sizeof(*r->window));
	return r->window ? 0 : -ENOMEM;
}

/*
 * As many as the open buffers may still take, if there are receives that nobody was granted: the
 * comm's own first, which are enough to go on with.
 */
static uint32_t to_grant(const struct net_recv *r)
{
	uint32_t out = r->granted - r->arrived;
	uint32_t most = r->wanted < NET_WINDOW ? r->wanted : NET_WINDOW;
	uint32_t there = r->own + r->c.engine->segments_free;

	if (most <= out)
		return 0;
	return most - out < there ? most - out : there;
}

static void grant(struct net_recv *r, uint32_t n)
{
	uint32_t own = n < r->own ? n : r->own;

	r->own -= own;
	r->c.engine->segments_free -= n - own;
	r->granted += n;
}

/* What the buffers of these lines take is granted with them, as far as there is any. */
static void grant_for_lines(struct net_recv *r, const struct net_req *req, uint32_t seq, uint32_t n)
{
	for (uint32_t i = seq - req->seq; i < seq - req->seq + n; i++) {
		struct net_slot *slot = net_slot_of(r, req, i);

		if (slot->state) /* lines that were lost */
			continue;
		slot->state = 1;
		slot->most =
			segments(net_line(r->mirror, req->seq + i, r->nslots)->len, r->c.segment);
		r->wanted += slot->most;
		r->window[slot - r->slot] = (struct net_window){.base = 0};
	}
	grant(r, to_grant(r));
	for (uint32_t i = 0; i < n; i++)
		net_line(r->mirror, seq + i, r->nslots)->grant = r->granted;
}

static int lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n)
{
	for (uint32_t i = 0; i < req->n; i++) {
		const struct net_mr *mr = net_slot_of(r, req, i)->mr;

		if (unlikely(mr && mr->gpu)) {
			net_warn("NET/EFA: memory of a GPU cannot receive messages: %s or its peer "
				 "has no RDMA",
				 r->c.engine->dev->name);
			return -EOPNOTSUPP;
		}
	}
	/* Before anything is granted with them. */
	if (seq == req->seq && !req->lost && !net_message_may_tell(r))
		return -EAGAIN;
	grant_for_lines(r, req, seq, n);
	return net_message_lines(r, req, seq, n);
}

/* False: no credits for it. */
static bool tell_grant(struct net_recv *r)
{
	int rc = net_message_send(&r->c, r->next_rail, proto_grant_pack(r->c.peer_id, r->granted),
				  NULL, 0, (uintptr_t)r->req | WR_NOTE);

	if (rc == -EAGAIN)
		return false;
	if (unlikely(rc))
		net_comm_fail(&r->c, rc, "post of a message", r->next_rail, NULL);
	r->untold = false;
	return true;
}

static bool run_recv(struct net_recv *r)
{
	return !r->untold || r->c.closed || tell_grant(r);
}

void net_grant_lost(struct net_recv *r)
{
	r->untold = true;
	net_todo_add(r->req);
}

/* A message is worth it when it grants as many as there are still out. */
static void grant_more(struct net_recv *r)
{
	uint32_t n = to_grant(r);

	if (n == 0 || n < r->granted - r->arrived)
		return;
	grant(r, n);
	if (!tell_grant(r))
		net_grant_lost(r);
}

static void receive_is_free(struct net_recv *r)
{
	r->arrived++;
	if (r->own < NET_SEGMENT_RESERVE)
		r->own++;
	else
		r->c.engine->segments_free++;
}

static void got_segment(struct net_recv *r, const struct proto_note *note, const uint8_t *data,
			uint32_t len)
{
	uint32_t at = note->entry & (r->nslots - 1), k;
	const struct proto_cts *l = (struct proto_cts *)r->mirror->mem + at;
	struct net_slot *slot = &r->slot[at];
	uint64_t off;

	if (!slot->open || len < sizeof(k) || (l->seq - 1) % NET_RING_ENTRIES != note->entry ||
	    ((l->seq - 1) / NET_RING_ENTRIES & PROTO_NOTE_LAP) != note->lap)
		return;
	memcpy(&k, data, sizeof(k));
	len -= (uint32_t)sizeof(k);
	off = (uint64_t)k * r->c.segment;
	if (k >= slot->most || len > l->len - off ||
	    !net_window_awaits(&r->window[at], k, NET_WINDOW_MOST) || r->arrived == r->granted)
		return;
	net_window_add(&r->window[at], k);
	net_message_answered(r, l->seq);
	if (len)
		memcpy((char *)(uintptr_t)l->addr + off, data + sizeof(k), len);
	slot->bytes += len;
	receive_is_free(r);
	/* Counts up to the number that the last one tells, from either side. */
	slot->left++;
	r->wanted--;
	if (note->type == PROTO_LAST_SEGMENT)
		slot->total = k + 1;
	if (slot->left == slot->total) {
		r->wanted -= slot->most - slot->left;
		net_slot_filled(r, slot);
	}
	grant_more(r);
}

/* ---- both ---- */

static bool run(struct net_req *req)
{
	struct net_comm *c = req->comm;

	return c->kind == NET_SEND ? run_send((struct net_send *)c, req)
				   : run_recv((struct net_recv *)c);
}

static void message(struct net_comm *c, const struct proto_note *note, const uint8_t *data,
		    uint32_t len)
{
	if (c->kind == NET_SEND && note->type == PROTO_GRANT)
		net_segment_granted((struct net_send *)c,
				    proto_grant(note, ((struct net_send *)c)->granted));
	else if (c->kind == NET_RECV &&
		 (note->type == PROTO_SEGMENT || note->type == PROTO_LAST_SEGMENT))
		got_segment((struct net_recv *)c, note, data, len);
}

const struct net_mover net_segment = {
	.lines = lines,
	.send = send_segments,
	.run = run,
	.message = message,
};
