/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by messages, for EFAs or libraries without RDMA: lines come as messages, a send goes out in
 * segments as large as the smaller MTU allows, the receiver copies each to its place. Host memory
 * only.
 *
 * A segment begins with its number, which is sent from a table of all numbers: so many headers
 * may be on their way and none is written.
 */
#include <errno.h>
#include <string.h>

#include "cut.h"
#include "log.h"
#include "message.h"
#include "mover.h"
#include "numbers.h"
#include "p2p.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- sender ---- */

static uint32_t segments(uint32_t bytes, uint32_t segment)
{
	return bytes ? (bytes - 1) / segment + 1 : 1;
}

static int send_segments(struct net_send *s, struct net_req *req, const struct proto_cts *l,
			 uint32_t seq, const void *data, const struct net_mr *mr)
{
	(void)l;
	req->to_come = segments(req->bytes, s->c.segment);
	if (req->to_come > s->c.engine->numbers->n) {
		req->to_come = 0;
		return -EMSGSIZE;
	}
	req->next = 0;
	req->seq = seq;
	req->data = data;
	req->mr = mr;
	net_todo_add(req);
	return 0;
}

static int post_segment(struct net_send *s, struct net_req *req, int rail, uint32_t total)
{
	struct net_engine *e = s->c.engine;
	uint32_t k = req->next, off = k * s->c.segment;
	uint32_t left = req->bytes - off;
	struct srd_wr wr = {
		.wr_id = (uintptr_t)req | WR_DATA,
		.to = &s->c.peer[rail],
		.sge[0] = {.addr = (uintptr_t)&e->numbers->mem[k],
			   .length = sizeof(e->numbers->mem[k]),
			   .lkey = e->numbers->mr[rail].lkey},
		.imm = proto_note_pack(k + 1 == total ? PROTO_LAST_SEGMENT : PROTO_SEGMENT,
				       s->c.peer_id, (req->seq - 1) % NET_RING_ENTRIES, req->seq),
		.op = IBV_WR_SEND_WITH_IMM,
		.nsge = 1,
	};

	if (left) {
		wr.sge[1].addr = (uintptr_t)req->data + off;
		wr.sge[1].length = left < s->c.segment ? left : s->c.segment;
		wr.sge[1].lkey = req->mr->lkey[rail];
		wr.nsge = 2;
	}
	return srd_post(&e->rail[rail].data, &wr, 1);
}

static bool run(struct net_req *req)
{
	struct net_send *s = (struct net_send *)req->comm;
	uint32_t total = segments(req->bytes, s->c.segment);

	/* Nothing is sent any more from what may not be there any more. */
	if (s->c.closed)
		return true;
	if (unlikely(!req->mr && req->bytes && req->next < total)) {
		net_forgotten(&s->c);
		return true;
	}
	for (; req->next < total; req->next++) {
		int rail = (int)((req->seq + req->next) % (uint32_t)s->c.nrails), rc;

		if (!s->c.engine->rail[rail].data_free)
			return false;
		rc = post_segment(s, req, rail, total);
		if (unlikely(rc)) {
			net_comm_fail(&s->c, rc, "post of a segment", rail, NULL);
			return true;
		}
		s->c.engine->rail[rail].data_free--;
		s->c.under_way++;
		if (unlikely(s->c.engine->counting))
			net_count_request(s->c.engine, rail, s->c.segment);
	}
	return true;
}

/* ---- receiver ---- */

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
	return net_message_lines(r, req, seq, n);
}

static void got_segment(struct net_recv *r, const struct proto_note *note, const uint8_t *data,
			uint32_t len)
{
	uint32_t at = note->entry & (r->nslots - 1), k;
	const struct proto_cts *l = (struct proto_cts *)r->mirror->mem + at;
	struct net_slot *slot = &r->slot[at];
	uint64_t off;

	if (!slot->open || len < sizeof(k) || (l->seq & PROTO_NOTE_LAP) != note->lap)
		return;
	memcpy(&k, data, sizeof(k));
	len -= (uint32_t)sizeof(k);
	off = (uint64_t)k * r->c.segment;
	if (off > l->len || len > l->len - off)
		return;
	if (len)
		memcpy((char *)(uintptr_t)l->addr + off, data + sizeof(k), len);
	slot->bytes += len;
	/* Counts up to the number that the last one tells, from either side. */
	slot->left++;
	if (note->type == PROTO_LAST_SEGMENT)
		slot->total = k + 1;
	if (slot->left == slot->total)
		net_slot_filled(r, slot);
}

static void message(struct net_comm *c, const struct proto_note *note, const uint8_t *data,
		    uint32_t len)
{
	if (c->kind == NET_RECV &&
	    (note->type == PROTO_SEGMENT || note->type == PROTO_LAST_SEGMENT))
		got_segment((struct net_recv *)c, note, data, len);
}

const struct net_mover net_segment = {
	.lines = lines,
	.send = send_segments,
	.run = run,
	.message = message,
};
