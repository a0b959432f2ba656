/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives of several buffers: which send goes where, and what is reported. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { SIZE = 1000, SLOTS = 256, MOST = 8 };

static struct plug_abi abis[] = {{9}, {10}, {11}, {12}};

#define ABIS() cr_make_param_array(struct plug_abi, abis, sizeof(abis) / sizeof(abis[0]))

TestSuite(group, .timeout = 120);

struct group {
	struct plug plug;
	struct link l;
	struct mem from, to;
};

static void group_open(struct group *g, int abi)
{
	memset(g, 0, sizeof(*g));
	plug_open(&g->plug, abi);
	link_open(&g->l, &g->plug, 0, 0);
	mem_get(&g->from, &g->plug, g->l.send, SLOTS * SIZE, 0);
	mem_get(&g->to, &g->plug, g->l.recv, SLOTS * SIZE, 0);
}

static void group_close(struct group *g)
{
	mem_put(&g->from);
	mem_put(&g->to);
	link_close(&g->l);
	plug_close(&g->plug);
}

static uint8_t *target(const struct group *g, int i)
{
	return g->to.at + i * SIZE;
}

/* One try to receive into slots @first ... with these tags. */
static void *post(struct group *g, int first, int n, const int *tags)
{
	struct plug_group r = {.n = n};

	for (int i = 0; i < n; i++) {
		r.at[i] = target(g, first + i);
		r.mh[i] = g->to.mh;
		r.size[i] = SIZE;
		r.tag[i] = tags[i];
	}
	return plug_irecv_group(&g->plug, g->l.recv, &r);
}

/* Message @seed of @size bytes, from a slot of its own. */
static void *try_send(struct group *g, int seed, size_t size, int tag)
{
	uint8_t *at = g->from.at + seed % SLOTS * SIZE;

	bytes_fill(at, size, (uint32_t)seed);
	return plug_isend(&g->plug, g->l.send, at, size, tag, g->from.mh);
}

static void *send_now(struct group *g, int seed, size_t size, int tag)
{
	uint8_t *at = g->from.at + seed % SLOTS * SIZE;

	bytes_fill(at, size, (uint32_t)seed);
	return plug_send(&g->plug, g->l.send, at, size, tag, g->from.mh);
}

static void refused(struct group *g, int tag)
{
	int64_t end = now_ms() + 50;

	/* There a send is not asked to wait: it is read when there is a receive for it. */
	if (plug_goes_by("read"))
		return;
	for (unsigned rest = 0; now_ms() < end; relax(&rest))
		need(!try_send(g, 0, SIZE, tag), "a send with tag %d is accepted", tag);
}

static void holds(const struct group *g, int slot, size_t size, int seed)
{
	long bad = bytes_differ(target(g, slot), size, (uint32_t)seed);

	need(bad < 0, "slot %d is not message %d, at byte %ld", slot, seed, bad);
}

/* ---- where it goes ---- */

ParameterizedTestParameters(group, sends_go_where_their_tags_are)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, group, sends_go_where_their_tags_are)
{
	static const int tags[MOST] = {10, 11, 12, 13, 14, 15, 16, 17};
	static const int order[MOST] = {3, 7, 0, 5, 1, 6, 2, 4};
	void *recv, *send[MOST];
	int sizes[MOST];
	struct group g;

	group_open(&g, abi->v);
	recv = post(&g, 0, MOST, tags);
	need(recv, "refused");
	for (int i = 0; i < MOST; i++)
		send[i] = send_now(&g, order[i], (size_t)(SIZE - order[i]), tags[order[i]]);
	plug_wait_group(&g.plug, recv, MOST, sizes);
	for (int i = 0; i < MOST; i++) {
		cr_assert(eq(int, sizes[i], SIZE - i));
		holds(&g, i, (size_t)(SIZE - i), i);
		plug_wait(&g.plug, send[i]);
	}
	group_close(&g);
}

Test(group, equal_tags_are_filled_in_turn)
{
	static const int tags[4] = {5, 6, 5, 5};
	void *recv, *send[4];
	int sizes[4];
	struct group g;

	group_open(&g, 0);
	recv = post(&g, 0, 4, tags);
	send[0] = send_now(&g, 0, 100, 5);
	send[1] = send_now(&g, 1, 200, 5);
	send[2] = send_now(&g, 2, 300, 6);
	send[3] = send_now(&g, 3, 400, 5);
	plug_wait_group(&g.plug, recv, 4, sizes);
	cr_assert(eq(int, sizes[0], 100));
	cr_assert(eq(int, sizes[1], 300));
	cr_assert(eq(int, sizes[2], 200));
	cr_assert(eq(int, sizes[3], 400));
	holds(&g, 0, 100, 0);
	holds(&g, 1, 300, 2);
	holds(&g, 2, 200, 1);
	holds(&g, 3, 400, 3);
	for (int i = 0; i < 4; i++)
		plug_wait(&g.plug, send[i]);
	group_close(&g);
}

Test(group, next_receive_is_looked_at_when_the_first_is_full)
{
	static const int first[2] = {1, 2}, second[1] = {3};
	void *recv[2], *send[3];
	int sizes[2];
	struct group g;

	group_open(&g, 0);
	recv[0] = post(&g, 0, 2, first);
	recv[1] = post(&g, 2, 1, second);
	send[0] = send_now(&g, 1, SIZE, 2);
	refused(&g, 3);
	refused(&g, 2);
	send[1] = send_now(&g, 2, SIZE, 1);
	send[2] = send_now(&g, 3, SIZE, 3);
	plug_wait_group(&g.plug, recv[0], 2, sizes);
	holds(&g, 0, SIZE, 2);
	holds(&g, 1, SIZE, 1);
	plug_wait(&g.plug, recv[1]);
	holds(&g, 2, SIZE, 3);
	for (int i = 0; i < 3; i++)
		plug_wait(&g.plug, send[i]);
	group_close(&g);
}

Test(group, is_not_done_before_its_last_buffer_is)
{
	static const int tags[2] = {1, 2};
	int64_t end;
	void *recv, *send[2];
	int sizes[2];
	struct group g;

	group_open(&g, 0);
	recv = post(&g, 0, 2, tags);
	send[0] = send_now(&g, 0, SIZE, 2);
	plug_wait(&g.plug, send[0]);
	end = now_ms() + 50;
	for (unsigned rest = 0; now_ms() < end; relax(&rest))
		need(!plug_test(&g.plug, recv, NULL), "done with one of two");
	send[1] = send_now(&g, 1, SIZE, 1);
	plug_wait_group(&g.plug, recv, 2, sizes);
	plug_wait(&g.plug, send[1]);
	group_close(&g);
}

/* ---- what may be in it ---- */

Test(group, nothing_and_too_much_are_reported_as_what_arrived)
{
	static const int tags[3] = {1, 2, 3};
	struct plug_group r = {.n = 3};
	void *recv, *send[3];
	int sizes[3];
	struct group g;

	group_open(&g, 0);
	for (int i = 0; i < 3; i++) {
		r.at[i] = target(&g, i);
		r.mh[i] = g.to.mh;
		r.size[i] = 100;
		r.tag[i] = tags[i];
	}
	recv = plug_irecv_group(&g.plug, g.l.recv, &r);
	send[0] = send_now(&g, 0, SIZE, 2);
	send[1] = send_now(&g, 1, 0, 1);
	send[2] = send_now(&g, 2, 50, 3);
	plug_wait_group(&g.plug, recv, 3, sizes);
	cr_assert(eq(int, sizes[0], 0));
	cr_assert(eq(int, sizes[1], 100));
	cr_assert(eq(int, sizes[2], 50));
	cr_assert(eq(int, plug_wait(&g.plug, send[0]), plug_goes_by("read") ? SIZE : 100));
	cr_assert(eq(int, plug_wait(&g.plug, send[1]), 0));
	cr_assert(eq(int, plug_wait(&g.plug, send[2]), 50));
	group_close(&g);
}

/* ---- how many ---- */

Test(group, thirty_two_of_eight_are_outstanding_and_tested_newest_first)
{
	void *recv[32], *send[32 * MOST];
	int tags[MOST], sizes[MOST];
	struct group g;

	group_open(&g, 0);
	for (int i = 0; i < 32; i++) {
		for (int k = 0; k < MOST; k++)
			tags[k] = k;
		recv[i] = post(&g, i * MOST, MOST, tags);
		need(recv[i], "receive %d is refused", i);
	}
	for (int m = 0; m < 32 * MOST; m += 32) {
		for (int i = m; i < m + 32; i++)
			send[i] = send_now(&g, i, SIZE, i % MOST);
		for (int i = m; i < m + 32; i++)
			plug_wait(&g.plug, send[i]);
	}
	for (int i = 31; i >= 0; i--) {
		plug_wait_group(&g.plug, recv[i], MOST, sizes);
		for (int k = 0; k < MOST; k++)
			holds(&g, i * MOST + k, SIZE, i * MOST + k);
	}
	group_close(&g);
}

static void random_groups(int rounds)
{
	int tags[MOST], sizes[MOST], seed = 0;
	void *send[MOST];
	unsigned random = 7;
	struct group g;

	group_open(&g, 0);
	for (int i = 0; i < rounds; i++) {
		int n = 1 + rand_r(&random) % MOST, shift = rand_r(&random) % MOST;
		int64_t end = now_ms() + PLUG_WAIT_MS;
		unsigned rest = 0;
		void *recv;

		for (int k = 0; k < n; k++)
			tags[k] = seed + k;
		/* A line that is not over yet keeps the ring full, as NCCL knows: it asks again. */
		while (!(recv = post(&g, 0, n, tags))) {
			need(now_ms() < end, "receive %d is refused", i);
			relax(&rest);
		}
		for (int k = 0; k < n; k++) {
			int which = (k + shift) % n;

			send[which] = send_now(&g, seed + which, SIZE, tags[which]);
		}
		plug_wait_group(&g.plug, recv, n, sizes);
		for (int k = 0; k < n; k++) {
			cr_assert(eq(int, sizes[k], SIZE));
			holds(&g, k, SIZE, seed + k);
			plug_wait(&g.plug, send[k]);
		}
		seed += n;
	}
	group_close(&g);
}

/* Sizes of groups that do not divide the ring: they go round its end at every place. */
Test(group, groups_of_any_size_match_over_many_laps)
{
	random_groups(1500);
}

/* A sender must not take a group of which it sees some lines, or lines of the lap before. */
Test(group, groups_match_when_their_lines_land_one_by_one_and_twice)
{
	plug_softefa("fault=lines op=write,fault=twice op=write p=0.1 gap=2000");
	random_groups(500);
}
