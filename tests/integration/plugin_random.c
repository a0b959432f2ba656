/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 100,000 messages of random sizes between two processes, half of them in each direction at the
 * same time, their requests tested in random order. The adapter permutes what it delivers.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum {
	LARGEST = 1 << 16,
	GUARD = 32, /* bytes behind each message that must stay as they are */
	SLOT = LARGEST + GUARD,
	WINDOW = 32,
};

static uint32_t messages; /* each way */

/* Requests under way of one direction; slot i % WINDOW is message i's until it is done. */
struct way {
	struct mem mem;
	uint32_t seed; /* of the direction */
	uint32_t started, done;
	void *request[WINDOW];
	uint32_t message[WINDOW];
};

struct side {
	struct plug plug;
	struct link l;
	struct way out, in;
	uint64_t random;
};

static uint32_t hash(uint32_t seed, uint32_t i)
{
	uint64_t state = (uint64_t)seed << 32 | i;

	bytes_random(&state);
	return bytes_random(&state);
}

/* Most are small, one in 8 is anything up to 64 KiB, one in 16 is empty. */
static size_t size_of(const struct way *w, uint32_t i)
{
	uint32_t r = hash(w->seed, i);
	static const uint32_t below[16] = {1,   16,   16,   64,   64,   64,   256,  256,
					   256, 1000, 1000, 4000, 4000, 9000, 9000, 9000};

	return (r & 7) == 0 ? (r >> 8) % (LARGEST + 1) : (r >> 8) % below[r >> 3 & 15];
}

static uint8_t *slot_of(const struct way *w, uint32_t slot)
{
	return w->mem.at + (size_t)slot * SLOT;
}

static void start_recv(struct side *s)
{
	struct way *w = &s->in;
	uint32_t i = w->started, slot = i % WINDOW;
	size_t size = size_of(w, i), room = LARGEST;

	if (i == messages || w->request[slot])
		return;
	/* Buffers are as large as the message or larger; the guard is for both. */
	if (hash(w->seed, ~i) & 1)
		room = size;
	memset(slot_of(w, slot) + size, MARK, GUARD);
	w->request[slot] = plug_irecv(&s->plug, s->l.recv, slot_of(w, slot), room, 9, w->mem.mh);
	if (!w->request[slot])
		return;
	w->message[slot] = i;
	w->started++;
}

static void start_send(struct side *s)
{
	struct way *w = &s->out;
	uint32_t i = w->started, slot = i % WINDOW;
	size_t size = size_of(w, i);

	if (i == messages || w->request[slot])
		return;
	bytes_fill(slot_of(w, slot), size, w->seed + i);
	w->request[slot] = plug_isend(&s->plug, s->l.send, slot_of(w, slot), size, 9, w->mem.mh);
	if (!w->request[slot])
		return;
	w->message[slot] = i;
	w->started++;
}

static void check_recv(const struct way *w, uint32_t slot, int got)
{
	uint32_t i = w->message[slot];
	size_t size = size_of(w, i);
	long bad;

	need((size_t)got == size, "message %u has %d of %zu bytes", i, got, size);
	bad = bytes_differ(slot_of(w, slot), size, w->seed + i);
	need(bad < 0, "message %u, byte %ld of %zu", i, bad, size);
	bad = bytes_differ_from(slot_of(w, slot) + size, GUARD, MARK);
	need(bad < 0, "message %u, byte %ld behind it", i, bad);
}

/* Test one that is under way, whichever. */
static bool test_any(struct side *s, struct way *w)
{
	uint32_t slot = bytes_random(&s->random) % WINDOW;
	int got;

	if (!w->request[slot] || !plug_test(&s->plug, w->request[slot], &got))
		return false;
	if (w == &s->in)
		check_recv(w, slot, got);
	else
		need((size_t)got == size_of(w, w->message[slot]), "send %u: %d bytes",
		     w->message[slot], got);
	memset(slot_of(w, slot), 0xdd, size_of(w, w->message[slot]));
	w->request[slot] = NULL;
	w->done++;
	return true;
}

static void run(struct side *s)
{
	int64_t moved = now_ms();
	unsigned tries = 0;

	while (s->in.done < messages || s->out.done < messages) {
		bool did = false;

		start_recv(s);
		start_send(s);
		for (int k = 0; k < 4; k++) {
			did |= test_any(s, &s->in);
			did |= test_any(s, &s->out);
		}
		if (did) {
			tries = 0;
			moved = now_ms();
			continue;
		}
		relax(&tries);
		need(now_ms() - moved < PLUG_WAIT_MS, "%u received, %u sent of %u each", s->in.done,
		     s->out.done, messages);
	}
}

static void run_side(struct twin *t, void *arg)
{
	struct side *s = calloc(1, sizeof(*s));

	need(s, "memory");
	plug_open(&s->plug, 0);
	link_open_twin(&s->l, &s->plug, t);
	s->random = t->pid != 0;
	s->out.seed = t->pid ? 0x10000000 : 0x20000000;
	s->in.seed = t->pid ? 0x20000000 : 0x10000000;
	mem_get(&s->out.mem, &s->plug, s->l.send, (size_t)WINDOW * SLOT, 13);
	mem_get(&s->in.mem, &s->plug, s->l.recv, (size_t)WINDOW * SLOT, 13);
	run(s);
	twin_meet(t);
	mem_put(&s->out.mem);
	mem_put(&s->in.mem);
	link_close(&s->l);
	plug_close(&s->plug);
	free(s);
	(void)arg;
}

static void run_both(uint32_t n)
{
	struct twin t;

	messages = n;
	twin_start(&t, run_side, NULL);
	run_side(&t, NULL);
	twin_end(&t);
}

Test(random, hundred_thousand_messages_arrive_right_in_disorder, .timeout = 300)
{
	run_both(50000);
}

/*
 * A line of the ring that is written again before its first write is complete would be overwritten
 * by the second placement of that; one that is looked at before all of it is there would be torn.
 */
Test(random, messages_arrive_right_when_bytes_land_twice_and_in_any_order, .timeout = 300)
{
	plug_softefa("fault=twice op=write p=0.05 gap=20000,fault=lines op=write p=0.5");
	run_both(5000);
}

Test(random, messages_arrive_right_when_requests_leave_late, .timeout = 300)
{
	plug_softefa("fault=delay 0 jitter=2000 p=0.3,fault=reorder 64");
	run_both(5000);
}
