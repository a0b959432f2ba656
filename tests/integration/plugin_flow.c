/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: when they start, when they are done, and in which order they match. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { SLOTS = 128, SIZE = 600 }; /* of a test's two buffers, each cut into slots */

#define ABIS() cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS)

struct flow {
	struct plug plug;
	struct link l;
	struct mem from, to;
	void *send[SLOTS], *recv[SLOTS];
};

static void flow_open(struct flow *f, int abi)
{
	memset(f, 0, sizeof(*f));
	plug_open(&f->plug, abi);
	link_open(&f->l, &f->plug, 0, 0);
	mem_get(&f->from, &f->plug, f->l.send, SLOTS * SIZE, 0);
	mem_get(&f->to, &f->plug, f->l.recv, SLOTS * SIZE, 0);
	for (int i = 0; i < SLOTS; i++)
		bytes_fill(f->from.at + i * SIZE, SIZE, (uint32_t)i);
}

static void flow_close(struct flow *f)
{
	mem_put(&f->from);
	mem_put(&f->to);
	link_close(&f->l);
	plug_close(&f->plug);
}

static uint8_t *source(const struct flow *f, int i)
{
	return f->from.at + i * SIZE;
}

static uint8_t *target(const struct flow *f, int i)
{
	return f->to.at + i * SIZE;
}

/* Post receive, or send, number @i; one try. */
static bool post_recv(struct flow *f, int i, int tag)
{
	f->recv[i] = plug_irecv(&f->plug, f->l.recv, target(f, i), SIZE, tag, f->to.mh);
	return f->recv[i];
}

static bool post_send(struct flow *f, int i, int tag)
{
	f->send[i] = plug_isend(&f->plug, f->l.send, source(f, i), SIZE, tag, f->from.mh);
	return f->send[i];
}

static void send_now(struct flow *f, int i, int tag)
{
	f->send[i] = plug_send(&f->plug, f->l.send, source(f, i), SIZE, tag, f->from.mh);
}

/* For longer than anything takes that is on its way. */
static void refused(struct flow *f, bool (*post)(struct flow *f, int i, int tag), int i, int tag)
{
	int64_t end = now_ms() + 50;
	long tries = 0;

	/* By reads a send is not asked to wait: it is read when there is a receive for it. */
	if (post == post_send && plug_goes_by("read"))
		return;
	for (unsigned rest = 0; now_ms() < end; relax(&rest), tries++)
		need(!post(f, i, tag), "number %d with tag %d is accepted at try %ld", i, tag,
		     tries);
}

/* Receive @i is done, with what send @from sent. */
static void wait_recv(struct flow *f, int i, int from)
{
	long bad;

	need(plug_wait(&f->plug, f->recv[i]) == SIZE, "receive %d", i);
	bad = bytes_differ(target(f, i), SIZE, (uint32_t)from);
	need(bad < 0, "receive %d is not message %d, at byte %ld", i, from, bad);
}

static void wait_send(struct flow *f, int i)
{
	need(plug_wait(&f->plug, f->send[i]) == SIZE, "send %d", i);
}

/* ---- how many ---- */

ParameterizedTestParameters(flow, thirty_two_are_outstanding_and_may_be_tested_newest_first)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, flow,
		  thirty_two_are_outstanding_and_may_be_tested_newest_first)
{
	struct flow f;

	flow_open(&f, abi->v);
	for (int i = 0; i < 32; i++)
		need(post_recv(&f, i, 0), "receive %d is refused", i);
	for (int i = 0; i < 32; i++)
		send_now(&f, i, 0);
	for (int i = 31; i >= 0; i--)
		wait_recv(&f, i, i);
	for (int i = 31; i >= 0; i--)
		wait_send(&f, i);
	flow_close(&f);
}

Test(flow, receives_beyond_what_fits_are_refused_and_none_is_lost)
{
	struct flow f;
	int n = 0;

	flow_open(&f, 0);
	while (n < SLOTS && post_recv(&f, n, 0))
		n++;
	need(n >= 32 && n < SLOTS, "%d receives were accepted", n);
	refused(&f, post_recv, n, 0);
	for (int i = 0; i < n; i++)
		send_now(&f, i, 0);
	for (int i = 0; i < n; i++) {
		wait_recv(&f, i, i);
		wait_send(&f, i);
	}
	mem_unharmed(&f.to, (size_t)n * SIZE);
	need(post_recv(&f, n, 0), "receive %d is refused though all are done", n);
	send_now(&f, n, 0);
	wait_recv(&f, n, n);
	wait_send(&f, n);
	flow_close(&f);
}

Test(flow, sends_beyond_the_receives_are_refused_and_none_is_lost)
{
	struct flow f;

	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	flow_open(&f, 0);
	for (int i = 0; i < 32; i++)
		post_recv(&f, i, 0);
	for (int i = 0; i < 32; i++)
		send_now(&f, i, 0);
	refused(&f, post_send, 32, 0);
	for (int i = 0; i < 32; i++) {
		wait_recv(&f, i, i);
		wait_send(&f, i);
	}
	refused(&f, post_send, 32, 0);
	flow_close(&f);
}

/* Sends that nobody tests keep their requests; what cannot have one waits. */
Test(flow, sends_that_nobody_tests_hold_up_others_and_lose_none)
{
	struct flow f;
	int sent = 0;

	flow_open(&f, 0);
	for (int i = 0; i < SLOTS; i++) {
		int64_t end = now_ms() + 500;
		unsigned tries = 0;

		f.recv[i] = plug_recv(&f.plug, f.l.recv, target(&f, i), SIZE, 0, f.to.mh);
		while (now_ms() < end && sent == i) {
			sent += post_send(&f, sent, 0);
			relax(&tries);
		}
		if (sent == i)
			break;
		wait_recv(&f, i, i);
	}
	need(sent >= 32 && sent < SLOTS, "%d sends were accepted", sent);
	for (int i = 0; i < sent; i++)
		wait_send(&f, i);
	send_now(&f, sent, 0);
	wait_recv(&f, sent, sent);
	wait_send(&f, sent);
	flow_close(&f);
}

/* ---- what a call writes ---- */

ParameterizedTestParameters(flow, send_before_any_receive_gives_no_request)
{
	return ABIS();
}

/* plug_isend() sees to it that the request is written though it starts nothing. */
ParameterizedTest(struct plug_abi *abi, flow, send_before_any_receive_gives_no_request)
{
	struct flow f;

	flow_open(&f, abi->v);
	refused(&f, post_send, 0, 0);
	post_recv(&f, 0, 0);
	send_now(&f, 0, 0);
	wait_recv(&f, 0, 0);
	wait_send(&f, 0);
	flow_close(&f);
}

Test(flow, sender_far_ahead_of_an_idle_receiver_is_held_and_grows_nothing)
{
	int most = plug_goes_by("read") ? 32 : 0, sent = 0;
	struct flow f;

	flow_open(&f, 0);
	for (int64_t end = now_ms() + 1500; now_ms() < end;)
		sent += post_send(&f, sent, 0);
	need(sent == most, "%d are accepted, not %d", sent, most);
	need(plug_warned() == 0, "%s", plug_warning());
	for (int i = 0; i <= most; i++) {
		post_recv(&f, i, 0);
		if (i == most)
			send_now(&f, i, 0);
		wait_recv(&f, i, i);
		wait_send(&f, i);
	}
	flow_close(&f);
}

Test(flow, receiver_far_ahead_of_an_idle_sender_waits)
{
	struct flow f;
	int64_t end;

	flow_open(&f, 0);
	for (int i = 0; i < 32; i++)
		post_recv(&f, i, 0);
	for (end = now_ms() + 1500; now_ms() < end;)
		need(!plug_test(&f.plug, f.recv[31], NULL), "done, but nothing was sent");
	for (int i = 0; i < 32; i++)
		send_now(&f, i, 0);
	for (int i = 0; i < 32; i++) {
		wait_recv(&f, i, i);
		wait_send(&f, i);
	}
	flow_close(&f);
}

Test(flow, send_may_be_tested_without_asking_for_its_size)
{
	struct flow f;
	unsigned tries = 0;

	flow_open(&f, 0);
	post_recv(&f, 0, 0);
	send_now(&f, 0, 0);
	while (!plug_test(&f.plug, f.send[0], NULL))
		relax(&tries);
	wait_recv(&f, 0, 0);
	flow_close(&f);
}

/* NCCL asks for no more than max_recvs; an error, and the comm lives. */
struct parts {
	int abi, n;
};

static struct parts groups[] = {{6, 2},  {7, 2},  {8, 2},  {9, 9},  {10, 9},
				{11, 9}, {12, 9}, {12, 0}, {12, -1}};

ParameterizedTestParameters(flow, receive_of_another_number_of_parts_is_an_error)
{
	return cr_make_param_array(struct parts, groups, sizeof(groups) / sizeof(groups[0]));
}

ParameterizedTest(struct parts *g, flow, receive_of_another_number_of_parts_is_an_error)
{
	enum { MANY = 9 };
	size_t size[MANY];
	int tag[MANY] = {0};
	void *at[MANY], *mh[MANY], *request = &size;
	enum nccl_net_result rc;
	struct flow f;

	flow_open(&f, g->abi);
	for (int i = 0; i < MANY; i++) {
		size[i] = SIZE;
		at[i] = target(&f, i);
		mh[i] = f.to.mh;
	}
	rc = f.plug.net.irecv(&f.plug.net, f.l.recv, g->n, at, size, tag, mh, NULL, &request);
	need(rc != NCCL_NET_OK && !request, "result %d", rc);
	plug_forget();
	post_recv(&f, 0, 0);
	send_now(&f, 0, 0);
	wait_recv(&f, 0, 0);
	wait_send(&f, 0);
	flow_close(&f);
}

/* ---- matching ---- */

ParameterizedTestParameters(flow, send_with_another_tag_waits_until_its_receive_is_at_the_head)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, flow,
		  send_with_another_tag_waits_until_its_receive_is_at_the_head)
{
	struct flow f;

	flow_open(&f, abi->v);
	post_recv(&f, 0, 7);
	post_recv(&f, 1, -8);
	refused(&f, post_send, 1, -8);
	send_now(&f, 0, 7);
	wait_recv(&f, 0, 0);
	send_now(&f, 1, -8);
	wait_recv(&f, 1, 1);
	wait_send(&f, 0);
	wait_send(&f, 1);
	flow_close(&f);
}

Test(flow, sends_with_a_tag_that_nobody_receives_harm_no_other)
{
	struct flow f;

	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	flow_open(&f, 0);
	for (int i = 0; i < 5; i++) {
		post_recv(&f, i, 5);
		refused(&f, post_send, i, 6);
		send_now(&f, i, 5);
		wait_recv(&f, i, i);
		wait_send(&f, i);
	}
	flow_close(&f);
}

/* More laps than a ring of any sensible size has entries. */
Test(flow, messages_match_in_order_over_many_laps)
{
	enum { N = 3000, AHEAD = 24 };
	struct flow f;
	int posted = 0;

	flow_open(&f, 0);
	for (int i = 0; i < N; i++) {
		long bad;

		for (; posted < N && posted < i + AHEAD; posted++)
			need(post_recv(&f, posted % SLOTS, posted), "receive %d", posted);
		bytes_fill(source(&f, i % SLOTS), SIZE, (uint32_t)i);
		send_now(&f, i % SLOTS, i);
		need(plug_wait(&f.plug, f.recv[i % SLOTS]) == SIZE, "receive %d", i);
		bad = bytes_differ(target(&f, i % SLOTS), SIZE, (uint32_t)i);
		need(bad < 0, "message %d, byte %ld", i, bad);
		wait_send(&f, i % SLOTS);
	}
	flow_close(&f);
}

/* ---- what done means ---- */

/* The large message first: it takes longest to fetch. */
Test(flow, buffer_of_a_send_may_be_overwritten_as_soon_as_it_is_done)
{
	enum { BIG = 1 << 20, N = 30 };
	struct mem from, to;
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, BIG, 0);
	mem_get(&to, &p, l.recv, BIG, 0);
	for (uint32_t i = 0; i < N; i++) {
		void *recv = plug_recv(&p, l.recv, to.at, BIG, 0, to.mh);
		long bad;

		bytes_fill(from.at, BIG, i);
		plug_wait(&p, plug_send(&p, l.send, from.at, BIG, 0, from.mh));
		memset(from.at, 0xdd, BIG);
		need(plug_wait(&p, recv) == BIG, "message %u", i);
		bad = bytes_differ(to.at, BIG, i);
		need(bad < 0, "message %u, byte %ld", i, bad);
	}
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

/* Last byte first: the look that follows done most closely. */
Test(flow, all_of_a_receive_is_there_when_it_is_done)
{
	enum { BIG = 1 << 20, N = 30 };
	struct mem from, to;
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, BIG, 0);
	mem_get(&to, &p, l.recv, BIG, 0);
	for (uint32_t i = 0; i < N; i++) {
		void *recv, *send;
		long bad;

		memset(to.at, 0xee, BIG);
		bytes_fill(from.at, BIG, i);
		recv = plug_recv(&p, l.recv, to.at, BIG, 0, to.mh);
		send = plug_send(&p, l.send, from.at, BIG, 0, from.mh);
		while (!plug_test(&p, recv, NULL))
			;
		need(to.at[BIG - 1] == from.at[BIG - 1], "the last byte of message %u", i);
		bad = bytes_differ(to.at, BIG, i);
		need(bad < 0, "message %u, byte %ld", i, bad);
		plug_wait(&p, send);
	}
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

Test(flow, message_of_a_send_that_is_done_outlives_its_comm)
{
	struct flow f;

	flow_open(&f, 0);
	for (int i = 0; i < 8; i++)
		post_recv(&f, i, 0);
	for (int i = 0; i < 8; i++)
		send_now(&f, i, 0);
	for (int i = 0; i < 8; i++)
		wait_send(&f, i);
	mem_put(&f.from);
	plug_close_send(&f.plug, f.l.send);
	nap_ms(100);
	for (int i = 0; i < 8; i++)
		wait_recv(&f, i, i);
	mem_put(&f.to);
	plug_close_recv(&f.plug, f.l.recv);
	plug_close(&f.plug);
}

/* ---- several comms ---- */

enum { COMMS = 8, ROUNDS = 400, DEEP = 4 };

struct lane {
	struct link l;
	struct mem from, to;
	void *send[DEEP], *recv[DEEP];
	uint32_t sent, posted, received;
};

static size_t lane_size(uint32_t lane, uint32_t i)
{
	return (lane * 1009 + i * 331) % 5000;
}

/* One step of what a lane can do, chosen by @what. */
static void lane_step(struct plug *p, struct lane *n, uint32_t lane, uint32_t what)
{
	uint32_t i, slot;
	int size;
	long bad;

	switch (what % 3) {
	case 0:
		i = n->posted;
		slot = i % DEEP;
		if (i == ROUNDS || i == n->received + DEEP)
			return;
		n->recv[slot] = plug_irecv(p, n->l.recv, n->to.at + slot * 5000, 5000, 1, n->to.mh);
		n->posted += n->recv[slot] != NULL;
		return;
	case 1:
		i = n->sent;
		slot = i % DEEP;
		if (i == ROUNDS || (n->send[slot] && !plug_test(p, n->send[slot], NULL)))
			return;
		bytes_fill(n->from.at + slot * 5000, lane_size(lane, i), lane << 16 | i);
		n->send[slot] = plug_isend(p, n->l.send, n->from.at + slot * 5000,
					   lane_size(lane, i), 1, n->from.mh);
		n->sent += n->send[slot] != NULL;
		return;
	default:
		i = n->received;
		slot = i % DEEP;
		if (i == n->posted || !plug_test(p, n->recv[slot], &size))
			return;
		need((size_t)size == lane_size(lane, i), "comm %u, message %u: %d bytes", lane, i,
		     size);
		bad = bytes_differ(n->to.at + slot * 5000, (size_t)size, lane << 16 | i);
		need(bad < 0, "comm %u, message %u, byte %ld of %d", lane, i, bad, size);
		n->received++;
	}
}

Test(flow, comms_that_share_a_device_do_not_mix_their_messages)
{
	static struct lane lanes[COMMS];
	int64_t end = now_ms() + PLUG_WAIT_MS;
	uint32_t done = 0;
	uint64_t seed = 5;
	struct plug p;

	plug_open(&p, 0);
	for (int i = 0; i < COMMS; i++) {
		link_open(&lanes[i].l, &p, 0, 0);
		mem_get(&lanes[i].from, &p, lanes[i].l.send, DEEP * 5000, 0);
		mem_get(&lanes[i].to, &p, lanes[i].l.recv, DEEP * 5000, 0);
	}
	while (done < COMMS * ROUNDS) {
		uint32_t r = bytes_random(&seed), i = r % COMMS;

		done -= lanes[i].received;
		lane_step(&p, &lanes[i], i, r >> 16);
		done += lanes[i].received;
		need(now_ms() < end, "%u of %d messages", done, COMMS * ROUNDS);
	}
	for (int i = 0; i < COMMS; i++) {
		for (int k = 0; k < DEEP; k++)
			if (lanes[i].send[k])
				plug_wait(&p, lanes[i].send[k]);
		mem_put(&lanes[i].from);
		mem_put(&lanes[i].to);
		link_close(&lanes[i].l);
	}
	plug_close(&p);
}

Test(flow, connection_closed_and_reopened_fifty_times_carries_on)
{
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	for (uint32_t i = 0; i < 50; i++) {
		link_open(&l, &p, 0, 0);
		link_message(&l, i * 400, i);
		link_message(&l, 1, i);
		link_close(&l);
	}
	plug_close(&p);
}
