/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that come round: lines of a ring after 2^32 buffers, which no test waits for. So both
 * ends are set to shortly before; the plugin is linked in for that.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "../../plugin/conn.h"
#include "../../plugin/net.h"
#include "../../plugin/p2p.h"
#include "../lib/bytes.h"
#include "../lib/need.h"
#include "../lib/plug.h"

enum { SIZE = 3000, BEFORE = 1000, MESSAGES = 3000 };

TestSuite(wrap, .timeout = 240);

static uint8_t from[SIZE], to[SIZE];

struct ends {
	struct net_send *s;
	struct net_recv *r;
	void *from_mr, *to_mr;
};

static void open_ends(struct ends *e)
{
	uint8_t handle[PROTO_HANDLE_BYTES];
	int64_t end = now_ms() + PLUG_WAIT_MS;
	struct net_listen *l;
	struct net_dev *dev;

	memset(e, 0, sizeof(*e));
	cr_assert(zero(int, net_init(NULL)));
	dev = net_dev_at(0);
	if (!dev)
		cr_skip("no EFA here: run below softefa");
	cr_assert(zero(int, net_listen(dev, handle, &l)));
	while (!e->s || !e->r) {
		if (!e->s)
			cr_assert(zero(int, net_connect(dev, handle, &e->s)));
		if (!e->r)
			cr_assert(zero(int, net_accept(l, &e->r)));
		need(now_ms() < end, "no connection");
	}
	net_listen_close(l);
	cr_assert(zero(int, net_reg_mr(e->s, from, SIZE, NCCL_NET_PTR_HOST, &e->from_mr)));
	cr_assert(zero(int, net_reg_mr(e->r, to, SIZE, NCCL_NET_PTR_HOST, &e->to_mr)));
}

static void close_ends(struct ends *e)
{
	net_dereg_mr(e->s, e->from_mr);
	net_dereg_mr(e->r, e->to_mr);
	net_close_send(e->s);
	net_close_recv(e->r);
	net_finalize();
}

static void wait_done(void *request, int *size)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	int done = 0;

	while (!done) {
		cr_assert(zero(int, net_test(request, &done, size)));
		need(now_ms() < end, "a request is not done");
	}
}

static void message(struct ends *e, uint32_t i)
{
	size_t size = i % SIZE, room = SIZE;
	int64_t end = now_ms() + PLUG_WAIT_MS;
	void *recv = NULL, *send = NULL, *at = to;
	int tag = 0, got, done;
	long bad;

	bytes_fill(from, size, i);
	cr_assert(zero(int, net_isend(e->s, from, size, 0, e->from_mr, &send)));
	need(!send || e->s->eager_max || e->s->c.engine->mode == PROTO_READ,
	     "message %u goes before there is a receive for it", i);
	while (!recv)
		cr_assert(zero(int, net_irecv(e->r, 1, &at, &room, &tag, &e->to_mr, &recv)));
	while (!send) {
		cr_assert(zero(int, net_isend(e->s, from, size, 0, e->from_mr, &send)));
		if (send)
			break;
		cr_assert(zero(int, net_test(recv, &done, &got)));
		need(!done && now_ms() < end, "message %u", i);
	}
	wait_done(send, NULL);
	wait_done(recv, &got);
	bad = bytes_differ(to, size, i);
	need((size_t)got == size && bad < 0, "message %u: %d of %zu bytes, %ld", i, got, size, bad);
}

static struct mode {
	char name[8];
} modes[] = {{"write"}, {"read"}, {"send"}};

/* Without lines. */
static bool by_reads(const struct mode *m)
{
	return strcmp(m->name, "read") == 0;
}

ParameterizedTestParameters(wrap, lines_are_told_apart_when_their_numbers_begin_anew)
{
	return cr_make_param_array(struct mode, modes, sizeof(modes) / sizeof(modes[0]));
}

ParameterizedTest(struct mode *m, wrap, lines_are_told_apart_when_their_numbers_begin_anew)
{
	struct ends e;

	setenv("NCCL_EFA_PROTOCOL", m->name, 1);
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	open_ends(&e);
	e.s->next_seq = e.r->next_seq = e.r->seen = e.r->first_open = UINT32_MAX - BEFORE;
	e.s->next_ready = e.s->unread = e.r->fin.read = UINT32_MAX - BEFORE / 2;
	e.s->next_ahead = e.r->early_next = UINT32_MAX - BEFORE / 3;
	for (uint32_t i = 0; i < MESSAGES; i++)
		message(&e, i);
	cr_assert(eq(u32, e.r->next_seq, MESSAGES - BEFORE - 1));
	cr_assert(eq(u32, by_reads(m) ? e.s->next_ready : e.s->next_seq,
		     MESSAGES - BEFORE / (by_reads(m) ? 2 : 1) - 1));
	close_ends(&e);
}

/* Of the messages that go ahead, and of the lines behind them. */
ParameterizedTestParameters(wrap, messages_ahead_are_told_apart_when_their_numbers_begin_anew)
{
	return cr_make_param_array(struct mode, modes, sizeof(modes) / sizeof(modes[0]));
}

ParameterizedTest(struct mode *m, wrap, messages_ahead_are_told_apart_when_their_numbers_begin_anew)
{
	struct ends e;

	setenv("NCCL_EFA_PROTOCOL", m->name, 1);
	open_ends(&e);
	e.s->next_seq = e.r->next_seq = e.r->seen = e.r->first_open = UINT32_MAX - BEFORE;
	e.s->next_ahead = e.s->eager_sent = e.s->eager_limit = UINT32_MAX - BEFORE / 2;
	e.r->early_next = e.r->eager_came = e.r->eager_told = e.r->eager_limit =
		UINT32_MAX - BEFORE / 2;
	for (uint32_t i = 0; i < MESSAGES; i++)
		message(&e, i);
	if (!by_reads(m))
		need(e.s->next_seq - (MESSAGES - BEFORE - 2) < 2, "line %u", e.s->next_seq);
	need(e.s->eager_sent > 100 && e.s->eager_sent < MESSAGES, "%u went ahead", e.s->eager_sent);
	close_ends(&e);
}

/*
 * More than 2^17, the number of comms, and 2^16, that of the doorbells; between messages that go
 * ahead (public report 48).
 */
Test(wrap, hundred_and_forty_thousand_messages)
{
	struct ends e;
	uint32_t ahead;

	open_ends(&e);
	message(&e, 0);
	message(&e, 1);
	ahead = e.s->eager_sent;
	e.s->eager_max = 0;
	for (uint32_t i = 0; i < 140000; i++)
		message(&e, 1 + i % 64);
	need(ahead && e.s->eager_sent == ahead, "%u, then %u went ahead", ahead, e.s->eager_sent);
	e.s->eager_max = SIZE;
	message(&e, 2);
	need(e.s->eager_sent == ahead + 1, "the last one waits");
	close_ends(&e);
}
