/* SPDX-License-Identifier: BSD-3-Clause */
/* More threads than NCCL's two per communicator: they may change, and meet on one device. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

static struct plug plug;

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
	int rc = pthread_create(thread, NULL, body, arg);

	need(rc == 0, "%d", rc);
}

static void run(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	start(&thread, body, arg);
	pthread_join(thread, NULL);
}

/* ---- one comm, one thread after the other ---- */

enum { N = 32, SIZE = 3000 };

struct relay {
	struct link l;
	struct mem from, to;
	void *send[N], *recv[N];
};

static void *post_receives(void *arg)
{
	struct relay *r = arg;

	for (int i = 0; i < N; i++)
		r->recv[i] = plug_recv(&plug, r->l.recv, r->to.at + i * SIZE, SIZE, 0, r->to.mh);
	return NULL;
}

static void *post_sends(void *arg)
{
	struct relay *r = arg;

	for (int i = 0; i < N; i++) {
		bytes_fill(r->from.at + i * SIZE, SIZE, (uint32_t)i);
		r->send[i] =
			plug_send(&plug, r->l.send, r->from.at + i * SIZE, SIZE, 0, r->from.mh);
	}
	return NULL;
}

static void *test_receives(void *arg)
{
	struct relay *r = arg;

	for (int i = 0; i < N; i++) {
		long bad;

		need(plug_wait(&plug, r->recv[i]) == SIZE, "receive %d", i);
		bad = bytes_differ(r->to.at + i * SIZE, SIZE, (uint32_t)i);
		need(bad < 0, "receive %d, byte %ld", i, bad);
	}
	return NULL;
}

static void *test_sends(void *arg)
{
	struct relay *r = arg;

	for (int i = 0; i < N; i++)
		need(plug_wait(&plug, r->send[i]) == SIZE, "send %d", i);
	return NULL;
}

/* Each in a thread of its own, which has ended before the next begins. */
Test(threads, requests_of_one_thread_may_be_finished_by_others)
{
	struct relay r;

	plug_open(&plug, 0);
	link_open(&r.l, &plug, 0, 0);
	mem_get(&r.from, &plug, r.l.send, N * SIZE, 0);
	mem_get(&r.to, &plug, r.l.recv, N * SIZE, 0);
	for (int round = 0; round < 20; round++) {
		run(post_receives, &r);
		run(post_sends, &r);
		run(test_receives, &r);
		run(test_sends, &r);
	}
	mem_put(&r.from);
	mem_put(&r.to);
	link_close(&r.l);
	plug_close(&plug);
}

static void *close_link(void *arg)
{
	link_close(arg);
	return NULL;
}

Test(threads, comm_may_be_used_by_one_thread_and_closed_by_another)
{
	struct link l;

	plug_open(&plug, 0);
	for (uint32_t i = 0; i < 20; i++) {
		link_open(&l, &plug, 0, 0);
		link_message(&l, 1000, i);
		run(close_link, &l);
	}
	plug_close(&plug);
}

struct last {
	bool is_test; /* the last call of the thread; else a send */
	struct link l;
};

/* Most calls find nothing to do. After this one the thread makes none for ever. */
static void *look_and_end(void *arg)
{
	struct last *last = arg;
	struct link *l = &last->l;
	struct mem m;
	void *recv;

	link_message(l, 100, 1); /* from here on it is this thread's */
	mem_get(&m, &plug, l->recv, 100, 0);
	recv = plug_recv(&plug, l->recv, m.at, 100, 5, m.mh);
	nap_ms(20);
	need(!plug_test(&plug, recv, NULL), "done");
	if (last->is_test)
		need(!plug_test(&plug, recv, NULL), "done");
	else
		need(!plug_isend(&plug, l->send, m.at, 100, 6, m.mh), "a send without a receive");
	return NULL;
}

ParameterizedTestParameters(threads, thread_that_found_nothing_to_do_is_in_nobodys_way)
{
	static struct last last[] = {{.is_test = false}, {.is_test = true}};

	return cr_make_param_array(struct last, last, 2);
}

ParameterizedTest(struct last *last, threads, thread_that_found_nothing_to_do_is_in_nobodys_way,
		  .timeout = 60)
{
	struct link other;

	plug_open(&plug, 0);
	link_open(&last->l, &plug, 0, 0);
	link_open(&other, &plug, 0, 0);
	run(look_and_end, last);
	link_message(&other, 100, 2);
	link_close(&last->l);
	link_message(&other, 100, 3);
	link_close(&other);
	plug_forget();
	plug_close(&plug);
}

/* ---- several threads at once ---- */

enum { THREADS = 4, MESSAGES = 1500 };

struct worker {
	struct link l;
	uint32_t number;
	int messages;
};

/* As many under way as fit into @DEEP slots. */
static void *exchange(void *arg)
{
	enum { DEEP = 8, LARGEST = 20000 };
	struct worker *w = arg;
	void *send[DEEP], *recv[DEEP];
	struct mem from, to;

	mem_get(&from, &plug, w->l.send, DEEP * LARGEST, 0);
	mem_get(&to, &plug, w->l.recv, DEEP * LARGEST, 0);
	for (int i = 0; i < w->messages + DEEP; i++) {
		size_t slot = (size_t)i % DEEP, at = slot * LARGEST;
		size_t size = (size_t)(i - DEEP) * 97 % LARGEST;
		long bad;

		if (i >= DEEP) {
			int got = plug_wait(&plug, recv[slot]);

			need((size_t)got == size, "thread %u, message %d: %d of %zu bytes",
			     w->number, i - DEEP, got, size);
			bad = bytes_differ(to.at + at, size,
					   w->number << 24 | (uint32_t)(i - DEEP));
			need(bad < 0, "thread %u, message %d, byte %ld", w->number, i - DEEP, bad);
			plug_wait(&plug, send[slot]);
		}
		if (i >= w->messages)
			continue;
		size = (size_t)i * 97 % LARGEST;
		recv[slot] = plug_recv(&plug, w->l.recv, to.at + at, LARGEST, 0, to.mh);
		bytes_fill(from.at + at, size, w->number << 24 | (uint32_t)i);
		send[slot] = plug_send(&plug, w->l.send, from.at + at, size, 0, from.mh);
	}
	mem_put(&from);
	mem_put(&to);
	return NULL;
}

/* One thread made all comms, so they share queue pairs; another thread drives each. */
Test(threads, comms_that_share_queue_pairs_may_be_driven_by_threads_of_their_own)
{
	static struct worker w[THREADS];
	pthread_t thread[THREADS];

	plug_open(&plug, 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		w[i].number = i;
		w[i].messages = MESSAGES;
		link_open(&w[i].l, &plug, 0, 0);
	}
	for (int i = 0; i < THREADS; i++)
		start(&thread[i], exchange, &w[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++)
		link_close(&w[i].l);
	plug_close(&plug);
}

static void *connect_and_exchange(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 10; i++) {
		link_open(&w->l, &plug, 0, 0);
		exchange(w);
		link_close(&w->l);
	}
	return NULL;
}

Test(threads, threads_connect_exchange_and_close_at_the_same_time)
{
	static struct worker w[THREADS];
	pthread_t thread[THREADS];

	plug_open(&plug, 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		w[i].number = i;
		w[i].messages = 50;
		start(&thread[i], connect_and_exchange, &w[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	plug_close(&plug);
}

static atomic_bool stop;

static void *connect_and_close(void *arg)
{
	int *rounds = arg;
	struct link l;

	while (!atomic_load(&stop)) {
		link_open(&l, &plug, 0, 0);
		link_close(&l);
		++*rounds;
	}
	return NULL;
}

/* A service thread makes comms of its progress thread's engine while that is busy. */
Test(threads, comms_come_and_go_beside_one_that_is_busy)
{
	struct worker w = {.messages = 2 * MESSAGES};
	pthread_t busy;
	int rounds = 0;

	plug_open(&plug, 0);
	link_open(&w.l, &plug, 0, 0);
	start(&busy, exchange, &w);
	for (uint32_t i = 0; i < 40; i++) {
		struct link l;

		link_open(&l, &plug, 0, 0);
		link_message(&l, 500, i);
		link_close(&l);
	}
	pthread_join(busy, NULL);
	start(&busy, connect_and_close, &rounds);
	exchange(&w);
	atomic_store(&stop, true);
	pthread_join(busy, NULL);
	cr_assert(gt(int, rounds, 0));
	link_close(&w.l);
	plug_close(&plug);
}

/* ---- registration beside traffic ---- */

static void *spin(void *arg)
{
	unsigned tries = 0;

	while (!plug_test(&plug, arg, NULL)) {
		if (atomic_load(&stop))
			relax(&tries);
	}
	return NULL;
}

Test(threads, memory_is_registered_while_another_thread_spins_in_test)
{
	struct mem from, to;
	pthread_t spinner;
	struct link l;
	void *recv;

	plug_open(&plug, 0);
	link_open(&l, &plug, 0, 0);
	mem_get(&from, &plug, l.send, 100, 0);
	mem_get(&to, &plug, l.recv, 100, 0);
	recv = plug_recv(&plug, l.recv, to.at, 100, 0, to.mh);
	start(&spinner, spin, recv);
	for (int i = 0; i < 300; i++) {
		struct mem other;

		mem_get(&other, &plug, l.recv, 100000, (size_t)i);
		mem_put(&other);
	}
	atomic_store(&stop, true);
	plug_wait(&plug, plug_send(&plug, l.send, from.at, 100, 0, from.mh));
	pthread_join(spinner, NULL);
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&plug);
}

static void *register_often(void *arg)
{
	const struct link *l = arg;
	static uint8_t memory[1 << 16];

	for (int i = 0; i < 2000; i++) {
		void *a = plug_reg(&plug, l->send, memory, sizeof(memory));
		void *b = plug_reg(&plug, l->recv, memory + 5000 * (i % 8), 5000);

		plug_dereg(&plug, l->send, a);
		plug_dereg(&plug, l->recv, b);
	}
	return NULL;
}

Test(threads, threads_register_the_same_memory_at_the_same_time)
{
	pthread_t thread[THREADS];
	struct link l;

	plug_open(&plug, 0);
	link_open(&l, &plug, 0, 0);
	for (int i = 0; i < THREADS; i++)
		start(&thread[i], register_often, &l);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	link_message(&l, 5000, 1);
	link_close(&l);
	plug_close(&plug);
}
