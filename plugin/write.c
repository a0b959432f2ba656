/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by RDMA writes: the receiver writes clear-to-send lines into the sender's ring, the sender
 * writes the data straight into the receiver's buffer, in one piece or in one per rail, each with
 * an immediate that says which buffer it is for. No order is assumed between any two of these.
 */
#include <errno.h>

#include "mover.h"
#include "p2p.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum { PIECE_ALIGN = 128 }; /* bytes: what a device may promise to place in order */

static int next_rail(const struct net_comm *c, int rail)
{
	return rail + 1 == c->nrails ? 0 : rail + 1;
}

/* ---- lines ---- */

static int write_lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n)
{
	uint32_t entry = (seq - 1) & r->ring_mask;
	struct net_rail *rail = &r->c.engine->rail[r->next_rail];
	struct srd_wr *wr = &r->wr;
	int rc;

	wr->wr_id = (uintptr_t)req | WR_CTS;
	wr->to = &r->c.peer[r->next_rail];
	wr->sge[0].addr = (uintptr_t)net_line(r->mirror, seq, r->nslots);
	wr->sge[0].length = n * (uint32_t)sizeof(struct proto_cts);
	wr->sge[0].lkey = r->mirror->lkey[r->next_rail];
	wr->raddr = r->ring_addr + entry * sizeof(struct proto_cts);
	wr->rkey = r->ring_rkey[r->next_rail];
	rc = srd_post(&rail->ctrl, wr, 1);
	if (unlikely(rc))
		return rc;
	rail->ctrl_free--;
	r->c.under_way++;
	req->cts_under_way++;
	return 0;
}

/* In two writes where the group goes round the end. */
static int announce(struct net_recv *r, struct net_req *req, uint32_t seq)
{
	uint32_t to_end = r->nslots - ((seq - 1) & (r->nslots - 1));
	uint32_t n = req->n < to_end ? req->n : to_end;
	int rc;

	if (unlikely(r->c.engine->rail[r->next_rail].ctrl_free < 2))
		return -EAGAIN;
	rc = write_lines(r, req, seq, n);
	if (unlikely(rc == 0 && n < req->n))
		rc = write_lines(r, req, seq + n, req->n - n);
	return rc;
}

/* ---- data ---- */

/* The device checks address and key of 0 bytes, too, and NCCL does not vouch for them. */
static int send_nothing(struct net_send *s, struct net_req *req, int rail, uint32_t seq)
{
	struct net_engine *e = s->c.engine;
	struct srd_wr *wr = &s->wr;

	wr->wr_id = (uintptr_t)req | WR_DATA;
	wr->to = &s->c.peer[rail];
	wr->imm = proto_imm_pack(s->peer_id, (seq - 1) % NET_RING_ENTRIES, 0, 1);
	wr->sge[0].addr = (uintptr_t)e->scratch->mem;
	wr->sge[0].length = 0;
	wr->sge[0].lkey = e->scratch->lkey[rail];
	wr->raddr = s->scratch_addr;
	wr->rkey = s->scratch_rkey[rail];
	return srd_post(&e->rail[rail].data, wr, 1);
}

/* How many rails share @bytes. */
static uint32_t pieces(const struct net_send *s, uint32_t bytes)
{
	uint32_t n;

	if (likely(bytes < 2 * s->min_stripe))
		return 1;
	n = bytes / s->min_stripe;
	return n < (uint32_t)s->c.nrails ? n : (uint32_t)s->c.nrails;
}

static bool rails_have_room(const struct net_send *s, int rail, uint32_t n)
{
	for (; n; n--, rail = next_rail(&s->c, rail))
		if (unlikely(!s->c.engine->rail[rail].data_free))
			return false;
	return true;
}

static void posted(struct net_send *s, struct net_req *req, int rail)
{
	s->c.engine->rail[rail].data_free--;
	s->c.under_way++;
	req->to_come++;
}

static int send_data(struct net_send *s, struct net_req *req, const struct proto_cts *l,
		     uint32_t seq, const void *data, const struct net_mr *mr)
{
	/* The line is memory that a peer writes. */
	int rail = likely(l->rail0 < s->c.nrails) ? l->rail0 : 0, rc;
	uint32_t n = pieces(s, req->bytes), step = req->bytes, off = 0;
	struct srd_wr *wr = &s->wr;

	if (unlikely(!rails_have_room(s, rail, n)))
		return -EAGAIN;
	if (unlikely(!req->bytes)) {
		rc = send_nothing(s, req, rail, seq);
		if (rc == 0)
			posted(s, req, rail);
		return rc;
	}
	if (n > 1)
		step = ((step + n - 1) / n + PIECE_ALIGN - 1) & ~(PIECE_ALIGN - 1u);
	wr->wr_id = (uintptr_t)req | WR_DATA;
	for (uint32_t i = 0; i < n; i++, rail = next_rail(&s->c, rail), off += step) {
		uint32_t left = req->bytes - off;

		wr->to = &s->c.peer[rail];
		wr->imm = proto_imm_pack(s->peer_id, (seq - 1) % NET_RING_ENTRIES, i, n);
		wr->sge[0].addr = (uintptr_t)data + off;
		wr->sge[0].length = left < step ? left : step;
		wr->sge[0].lkey = mr->lkey[rail];
		wr->raddr = l->addr + off;
		wr->rkey = l->rkey[rail];
		rc = srd_post(&s->c.engine->rail[rail].data, wr, 1);
		if (unlikely(rc))
			return rc;
		posted(s, req, rail);
	}
	return 0;
}

const struct net_mover net_write = {announce, send_data};

/* A piece of a message is in its buffer. Whatever does not fit an open buffer is dropped. */
void net_write_arrived(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	const struct proto_imm imm = proto_imm_unpack(wc->imm);
	struct net_recv *r = net_engine_recv(e, imm.comm);
	struct net_slot *slot;

	if (unlikely(!r || imm.entry > r->ring_mask || imm.piece >= imm.pieces))
		return;
	slot = &r->slot[imm.entry & (r->nslots - 1)];
	if (unlikely(!slot->open || slot->got & 1u << imm.piece))
		return;
	r->touched |= 1u << rail;
	slot->got |= (uint8_t)(1u << imm.piece);
	slot->bytes += wc->byte_len;
	if (slot->got == (1u << imm.pieces) - 1)
		net_slot_filled(r, slot);
}
