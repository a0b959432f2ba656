/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding stalls, and saying so once for each. */
#include "stall.h"

#include <errno.h>

#include "comm.h"
#include "clock.h"
#include "cut.h"
#include "log.h"
#include "message.h"
#include "p2p.h"
#include "param.h"
#include "todo.h"

enum {
	LOOK_MS = 200,
	ASK_MS = 5000, /* of standing still, then twice as long each time */
	REST = 100, /* times as long as a look takes pass until the next: there may be many comms */
};

static struct net_req *requests(struct net_comm *c)
{
	return c->kind == NET_SEND ? ((struct net_send *)c)->req : ((struct net_recv *)c)->req;
}

/* A bit per request that may be open: of most comms there is none. */
static uint64_t in_use(struct net_comm *c)
{
	struct net_recv *r = (struct net_recv *)c;
	uint64_t bits = 0;

	if (c->kind == NET_SEND)
		return ~((const struct net_send *)c)->free;
	net_reclaim(r);
	for (uint32_t i = r->req_first; i != r->req_next; i++)
		bits |= 1ull << i % NET_MAX_REQS;
	return bits;
}

static uint32_t bytes_here(struct net_recv *r, const struct net_req *req)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < req->n; i++)
		n += net_slot_of(r, req, i)->bytes;
	return n;
}

/* A number that changes when anything happens to an open request; 0: there are none. */
static uint64_t mark_of(struct net_comm *c)
{
	const struct net_req *req = requests(c);
	uint64_t mark = 0;

	for (uint64_t bits = in_use(c); bits; bits &= bits - 1) {
		uint64_t i = (uint64_t)__builtin_ctzll(bits);

		if (!req[i].in_use || !req[i].to_come)
			continue;
		mark = (mark ^ (i + 1)) * 0x100000001b3 + req[i].to_come;
		if (c->kind == NET_RECV)
			mark = mark * 31 + bytes_here((struct net_recv *)c, &req[i]);
	}
	return mark;
}

/* Where a request is done and its place is taken again in the same way, this is another. */
static uint32_t turn_of(const struct net_comm *c)
{
	const struct net_send *s = (const struct net_send *)c;

	return c->kind == NET_SEND ? s->next_seq + s->next_ahead
				   : ((const struct net_recv *)c)->next_seq;
}

/* NULL: there is none. */
static struct net_req *any_open(struct net_comm *c)
{
	struct net_req *req = requests(c);

	for (uint64_t bits = in_use(c); bits; bits &= bits - 1) {
		struct net_req *one = &req[__builtin_ctzll(bits)];

		if (one->in_use && one->to_come)
			return one;
	}
	return NULL;
}

/* Another with every send that starts. Not 0. */
static uint64_t sends_so_far(const struct net_send *s)
{
	return (uint64_t)s->next_seq << 32 | (uint32_t)(s->next_ahead << 8 | s->taken);
}

void net_stall_no_line(struct net_send *s)
{
	s->waits = sends_so_far(s);
}

static bool waits_for_line(const struct net_comm *c)
{
	const struct net_send *s = (const struct net_send *)c;

	return c->kind == NET_SEND && s->waits == sends_so_far(s);
}

bool net_stall_waits(struct net_comm *c)
{
	return any_open(c) || waits_for_line(c);
}

/* One byte, from or to where nobody looks: it takes no receive of the peer. */
static int touch(struct net_comm *c, int i, uint64_t wr_id)
{
	const struct net_send *s = (const struct net_send *)c;
	const struct net_recv *r = (const struct net_recv *)c;
	const struct net_block *scratch = c->engine->scratch;
	struct net_rail *rail = &c->engine->rail[i];
	const struct srd_wr wr = {
		.wr_id = wr_id,
		.to = &c->peer[i],
		.sge[0] = {(uintptr_t)scratch->mem, 1, scratch->lkey[i]},
		.raddr = c->kind == NET_SEND ? s->scratch_addr : r->ring_addr,
		.rkey = c->kind == NET_SEND ? s->scratch_rkey[i] : r->ring_rkey[i],
		.op = c->engine->mode == PROTO_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.nsge = 1,
	};
	int rc;

	if (!rail->ctrl_free)
		return -EAGAIN;
	rc = srd_post(&rail->ctrl, &wr, 1);
	if (rc)
		return rc;
	rail->ctrl_free--;
	c->under_way++;
	return 0;
}

/* An empty message: it says nothing. */
static int greet(struct net_comm *c, int i, uint64_t wr_id)
{
	int rc;

	if (c->asked == NET_ASKS)
		return -EAGAIN;
	rc = net_message_send(c, i, proto_note_pack(PROTO_LINES, c->peer_id, 0, 0), NULL, 0, wr_id);
	c->asked += rc == 0;
	return rc;
}

/*
 * A peer that is gone fails what is sent to it, but who waits for it sends nothing. So it is asked
 * for a sign of life; what cannot be sent now is another time. Where the sender's ring is written,
 * a receive writes its lines there once more, which are known by their numbers; and a send that is
 * open has its data under way.
 */
static void ask(struct net_comm *c)
{
	enum proto_mode mode = c->engine->mode;
	struct net_req *req = any_open(c);
	int rail = net_live_rail(c, 0);

	if (c->kind == NET_RECV && (req->busy || req->lost))
		return;
	if (c->kind == NET_RECV && mode == PROTO_WRITE) {
		req->lost = 1;
		net_todo_add(req);
	} else if (c->kind == NET_RECV) {
		uint64_t wr_id = (uintptr_t)req | WR_LINES;
		int rc = mode == PROTO_READ ? touch(c, rail, wr_id) : greet(c, rail, wr_id);

		req->busy += rc == 0;
	} else if (mode == PROTO_SEND) {
		greet(c, rail, (uintptr_t)requests(c) | WR_NOTE);
	} else if (mode == PROTO_READ || !req) {
		touch(c, rail, (uintptr_t)requests(c) | WR_NOTE);
	}
}

void net_stall_ask_again(struct net_comm *c)
{
	c->ask_ms = 0;
}

static void report(struct net_comm *c, int64_t ms)
{
	char here[NET_SIDE_TEXT], there[NET_SIDE_TEXT];
	const struct net_req *req = any_open(c);
	long long s = (long long)ms / 1000;

	net_comm_sides(c, 0, here, there);
	if (!req)
		net_warn("NET/EFA: nothing has happened for %lld s to a send that the peer has "
			 "posted no receive for: %s, %s. Does it get to run? Its log may tell",
			 s, here, there);
	else if (c->kind == NET_SEND)
		net_warn("NET/EFA: nothing has happened for %lld s to a send of %u bytes: %s, %s. "
			 "Is the peer alive, and does it get to run?",
			 s, req->bytes, here, there);
	else
		net_warn("NET/EFA: nothing has happened for %lld s to a receive: %s, %s. %u bytes "
			 "are here; the peer %s. Does it send? Its log may tell",
			 s, here, there, bytes_here((struct net_recv *)c, req),
			 c->engine->mode == PROTO_READ ? "need not know of it"
			 : req->busy                   ? "may not know of it yet"
						       : "knows of it");
}

/* True: nothing has happened. */
static bool look_at(struct net_comm *c, int64_t now, int64_t wait_ms)
{
	uint64_t mark = c->err || c->closed ? 0 : mark_of(c);

	if (!mark && !c->err && !c->closed)
		mark = waits_for_line(c);
	if (mark)
		mark ^= (uint64_t)turn_of(c) << 32;
	if (mark != c->mark) {
		c->mark = mark;
		c->marked_ms = now;
		c->ask_ms = ASK_MS;
		c->stall_said = false;
		return false;
	}
	if (mark && now - c->marked_ms >= c->ask_ms) {
		c->ask_ms = 2 * (now - c->marked_ms);
		ask(c);
	}
	if (mark && wait_ms && !c->stall_said && now - c->marked_ms >= wait_ms) {
		c->stall_said = true;
		report(c, now - c->marked_ms);
	}
	return mark;
}

bool net_stall_look(struct net_engine *e)
{
	int64_t now = net_now_ms();
	bool still = false;

	if (now < e->stall_look_ms)
		return false;
	for (struct net_comm *c = e->comms; c; c = c->next)
		still |= look_at(c, now, net_param()->stall_warn_s * 1000);
	e->stall_look_ms = now + LOOK_MS + (net_now_ms() - now) * REST;
	return still;
}
