/* SPDX-License-Identifier: BSD-3-Clause */
/* Random programs of verbs. */
#include "program.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"
#include "kids.h"
#include "node.h"

enum {
	QPS = 4, /* of a host: waits for receives, does not (rnr_retry 0), unsolicited, datagrams */
	WAITS = 0,
	IMPATIENT = 1,
	UNSOLICITED = 2,
	DATAGRAMS = 3,
	REQS = 8, /* most of a queue pair in a phase */
	ALL = PROGRAM_HOSTS * QPS * REQS,
	MTU = 8928,
	SLOT = 70 * 1024, /* of an RDMA: more than one piece of what goes between hosts */
	RECV = 9216,
	/* where in a node's memory: what is sent and read; what reads bring; what writes bring */
	SRC = 0,
	OUT = SRC + SLOT + MTU,
	IN = OUT + REQS * SLOT,
	INBOX = IN + ALL * SLOT,
	BYTES = INBOX + ALL * RECV,
};

enum fault {
	NONE,
	BAD_LKEY,
	LKEY_RANGE,
	BAD_RKEY,
	RKEY_RANGE,
	BAD_QPN,
	BAD_QKEY,
	BAD_AHN,
	TOO_LONG,
	NO_META,
	NO_OP,
	STALE_RKEY,
	FOREIGN_RKEY,
	FAULTS,
};

enum kind {
	TRAFFIC,        /* all kinds of requests, sound and not */
	IMPATIENCE,     /* sends without a receive, and no retries */
	LATE_RECEIVES,  /* sends first, receives later */
	SHORT_RECEIVES, /* each too short */
	BAD_RECEIVES,   /* each into memory that is not there */
	TARGET_FAILS,   /* messages wait, their receiver falls into error */
	SENDER_FAILS,   /* the same, but the sender falls */
	SENDER_GOES,    /* and is destroyed */
	AMID_TRAFFIC,   /* the receiver is destroyed at any moment */
	KINDS,
};

struct request {
	enum raw_op op;
	bool imm, inl;
	uint8_t host, qp; /* to */
	uint32_t len, off;
	enum fault fault;
};

/* What all hosts know of a phase. */
struct phase {
	enum kind kind;
	uint8_t host, qp, other; /* of what is special; to this QP of the other host */
	unsigned n[PROGRAM_HOSTS][QPS];
	struct request req[PROGRAM_HOSTS][QPS][REQS];
};

struct meeting {
	atomic_uint here; /* counts at barriers */
	struct node_addr addr[PROGRAM_HOSTS][QPS];
	uint32_t stale[PROGRAM_HOSTS][QPS], foreign[PROGRAM_HOSTS][QPS];
	struct program_outcome *out;
};

struct host {
	struct meeting *m;
	unsigned me, barriers;
	struct node node[QPS];
	struct raw_pd other_pd;
	uint16_t ahn[PROGRAM_HOSTS];
	uint64_t seed;
	unsigned phase;
	struct phase p;
};

/* ---- what to do ---- */

static uint32_t below(uint64_t *rng, uint32_t n)
{
	return bytes_random(rng) % n;
}

static uint32_t some_length(uint64_t *rng, uint32_t max)
{
	switch (below(rng, 4)) {
	case 0:
		return below(rng, 65);
	case 1:
		return max - below(rng, 3);
	default:
		return below(rng, max + 1);
	}
}

static enum fault some_fault(uint64_t *rng, enum raw_op op)
{
	enum fault f = below(rng, 3) ? NONE : (enum fault)below(rng, FAULTS);
	bool of_rdma = f == BAD_RKEY || f == RKEY_RANGE || f == STALE_RKEY || f == FOREIGN_RKEY;

	if ((of_rdma && op == RAW_SEND) || (f == TOO_LONG && op != RAW_SEND))
		return NONE;
	return f;
}

static struct request some_request(uint64_t *rng, unsigned qp)
{
	struct request r = {.op = (enum raw_op)below(rng, 3), .host = below(rng, PROGRAM_HOSTS)};

	if (qp == DATAGRAMS) {
		r.op = RAW_SEND;
		r.qp = DATAGRAMS;
	} else {
		r.qp = (uint8_t)below(rng, DATAGRAMS);
	}
	r.imm = r.op == RAW_SEND || (r.op == RAW_WRITE && below(rng, 2));
	r.len = some_length(rng, r.op == RAW_SEND ? MTU : SLOT);
	r.off = below(rng, MTU);
	r.inl = r.op == RAW_SEND && r.len <= 32;
	r.fault = some_fault(rng, r.op);
	if (r.inl && (r.fault == BAD_LKEY || r.fault == LKEY_RANGE || r.fault == TOO_LONG))
		r.inl = false;
	/* What needs no byte has no bad one. */
	if (r.fault == LKEY_RANGE || r.fault == RKEY_RANGE)
		r.len += r.len == 0;
	return r;
}

static void plan_traffic(struct phase *p, uint64_t *rng)
{
	for (unsigned h = 0; h < PROGRAM_HOSTS; h++)
		for (unsigned q = 0; q < QPS; q++) {
			p->n[h][q] = below(rng, REQS + 1);
			for (unsigned i = 0; i < p->n[h][q]; i++)
				p->req[h][q][i] = some_request(rng, q);
		}
}

/* Sends of one QP to one of the other host. */
static void plan_sends(struct phase *p, uint64_t *rng)
{
	p->n[p->host][p->qp] = 1 + below(rng, REQS);
	for (unsigned i = 0; i < p->n[p->host][p->qp]; i++)
		p->req[p->host][p->qp][i] = (struct request){
			.op = RAW_SEND,
			.imm = true,
			.host = !p->host,
			.qp = p->other,
			.len = 200 + below(rng, MTU - 200),
			.off = below(rng, MTU),
		};
}

static struct phase plan(uint64_t seed, unsigned n)
{
	uint64_t rng = seed * 7919 + n * 104729 + 1;
	struct phase p = {0};

	bytes_random(&rng);
	p.kind = below(&rng, 2) ? TRAFFIC : (enum kind)below(&rng, KINDS);
	p.host = (uint8_t)below(&rng, PROGRAM_HOSTS);
	p.qp = p.kind == IMPATIENCE ? IMPATIENT : below(&rng, 2) ? WAITS : UNSOLICITED;
	p.other = (uint8_t)below(&rng, DATAGRAMS);
	if (p.kind == TRAFFIC)
		plan_traffic(&p, &rng);
	else
		plan_sends(&p, &rng);
	return p;
}

/* ---- who takes what ---- */

static uint32_t message(unsigned host, unsigned qp, unsigned i)
{
	return (host * QPS + qp) * REQS + i;
}

/* A receive completion comes of it; @takes: a receive, too. */
static bool arrives(const struct request *r, unsigned from_qp, bool *takes)
{
	bool unsolicited = r->op == RAW_WRITE && r->qp == UNSOLICITED;

	*takes = !unsolicited;
	if (r->fault != NONE || r->op == RAW_READ || !r->imm)
		return false;
	return r->op == RAW_SEND || (from_qp == UNSOLICITED) == (r->qp == UNSOLICITED);
}

struct due {
	unsigned receives, completions;
};

static struct due due(const struct phase *p, unsigned host, unsigned qp)
{
	struct due d = {0, 0};

	for (unsigned h = 0; h < PROGRAM_HOSTS; h++)
		for (unsigned q = 0; q < QPS; q++)
			for (unsigned i = 0; i < p->n[h][q]; i++) {
				const struct request *r = &p->req[h][q][i];
				bool takes;

				if (r->host != host || r->qp != qp || !arrives(r, q, &takes))
					continue;
				d.completions++;
				d.receives += takes;
			}
	return d;
}

/* ---- doing it ---- */

static void barrier(struct host *h)
{
	atomic_uint *here = &h->m->here;

	atomic_fetch_add(here, 1);
	/* Longer than for a completion: it is the host that misses one that is to say so. */
	MUST(kids_reached(here, ++h->barriers * PROGRAM_HOSTS, 3 * KIDS_WAIT_MS),
	     "host %u, phase %u of kind %u: alone", h->me, h->phase, h->p.kind);
}

static struct program_line *record(struct host *h, unsigned qp, char what, uint32_t id)
{
	struct program_outcome *o = h->m->out;
	struct program_line *l = &o->line[h->me][o->n[h->me]];

	MUST(o->n[h->me] < PROGRAM_LINES, "too many lines");
	o->n[h->me]++;
	*l = (struct program_line){.phase = (uint16_t)h->phase,
				   .kind = h->p.kind,
				   .qp = (uint16_t)qp,
				   .what = (uint16_t)what,
				   .id = id};
	return l;
}

/* Of whole words, and what is left over. */
static uint64_t hash(const uint8_t *p, size_t n)
{
	uint64_t h = 1469598103934665603u, word = 0;

	for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = (h ^ word ^ h >> 32) * 1099511628211u;
	}
	word = 0;
	memcpy(&word, p, n);
	return (h ^ word ^ h >> 32) * 1099511628211u;
}

static struct raw_wc next(struct host *h, unsigned qp, struct raw_cq *cq, const char *what,
			  unsigned n, unsigned of)
{
	int64_t end = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);
	struct raw_wc wc;

	while (!raw_poll(cq, &wc)) {
		MUST(kids_now_us() < end,
		     "host %u, phase %u of kind %u, queue pair %u: %u of %u %s complete", h->me,
		     h->phase, h->p.kind, qp, n, of, what);
		kids_nap_us(20);
	}
	return wc;
}

static uint32_t name_of(uint32_t status)
{
	return status == 8 || status == 9 || status == 13 || status == 15 ? PROGRAM_LOST : status;
}

static struct raw_wr make(struct host *h, unsigned qp, unsigned i)
{
	const struct request *r = &h->p.req[h->me][qp][i];
	const struct node_addr *to = &h->m->addr[r->host][r->qp];
	uint32_t len = r->fault == TOO_LONG ? MTU + 1 : r->len;
	uint64_t here = r->op == RAW_READ ? OUT + i * SLOT : SRC + r->off;
	uint64_t there = r->op == RAW_READ ? SRC + r->off : IN + message(h->me, qp, i) * SLOT;
	struct raw_wr wr = node_wr(&h->node[qp], r->op, to, h->ahn[r->host], here, len, there);

	wr.req_id = i;
	wr.imm_on = r->imm;
	wr.imm = message(h->me, qp, i);
	if (r->inl) {
		wr.data = h->node[qp].buf + here;
		wr.data_len = (uint16_t)len;
	}
	return wr;
}

static void spoil(struct host *h, const struct request *r, struct raw_wr *wr)
{
	switch (r->fault) {
	case BAD_LKEY:
		wr->sge[0].key ^= 0x1fff;
		break;
	case LKEY_RANGE:
		wr->sge[0].addr = h->node[0].mr.addr + (1ull << 40);
		break;
	case BAD_RKEY:
		wr->remote.key ^= 0x1fff;
		break;
	case RKEY_RANGE:
		wr->remote.addr -= 1ull << 40;
		break;
	case BAD_QPN:
		wr->qpn ^= 0x5a5a;
		break;
	case BAD_QKEY:
		wr->qkey ^= 4;
		break;
	case BAD_AHN:
		wr->ahn ^= 0x2fff;
		break;
	case STALE_RKEY:
		wr->remote.key = h->m->stale[r->host][r->qp];
		break;
	case FOREIGN_RKEY:
		wr->remote.key = h->m->foreign[r->host][r->qp];
		break;
	default:
		break;
	}
}

static void post(struct host *h, unsigned qp)
{
	struct raw_qp *q = &h->node[qp].qp;

	for (unsigned i = 0; i < h->p.n[h->me][qp]; i++) {
		const struct request *r = &h->p.req[h->me][qp][i];
		uint8_t *at = q->sq + (size_t)(q->sq_prod % q->sq_depth) * q->stride;
		struct raw_wr wr = make(h, qp, i);

		spoil(h, r, &wr);
		raw_post(q, &wr);
		if (r->fault == NO_META)
			at[2] &= 0x7f;
		if (r->fault == NO_OP)
			at[2] = (uint8_t)((at[2] & 0xf0) | 7);
	}
	raw_ring(q);
}

static void post_receives(struct host *h, unsigned qp, unsigned n, uint32_t len, uint32_t spoilt)
{
	struct node *node = &h->node[qp];

	for (unsigned i = 0; i < n; i++) {
		struct raw_sge sge = raw_sge(&node->mr, INBOX + i * RECV, len);

		sge.key ^= spoilt;
		raw_post_recv(&node->qp, (uint16_t)i, &sge, 1);
	}
	raw_ring(&node->qp);
}

/* ---- what came of it ---- */

/* @fuzzy: statuses depend on the moment, so that each has completed is all that is recorded. */
static void take_requests(struct host *h, unsigned qp, bool fuzzy)
{
	uint32_t status[REQS];
	unsigned n = h->p.n[h->me][qp];

	memset(status, 0xff, sizeof(status));
	for (unsigned i = 0; i < n; i++) {
		struct raw_wc wc = next(h, qp, &h->node[qp].scq, "requests", i, n);

		MUST(wc.req_id < n && status[wc.req_id] == UINT32_MAX, "request %u of phase %u",
		     (unsigned)wc.req_id, h->phase);
		status[wc.req_id] = name_of(wc.status);
		MUST(!fuzzy || wc.status == 0 || name_of(wc.status) == PROGRAM_LOST, "status %u",
		     wc.status);
	}
	for (unsigned i = 0; i < n; i++)
		record(h, qp, 'r', i)->status = fuzzy ? 0 : status[i];
}

static void take_messages(struct host *h, unsigned qp, unsigned n)
{
	struct raw_wc got[ALL];
	bool there[ALL] = {false};
	struct node *node = &h->node[qp];

	for (unsigned i = 0; i < n; i++) {
		struct raw_wc wc = next(h, qp, &node->rcq, "messages", i, n);

		MUST(wc.status == 0, "phase %u, message %u: status %u", h->phase, wc.imm,
		     wc.status);
		MUST(wc.imm < ALL && !there[wc.imm], "message %u of phase %u", wc.imm, h->phase);
		there[wc.imm] = true;
		got[wc.imm] = wc;
	}
	for (uint32_t i = 0; i < ALL; i++) {
		struct program_line *l;
		const struct raw_wc *wc = &got[i];
		uint32_t head = qp == DATAGRAMS ? RAW_GRH : 0;

		if (!there[i])
			continue;
		l = record(h, qp, 'm', i);
		l->len = wc->len;
		l->flags =
			wc->op | (uint32_t)wc->unsolicited << 8 |
			(uint32_t)(wc->ahn == RAW_AHN_UNKNOWN) << 9 |
			(uint32_t)(wc->src_qpn == h->m->addr[i / (QPS * REQS)][i / REQS % QPS].qpn)
				<< 10;
		if (wc->op == RAW_SEND)
			l->hash =
				hash(node->buf + INBOX + wc->req_id * RECV + head, wc->len - head);
	}
}

/* Receives that fail: which took which message is open, so it is their number that counts. */
static void take_failures(struct host *h, unsigned qp, unsigned n)
{
	uint32_t by_status[256] = {0};

	for (unsigned i = 0; i < n; i++)
		by_status[next(h, qp, &h->node[qp].rcq, "receives", i, n).status]++;
	for (uint32_t s = 0; s < 256; s++)
		if (by_status[s])
			record(h, qp, 'f', s)->status = by_status[s];
}

static void record_memory(struct host *h)
{
	for (unsigned q = 0; q < DATAGRAMS; q++) {
		record(h, q, 'h', 0)->hash = hash(h->node[q].buf + OUT, INBOX - OUT);
		memset(h->node[q].buf + OUT, 0, INBOX - OUT);
	}
}

static void nothing_more(struct host *h)
{
	kids_nap_us(3000);
	for (unsigned q = 0; q < QPS; q++) {
		struct raw_wc wc;

		MUST(!raw_poll(&h->node[q].scq, &wc) && !raw_poll(&h->node[q].rcq, &wc),
		     "phase %u of kind %u, queue pair %u: a completion too many, of status %u",
		     h->phase, h->p.kind, q, wc.status);
	}
}

/* ---- kinds of phases ---- */

static void again(struct host *h, unsigned qp)
{
	struct node *n = &h->node[qp];

	MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_RESET));
	MUST_0(raw_qp_up(&n->qp, &n->dev, NODE_QKEY, qp == IMPATIENT ? 0 : -1));
}

static void make_qp(struct host *h, unsigned qp)
{
	struct node *n = &h->node[qp];

	MUST_0(raw_qp_create(&n->qp, &n->dev, &n->pd, &n->scq, &n->rcq,
			     &(struct raw_qp_attr){.type = qp == DATAGRAMS ? RAW_UD : RAW_SRD,
						   .sq = 64,
						   .rq = ALL,
						   .unsolicited = qp == UNSOLICITED}));
	MUST_0(raw_qp_up(&n->qp, &n->dev, NODE_QKEY, qp == IMPATIENT ? 0 : -1));
	h->m->addr[h->me][qp] = node_addr(n);
}

static void traffic(struct host *h)
{
	for (unsigned q = 0; q < QPS; q++)
		post_receives(h, q, due(&h->p, h->me, q).receives, RECV, 0);
	barrier(h);
	for (unsigned q = 0; q < QPS; q++)
		post(h, q);
	for (unsigned q = 0; q < QPS; q++)
		take_requests(h, q, false);
	for (unsigned q = 0; q < QPS; q++)
		take_messages(h, q, due(&h->p, h->me, q).completions);
	barrier(h);
	record_memory(h);
}

static bool sends(const struct host *h)
{
	return h->me == h->p.host;
}

static unsigned number(const struct host *h)
{
	return h->p.n[h->p.host][h->p.qp];
}

static void impatience(struct host *h)
{
	if (sends(h)) {
		post(h, h->p.qp);
		take_requests(h, h->p.qp, false);
	}
}

static void late_receives(struct host *h)
{
	if (sends(h))
		post(h, h->p.qp);
	kids_nap_us(2000);
	barrier(h);
	if (!sends(h)) {
		post_receives(h, h->p.other, number(h), RECV, 0);
		take_messages(h, h->p.other, number(h));
	} else {
		take_requests(h, h->p.qp, false);
	}
}

static void receives_that_fail(struct host *h, uint32_t len, uint32_t spoilt)
{
	if (!sends(h))
		post_receives(h, h->p.other, number(h), len, spoilt);
	barrier(h);
	if (sends(h)) {
		post(h, h->p.qp);
		take_requests(h, h->p.qp, false);
	} else {
		take_failures(h, h->p.other, number(h));
	}
}

static void target_fails(struct host *h)
{
	if (sends(h))
		post(h, h->p.qp);
	kids_nap_us(5000);
	barrier(h);
	if (!sends(h))
		MUST_0(raw_qp_to(&h->node[h->p.other].qp, &h->node[0].dev, RAW_ERR));
	else
		take_requests(h, h->p.qp, false);
	barrier(h);
	if (!sends(h))
		again(h, h->p.other);
}

/*
 * A message that was on its way between hosts when its sender went may arrive all the same, now or
 * later; on one host none does, which is another test's affair. So its target is no more.
 */
static void take_strays(struct host *h)
{
	struct node *n = &h->node[h->p.other];
	struct raw_wc wc;

	post_receives(h, h->p.other, number(h), RECV, 0);
	kids_nap_us(3000);
	MUST_0(raw_qp_destroy(&n->qp, &n->dev));
	while (raw_poll(&n->rcq, &wc))
		MUST(wc.status == 0, "status %u", wc.status);
	make_qp(h, h->p.other);
}

/* What waits is given up. */
static void sender_fails(struct host *h)
{
	struct node *n = &h->node[h->p.qp];

	if (sends(h)) {
		post_receives(h, h->p.qp, 5, RECV, 0);
		post(h, h->p.qp);
		kids_nap_us(30000); /* fetched, and on its way */
		MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_ERR));
		take_requests(h, h->p.qp, false);
		take_failures(h, h->p.qp, 5);
	}
	barrier(h);
	if (sends(h)) {
		nothing_more(h);
		again(h, h->p.qp);
	} else {
		take_strays(h);
	}
}

static void sender_goes(struct host *h)
{
	struct node *n = &h->node[h->p.qp];

	if (sends(h)) {
		post(h, h->p.qp);
		kids_nap_us(5000);
		MUST_0(raw_qp_destroy(&n->qp, &n->dev));
	}
	barrier(h);
	if (sends(h)) {
		nothing_more(h);
		make_qp(h, h->p.qp);
	} else {
		take_strays(h);
	}
}

static void amid_traffic(struct host *h)
{
	struct node *n = &h->node[h->p.other];
	struct raw_wc wc;

	if (!sends(h))
		post_receives(h, h->p.other, number(h), RECV, 0);
	barrier(h);
	if (sends(h)) {
		post(h, h->p.qp);
		take_requests(h, h->p.qp, true);
	} else {
		kids_nap_us((long)(h->seed + h->phase) % 200);
		MUST_0(raw_qp_destroy(&n->qp, &n->dev));
		while (raw_poll(&n->rcq, &wc))
			MUST(wc.status == 0, "status %u", wc.status);
	}
	barrier(h); /* the sender has its old number until then */
	if (!sends(h))
		make_qp(h, h->p.other);
}

static void run_phase(struct host *h)
{
	h->p = plan(h->seed, h->phase);
	switch (h->p.kind) {
	case IMPATIENCE:
		impatience(h);
		break;
	case LATE_RECEIVES:
		late_receives(h);
		break;
	case SHORT_RECEIVES:
		receives_that_fail(h, 100, 0);
		break;
	case BAD_RECEIVES:
		receives_that_fail(h, RECV, 0x1fff);
		break;
	case TARGET_FAILS:
		target_fails(h);
		break;
	case SENDER_FAILS:
		sender_fails(h);
		break;
	case SENDER_GOES:
		sender_goes(h);
		break;
	case AMID_TRAFFIC:
		amid_traffic(h);
		break;
	default:
		traffic(h);
	}
	barrier(h);
	nothing_more(h);
	barrier(h);
}

/* ---- hosts ---- */

static void make_keys(struct host *h)
{
	const uint32_t all = RAW_ALL_ACCESS;
	struct raw_mr stale, foreign;

	MUST_0(raw_pd_alloc(&h->other_pd, &h->node[0].dev));
	for (unsigned q = 0; q < QPS; q++) {
		struct node *n = &h->node[q];

		MUST_0(raw_mr_reg(&stale, &n->dev, &n->pd, n->buf, BYTES, all));
		MUST_0(raw_mr_reg(&foreign, &n->dev, &h->other_pd, n->buf, BYTES, all));
		MUST_0(raw_mr_dereg(&stale, &n->dev));
		h->m->stale[h->me][q] = stale.key;
		h->m->foreign[h->me][q] = foreign.key;
	}
}

static void host_init(struct host *h)
{
	for (unsigned q = 0; q < QPS; q++) {
		struct node *n = &h->node[q];

		node_init(n, &(struct node_attr){.bytes = BYTES,
						 .rq = ALL,
						 .cq = 2 * ALL,
						 .with = q ? &h->node[0] : NULL});
		MUST_0(raw_qp_destroy(&n->qp, &n->dev));
		make_qp(h, q);
		bytes_fill(n->buf + SRC, OUT - SRC, h->me * QPS + q);
	}
	make_keys(h);
	barrier(h);
	for (unsigned i = 0; i < PROGRAM_HOSTS; i++)
		h->ahn[i] = node_ahn(&h->node[0], &h->m->addr[i][0]);
	barrier(h);
}

struct job {
	struct meeting *m;
	unsigned me, phases;
	uint64_t seed;
	const struct program_way *way;
};

static void host_main(void *arg)
{
	const struct job *job = arg;
	struct host *h = calloc(1, sizeof(*h));
	char address[32];

	MUST(h, "no memory");
	*h = (struct host){.m = job->m, .me = job->me, .seed = job->seed};
	setenv("SOFTEFA_SET", job->way->settings ? job->way->settings : "", 1);
	snprintf(address, sizeof(address), "127.0.0.1:%u", job->way->port[job->me]);
	if (job->way->port[job->me])
		setenv("SOFTEFA_ADDRESS", address, 1);
	host_init(h);
	for (h->phase = 0; h->phase < job->phases; h->phase++)
		run_phase(h);
	node_abandon(&h->node[0]); /* with all that is in it */
	free(h);
}

struct program_outcome *program_run(uint64_t seed, unsigned phases, const struct program_way *way)
{
	struct meeting *m = kids_share(sizeof(*m));
	pid_t pid[PROGRAM_HOSTS];

	m->out = kids_share(sizeof(*m->out));
	for (unsigned i = 0; i < PROGRAM_HOSTS; i++) {
		struct job job = {m, i, phases, seed, way};

		pid[i] = kids_start(host_main, &job);
	}
	for (unsigned i = 0; i < PROGRAM_HOSTS; i++)
		kids_join_within(pid[i], 200000);
	return m->out;
}

void program_same(const struct program_outcome *a, const struct program_outcome *b)
{
	for (unsigned h = 0; h < PROGRAM_HOSTS; h++) {
		for (uint32_t i = 0; i < a->n[h] && i < b->n[h]; i++) {
			const struct program_line *x = &a->line[h][i], *y = &b->line[h][i];

			MUST(memcmp(x, y, sizeof(*x)) == 0,
			     "host %u, phase %u of kind %u, queue pair %u: '%c' %u is status %u, "
			     "%u bytes, flags %#x here, '%c' %u is %u, %u, %#x there",
			     h, x->phase, x->kind, x->qp, x->what, x->id, x->status, x->len,
			     x->flags, y->what, y->id, y->status, y->len, y->flags);
		}
		MUST(a->n[h] == b->n[h], "host %u: %u results here, %u there", h, a->n[h], b->n[h]);
	}
}

/* Below those that the kernel hands out, which connections of anybody may get. */
uint16_t program_port(void)
{
	static unsigned tries;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

	MUST(fd >= 0, "no socket");
	do {
		a.sin_port = htons((uint16_t)(10000 + ((unsigned)getpid() * 13 + tries++) % 20000));
		rc = bind(fd, (struct sockaddr *)&a, sizeof(a));
	} while (rc && tries < 1000);
	close(fd);
	MUST(rc == 0, "no port");
	return ntohs(a.sin_port);
}
