/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that go ahead of their lines. */
#include "eager.h"

#include <errno.h>
#include <string.h>

#include "cut.h"
#include "early.h"
#include "message.h"
#include "mover.h"
#include "param.h"
#include "todo.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

uint32_t net_eager_bytes(const struct net_dev *dev)
{
	int64_t wanted = net_param()->eager_max;
	uint32_t most = PROTO_SEGMENT_MAX;

	for (int i = 0; i < dev->nrails; i++) {
		const struct srd_dev_attr *attr = &dev->nic[i].dev.attr;

		if (attr->max_msg_size < most)
			most = attr->max_msg_size;
		if (attr->max_sq_sge < 2)
			return 0;
	}
	/* In whole units of what is kept in order, as segments are: it is no more than these. */
	most = (most - (uint32_t)sizeof(struct proto_eager)) & ~127u;
	return wanted <= 0 ? 0 : wanted < most ? (uint32_t)wanted : most;
}

/* ---- sender ---- */

void net_eager_start(struct net_send *s, const struct proto_resp *resp)
{
	const struct net_engine *e = s->c.engine;

	s->eager_max = resp->eager < e->eager_max ? resp->eager : e->eager_max;
	if (!s->notes)
		s->eager_max = 0;
	/* To the queue pair that gets neither immediates of writes nor notes. */
	for (int i = 0; i < s->c.nrails; i++) {
		s->data_to[i] = s->c.peer[i];
		s->data_to[i].qpn =
			e->mode == PROTO_WRITE ? resp->rail[i].ctrl_qpn : resp->rail[i].data_qpn;
	}
}

static struct proto_eager *head_of(const struct net_send *s, const struct net_req *req)
{
	return (struct proto_eager *)((struct proto_cts *)s->notes->mem + (req - s->req));
}

static int post(struct net_send *s, const struct net_req *req, int rail)
{
	struct srd_wr wr = {
		.wr_id = (uintptr_t)req | WR_DATA,
		.to = &s->data_to[rail],
		.sge[0] = {(uintptr_t)head_of(s, req), sizeof(struct proto_eager),
			   s->notes->lkey[rail]},
		.imm = proto_note_pack(PROTO_EAGER, s->c.peer_id, 0, 0),
		.op = IBV_WR_SEND_WITH_IMM,
		.nsge = 1,
	};

	if (req->bytes) {
		wr.sge[1] = (struct ibv_sge){(uintptr_t)req->data, req->bytes, req->mr->lkey[rail]};
		wr.nsge = 2;
	}
	return net_data_post(&s->c, rail, &wr, req->bytes);
}

int net_eager_send(struct net_send *s, struct net_req *req, const void *data, uint32_t size,
		   int tag, const struct net_mr *mr)
{
	int rail = net_live_rail(&s->c, s->ahead_rail), rc;

	/* Its last note may not have left yet. */
	if (!s->c.engine->rail[rail].data_free || s->nahead == NET_EAGER_MOST || req->busy)
		return -EAGAIN;
	*head_of(s, req) = (struct proto_eager){
		.seq = s->next_ahead, .base = s->next_seq, .tag = (uint32_t)tag, .len = size};
	req->bytes = size;
	req->n = 1;
	req->data = data;
	req->mr = mr;
	rc = post(s, req, rail);
	if (unlikely(rc))
		return rc;
	req->to_come = 1;
	s->eager |= 1ull << (req - s->req);
	if (s->c.engine->mode != PROTO_READ)
		s->ahead[s->nahead++] = (uint32_t)tag;
	s->eager_sent++;
	s->next_ahead++;
	s->ahead_rail = (uint8_t)net_next_rail(&s->c, rail);
	return 0;
}

bool net_eager_again(struct net_send *s, struct net_req *req)
{
	int rail = net_live_rail(&s->c, s->ahead_rail), rc;

	if (s->c.closed || !req->lost)
		return true;
	if (req->bytes && !req->mr) {
		net_forgotten(&s->c);
		return true;
	}
	if (!s->c.engine->rail[rail].data_free)
		return false;
	/* It counts as the one that failed, which is to come still. */
	rc = post(s, req, rail);
	if (unlikely(rc))
		net_comm_fail(&s->c, rc, "post on another rail", rail, NULL);
	req->lost = 0;
	return true;
}

/* ---- receiver ---- */

/* What becomes of a message for a slot. */
enum {
	COPY_NONE,
	COPY_WAITS, /* for room in the send queue; slot->total is its buffer, slot->left the rail */
	COPYING,
};

/*
 * A line is written over another that the peer need not look at any more, which it tells with its
 * next message only. So that there is always one that waits for a message, the ring must be larger
 * than all that may have gone ahead.
 */
void net_eager_expect(struct net_recv *r)
{
	r->eager = r->c.engine->eager_max && r->nslots >= NET_EAGER_MOST + 4 * NET_MAX_RECVS;
}

/* The buffer, and the promise of it. */
static void give_back(struct net_recv *r, int rail, uint32_t buf)
{
	struct net_rx *rx = net_eager_rx(r->c.engine, rail);

	if (rx->mem) /* the engine is not being destroyed */
		net_rx_put(rx, (uint64_t)buf << 8);
	r->held--;
	r->c.engine->eager_free++;
}

/* In the order of addresses, in units of 8 bytes: flags of LL and LL128 come behind their data. */
static void copy_up(void *to, const void *from, uint32_t n)
{
	typedef uint64_t __attribute__((may_alias)) word;
	word *t = to;
	const word *f = from;

	for (; n >= sizeof(*t) && (uintptr_t)to % sizeof(*t) == 0; n -= (uint32_t)sizeof(*t))
		__atomic_store_n(t++, *f++, __ATOMIC_RELEASE);
	memcpy(t, f, n);
}

static void filled(struct net_recv *r, struct net_slot *slot)
{
	struct net_engine *e = r->c.engine;

	if (unlikely(e->counting))
		net_count(&e->counts.eager_recvs, 1);
	if (e->mode != PROTO_READ)
		r->req[slot->req].eager++; /* that its line was seen is not told */
	net_slot_filled(r, slot);
}

static uint8_t *data_of(struct net_engine *e, int rail, uint32_t buf)
{
	return net_rx_get(net_eager_rx(e, rail), (uint64_t)buf << 8) + sizeof(struct proto_eager);
}

void net_eager_deliver(struct net_recv *r, const struct net_early *m, struct net_slot *slot,
		       const struct proto_cts *l)
{
	slot->bytes = m->head.len < l->len ? m->head.len : l->len;
	if (unlikely(slot->bytes && !slot->mr)) {
		/* Its memory may be gone: an abort, of which nobody need hear. */
		r->c.err = -ECANCELED;
		slot->open = false;
	} else if (unlikely(slot->bytes && slot->mr->gpu)) {
		slot->open = false;
		slot->copy = COPY_WAITS;
		slot->left = (uint32_t)m->rail;
		slot->total = m->buf;
		net_todo_add(&r->req[slot->req]);
		return;
	} else {
		copy_up((void *)(uintptr_t)l->addr, data_of(r->c.engine, m->rail, m->buf),
			slot->bytes);
		filled(r, slot);
	}
	give_back(r, m->rail, m->buf);
	if (r->ready && slot->mr)
		net_read_renew(r, slot);
}

/* What was promised, and makes sense. */
static bool is_good(const struct net_recv *r, const struct proto_eager *head, uint32_t len)
{
	return len == sizeof(*head) + head->len && r->eager_came != r->eager_limit &&
	       (r->c.engine->mode == PROTO_READ || !proto_before(r->next_seq, head->base));
}

bool net_eager_arrived(struct net_engine *e, uint32_t id, int rail, uint64_t wr_id,
		       const uint8_t *data, uint32_t len)
{
	struct net_recv *r = (struct net_recv *)net_engine_comm(e, id);
	struct net_early m = {.buf = (uint32_t)(wr_id >> 8), .rail = rail};

	if (!r || r->c.kind != NET_RECV || !r->eager || r->c.err || r->c.closed ||
	    len < sizeof(m.head))
		return false;
	memcpy(&m.head, data, sizeof(m.head));
	if (unlikely(!is_good(r, &m.head, len)))
		return false;
	if (e->mode != PROTO_READ && proto_before(r->seen, m.head.base))
		r->seen = m.head.base;
	r->eager_came++;
	if (net_early_arrived(r, &m))
		return true;
	r->eager_came--;
	return false;
}

/* ---- to memory of a GPU ---- */

static int post_copy(struct net_recv *r, const struct net_req *req, uint32_t i,
		     struct net_slot *slot)
{
	const struct proto_cts *l = net_line(r->mirror, req->seq + i, r->nslots);
	struct net_engine *e = r->c.engine;
	int rail = (int)slot->left;
	const struct net_rx *rx = net_eager_rx(e, rail);
	uint64_t buf = (uintptr_t)data_of(e, rail, slot->total);
	bool reads = e->mode == PROTO_READ;
	struct srd_wr wr = {
		.wr_id = (uintptr_t)req | i << WR_BUF_SHIFT | WR_READ,
		.to = &e->self[rail],
		.sge[0] = {reads ? l->addr : buf, slot->bytes,
			   reads ? slot->mr->lkey[rail] : rx->mr[0].lkey},
		.raddr = reads ? buf : l->addr,
		.rkey = reads ? rx->mr[0].rkey : slot->mr->rkey[rail],
		.op = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.nsge = 1,
	};
	int rc = srd_post(&e->rail[rail].data, &wr, 1);

	if (rc)
		return rc;
	e->rail[rail].data_free--;
	r->c.under_way++;
	slot->copy = COPYING;
	return 0;
}

bool net_eager_copy(struct net_recv *r, struct net_req *req)
{
	for (uint32_t i = 0; i < req->n && !r->c.closed; i++) {
		struct net_slot *slot = net_slot_of(r, req, i);
		int rc;

		if (slot->copy != COPY_WAITS)
			continue;
		if (unlikely(!slot->mr)) {
			net_forgotten(&r->c);
			return true;
		}
		if (!r->c.engine->rail[slot->left].data_free)
			return false;
		rc = post_copy(r, req, i, slot);
		if (unlikely(rc)) {
			net_comm_fail(&r->c, rc, "post of a copy", (int)slot->left, NULL);
			return true;
		}
	}
	return true;
}

void net_eager_copied(struct net_req *req, uint32_t i, int rail)
{
	struct net_recv *r = (struct net_recv *)req->comm;
	struct net_slot *slot = net_slot_of(r, req, i);

	r->touched |= 1u << rail;
	slot->copy = COPY_NONE;
	give_back(r, rail, slot->total);
	filled(r, slot);
}

/* ---- end ---- */

void net_eager_forget(struct net_recv *r, bool lost)
{
	for (uint32_t i = 0; i < r->nslots && r->eager; i++)
		if (r->slot[i].copy)
			give_back(r, (int)r->slot[i].left, r->slot[i].total);
	while (r->nearly) {
		const struct net_early *m = &r->early[--r->nearly];

		if (m->rail != NET_TO_READ)
			give_back(r, m->rail, m->buf);
	}
	if (!lost)
		r->c.engine->eager_free += r->held;
}
