/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by RDMA reads of the receiver, for EFAs that cannot write: the lines come as messages, a
 * send answers one with where its data are, the receiver reads them straight into its buffer and
 * says when the sender's may be used again.
 */
#include <errno.h>
#include <string.h>

#include "cut.h"
#include "message.h"
#include "mover.h"
#include "p2p.h"
#include "todo.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* What becomes of a slot. */
enum {
	SLOT_WAITS, /* for the sender */
	SLOT_READY, /* the data can be read */
	SLOT_READING,
	SLOT_READING_AGAIN, /* a piece was lost: when the others are over, all is read once more */
	SLOT_READ,          /* the sender is to be told */
	SLOT_OVER,
};

/* ---- sender ---- */

static struct proto_cts *note_of(const struct net_send *s, const struct net_req *req)
{
	return (struct proto_cts *)s->notes->mem + (req - s->req);
}

static int post_ready(struct net_send *s, struct net_req *req)
{
	struct proto_cts *note = note_of(s, req);
	int rail = net_live_rail(&s->c, note->rail0), rc;
	struct ibv_sge sge = {(uintptr_t)note, sizeof(*note), s->notes->lkey[rail]};

	rc = net_message_send(&s->c, rail, proto_note_pack(PROTO_READY, s->c.peer_id, 0, 0), &sge,
			      1, (uintptr_t)req | WR_LINES);
	if (rc == 0)
		req->busy++;
	return rc;
}

/* The line of the send, filled in for the way back: tag names the request. */
static int send_ready(struct net_send *s, struct net_req *req, const struct proto_cts *l,
		      uint32_t seq, const void *data, const struct net_mr *mr)
{
	struct proto_cts *note = note_of(s, req);
	int rc;

	/* Its last note has not left yet; or there is no receive for one more at the peer. */
	if (unlikely(req->busy || s->unread == NET_SENDS_UNREAD))
		return -EAGAIN;
	*note = (struct proto_cts){
		.addr = (uintptr_t)data,
		.len = req->bytes,
		.tag = (uint32_t)(req - s->req),
		.conn_id = s->conn_id,
		.rail0 = l->rail0,
		.seq = seq,
	};
	for (int i = 0; i < s->c.nrails && req->bytes; i++)
		note->rkey[i] = mr->rkey[i];
	req->seq = seq;
	req->to_come = 1;
	rc = post_ready(s, req);
	s->unread += rc == 0;
	return rc;
}

static void got_fin(struct net_send *s, const struct proto_note *note)
{
	struct net_req *req = &s->req[note->entry % NET_MAX_REQS];

	if (!req->in_use || !req->to_come || (req->seq & PROTO_NOTE_LAP) != note->lap)
		return;
	req->to_come = 0;
	s->unread--;
}

/* ---- receiver ---- */

static void got_ready(struct net_recv *r, const uint8_t *data, uint32_t len)
{
	const struct proto_cts *l;
	struct net_slot *slot;
	struct proto_cts note;

	if (len != sizeof(note))
		return;
	memcpy(&note, data, sizeof(note));
	l = net_line(r->mirror, note.seq, r->nslots);
	slot = &r->slot[(note.seq - 1) & (r->nslots - 1)];
	/* Only what an open buffer waits for; a sender never has more than was asked for. */
	if (!slot->open || slot->state != SLOT_WAITS || l->seq != note.seq ||
	    l->conn_id != note.conn_id || note.len > l->len)
		return;
	*net_line(r->notes, note.seq, r->nslots) = note;
	net_message_answered(r, note.seq);
	slot->state = SLOT_READY;
	r->req[slot->req].busy++; /* until the sender has been told */
	net_todo_add(&r->req[slot->req]);
}

/* The line of buffer @i of @req in @block. */
static struct proto_cts *at(const struct net_block *block, const struct net_recv *r,
			    const struct net_req *req, uint32_t i)
{
	return (struct proto_cts *)block->mem + ((req->slot + i) & (r->nslots - 1));
}

static uint64_t wr_id_of(const struct net_req *req, uint32_t i, int kind)
{
	return (uintptr_t)req | i << WR_BUF_SHIFT | (uint64_t)kind;
}

static void all_read(struct net_slot *slot, const struct proto_cts *note)
{
	slot->bytes = note->len;
	slot->state = SLOT_READ;
}

/* False: no credits for it. */
static bool start_reads(struct net_recv *r, struct net_req *req, uint32_t i, struct net_slot *slot)
{
	const struct proto_cts *l = at(r->mirror, r, req, i), *note = at(r->notes, r, req, i);
	struct net_cut cut = net_cut(&r->c, note->len, note->rail0);
	struct srd_wr wr = {.wr_id = wr_id_of(req, i, WR_READ), .op = IBV_WR_RDMA_READ, .nsge = 1};
	int rc;

	if (note->len == 0) {
		all_read(slot, note);
		return true;
	}
	if (unlikely(!slot->mr)) {
		net_forgotten(&r->c);
		return true;
	}
	if (!net_cut_has_room(&r->c, &cut))
		return false;
	slot->state = SLOT_READING;
	slot->left = cut.left;
	do {
		wr.to = &r->c.peer[cut.rail];
		wr.sge[0].addr = l->addr + cut.off;
		wr.sge[0].length = cut.len;
		wr.sge[0].lkey = slot->mr->lkey[cut.rail];
		wr.raddr = note->addr + cut.off;
		wr.rkey = note->rkey[cut.rail];
		rc = net_data_post(&r->c, cut.rail, &wr, cut.len);
		if (unlikely(rc))
			net_comm_fail(&r->c, rc, "post of a read", cut.rail, NULL);
	} while (!rc && net_cut_next(&r->c, &cut));
	return true;
}

/*
 * False: no credits for it. Only then the buffer is filled: who has nothing more to wait for does
 * not look any more, and the sender would wait.
 */
static bool tell(struct net_recv *r, struct net_req *req, uint32_t i, struct net_slot *slot)
{
	const struct proto_cts *note = at(r->notes, r, req, i);
	int rail = net_live_rail(&r->c, note->rail0);
	uint32_t imm = proto_note_pack(PROTO_FIN, r->c.peer_id, note->tag % NET_MAX_REQS,
				       note->seq & PROTO_NOTE_LAP);
	int rc = net_message_send(&r->c, rail, imm, NULL, 0, wr_id_of(req, i, WR_FIN));

	if (rc == -EAGAIN)
		return false;
	if (unlikely(rc))
		net_comm_fail(&r->c, rc, "post of a message", rail, NULL);
	slot->state = SLOT_OVER;
	if (slot->open) /* the word was not lost */
		net_slot_filled(r, slot);
	return true;
}

/* Reads that can begin, senders that are to be told. */
static bool run_recv(struct net_recv *r, struct net_req *req)
{
	for (uint32_t i = 0; i < req->n; i++) {
		struct net_slot *slot = net_slot_of(r, req, i);

		/* Nothing is read any more into what may not be there any more. */
		if (slot->state == SLOT_READY && r->c.closed)
			slot->state = SLOT_OVER;
		if (slot->state == SLOT_READY && !start_reads(r, req, i, slot))
			return false;
		if (slot->state == SLOT_READ && !tell(r, req, i, slot))
			return false;
	}
	return true;
}

static bool run(struct net_req *req)
{
	struct net_comm *c = req->comm;
	int rc;

	if (c->kind == NET_RECV)
		return run_recv((struct net_recv *)c, req);
	if (c->closed || !req->lost)
		return true;
	rc = post_ready((struct net_send *)c, req);
	if (rc == -EAGAIN)
		return false;
	if (unlikely(rc))
		net_comm_fail(c, rc, "post on another rail", 0, NULL);
	req->lost = 0;
	return true;
}

void net_read_completed(struct net_req *req, uint32_t i, int rail)
{
	struct net_recv *r = (struct net_recv *)req->comm;
	struct net_slot *slot = net_slot_of(r, req, i);

	r->touched |= 1u << rail;
	if (--slot->left)
		return;
	if (unlikely(slot->state == SLOT_READING_AGAIN))
		slot->state = SLOT_READY;
	else
		all_read(slot, at(r->notes, r, req, i));
	net_todo_add(req);
}

void net_read_lost(struct net_req *req, uint32_t i)
{
	struct net_slot *slot = net_slot_of((struct net_recv *)req->comm, req, i);

	slot->state = SLOT_READING_AGAIN;
	if (--slot->left)
		return;
	slot->state = SLOT_READY;
	net_todo_add(req);
}

void net_fin_lost(struct net_req *req, uint32_t i)
{
	net_slot_of((struct net_recv *)req->comm, req, i)->state = SLOT_READ;
	net_todo_add(req);
}

static void message(struct net_comm *c, const struct proto_note *note, const uint8_t *data,
		    uint32_t len)
{
	if (c->kind == NET_RECV && note->type == PROTO_READY)
		got_ready((struct net_recv *)c, data, len);
	else if (c->kind == NET_SEND && note->type == PROTO_FIN)
		got_fin((struct net_send *)c, note);
}

const struct net_mover net_read = {
	.lines = net_message_lines,
	.send = send_ready,
	.run = run,
	.message = message,
};
