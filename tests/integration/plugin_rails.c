/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices of several EFA functions: who carries what. Needs softefa with four devices. */
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
#include "../lib/twin.h"

enum { RAILS = 4, BIG = 1 << 20, STRIPE = 65536, LINE = 64 };

TestSuite(rails, .timeout = 120);

static void use_rails(int n)
{
	char text[8];

	snprintf(text, sizeof(text), "%d", n);
	setenv("NCCL_EFA_RAILS", text, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "65536", 1);
}

static void move(struct pipe *p, size_t size, uint32_t seed)
{
	void *recv = plug_recv(&p->plug, p->l.recv, p->to.at, BIG, 0, p->to.mh), *send;
	long bad;

	bytes_fill(p->from.at, size, seed);
	send = plug_send(&p->plug, p->l.send, p->from.at, size, 0, p->from.mh);
	need((size_t)plug_wait(&p->plug, recv) == size, "message %u", seed);
	bad = bytes_differ(p->to.at, size, seed);
	need(bad < 0, "message %u: byte %ld of %zu is wrong", seed, bad, size);
	plug_wait(&p->plug, send);
}

/* ---- what NCCL is told ---- */

static struct grouped {
	int rails, devs;
	char name[16];
} grouped[] = {{1, 4, "efa_0"}, {2, 2, "efa_0+1"}, {4, 1, "efa_0+3"}};

ParameterizedTestParameters(rails, functions_are_grouped_as_asked)
{
	return cr_make_param_array(struct grouped, grouped, sizeof(grouped) / sizeof(grouped[0]));
}

ParameterizedTest(struct grouped *g, rails, functions_are_grouped_as_asked)
{
	struct nccl_net_props_v12 one, props;
	struct plug p;

	use_rails(g->rails);
	plug_open(&p, 0);
	cr_assert(eq(int, p.ndev, g->devs));
	need(p.net.get_properties(&p.net, 0, &props) == NCCL_NET_OK, "properties");
	cr_assert(eq(str, props.name, g->name));
	cr_assert(eq(int, props.speed, 100000 * g->rails));
	if (g->devs > 1) {
		need(p.net.get_properties(&p.net, 1, &one) == NCCL_NET_OK, "properties");
		cr_assert(ne(u64, one.guid, props.guid));
		cr_assert(ne(str, one.name, props.name));
	}
	plug_close(&p);
}

/* ---- who carries what ---- */

Test(rails, large_message_goes_over_all_rails_in_equal_parts)
{
	struct counters before, w;
	struct pipe p;

	use_rails(RAILS);
	counters_apart();
	pipe_open(&p, 0, BIG);
	counters_get(&before, "write");
	move(&p, BIG - 4, 1);
	counters_since(&w, "write", &before);
	for (int i = 0; i < RAILS; i++)
		need(w.bytes[i] >= BIG / RAILS - 128 * RAILS &&
			     w.bytes[i] <= BIG / RAILS + 128 * RAILS,
		     "rail %d wrote %lld bytes", i, w.bytes[i]);
	pipe_close(&p);
}

Test(rails, message_below_two_stripes_is_not_divided)
{
	struct counters before, w;
	struct pipe p;
	int busy = 0;

	use_rails(RAILS);
	counters_apart();
	pipe_open(&p, 0, BIG);
	counters_get(&before, "write");
	move(&p, 2 * STRIPE - 1, 1);
	counters_since(&w, "write", &before);
	for (int i = 0; i < RAILS; i++)
		busy += w.bytes[i] > LINE;
	cr_assert(eq(int, busy, 1));
	pipe_close(&p);
}

Test(rails, no_rail_gets_less_than_a_stripe)
{
	struct counters before, w;
	struct pipe p;
	int busy = 0;

	use_rails(RAILS);
	counters_apart();
	pipe_open(&p, 0, BIG);
	counters_get(&before, "write");
	move(&p, 3 * STRIPE, 1);
	counters_since(&w, "write", &before);
	for (int i = 0; i < RAILS; i++)
		busy += w.bytes[i] >= STRIPE;
	cr_assert(eq(int, busy, 3));
	pipe_close(&p);
}

Test(rails, small_messages_take_the_rails_in_turn)
{
	enum { N = 40, SIZE = 1000 };
	struct counters before, w;
	struct pipe p;

	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	use_rails(RAILS);
	counters_apart();
	pipe_open(&p, 0, BIG);
	counters_get(&before, "write");
	for (uint32_t i = 0; i < N; i++)
		move(&p, SIZE, i);
	counters_since(&w, "write", &before);
	for (int i = 0; i < RAILS; i++) {
		cr_assert(eq(llong, w.n[i], 2 * N / RAILS), "rail %d: a line for each message", i);
		cr_assert(eq(llong, w.bytes[i], N / RAILS * (SIZE + LINE)));
	}
	pipe_close(&p);
}

/* ---- sizes that a cut could get wrong ---- */

Test(rails, every_size_around_a_cut_arrives)
{
	struct pipe p;

	use_rails(RAILS);
	pipe_open(&p, 0, BIG);
	for (uint32_t k = 2; k <= 5; k++)
		for (int d = -130; d <= 130; d += d < -2 || d >= 2 ? 64 : 1)
			move(&p, (size_t)((int)(k * STRIPE) + d), (uint32_t)d);
	mem_unharmed(&p.to, 5 * STRIPE + 130);
	pipe_close(&p);
}

/* ---- unequal ---- */

static struct unequal {
	int here, there;
} unequals[] = {{4, 2}, {2, 4}, {4, 1}, {1, 4}, {3, 2}, {4, 4}};

struct talk {
	int rails, messages;
};

static void run_side(struct twin *t, void *arg)
{
	const struct talk *talk = arg;
	struct pipe p;

	use_rails(talk->rails);
	memset(&p, 0, sizeof(p));
	plug_open(&p.plug, 0);
	link_open_twin(&p.l, &p.plug, t);
	mem_get(&p.from, &p.plug, p.l.send, BIG, 0);
	mem_get(&p.to, &p.plug, p.l.recv, BIG, 0);
	for (int i = 0; i < talk->messages; i++)
		move(&p, (uint32_t)i * 17477u * 60 / (uint32_t)talk->messages % BIG, (uint32_t)i);
	twin_meet(t);
	pipe_close(&p);
}

static void run_both(const struct unequal *u, int messages)
{
	struct talk here = {u->here, messages}, there = {u->there, messages};
	struct twin t;

	twin_start(&t, run_side, &there);
	run_side(&t, &here);
	twin_end(&t);
}

ParameterizedTestParameters(rails, sides_with_unequal_rails_use_what_both_have)
{
	return cr_make_param_array(struct unequal, unequals,
				   sizeof(unequals) / sizeof(unequals[0]));
}

ParameterizedTest(struct unequal *u, rails, sides_with_unequal_rails_use_what_both_have)
{
	run_both(u, 60);
}

/* All pairs, each in a process of its own: how many rails is read from the environment once. */
ParameterizedTestParameters(rails, any_number_of_rails_meets_any_other)
{
	static struct unequal all[64];

	for (int i = 0; i < 64; i++)
		all[i] = (struct unequal){1 + i / 8, 1 + i % 8};
	return cr_make_param_array(struct unequal, all, 64);
}

ParameterizedTest(struct unequal *u, rails, any_number_of_rails_meets_any_other)
{
	counters_apart(); /* the domain has fewer devices */
	plug_softefa("devices=8");
	run_both(u, 6);
}
