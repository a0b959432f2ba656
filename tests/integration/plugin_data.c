/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrives, by size and by place: every byte, and none beside. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- sizes ---- */

struct message {
	int abi;
	size_t size;
};

enum { MTU = 8928, KI = 1 << 10, MI = 1 << 20 };

static const size_t sizes[] = {
	0,
	1,
	2,
	7,
	8,
	63,
	64,
	65,
	127,
	128,
	4095,
	4096,
	4097,
	MTU - 1,
	MTU,
	MTU + 1,
	64 * KI - 1,
	64 * KI,
	64 * KI + 1,
	128 * KI,
	512 * KI - 1,
	512 * KI,
	512 * KI + 1,
	MI,
	4 * MI,
};

ParameterizedTestParameters(data, message_of_this_size_arrives)
{
	static struct message m[PLUG_ABIS * COUNT(sizes) + 1];

	for (size_t i = 0; i < PLUG_ABIS * COUNT(sizes); i++)
		m[i] = (struct message){plug_abis[i % PLUG_ABIS].v, sizes[i / PLUG_ABIS]};
	m[PLUG_ABIS * COUNT(sizes)] = (struct message){12, 64 * MI};
	return cr_make_param_array(struct message, m, COUNT(m));
}

ParameterizedTest(struct message *m, data, message_of_this_size_arrives)
{
	struct plug p;
	struct link l;

	plug_open(&p, m->abi);
	link_open(&l, &p, 0, 0);
	link_message(&l, m->size, (uint32_t)m->size);
	link_close(&l);
	plug_close(&p);
}

/* ---- places ---- */

struct place {
	size_t source, target; /* past a page boundary */
};

ParameterizedTestParameters(data, message_from_and_to_any_address_touches_nothing_beside_it)
{
	/* Each is a source, and with its place in the row makes up the target. */
	static const uint8_t skews[] = {1,  2,  3,  4,  5,  6,  7,  8,   9,   10,
					11, 12, 13, 14, 15, 16, 17, 31,  32,  33,
					47, 48, 49, 63, 64, 65, 96, 111, 126, 127};
	static struct place places[COUNT(skews)];

	for (size_t i = 0; i < COUNT(places); i++)
		places[i] = (struct place){skews[i], (i + 1) * 37 % 128};
	return cr_make_param_array(struct place, places, COUNT(places));
}

ParameterizedTest(struct place *at, data, message_from_and_to_any_address_touches_nothing_beside_it)
{
	enum { SIZE = 5001 };
	struct mem from, to;
	struct plug p;
	struct link l;
	void *recv;
	long bad;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, SIZE, at->source);
	mem_get(&to, &p, l.recv, SIZE, at->target);
	bytes_fill(from.at, SIZE, 1);
	recv = plug_recv(&p, l.recv, to.at, SIZE, 0, to.mh);
	plug_wait(&p, plug_send(&p, l.send, from.at, SIZE, 0, from.mh));
	cr_assert(eq(int, plug_wait(&p, recv), SIZE));
	bad = bytes_differ(to.at, SIZE, 1);
	need(bad < 0, "byte %ld, from %zu to %zu past a page", bad, at->source, at->target);
	mem_unharmed(&to, SIZE);
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

/* ---- receives that are larger or smaller ---- */

struct sizes {
	size_t sent, posted;
};

static struct sizes unequal[] = {
	{0, 1},         {0, 4096},    {1, 2},           {1, 4096},      {64, 65},
	{100, 1 << 20}, {4096, 4097}, {70000, 1 << 20}, {1, 0},         {4096, 0},
	{2, 1},         {65, 64},     {4097, 4096},     {1 << 20, 100}, {1 << 20, 70000},
};

ParameterizedTestParameters(data, the_smaller_of_send_and_receive_is_moved)
{
	return cr_make_param_array(struct sizes, unequal, COUNT(unequal));
}

ParameterizedTest(struct sizes *s, data, the_smaller_of_send_and_receive_is_moved)
{
	size_t moved = s->sent < s->posted ? s->sent : s->posted;
	struct mem from, to;
	struct plug p;
	struct link l;
	void *send, *recv;
	long bad;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, s->sent, 3);
	mem_get(&to, &p, l.recv, s->posted, 5);
	bytes_fill(from.at, s->sent, 2);
	recv = plug_recv(&p, l.recv, to.at, s->posted, 0, to.mh);
	send = plug_send(&p, l.send, from.at, s->sent, 0, from.mh);
	cr_assert(eq(int, plug_wait(&p, recv), (int)moved));
	/* By reads a sender is not told that its message was cut off. */
	cr_assert(eq(int, plug_wait(&p, send), (int)(plug_goes_by("read") ? s->sent : moved)));
	bad = bytes_differ(to.at, moved, 2);
	need(bad < 0, "byte %ld of %zu", bad, moved);
	mem_unharmed(&to, moved);
	mem_put(&from);
	mem_put(&to);
	link_message(&l, 3000, 3);
	link_close(&l);
	plug_close(&p);
}

/* ---- nothing ---- */

Test(data, messages_of_nothing_in_a_row_each_complete)
{
	struct mem from, to;
	struct plug p;
	struct link l;
	void *send[10], *recv[10];

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, 64, 0);
	mem_get(&to, &p, l.recv, 64, 0);
	for (int i = 0; i < 10; i++)
		recv[i] = plug_recv(&p, l.recv, to.at, 64, 0, to.mh);
	for (int i = 0; i < 10; i++)
		send[i] = plug_send(&p, l.send, from.at, 0, 0, from.mh);
	for (int i = 0; i < 10; i++) {
		cr_assert(zero(int, plug_wait(&p, recv[i])));
		cr_assert(zero(int, plug_wait(&p, send[i])));
	}
	mem_unharmed(&to, 0);
	mem_put(&from);
	mem_put(&to);
	link_message(&l, 3000, 1);
	link_close(&l);
	plug_close(&p);
}

/* Every other one is empty: each takes its place in the row. */
Test(data, messages_of_nothing_keep_their_place_among_others)
{
	enum { N = 20, SIZE = 777 };
	struct mem from, to;
	struct plug p;
	struct link l;
	void *send[N], *recv[N];

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, N * SIZE, 0);
	mem_get(&to, &p, l.recv, N * SIZE, 0);
	for (int i = 0; i < N; i++) {
		bytes_fill(from.at + i * SIZE, SIZE, (uint32_t)i);
		recv[i] = plug_recv(&p, l.recv, to.at + i * SIZE, SIZE, 0, to.mh);
	}
	for (int i = 0; i < N; i++)
		send[i] = plug_send(&p, l.send, from.at + i * SIZE, i % 2 * SIZE, 0, from.mh);
	for (int i = 0; i < N; i++) {
		cr_assert(eq(int, plug_wait(&p, recv[i]), i % 2 * SIZE));
		cr_assert(eq(int, plug_wait(&p, send[i]), i % 2 * SIZE));
	}
	for (int i = 0; i < N; i++) {
		const uint8_t *at = to.at + i * SIZE;
		long bad = i % 2 ? bytes_differ(at, SIZE, (uint32_t)i)
				 : bytes_differ_from(at, SIZE, MARK);

		need(bad < 0, "message %d, byte %ld", i, bad);
	}
	mem_unharmed(&to, N * SIZE);
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

struct sides {
	bool send, recv; /* whose handle is good for nothing here */
};

static struct sides foreign[] = {{true, false}, {false, true}, {true, true}};

ParameterizedTestParameters(data, message_of_nothing_needs_no_valid_handle)
{
	return cr_make_param_array(struct sides, foreign, COUNT(foreign));
}

/*
 * NCCL up to 2.24 sends empty messages with handles that do not cover the address, and EFA checks
 * the keys of empty requests, too. softefa checks that there is such a key: these are of another
 * device.
 */
ParameterizedTest(struct sides *s, data, message_of_nothing_needs_no_valid_handle)
{
	struct mem from, to, other;
	struct link l, elsewhere;
	struct plug p;
	void *send, *recv;

	plug_open(&p, 0);
	if (p.ndev < 2)
		cr_skip("needs two devices");
	link_open(&l, &p, 0, 0);
	link_open(&elsewhere, &p, 1, 1);
	mem_get(&from, &p, l.send, 64, 0);
	mem_get(&to, &p, l.recv, 64, 0);
	mem_get(&other, &p, elsewhere.recv, 64, 0);
	recv = plug_recv(&p, l.recv, to.at, 64, 0, s->recv ? other.mh : to.mh);
	send = plug_send(&p, l.send, from.at, 0, 0, s->send ? other.mh : from.mh);
	cr_assert(zero(int, plug_wait(&p, recv)));
	cr_assert(zero(int, plug_wait(&p, send)));
	mem_unharmed(&to, 0);
	mem_put(&from);
	mem_put(&to);
	mem_put(&other);
	link_message(&l, 3000, 1);
	link_close(&l);
	link_close(&elsewhere);
	plug_close(&p);
}

/* ---- nothing to flush ---- */

Test(data, flush_of_host_memory_is_done_at_once_and_changes_nothing)
{
	struct plug p;
	struct link l;
	struct mem to;
	void *request = NULL, *at;
	int size = 64;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&to, &p, l.recv, 64, 0);
	at = to.at;
	cr_assert(eq(int, p.net.iflush(l.recv, 1, &at, &size, &to.mh, &request), NCCL_NET_OK));
	if (request)
		plug_wait(&p, request);
	mem_unharmed(&to, 0);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}
