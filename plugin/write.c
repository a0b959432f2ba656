/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by RDMA writes: the receiver writes clear-to-send lines into the sender's ring, the sender
 * writes the data straight into the receiver's buffer, in one piece or in one per rail, each with
 * an immediate that says which buffer it is for, unless the line is a quiet one. No order is
 * assumed between any two of these.
 */
#include <errno.h>

#include "cut.h"
#include "mover.h"
#include "p2p.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- lines ---- */

static int lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n)
{
	uint32_t entry = (seq - 1) & r->ring_mask;
	struct net_rail *rail = &r->c.engine->rail[r->next_rail];
	struct srd_wr *wr = &r->wr;
	int rc;

	wr->wr_id = (uintptr_t)req | WR_LINES;
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
	req->busy++;
	return 0;
}

/* ---- data ---- */

/* The device checks address and key of 0 bytes, too, and NCCL does not vouch for them. */
static void aim_at_scratch(const struct net_send *s, struct srd_wr *wr, int rail)
{
	const struct net_block *scratch = s->c.engine->scratch;

	wr->sge[0].addr = (uintptr_t)scratch->mem;
	wr->sge[0].lkey = scratch->lkey[rail];
	wr->raddr = s->scratch_addr;
	wr->rkey = s->scratch_rkey[rail];
}

static inline uint32_t imm_of(const struct net_send *s, const struct net_req *req, uint32_t piece)
{
	return proto_imm_pack(s->c.peer_id, (req->seq - 1) % NET_RING_ENTRIES, piece, req->n);
}

/* Post piece @i of @req->n. */
static inline __attribute__((always_inline)) int
post_piece(struct net_send *s, struct net_req *req, uint32_t i, const struct proto_cts *l,
	   const void *data, const struct net_mr *mr, const struct net_cut *cut)
{
	struct srd_wr *wr = &s->wr;
	int rc;

	wr->wr_id = (uintptr_t)req | i << WR_BUF_SHIFT | WR_DATA;
	wr->to = &s->c.peer[cut->rail];
	wr->imm = imm_of(s, req, i);
	wr->sge[0].length = cut->len;
	if (likely(cut->len)) {
		wr->sge[0].addr = (uintptr_t)data + cut->off;
		wr->sge[0].lkey = mr->lkey[cut->rail];
		wr->raddr = l->addr + cut->off;
		wr->rkey = l->rkey[cut->rail];
	} else {
		aim_at_scratch(s, wr, cut->rail);
	}
	rc = net_data_post(&s->c, cut->rail, wr, cut->len);
	if (likely(rc == 0))
		req->to_come++;
	return rc;
}

/* What is needed to send it again. */
static inline void keep(struct net_send *s, struct net_req *req, const struct proto_cts *l,
			const void *data, const struct net_mr *mr)
{
	s->line[req - s->req] = *l;
	req->data = data;
	req->mr = mr;
}

static __attribute__((noinline)) int send_pieces(struct net_send *s, struct net_req *req,
						 const struct proto_cts *l, const void *data,
						 const struct net_mr *mr, struct net_cut cut)
{
	struct srd_wr *wr = &s->wr;
	int rc;

	if (unlikely(!net_cut_has_room(&s->c, &cut)))
		return -EAGAIN;
	req->n = (uint8_t)cut.left;
	if (s->c.failover)
		keep(s, req, l, data, mr);
	wr->wr_id = (uintptr_t)req | WR_DATA;
	wr->imm = imm_of(s, req, 0);
	wr->sge[0].addr = (uintptr_t)data;
	wr->raddr = l->addr;
	for (;;) {
		wr->to = &s->c.peer[cut.rail];
		wr->sge[0].length = cut.len;
		wr->sge[0].lkey = mr->lkey[cut.rail];
		wr->rkey = l->rkey[cut.rail];
		rc = net_data_post(&s->c, cut.rail, wr, cut.len);
		if (unlikely(rc))
			return rc;
		req->to_come++;
		wr->sge[0].addr += cut.len;
		wr->raddr += cut.len;
		if (!net_cut_next(&s->c, &cut))
			return 0;
		wr->wr_id += 1 << WR_BUF_SHIFT;
		wr->imm += PROTO_IMM_PIECE;
	}
}

static inline int send_written(struct net_send *s, struct net_req *req, const struct proto_cts *l,
			       const void *data, const struct net_mr *mr)
{
	const struct net_cut cut = net_cut(&s->c, req->bytes, l->rail0);

	if (unlikely(cut.left > 1))
		return send_pieces(s, req, l, data, mr, cut);
	if (unlikely(!s->c.engine->rail[cut.rail].data_free))
		return -EAGAIN;
	req->n = 1;
	if (s->c.failover)
		keep(s, req, l, data, mr);
	return post_piece(s, req, 0, l, data, mr, &cut);
}

/* The buffer's user finds out by itself that the data are there. */
static __attribute__((noinline)) int send_quiet(struct net_send *s, struct net_req *req,
						const struct proto_cts *l, const void *data,
						const struct net_mr *mr)
{
	int rc;

	s->wr.op = IBV_WR_RDMA_WRITE;
	rc = send_written(s, req, l, data, mr);
	s->wr.op = IBV_WR_RDMA_WRITE_WITH_IMM;
	return rc;
}

static int send_data(struct net_send *s, struct net_req *req, const struct proto_cts *l,
		     uint32_t seq, const void *data, const struct net_mr *mr)
{
	req->seq = seq;
	if (unlikely(l->flags & PROTO_QUIET))
		return send_quiet(s, req, l, data, mr);
	return send_written(s, req, l, data, mr);
}

/* ---- again ---- */

/* A rail with room, or -1. */
static int any_rail(const struct net_comm *c)
{
	for (int i = 0; i < c->nrails; i++)
		if (!(c->dead & 1u << i) && c->engine->rail[i].data_free)
			return i;
	return -1;
}

static __attribute__((noinline, cold)) int send_again(struct net_send *s, struct net_req *req)
{
	const struct proto_cts *l = &s->line[req - s->req];
	uint32_t step = net_cut_step(req->bytes, req->n);
	int rc = 0;

	if (unlikely(req->lost && req->bytes && !req->mr)) {
		net_forgotten(&s->c);
		return 0;
	}
	if (l->flags & PROTO_QUIET)
		s->wr.op = IBV_WR_RDMA_WRITE;
	while (req->lost && !rc) {
		uint32_t i = (uint32_t)__builtin_ctz(req->lost), left = req->bytes - i * step;
		struct net_cut cut = {
			.rail = any_rail(&s->c),
			.off = i * step,
			.len = left < step ? left : step,
		};

		if (cut.rail < 0) {
			rc = -EAGAIN;
			break;
		}
		/* It counts as the one that failed, which is to come still. */
		rc = post_piece(s, req, i, l, req->data, req->mr, &cut);
		req->to_come -= rc == 0;
		req->lost &= (uint8_t)(req->lost - 1);
	}
	s->wr.op = IBV_WR_RDMA_WRITE_WITH_IMM;
	return rc;
}

static bool run(struct net_req *req)
{
	struct net_comm *c = req->comm;
	int rc;

	if (c->closed || c->kind == NET_RECV)
		return true;
	rc = send_again((struct net_send *)c, req);
	if (rc && rc != -EAGAIN)
		net_comm_fail(c, rc, "post on another rail", 0, NULL);
	return rc != -EAGAIN;
}

const struct net_mover net_write = {.lines = lines, .send = send_data, .run = run};

/* A piece of a message is in its buffer. Whatever does not fit an open buffer is dropped. */
void net_write_arrived(struct net_engine *e, int rail, const struct srd_wc *wc)
{
	const struct proto_imm imm = proto_imm_unpack(wc->imm);
	struct net_recv *r = (struct net_recv *)net_engine_comm(e, imm.comm);
	struct net_slot *slot;
	uint32_t had, got;

	if (unlikely(!r || imm.entry > r->ring_mask || imm.piece >= imm.pieces))
		return;
	slot = &r->slot[imm.entry & (r->nslots - 1)];
	had = slot->got;
	got = had | 1u << imm.piece;
	if (unlikely(!slot->open))
		return;
	if (unlikely(got == had))
		return;
	r->touched |= 1u << rail;
	slot->got = (uint8_t)got;
	slot->bytes += wc->byte_len;
	if (got == (1u << imm.pieces) - 1)
		net_slot_filled(r, slot);
}
