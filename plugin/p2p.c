/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: the receiver writes a clear-to-send line into the sender's ring, the sender
 * writes the data straight into the receiver's buffer, with an immediate that says which receive
 * it is for. No order is assumed between any two of these.
 */
#include "p2p.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static struct proto_cts *line(struct net_block *ring, uint32_t entry)
{
	return (struct proto_cts *)ring->mem + entry;
}

/* ---- send ---- */

/* The line that the next send may use, or NULL. */
static const struct proto_cts *clear_to_send(const struct net_send *s, int tag)
{
	const struct proto_cts *l = line(s->ring, (s->next_seq - 1) % NET_RING_ENTRIES);

	/* acquire: seq is the last word that lands, the rest is read after it */
	if (__atomic_load_n(&l->seq, __ATOMIC_ACQUIRE) != s->next_seq)
		return NULL;
	return likely(l->conn_id == s->conn_id && l->tag == (uint32_t)tag) ? l : NULL;
}

static int post_data(struct net_send *s, struct net_req *req, const struct proto_cts *l,
		     const void *data, const struct net_mr *mr)
{
	struct net_engine *e = s->c.engine;
	struct srd_wr *wr = &s->wr;

	wr->wr_id = (uintptr_t)req | WR_DATA;
	wr->imm = proto_imm_pack(s->peer_id, (s->next_seq - 1) % NET_RING_ENTRIES, 0, 1);
	wr->sge[0].length = req->bytes;
	if (likely(req->bytes)) {
		wr->sge[0].addr = (uintptr_t)data;
		wr->sge[0].lkey = mr->lkey[0];
		wr->raddr = l->addr;
		wr->rkey = l->rkey[0];
	} else {
		/* The device checks address and key even then; NCCL does not vouch for them. */
		wr->sge[0].addr = (uintptr_t)e->scratch->mem;
		wr->sge[0].lkey = e->scratch->lkey[0];
		wr->raddr = s->scratch_addr;
		wr->rkey = s->scratch_rkey[0];
	}
	return srd_post(&e->rail[0].data, wr, 1);
}

static int send_entered(struct net_send *s, const struct proto_cts *l, void *data, size_t size,
			const struct net_mr *mr, void **request)
{
	struct net_engine *e = s->c.engine;
	struct net_req *req;
	int slot, rc;

	if (unlikely(!s->free || !e->rail[0].data_free)) {
		net_engine_poll(e);
		return s->c.err;
	}
	slot = __builtin_ctzll(s->free);
	req = &s->req[slot];
	req->bytes = size < l->len ? (uint32_t)size : l->len;
	rc = post_data(s, req, l, data, mr);
	if (unlikely(rc)) {
		net_comm_fail(&s->c, rc, "post of a send", NULL);
		return rc;
	}
	s->free &= s->free - 1;
	e->rail[0].data_free--;
	s->c.under_way++;
	s->next_seq++;
	req->in_use = true;
	req->to_come = 1;
	*request = req;
	return 0;
}

/* Apart from the look that NCCL makes far more often than there is something to do. */
static __attribute__((noinline)) int send_now(struct net_send *s, void *data, size_t size, int tag,
					      const struct net_mr *mr, void **request)
{
	const struct proto_cts *l;
	int rc = 0;

	net_owner_enter(&s->c.engine->owner);
	l = clear_to_send(s, tag);
	if (unlikely(s->c.err))
		rc = s->c.err;
	else if (l)
		rc = send_entered(s, l, data, size, mr, request);
	net_owner_leave(&s->c.engine->owner);
	return rc;
}

int net_isend(struct net_send *s, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request)
{
	*request = NULL;
	if (net_owner_try(&s->c.engine->owner) && !s->c.err && !clear_to_send(s, tag)) {
		net_owner_leave_own();
		return 0;
	}
	return send_now(s, data, size, tag, mr, request);
}

/* ---- receive ---- */

/* Room for the immediate that will say that the data is here. */
static bool promise(struct net_recv *r, struct net_req *req)
{
	struct net_engine *e = r->c.engine;

	req->from_reserve = r->reserve > 0;
	if (r->reserve)
		r->reserve--;
	else if (e->imm_free)
		e->imm_free--;
	else
		return false;
	return true;
}

static void promise_kept(struct net_recv *r, const struct net_req *req)
{
	if (req->from_reserve)
		r->reserve++;
	else
		r->c.engine->imm_free++;
}

static int post_cts(struct net_recv *r, struct net_req *req, const struct proto_cts *l,
		    uint32_t entry)
{
	struct srd_wr *wr = &r->wr;

	wr->wr_id = (uintptr_t)req | WR_CTS;
	wr->sge[0].addr = (uintptr_t)l;
	wr->raddr = r->ring_addr + entry * sizeof(*l);
	return srd_post(&r->c.engine->rail[0].ctrl, wr, 1);
}

static int recv_entered(struct net_recv *r, void *data, size_t size, int tag,
			const struct net_mr *mr, void **request)
{
	uint32_t entry = (r->next_seq - 1) & r->ring_mask; /* of the peer's ring */
	struct net_req *req = &r->req[entry % NET_RING_ENTRIES];
	struct net_engine *e = r->c.engine;
	struct proto_cts *l;
	int rc;

	if (unlikely(r->c.err))
		return r->c.err;
	/* A line is not written again before its last write has completed. */
	if (unlikely(req->in_use || req->cts_under_way || !e->rail[0].ctrl_free ||
		     !promise(r, req))) {
		net_engine_poll(e);
		return r->c.err;
	}
	l = line(r->mirror, entry % NET_RING_ENTRIES);
	l->addr = (uintptr_t)data;
	l->len = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	l->tag = (uint32_t)tag;
	for (int i = 0; i < r->c.nrails; i++)
		l->rkey[i] = mr->rkey[i];
	l->seq = r->next_seq;
	rc = post_cts(r, req, l, entry);
	if (unlikely(rc)) {
		promise_kept(r, req);
		net_comm_fail(&r->c, rc, "post of a clear-to-send", NULL);
		return rc;
	}
	e->rail[0].ctrl_free--;
	r->c.under_way++;
	r->next_seq++;
	req->bytes = 0;
	req->got = 0;
	req->to_come = 1;
	req->in_use = true;
	req->cts_under_way = true;
	*request = req;
	return 0;
}

int net_irecv(struct net_recv *r, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request)
{
	int rc;

	*request = NULL;
	net_owner_enter(&r->c.engine->owner);
	rc = recv_entered(r, data, size, tag, mr, request);
	net_owner_leave(&r->c.engine->owner);
	return rc;
}

/* ---- completions ---- */

/* A piece of a message is in its buffer. Whatever does not fit an open receive is dropped. */
static void arrived(struct net_engine *e, const struct srd_wc *wc)
{
	const struct proto_imm imm = proto_imm_unpack(wc->imm);
	struct net_recv *r = net_engine_recv(e, imm.comm);
	struct net_req *req;

	if (unlikely(!r || imm.entry > r->ring_mask || imm.piece >= imm.pieces))
		return;
	req = &r->req[imm.entry % NET_RING_ENTRIES];
	if (unlikely(!req->to_come || req->got & 1u << imm.piece))
		return;
	req->got |= (uint8_t)(1u << imm.piece);
	req->bytes += wc->byte_len;
	if (req->got == (1u << imm.pieces) - 1) {
		req->to_come = 0;
		promise_kept(r, req);
	}
}

/* A receive that failed belongs to no comm that could be named. */
static void __attribute__((cold)) receive_failed(struct net_engine *e, const struct srd_wc *wc)
{
	e->worn = true;
	for (struct net_comm *c = e->comms; c; c = c->next)
		if (c->kind == NET_RECV)
			net_comm_fail(c, srd_wc_err(wc), "a receive", wc);
}

static void __attribute__((cold))
request_failed(struct net_comm *c, int kind, const struct srd_wc *wc)
{
	net_comm_fail(c, srd_wc_err(wc), kind == WR_CTS ? "a clear-to-send" : "a send", wc);
}

static void request_completed(struct net_rail *rail, const struct srd_wc *wc)
{
	struct net_req *req = (struct net_req *)(uintptr_t)(wc->wr_id & ~(uint64_t)WR_KIND);
	struct net_comm *c = req->comm;
	int kind = wc->wr_id & WR_KIND;

	if (kind == WR_DATA)
		rail->data_free++;
	else
		rail->ctrl_free++;
	if (unlikely(wc->status != IBV_WC_SUCCESS))
		request_failed(c, kind, wc); /* and is never done */
	else if (kind == WR_DATA)
		req->to_come = 0;
	else
		req->cts_under_way = false;
	if (unlikely(--c->under_way == 0 && c->closed))
		net_comm_free(c);
}

void net_p2p_completed(struct net_engine *e, struct net_rail *rail, const struct srd_wc *wc)
{
	if (!(wc->opcode & IBV_WC_RECV)) {
		request_completed(rail, wc);
		return;
	}
	if (!(wc->flags & SRD_WC_UNSOLICITED))
		rail->rq_missing++;
	if (unlikely(wc->status != IBV_WC_SUCCESS || !(wc->flags & SRD_WC_IMM)))
		receive_failed(e, wc);
	else
		arrived(e, wc);
}

/* ---- test ---- */

static void req_free(struct net_req *req)
{
	req->in_use = false;
	if (req->comm->kind == NET_SEND) {
		struct net_send *s = (struct net_send *)req->comm;

		s->free |= 1ull << (req - s->req);
	}
}

static int test_entered(struct net_req *req, int *done, int *size)
{
	struct net_comm *c = req->comm;

	if (req->to_come)
		net_engine_poll(c->engine);
	if (req->to_come)
		return c->err;
	*done = 1;
	if (size)
		*size = (int)req->bytes;
	req_free(req);
	return 0;
}

/* Kept apart, as send_now() is. */
static __attribute__((noinline)) int test_now(struct net_req *req, int *done, int *size)
{
	struct net_owner *owner = &req->comm->engine->owner;
	int rc;

	net_owner_enter(owner);
	rc = test_entered(req, done, size);
	net_owner_leave(owner);
	return rc;
}

int net_test(struct net_req *req, int *done, int *size)
{
	struct net_comm *c = req->comm;

	*done = 0;
	if (net_owner_try(&c->engine->owner) && req->to_come && net_engine_idle(c->engine)) {
		int rc = c->err;

		net_owner_leave_own();
		return rc;
	}
	return test_now(req, done, size);
}
