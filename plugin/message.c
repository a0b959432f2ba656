/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and taking messages; those with lines. */
#include "message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "cut.h"
#include "mover.h"
#include "p2p.h"
#include "segment.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- send ---- */

int net_message_send(struct net_comm *c, int rail, uint32_t imm, const struct ibv_sge *sge,
		     int nsge, uint64_t wr_id)
{
	struct net_rail *r = &c->engine->rail[rail];
	struct srd_wr wr = {
		.wr_id = wr_id,
		.to = &c->peer[rail],
		.imm = imm,
		.op = IBV_WR_SEND_WITH_IMM,
		.nsge = (uint8_t)nsge,
	};
	int rc;

	if (unlikely(!r->ctrl_free))
		return -EAGAIN;
	if (nsge) {
		wr.sge[0] = *sge;
		wr.inl = sge->length <= r->ctrl.max_inline;
	}
	rc = srd_post(&r->ctrl, &wr, 1);
	if (unlikely(rc))
		return rc == -EAGAIN ? -EIO : rc; /* the credits say that there is room */
	r->ctrl_free--;
	c->under_way++;
	return 0;
}

static struct net_req *any_request(struct net_comm *c)
{
	return c->kind == NET_SEND ? ((struct net_send *)c)->req : ((struct net_recv *)c)->req;
}

void net_message_over(struct net_comm *c)
{
	bool has_peer = c->kind == NET_RECV || ((const struct net_send *)c)->started;

	if (c->engine->mode == PROTO_WRITE || c->told || !has_peer)
		return;
	c->told = true;
	net_message_send(c, net_live_rail(c, 0), proto_note_pack(PROTO_OVER, c->peer_id, 0, 0),
			 NULL, 0, (uintptr_t)any_request(c) | WR_NOTE);
}

static_assert((int)NET_LINES_UNSEEN >= (int)NET_EAGER_MOST + 3, "one more can be told of");

/* Whoever speaks of a line has seen all before it. */
static bool is_seen(const struct net_recv *r, uint32_t seq)
{
	return !proto_before(r->answered, seq) || proto_before(seq, r->seen);
}

/* It may take two messages. */
bool net_message_may_tell(const struct net_recv *r)
{
	return is_seen(r, r->told[r->ntold % NET_LINES_UNSEEN]) &&
	       is_seen(r, r->told[(r->ntold + 1) % NET_LINES_UNSEEN]);
}

int net_message_lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)net_line(r->mirror, seq, r->nslots),
		.length = n * (uint32_t)sizeof(struct proto_cts),
		.lkey = r->mirror->lkey[r->next_rail],
	};
	uint32_t imm = proto_note_pack(PROTO_LINES, r->c.peer_id, 0, 0);
	int rc;

	/* Those that were lost are no news. */
	if (seq == req->seq && !req->lost && !net_message_may_tell(r))
		return -EAGAIN;
	rc = net_message_send(&r->c, r->next_rail, imm, &sge, 1, (uintptr_t)req | WR_LINES);
	if (rc)
		return rc;
	req->busy++;
	if (!req->lost)
		r->told[r->ntold++ % NET_LINES_UNSEEN] = seq;
	return 0;
}

/* ---- take ---- */

/* Into the ring, where a peer that can would have written them. */
static void got_lines(struct net_send *s, const uint8_t *data, uint32_t len)
{
	struct proto_cts l;

	for (; len >= sizeof(l); len -= sizeof(l), data += sizeof(l)) {
		memcpy(&l, data, sizeof(l));
		if (l.conn_id != s->conn_id)
			continue;
		*net_line(s->ring, l.seq, NET_RING_ENTRIES) = l;
		if (s->flight)
			net_segment_granted(s, l.grant);
	}
}

void net_message(struct net_engine *e, uint32_t imm, const uint8_t *data, uint32_t len)
{
	const struct proto_note note = proto_note_unpack(imm);
	struct net_comm *c = net_engine_comm(e, note.comm);

	if (!c || c->err || c->closed)
		return;
	c->asked = 0;
	if (note.type == PROTO_OVER) {
		/* No warning: whoever has failed has warned, and who waits for nothing need not
		 * know. */
		c->told = true;
		c->err = -ECONNRESET;
	} else if (note.type != PROTO_LINES) {
		c->mover->message(c, &note, data, len);
	} else if (c->kind == NET_SEND && e->mode == PROTO_SEND) {
		got_lines((struct net_send *)c, data, len);
	}
}
