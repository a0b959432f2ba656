/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes whose adapters can different things. Needs softefa. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { HANDLE = NCCL_NET_HANDLE_BYTES, MESSAGES = 300, BIG = 1 << 20 };

struct side {
	char settings[24];
};

struct pair {
	struct side here, there;
};

#define UNSOLICITED "caps=0x6f"
#define SOLICITED   "caps=0x2f"
#define READ        "caps=0x0f"
#define SEND        "caps=0x0e"

/* Each with each: the lesser decides. */
static struct pair pairs[] = {
	{{UNSOLICITED}, {UNSOLICITED}},
	{{UNSOLICITED}, {SOLICITED}},
	{{SOLICITED}, {UNSOLICITED}},
	{{SOLICITED}, {SOLICITED}},
	{{UNSOLICITED}, {READ}},
	{{READ}, {UNSOLICITED}},
	{{READ}, {READ}},
	{{UNSOLICITED}, {SEND}},
	{{SEND}, {SOLICITED}},
	{{READ}, {SEND}},
	{{SEND}, {READ}},
	{{SEND}, {SEND}},
	{{"profile=efa0"}, {"profile=efa2"}},
	{{"profile=efa4"}, {"profile=efa1"}},
};

static size_t size_of(uint32_t i)
{
	return i == MESSAGES / 2 ? BIG : i * 37 % 9000;
}

/* Message i of both directions at the same time, from and to one buffer each. */
static void exchange(struct link *l, const struct mem *from, const struct mem *to, uint32_t i)
{
	size_t size = size_of(i);
	void *recv = plug_recv(l->plug, l->recv, to->at, BIG, 0, to->mh), *send;
	int got;
	long bad;

	bytes_fill(from->at, size, i);
	send = plug_send(l->plug, l->send, from->at, size, 0, from->mh);
	got = plug_wait(l->plug, recv);
	need((size_t)got == size, "message %u: %d of %zu bytes", i, got, size);
	bad = bytes_differ(to->at, size, i);
	need(bad < 0, "message %u: byte %ld of %zu is wrong", i, bad, size);
	plug_wait(l->plug, send);
}

static void run_side(struct twin *t, void *arg)
{
	const struct side *side = arg;
	struct mem from, to;
	struct plug p;
	struct link l;

	plug_softefa(side->settings);
	plug_open(&p, 0);
	link_open_twin(&l, &p, t);
	mem_get(&from, &p, l.send, BIG, 0);
	mem_get(&to, &p, l.recv, BIG, 0);
	for (uint32_t i = 0; i < MESSAGES; i++)
		exchange(&l, &from, &to, i);
	twin_meet(t); /* the other may need this side until it has its last message */
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

ParameterizedTestParameters(mixed, data_flows_both_ways_whatever_each_side_can_do)
{
	return cr_make_param_array(struct pair, pairs, sizeof(pairs) / sizeof(pairs[0]));
}

ParameterizedTest(struct pair *pair, mixed, data_flows_both_ways_whatever_each_side_can_do)
{
	struct twin t;

	twin_start(&t, run_side, &pair->there);
	run_side(&t, &pair->here);
	twin_end(&t);
}

static struct said {
	char settings[24], text[40];
} said[] = {{UNSOLICITED, "RDMA write, unsolicited"},
	    {SOLICITED, "data by RDMA write"},
	    {READ, "RDMA read: no RDMA write"},
	    {SEND, "messages: no RDMA"}};

ParameterizedTestParameters(mixed, what_an_adapter_can_do_is_said)
{
	return cr_make_param_array(struct said, said, sizeof(said) / sizeof(said[0]));
}

ParameterizedTest(struct said *s, mixed, what_an_adapter_can_do_is_said)
{
	struct plug p;

	plug_softefa(s->settings);
	plug_open(&p, 0);
	cr_assert(zero(int, plug_warned()));
	need(plug_said(s->text), "%d lines, the last: %s", plug_informed(), plug_info());
	plug_close(&p);
}

static struct forced {
	char settings[24], protocol[8], text[40];
} forced[] = {{READ, "write", "no RDMA write"}, {SEND, "read", "no RDMA read"}};

ParameterizedTestParameters(mixed, protocol_that_is_asked_for_and_cannot_be_is_an_error)
{
	return cr_make_param_array(struct forced, forced, sizeof(forced) / sizeof(forced[0]));
}

ParameterizedTest(struct forced *f, mixed, protocol_that_is_asked_for_and_cannot_be_is_an_error)
{
	uint8_t handle[HANDLE];
	struct plug p;
	void *listen;

	plug_softefa(f->settings);
	setenv("NCCL_EFA_PROTOCOL", f->protocol, 1);
	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 1000), NCCL_NET_INVALID_USAGE));
	need(plug_said(f->text) && plug_said("NCCL_EFA_PROTOCOL"), "%s", plug_warning());
	plug_forget();
	plug_close_listen(&p, listen);
	plug_close(&p);
}

static void own_gid(struct twin *t, void *arg)
{
	uint8_t handle[HANDLE];
	struct plug p;
	void *listen;

	(void)arg;
	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	twin_put(t, handle, HANDLE);
	twin_meet(t);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

/* A connection pending in one process is no business of another that dies meanwhile. */
Test(mixed, pending_connect_survives_the_end_of_a_third_process)
{
	uint8_t handle[HANDLE], other[HANDLE];
	struct twin t, third;
	struct plug p;
	int64_t end;

	twin_start(&t, own_gid, NULL);
	twin_start(&third, own_gid, NULL);
	plug_open(&p, 0);
	twin_get(&t, handle, HANDLE);
	twin_get(&third, other, HANDLE);
	need(!plug_connect_once(&p, 0, handle), "connected without accept");
	twin_kill(&third);
	for (end = now_ms() + 100; now_ms() < end;)
		need(!plug_connect_once(&p, 0, handle), "connected without accept");
	twin_meet(&t);
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	twin_end(&t);
	plug_forget();
	plug_close(&p);
}
