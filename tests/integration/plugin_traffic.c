/* SPDX-License-Identifier: BSD-3-Clause */
/* What the adapter is asked to do for a message: how often, and never before it can. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { BIG = 1 << 20, SMALL = 1000, AHEAD = 16, MTU = 4228, SEGMENT = 4224 };

TestSuite(traffic, .timeout = 120);

static void open_with(struct pipe *p, int rails)
{
	char text[8];

	snprintf(text, sizeof(text), "%d", rails);
	setenv("NCCL_EFA_RAILS", text, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "65536", 1);
	pipe_open(p, 1, BIG);
}

/* @n messages of @size bytes, up to AHEAD at once. */
static void move(struct pipe *p, int n, size_t size)
{
	void *recv[AHEAD], *send[AHEAD];
	int most = size * AHEAD <= BIG ? AHEAD : 1;
	long bad;

	bytes_fill(p->from.at, size * (size_t)most, (uint32_t)n);
	for (int done = 0; done < n;) {
		int k = n - done < most ? n - done : most;

		for (int i = 0; i < k; i++)
			recv[i] = plug_recv(&p->plug, p->l.recv, p->to.at + size * (size_t)i, size,
					    0, p->to.mh);
		for (int i = 0; i < k; i++)
			send[i] = plug_send(&p->plug, p->l.send, p->from.at + size * (size_t)i,
					    size, 0, p->from.mh);
		for (int i = 0; i < k; i++) {
			need((size_t)plug_wait(&p->plug, recv[i]) == size, "message %d", done + i);
			plug_wait(&p->plug, send[i]);
		}
		done += k;
	}
	bad = bytes_differ(p->to.at, size * (size_t)(n < most ? n : most), (uint32_t)n);
	need(bad < 0, "byte %ld", bad);
}

/* ---- how often ---- */

enum { N = 48 };

/* Requests for each message: what announces the buffer, or the data, and what moves these. */
static struct cost {
	char protocol[8];
	int rails, size, writes, reads, sends;
	int urgent; /* of all of them, those with a service level */
	/* messages, also urgent, that say of several at once that they are over: at most, of all */
	int ends;
} costs[] = {
	{"write", 1, SMALL, 1 + 1, 0, 0, 1, 0},
	{"write", 4, SMALL, 1 + 1, 0, 0, 1, 0},
	{"write", 1, BIG, 1 + 1, 0, 0, 1, 0},
	{"write", 4, BIG, 1 + 4, 0, 0, 1, 0},
	{"write", 4, 2 * 65536, 1 + 2, 0, 0, 1, 0},
	{"read", 1, SMALL, 0, 1, 1, 1, N},
	{"read", 4, SMALL, 0, 1, 1, 1, N},
	{"read", 1, BIG, 0, 1, 1, 1, N},
	{"read", 4, BIG, 0, 4, 1, 1, N},
	{"send", 1, SMALL, 0, 0, 1 + 1, 1, 0},
	{"send", 4, SMALL, 0, 0, 1 + 1, 1, 0},
	{"send", 1, 10 * SEGMENT, 0, 0, 1 + 10, 1, 0},
	{"send", 4, 10 * SEGMENT + 1, 0, 0, 1 + 11, 1, 0},
};

/* Requests since they were taken. */
struct tally {
	struct counters w, r, s, before_w, before_r, before_s;
	long long urgent;
};

static void tally_begin(struct tally *t)
{
	counters_get(&t->before_w, "write");
	counters_get(&t->before_r, "read");
	counters_get(&t->before_s, "send");
}

static void tally_look(struct tally *t)
{
	counters_since(&t->w, "write", &t->before_w);
	counters_since(&t->r, "read", &t->before_r);
	counters_since(&t->s, "send", &t->before_s);
}

/* When the last word of the receiver has left, and no other does. */
static void tally_end(struct tally *t, const struct cost *c)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	long long want = N * (c->writes + c->reads + c->sends) + !!c->ends;

	do
		tally_look(t);
	while (counters_sum(&t->w) + counters_sum(&t->r) + counters_sum(&t->s) < want &&
	       now_ms() < end);
	nap_ms(20);
	tally_look(t);
	t->urgent = 0;
	for (int i = 0; i < COUNTERS_DEVS; i++)
		t->urgent += t->w.urgent[i] + t->r.urgent[i] + t->s.urgent[i];
}

static void tally_moves(struct tally *t, const struct cost *c)
{
	struct pipe p;

	counters_apart();
	plug_softefa("max_msg_size=4228"); /* MTU */
	setenv("NCCL_EFA_PROTOCOL", c->protocol, 1);
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	open_with(&p, c->rails);
	tally_begin(t);
	move(&p, N, (size_t)c->size);
	tally_end(t, c);
	pipe_close(&p);
}

static void expect_tally(const struct tally *t, const struct cost *c)
{
	cr_assert(eq(llong, counters_sum(&t->w), N * c->writes));
	cr_assert(eq(llong, counters_sum(&t->r), N * c->reads));
	cr_assert(ge(llong, counters_sum(&t->s), N * c->sends + !!c->ends));
	cr_assert(le(llong, counters_sum(&t->s), N * c->sends + c->ends));
	cr_assert(eq(llong, t->urgent - N * c->urgent, counters_sum(&t->s) - N * c->sends));
}

ParameterizedTestParameters(traffic, message_costs_no_request_more_than_it_must)
{
	return cr_make_param_array(struct cost, costs, sizeof(costs) / sizeof(costs[0]));
}

ParameterizedTest(struct cost *c, traffic, message_costs_no_request_more_than_it_must)
{
	struct tally t;

	tally_moves(&t, c);
	expect_tally(&t, c);
}

/* Public report 53: data that ask for low latency get half the bandwidth. */
ParameterizedTestParameters(traffic, data_have_no_service_level_and_what_is_said_of_them_has)
{
	static struct cost some[] = {
		{"write", 1, SMALL, 1 + 1, 0, 0, 1, 0},
		{"write", 4, BIG, 1 + 4, 0, 0, 1, 0},
		{"read", 4, BIG, 0, 4, 1, 1, N},
		{"send", 4, 10 * SEGMENT, 0, 0, 1 + 10, 1, 0},
	};

	return cr_make_param_array(struct cost, some, sizeof(some) / sizeof(some[0]));
}

ParameterizedTest(struct cost *c, traffic, data_have_no_service_level_and_what_is_said_of_them_has)
{
	struct tally t;

	tally_moves(&t, c);
	expect_tally(&t, c);
	for (int i = 0; i < COUNTERS_DEVS; i++)
		cr_assert(zero(llong, t.r.urgent[i]), "a read is data");
}

/* Of messages that go ahead: a line and the message; by reads a word of more promises at times. */
static struct cost ahead_costs[] = {
	{"write", 1, SMALL, 1, 0, 1, 1, 0},
	{"write", 4, SMALL, 1, 0, 1, 1, 0},
	{"read", 4, SMALL, 0, 0, 1, 0, N / 4},
	{"send", 4, SMALL, 0, 0, 1 + 1, 1, 0},
};

ParameterizedTestParameters(traffic, message_that_goes_ahead_costs_a_line_and_itself)
{
	return cr_make_param_array(struct cost, ahead_costs,
				   sizeof(ahead_costs) / sizeof(ahead_costs[0]));
}

ParameterizedTest(struct cost *c, traffic, message_that_goes_ahead_costs_a_line_and_itself)
{
	struct tally t;
	struct pipe p;

	counters_apart();
	setenv("NCCL_EFA_PROTOCOL", c->protocol, 1);
	open_with(&p, c->rails);
	move(&p, AHEAD, SMALL); /* with lines come credits */
	nap_ms(20);
	tally_begin(&t);
	for (int i = 0; i < N; i++) {
		/* It waits for a credit at most: there is no receive yet. */
		plug_wait(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SMALL, 0, p.from.mh));
		plug_wait(&p.plug, plug_recv(&p.plug, p.l.recv, p.to.at, SMALL, 0, p.to.mh));
	}
	tally_end(&t, c);
	expect_tally(&t, c);
	pipe_close(&p);
}

/* By reads. A receiver that finds several of them over says so at once for all. */
Test(traffic, reads_that_are_over_together_are_told_of_together)
{
	const struct cost c = {"read", 1, SMALL, 0, 1, 1, 1, N / 4};
	void *recv[AHEAD], *send[AHEAD];
	struct tally t;
	struct pipe p;

	counters_apart();
	setenv("NCCL_EFA_PROTOCOL", c.protocol, 1);
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	open_with(&p, c.rails);
	tally_begin(&t);
	for (int done = 0; done < N; done += AHEAD) {
		for (int i = 0; i < AHEAD; i++)
			send[i] = plug_send(&p.plug, p.l.send, p.from.at + SMALL * i, SMALL, 0,
					    p.from.mh);
		nap_ms(100);
		for (int i = 0; i < AHEAD; i++)
			need(!plug_test(&p.plug, send[i], NULL), "nobody receives it");
		/* The receiver knows of all, and asks for them, and does not look meanwhile. */
		for (int i = 0; i < AHEAD; i++)
			recv[i] = plug_recv(&p.plug, p.l.recv, p.to.at + SMALL * i, SMALL, 0,
					    p.to.mh);
		nap_ms(200);
		for (int i = AHEAD - 1; i >= 0; i--)
			plug_wait(&p.plug, recv[i]);
		for (int i = 0; i < AHEAD; i++)
			plug_wait(&p.plug, send[i]);
	}
	tally_end(&t, &c);
	expect_tally(&t, &c);
	pipe_close(&p);
}

/* ---- not before it can ---- */

/* What a receiver is asked for while it does not look: as much as it promised, and no more. */
static struct way {
	char settings[16], protocol[8];
} ways[] = {
	{"caps=0x6f", "write"},
	{"caps=0x2f", "write"}, /* a receive for each message */
	{"caps=0x0f", "read"},
	{"caps=0x0e", "send"}, /* many for each */
};

/* One look at each that is not done yet, and NULL from then on. True when all are. */
static bool look(struct pipe *p, void **request, int n)
{
	bool all = true;

	for (int i = 0; i < n; i++) {
		if (request[i] && plug_test(&p->plug, request[i], NULL))
			request[i] = NULL;
		all = all && !request[i];
	}
	return all;
}

/* Sends come as far as they can while only their side is worked, for @ms at most; then the rest. */
static void move_many(struct pipe *p, int n, size_t size, int ms)
{
	int64_t stalled = now_ms() + ms, end = now_ms() + PLUG_WAIT_MS;
	void *recv[AHEAD], *send[AHEAD];
	bool sent = false;
	unsigned tries = 0;

	for (int i = 0; i < n; i++)
		recv[i] = plug_recv(&p->plug, p->l.recv, p->to.at, size, 0, p->to.mh);
	for (int i = 0; i < n; i++)
		send[i] = plug_send(&p->plug, p->l.send, p->from.at, size, 0, p->from.mh);
	while (!sent && now_ms() < stalled) {
		sent = look(p, send, n);
		relax(&tries);
	}
	while (!look(p, recv, n) | !look(p, send, n)) {
		need(now_ms() < end, "not done within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
}

ParameterizedTestParameters(traffic, no_request_meets_an_empty_receive_queue)
{
	return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));
}

ParameterizedTest(struct way *w, traffic, no_request_meets_an_empty_receive_queue)
{
	long long before;
	struct pipe p;

	counters_apart();
	plug_softefa(w->settings);
	plug_softefa("max_rq_wr=1024");
	setenv("NCCL_EFA_PROTOCOL", w->protocol, 1);
	open_with(&p, 1);
	before = counters_rnr();
	for (int i = 0; i < (strcmp(w->protocol, "read") ? 300 : 30); i++)
		move_many(&p, AHEAD, SMALL, 50);
	for (int i = 0; i < 4; i++)
		move_many(&p, AHEAD, BIG, 200);
	cr_assert(eq(llong, counters_rnr() - before, 0));
	pipe_close(&p);
}

/* They want more segments at once than one engine has receives, and share them. */
Test(traffic, comms_that_share_receives_get_no_more_than_there_are)
{
	enum { LINKS = 24, ROUNDS = 4, SIZE = BIG / 4 };
	void *recv[LINKS], *send[LINKS];
	struct link l[LINKS];
	long long before;
	struct pipe p;

	counters_apart();
	plug_softefa("max_msg_size=4228"); /* MTU: 63 segments each */
	setenv("NCCL_EFA_PROTOCOL", "send", 1);
	open_with(&p, 1);
	for (int i = 0; i < LINKS; i++)
		link_open(&l[i], &p.plug, 0, 1);
	bytes_fill(p.from.at, SIZE, 5);
	before = counters_rnr();
	for (int round = 0; round < ROUNDS; round++) {
		int64_t end = now_ms() + PLUG_WAIT_MS;
		unsigned tries = 0;

		memset(p.to.at, 0, SIZE);
		for (int i = 0; i < LINKS; i++)
			recv[i] = plug_recv(&p.plug, l[i].recv, p.to.at, SIZE, 0, p.to.mh);
		for (int i = 0; i < LINKS; i++)
			send[i] = plug_send(&p.plug, l[i].send, p.from.at, SIZE, 0, p.from.mh);
		nap_ms(50); /* a receiver that does not look */
		while (!look(&p, recv, LINKS) | !look(&p, send, LINKS)) {
			need(now_ms() < end, "not done within %d ms", PLUG_WAIT_MS);
			relax(&tries);
		}
		cr_assert(eq(long, bytes_differ(p.to.at, SIZE, 5), -1));
	}
	cr_assert(eq(llong, counters_rnr() - before, 0));
	for (int i = 0; i < LINKS; i++)
		link_close(&l[i]);
	pipe_close(&p);
}

/*
 * ---- two processes with many connections, of which one does not look ----
 *
 * DEEP messages by each, more than a queue of words has receives for, if they were not bounded.
 */
enum { CROWD = 120, DEEP = 32, WORD = 9000, APART_MS = 300 };

struct crowd {
	struct plug plug;
	struct link l[CROWD];
	struct mem mem;
	void *request[CROWD][DEEP];
	bool done[CROWD][DEEP];
};

static void crowd_open(struct crowd *c, struct twin *t, bool sends)
{
	plug_open(&c->plug, 0);
	for (int i = 0; i < CROWD; i++)
		link_open_twin(&c->l[i], &c->plug, t);
	mem_get(&c->mem, &c->plug, sends ? c->l[0].send : c->l[0].recv, WORD, 0);
}

static void crowd_close(struct crowd *c)
{
	mem_put(&c->mem);
	for (int i = 0; i < CROWD; i++)
		link_close(&c->l[i]);
	plug_close(&c->plug);
}

static void step(struct crowd *c, int i, int k, bool sends)
{
	void **request = &c->request[i][k];

	if (c->done[i][k] || (k && !c->request[i][k - 1]))
		return;
	if (!*request && sends)
		*request = plug_isend(&c->plug, c->l[i].send, c->mem.at, WORD, 0, c->mem.mh);
	else if (!*request)
		*request = plug_irecv(&c->plug, c->l[i].recv, c->mem.at, WORD, 0, c->mem.mh);
	else
		c->done[i][k] = plug_test(&c->plug, *request, NULL);
}

/* All that can be done, for @ms at most. True: all is done. */
static bool work(struct crowd *c, bool sends, int ms)
{
	int64_t end = now_ms() + ms;
	int left = 1;

	while (left && now_ms() < end) {
		left = 0;
		for (int i = 0; i < CROWD; i++)
			for (int k = 0; k < DEEP; k++) {
				step(c, i, k, sends);
				left += !c->done[i][k];
			}
	}
	return !left;
}

/* Each works while the other does nothing, in turn; then both do. */
static void take_turns(struct crowd *c, struct twin *t, bool sends)
{
	for (int turn = 0; turn < 6; turn++) {
		twin_meet(t);
		if (turn % 2 == sends)
			work(c, sends, APART_MS);
		twin_meet(t);
	}
	need(work(c, sends, PLUG_WAIT_MS), "not done within %d ms", PLUG_WAIT_MS);
	twin_meet(t);
}

static void crowd_receives(struct twin *t, void *arg)
{
	static struct crowd c;

	(void)arg;
	crowd_open(&c, t, false);
	take_turns(&c, t, false);
	crowd_close(&c);
}

ParameterizedTestParameters(traffic, peer_that_does_not_look_has_a_receive_for_all_that_it_is_sent)
{
	return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));
}

ParameterizedTest(struct way *w, traffic,
		  peer_that_does_not_look_has_a_receive_for_all_that_it_is_sent)
{
	static struct crowd c;
	struct twin t;

	counters_apart();
	plug_softefa(w->settings);
	setenv("NCCL_EFA_PROTOCOL", w->protocol, 1);
	setenv("NCCL_EFA_RAILS", "1", 1);
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	twin_start(&t, crowd_receives, NULL);
	crowd_open(&c, &t, true);
	take_turns(&c, &t, true);
	cr_assert(zero(llong, counters_rnr()));
	crowd_close(&c);
	twin_end(&t);
}
