/* SPDX-License-Identifier: BSD-3-Clause */
/* Order and disorder: exactly once always, in order only where it was asked for. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_disorder, .timeout = 100);

/* ---- one process: the order itself ---- */

enum { N = 32, LEN = 64 };

struct order {
	uint32_t received[N], completed[N]; /* which message, by time */
};

/* N messages by one doorbell, each with its number. */
static void run_batch(struct duo *d, struct order *o)
{
	for (unsigned i = 0; i < N; i++) {
		struct raw_wr wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, LEN, 0);
		struct raw_sge sge = raw_sge(&d->b.mr, i * LEN, LEN);

		raw_post_recv(&d->b.qp, (uint16_t)i, &sge, 1);
		wr.req_id = wr.imm = i;
		wr.imm_on = true;
		raw_post(&d->a.qp, &wr);
	}
	raw_ring(&d->b.qp);
	raw_ring(&d->a.qp);
	for (unsigned i = 0; i < N; i++)
		o->received[i] = node_wait_status(&d->b.rcq, 0).imm;
	for (unsigned i = 0; i < N; i++)
		o->completed[i] = (uint32_t)node_wait_status(&d->a.scq, 0).req_id;
}

static bool in_order(const uint32_t *seq)
{
	for (unsigned i = 0; i < N; i++)
		if (seq[i] != i)
			return false;
	return true;
}

static void assert_each_once(const uint32_t *seq)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < N; i++)
		seen |= UINT64_C(1) << seq[i];
	cr_assert(eq(u64, seen, (UINT64_C(1) << N) - 1));
}

Test(softefa_disorder, without_reordering_messages_keep_their_order)
{
	struct order o;
	struct duo d;

	node_settings("reorder=0");
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 50; i++) {
		run_batch(&d, &o);
		cr_assert(in_order(o.received));
		cr_assert(in_order(o.completed));
	}
	duo_fini(&d);
}

Test(softefa_disorder, by_default_messages_and_completions_are_permuted)
{
	unsigned received = 0, completed = 0;
	struct order o;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 50; i++) {
		run_batch(&d, &o);
		assert_each_once(o.received);
		assert_each_once(o.completed);
		received += !in_order(o.received);
		completed += !in_order(o.completed);
	}
	cr_assert(ge(uint, received, 45), "%u of 50 batches", received);
	cr_assert(ge(uint, completed, 45), "%u of 50 batches", completed);
	duo_fini(&d);
}

Test(softefa_disorder, nothing_overtakes_more_than_the_window)
{
	struct order o;
	struct duo d;

	node_settings("reorder=4");
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 50; i++) {
		run_batch(&d, &o);
		for (uint32_t k = 0; k < N; k++)
			cr_assert(le(u32, o.received[k], k + 3));
	}
	duo_fini(&d);
}

struct batches {
	struct order o[10];
};

static void record(void *arg)
{
	struct batches *b = arg;
	struct duo d;

	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 10; i++)
		run_batch(&d, &b->o[i]);
	duo_fini(&d);
}

/* What one process alone does by single doorbells, and no more than the engine takes in a round. */
Test(softefa_disorder, order_follows_from_the_seed)
{
	struct batches *a = kids_share(sizeof(*a)), *b = kids_share(sizeof(*b));
	struct batches *c = kids_share(sizeof(*c));

	node_settings("seed=7");
	kids_join(kids_start(record, a));
	kids_join(kids_start(record, b));
	node_settings("seed=8");
	kids_join(kids_start(record, c));
	cr_assert(zero(int, memcmp(a, b, sizeof(*a))));
	cr_assert(ne(int, memcmp(a, c, sizeof(*a)), 0));
}

Test(softefa_disorder, small_write_overtakes_a_large_one_now_and_then)
{
	enum { TRIES = 40, BIG = 1 << 20, SMALL = 8 };
	unsigned overtaken = 0;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.bytes = BIG + SMALL});
	for (unsigned i = 0; i < TRIES; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, BIG, 0);

		wr.req_id = 1;
		raw_post(&d.a.qp, &wr);
		wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, BIG, SMALL, BIG);
		wr.req_id = 2;
		raw_post(&d.a.qp, &wr);
		raw_ring(&d.a.qp);
		overtaken += node_wait_status(&d.a.scq, 0).req_id == 2;
		node_wait_status(&d.a.scq, 0);
	}
	cr_assert(ge(uint, overtaken, 1), "%u of %u", overtaken, TRIES);
	duo_fini(&d);
}

/* ---- several processes: the data ---- */

enum {
	PEERS = 3,
	XFERS = 600, /* by each to all others */
	SLOTS = 8,   /* in flight from one to another */
	SLOT_BYTES = 64 << 10,
	SEND_MAX = 4096,
	RECVS = PEERS * SLOTS,
	IN = 0,                                   /* what others write, by peer and slot */
	OUT = IN + PEERS * SLOTS * SLOT_BYTES,    /* what is sent, and read */
	INBOX = OUT + PEERS * SLOTS * SLOT_BYTES, /* receives */
	BYTES = INBOX + RECVS * SEND_MAX,
};

struct meeting {
	atomic_uint here, done, sent[PEERS]; /* sent: messages to each */
	struct node_addr addr[PEERS];
};

struct xfer {
	bool busy;
	enum raw_op op;
	uint32_t len, tag;
};

struct peer {
	struct meeting *m;
	unsigned me;
	struct node n;
	uint16_t ahn[PEERS];
	struct xfer x[PEERS][SLOTS];
	unsigned flying, received;
	uint32_t tag;
	uint64_t rng;
};

static uint32_t rnd(uint64_t *s, uint32_t n)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33) % n;
}

static uint64_t slot_off(unsigned peer, unsigned slot)
{
	return (uint64_t)(peer * SLOTS + slot) * SLOT_BYTES;
}

static uint32_t pack(unsigned peer, unsigned slot, uint32_t tag)
{
	return tag << 8 | peer << 4 | slot;
}

static void start_xfer(struct peer *p, unsigned to, unsigned slot)
{
	struct xfer *x = &p->x[to][slot];
	uint64_t out = OUT + slot_off(to, slot), in = IN + slot_off(p->me, slot);
	struct raw_wr wr;

	*x = (struct xfer){true, (enum raw_op)rnd(&p->rng, 3), 0, ++p->tag & 0xffff};
	x->len = 1 + rnd(&p->rng, x->op == RAW_SEND ? SEND_MAX : SLOT_BYTES);
	if (x->op == RAW_READ)
		in = OUT; /* what is there for all to read, see peer_main() */
	else
		node_fill(p->n.buf + out, x->len, x->tag);
	wr = node_wr(&p->n, x->op, &p->m->addr[to], p->ahn[to], out, x->len, in);
	wr.req_id = to << 4 | slot;
	wr.imm_on = x->op == RAW_SEND;
	wr.imm = pack(p->me, slot, x->tag);
	node_post(&p->n, &wr);
	p->flying++;
	p->m->sent[to] += wr.imm_on;
}

/* A write is checked where it lies, by the writer: it reads it back. */
static void finished(struct peer *p, const struct raw_wc *wc)
{
	unsigned to = (unsigned)wc->req_id >> 4 & 15, slot = wc->req_id & 15;
	bool back = wc->req_id >> 8;
	struct xfer *x = &p->x[to][slot];
	uint8_t *out = p->n.buf + OUT + slot_off(to, slot);
	struct raw_wr wr;

	MUST(wc->status == 0 && x->busy, "op %d to %u: status %u", x->op, to, wc->status);
	if (x->op == RAW_READ)
		MUST(node_filled(out, x->len, to), "read from %u", to);
	if (back)
		MUST(node_filled(out, x->len, x->tag), "write to %u", to);
	if (x->op == RAW_WRITE && !back) {
		memset(out, 0, x->len);
		wr = node_wr(&p->n, RAW_READ, &p->m->addr[to], p->ahn[to], OUT + slot_off(to, slot),
			     x->len, IN + slot_off(p->me, slot));
		wr.req_id = 1 << 8 | to << 4 | slot;
		node_post(&p->n, &wr);
		return;
	}
	x->busy = false;
	p->flying--;
}

static void receive(struct peer *p, const struct raw_wc *wc)
{
	uint64_t off = INBOX + wc->req_id * SEND_MAX;
	unsigned from = wc->imm >> 4 & 15;

	MUST(wc->status == 0 && from < PEERS, "status %u", wc->status);
	MUST(wc->src_qpn == p->m->addr[from].qpn, "sender");
	MUST(wc->ahn == p->ahn[from], "number of the sender");
	MUST(node_filled(p->n.buf + off, wc->len, wc->imm >> 8), "message of %u", from);
	p->received++;
	node_recv(&p->n, (uint16_t)wc->req_id, off, SEND_MAX);
}

static bool poll(struct peer *p)
{
	struct raw_wc wc;
	bool any = false;

	while (raw_poll(&p->n.scq, &wc)) {
		finished(p, &wc);
		any = true;
	}
	while (raw_poll(&p->n.rcq, &wc)) {
		receive(p, &wc);
		any = true;
	}
	return any;
}

static void peer_init(struct peer *p)
{
	node_init(&p->n, &(struct node_attr){.bytes = BYTES, .dev = p->me % 2, .sq = 256});
	p->m->addr[p->me] = node_addr(&p->n);
	p->rng = p->me;
	for (uint16_t i = 0; i < RECVS; i++)
		node_recv(&p->n, i, INBOX + i * SEND_MAX, SEND_MAX);
	p->m->here++;
	kids_await(&p->m->here, PEERS);
	for (unsigned i = 0; i < PEERS; i++)
		p->ahn[i] = node_ahn(&p->n, &p->m->addr[i]);
	p->m->here++;
	kids_await(&p->m->here, 2 * PEERS);
}

static void peer_main(void *arg)
{
	struct peer *p = arg;
	int64_t end = kids_now_us() + 60000000;

	peer_init(p);
	/* Slot 0 of peer 0 is read by all; what it is to send lies in the others. */
	node_fill(p->n.buf + OUT, SLOT_BYTES, p->me);
	p->m->here++;
	kids_await(&p->m->here, 3 * PEERS);
	for (unsigned left = XFERS; left || p->flying;) {
		unsigned to = rnd(&p->rng, PEERS), slot = 1 + rnd(&p->rng, SLOTS - 1);

		if (left && !p->x[to][slot].busy) {
			start_xfer(p, to, slot);
			left--;
		} else if (!poll(p)) {
			kids_nap_us(20);
		}
		MUST(kids_now_us() < end, "%u left, %u in flight", left, p->flying);
	}
	p->m->done++;
	while (p->m->done < PEERS) {
		if (!poll(p))
			kids_nap_us(20);
		MUST(kids_now_us() < end, "others hang");
	}
	/* Whoever is done knows that its messages have arrived. */
	poll(p);
	MUST(p->received == p->m->sent[p->me], "%u of %u", p->received, p->m->sent[p->me]);
	MUST(node_quiet(&p->n.scq, 2) && node_quiet(&p->n.rcq, 2), "more than was sent");
	node_fini(&p->n);
}

ParameterizedTestParameters(softefa_disorder, processes_exchange_checked_data)
{
	static unsigned windows[] = {0, 8, 64};

	return cr_make_param_array(unsigned, windows, 3);
}

ParameterizedTest(unsigned *window, softefa_disorder, processes_exchange_checked_data)
{
	struct meeting *m = kids_share(sizeof(*m));
	char settings[32];
	pid_t pid[PEERS];

	snprintf(settings, sizeof(settings), "reorder=%u", *window);
	node_settings(settings);
	for (unsigned i = 0; i < PEERS; i++) {
		struct peer *p = kids_share(sizeof(*p));

		p->m = m;
		p->me = i;
		pid[i] = kids_start(peer_main, p);
	}
	for (unsigned i = 0; i < PEERS; i++)
		kids_join(pid[i]);
}
