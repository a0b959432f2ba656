/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding stalls, and saying so once for each. */
#include "stall.h"

#include "comm.h"
#include "clock.h"
#include "cut.h"
#include "log.h"
#include "message.h"
#include "p2p.h"
#include "param.h"

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
	return c->kind == NET_SEND ? ((const struct net_send *)c)->next_seq
				   : ((const struct net_recv *)c)->next_seq;
}

/* NULL: there is none. */
static struct net_req *any_open(struct net_comm *c)
{
	struct net_req *req = requests(c);

	for (int i = 0; i < NET_MAX_REQS; i++)
		if (req[i].in_use && req[i].to_come)
			return &req[i];
	return NULL;
}

/* Another with every send that starts. Not 0. */
static uint64_t sends_so_far(const struct net_send *s)
{
	return (uint64_t)s->next_seq << 32 | (uint32_t)(s->eager_next << 8 | s->taken);
}

void net_stall_waits(struct net_send *s)
{
	s->waits = sends_so_far(s);
}

static bool waits_for_line(const struct net_comm *c)
{
	const struct net_send *s = (const struct net_send *)c;

	return c->kind == NET_SEND && s->waits == sends_so_far(s);
}

/* One byte, to where nobody looks: it takes no receive of the peer. */
static void write_byte(struct net_send *s, int i)
{
	const struct net_block *scratch = s->c.engine->scratch;
	struct net_rail *rail = &s->c.engine->rail[i];
	const struct srd_wr wr = {
		.wr_id = (uintptr_t)s->req | WR_NOTE,
		.to = &s->c.peer[i],
		.sge[0] = {(uintptr_t)scratch->mem, 1, scratch->lkey[i]},
		.raddr = s->scratch_addr,
		.rkey = s->scratch_rkey[i],
		.op = IBV_WR_RDMA_WRITE,
		.nsge = 1,
	};

	if (!rail->ctrl_free || srd_post(&rail->ctrl, &wr, 1))
		return; /* asked another time */
	rail->ctrl_free--;
	s->c.under_way++;
}

static void ask_receiver(struct net_send *s, bool open)
{
	int rail = net_live_rail(&s->c, 0);

	/* Its data are under way for as long as it is open. */
	if (s->c.engine->mode == PROTO_WRITE && !open)
		write_byte(s, rail);
	else if (s->c.engine->mode != PROTO_WRITE)
		net_message_send(&s->c, rail, proto_note_pack(PROTO_LINES, s->c.peer_id, 0, 0),
				 NULL, 0, (uintptr_t)s->req | WR_NOTE);
}

/*
 * A peer that is gone fails what is sent to it, but who waits for it sends nothing. So a receive
 * sends its lines once more, which the peer knows by their numbers, and a send an empty message, or
 * writes where nobody looks.
 */
static void ask(struct net_comm *c)
{
	struct net_req *req = any_open(c);

	if (c->kind == NET_SEND) {
		ask_receiver((struct net_send *)c, req);
	} else if (!req->busy && !req->lost) {
		req->lost = 1;
		net_todo_add(req);
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
			 req->busy ? "may not know of it yet" : "knows of it");
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
