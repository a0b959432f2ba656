/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing with requests in flight, as NCCL does at abort: memory is deregistered and unmapped
 * before the comm is closed, and nothing may land in what is mapped there next.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { DEEP = 8, SIZE = 256 << 10, ALL = DEEP * SIZE, ROUNDS = 25, CANARY = 0xc3 };

static uint8_t *map_at(uint8_t *at)
{
	int fixed = at ? MAP_FIXED : 0;
	uint8_t *got =
		mmap(at, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

	need(got != MAP_FAILED && (!at || got == at), "mmap");
	return got;
}

/* A comm that is cut off: what it sends from, or receives into. */
struct end {
	uint8_t *at;
	void *mh;
};

struct torn {
	struct link l;
	struct end from, to;
	void *recv[DEEP], *send[DEEP];
};

static void torn_open(struct torn *t, struct plug *p)
{
	memset(t, 0, sizeof(*t));
	link_open(&t->l, p, 0, 0);
	t->from.at = map_at(NULL);
	t->to.at = map_at(NULL);
	t->from.mh = plug_reg(p, t->l.send, t->from.at, ALL);
	t->to.mh = plug_reg(p, t->l.recv, t->to.at, ALL);
	bytes_fill(t->from.at, ALL, 1);
}

/* Everything posted, and left to itself for a while that differs from round to round. */
static void torn_start(struct torn *t, uint32_t tests)
{
	struct plug *p = t->l.plug;

	for (int i = 0; i < DEEP; i++)
		t->recv[i] = plug_irecv(p, t->l.recv, t->to.at + i * SIZE, SIZE, 0, t->to.mh);
	for (int i = 0; i < DEEP; i++)
		t->send[i] = plug_send(p, t->l.send, t->from.at + i * SIZE, SIZE, 0, t->from.mh);
	for (uint32_t i = 0; i < tests; i++)
		plug_test(p, t->recv[i % DEEP], NULL);
}

static void end_drop(struct plug *p, void *comm, struct end *e)
{
	plug_dereg(p, comm, e->mh);
	munmap(e->at, ALL);
	map_at(e->at);
	memset(e->at, CANARY, ALL);
}

static void end_unharmed(struct end *e)
{
	long bad = bytes_differ_from(e->at, ALL, CANARY);

	need(bad < 0, "a late write at byte %ld", bad);
	munmap(e->at, ALL);
}

/* ---- order ---- */

/* t, f: give up the memory to receive into, to send from; R, S: close the comm that it was for. */
struct order {
	char steps[5];
};

static struct order orders[] = {{"tfRS"}, {"tfSR"}, {"ftRS"}, {"ftSR"}, {"tRfS"}, {"fStR"}};

static void tear(struct torn *t, const struct order *o)
{
	struct plug *p = t->l.plug;

	for (const char *step = o->steps; *step; step++) {
		if (*step == 't')
			end_drop(p, t->l.recv, &t->to);
		else if (*step == 'f')
			end_drop(p, t->l.send, &t->from);
		else if (*step == 'R')
			plug_close_recv(p, t->l.recv);
		else
			plug_close_send(p, t->l.send);
	}
}

ParameterizedTestParameters(abort, memory_given_up_with_requests_in_flight_is_not_written_late)
{
	return cr_make_param_array(struct order, orders, sizeof(orders) / sizeof(orders[0]));
}

ParameterizedTest(struct order *o, abort,
		  memory_given_up_with_requests_in_flight_is_not_written_late)
{
	uint64_t seed = 1;
	struct plug p;
	struct torn t;
	struct link l;

	plug_open(&p, 0);
	for (int i = 0; i < ROUNDS; i++) {
		torn_open(&t, &p);
		torn_start(&t, bytes_random(&seed) % 100);
		tear(&t, o);
		nap_ms(5);
		end_unharmed(&t.from);
		end_unharmed(&t.to);
	}
	plug_forget();
	link_open(&l, &p, 0, 0);
	link_message(&l, SIZE, 2);
	link_close(&l);
	plug_close(&p);
}

/* ---- others ---- */

Test(abort, comm_closed_in_mid_transfer_takes_nothing_from_another_in_mid_transfer)
{
	uint64_t seed = 2;
	struct torn dies, lives;
	struct plug p;

	plug_open(&p, 0);
	torn_open(&lives, &p);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		long bad;

		torn_open(&dies, &p);
		memset(lives.to.at, 0, ALL);
		torn_start(&lives, 0);
		torn_start(&dies, bytes_random(&seed) % 50);
		tear(&dies, &orders[i % 6]);
		for (int k = 0; k < DEEP; k++) {
			need(plug_wait(&p, lives.recv[k]) == SIZE, "round %u, receive %d", i, k);
			need(plug_wait(&p, lives.send[k]) == SIZE, "round %u, send %d", i, k);
		}
		bad = bytes_differ(lives.to.at, ALL, 1);
		need(bad < 0, "round %u, byte %ld", i, bad);
		end_unharmed(&dies.from);
		end_unharmed(&dies.to);
	}
	plug_forget(); /* of those that died */
	plug_dereg(&p, lives.l.send, lives.from.mh);
	plug_dereg(&p, lives.l.recv, lives.to.mh);
	munmap(lives.from.at, ALL);
	munmap(lives.to.at, ALL);
	link_close(&lives.l);
	plug_close(&p);
}

/* ---- one side ---- */

Test(abort, sender_learns_that_its_receiver_is_gone_or_waits)
{
	struct plug p;
	struct torn t;
	int64_t end;

	plug_open(&p, 0);
	torn_open(&t, &p);
	torn_start(&t, 0);
	end_drop(&p, t.l.recv, &t.to);
	plug_close_recv(&p, t.l.recv);
	for (end = now_ms() + 500; now_ms() < end;) {
		void *request = NULL;
		enum nccl_net_result rc = p.net.isend(&p.net, t.l.send, t.from.at, SIZE, 0,
						      t.from.mh, NULL, &request);

		need(rc == NCCL_NET_OK || rc == NCCL_NET_REMOTE_ERROR, "result %d", rc);
		for (int i = 0; i < DEEP; i++) {
			int done;

			rc = t.send[i] ? p.net.test(t.send[i], &done, NULL) : NCCL_NET_OK;
			need(rc == NCCL_NET_OK || rc == NCCL_NET_REMOTE_ERROR, "result %d", rc);
			if (t.send[i] && !rc && done)
				t.send[i] = NULL;
		}
	}
	plug_forget();
	end_drop(&p, t.l.send, &t.from);
	plug_close_send(&p, t.l.send);
	end_unharmed(&t.to);
	end_unharmed(&t.from);
	plug_close(&p);
}

Test(abort, receiver_whose_sender_is_gone_waits_and_closes)
{
	struct plug p;
	struct torn t;
	int64_t end;

	plug_open(&p, 0);
	torn_open(&t, &p);
	for (int i = 0; i < DEEP; i++)
		t.recv[i] = plug_recv(&p, t.l.recv, t.to.at + i * SIZE, SIZE, 0, t.to.mh);
	end_drop(&p, t.l.send, &t.from);
	plug_close_send(&p, t.l.send);
	for (end = now_ms() + 300; now_ms() < end;)
		need(!plug_test(&p, t.recv[0], NULL), "a message out of nothing");
	end_drop(&p, t.l.recv, &t.to);
	plug_close_recv(&p, t.l.recv);
	nap_ms(5);
	end_unharmed(&t.to);
	end_unharmed(&t.from);
	plug_forget();
	plug_close(&p);
}

/* ---- two processes ---- */

enum { TIMES = 50 };

/* Posts all it may and closes at once; the last finalize is not far. */
static void post_and_close(struct twin *tw, void *arg)
{
	static uint8_t memory[32 * 1024];
	struct plug p;

	(void)arg;
	for (int i = 0; i < TIMES; i++) {
		struct link l;
		void *mh;

		plug_open(&p, 11);
		link_open_twin(&l, &p, tw);
		mh = plug_reg(&p, l.recv, memory, sizeof(memory));
		for (int k = 0; k < 32; k++)
			plug_irecv(&p, l.recv, memory + k * 1024, 1024, 0, mh);
		plug_dereg(&p, l.recv, mh);
		link_close(&l);
		plug_forget();
		plug_close(&p);
		twin_meet(tw);
	}
}

/* Done, if it was faster than the receiver's end, or an error. */
static void ends_somehow(struct plug *p, void *request, int round)
{
	int64_t end = now_ms() + 10000;
	unsigned tries = 0;
	int done = 0;

	while (!done) {
		enum nccl_net_result rc = p->net.test(request, &done, NULL);

		if (rc == NCCL_NET_REMOTE_ERROR)
			return;
		need(rc == NCCL_NET_OK, "round %d: result %d", round, rc);
		need(now_ms() < end, "round %d: neither done nor failed", round);
		relax(&tries);
	}
}

/*
 * A send that starts within a second, or NULL. @over: the comm has heard of the receiver's end
 * before, as it may where lines are messages.
 */
static void *start_soon(struct plug *p, struct link *l, const struct mem *from, bool *over)
{
	int64_t end = now_ms() + 1000;
	void *request = NULL;
	unsigned tries = 0;

	*over = false;
	while (!request && !*over && now_ms() < end) {
		*over = p->net.isend(&p->net, l->send, from->at, from->size, 0, from->mh, NULL,
				     &request) == NCCL_NET_REMOTE_ERROR;
		relax(&tries);
	}
	return request;
}

static void close_often(void)
{
	struct twin tw;
	struct plug p;
	int lost = 0;

	twin_start(&tw, post_and_close, NULL);
	plug_open(&p, 11);
	for (int i = 0; i < TIMES; i++) {
		struct link l;
		struct mem from;
		void *send;
		bool over;

		link_open_twin(&l, &p, &tw);
		mem_get(&from, &p, l.send, 1024, 0);
		send = start_soon(&p, &l, &from, &over);
		lost += !send && !over;
		if (send)
			ends_somehow(&p, send, i);
		mem_put(&from);
		link_close(&l);
		plug_forget();
		twin_meet(&tw);
	}
	need(lost <= TIMES / 5, "%d of %d senders were left without a line", lost, TIMES);
	twin_end(&tw);
	plug_close(&p);
}

/*
 * Clear-to-send lines that the receiver posted must leave though it closes: a sender that never
 * gets one could only wait. It does what it can in the milliseconds that a close may take; on a
 * busy machine the adapter's thread may not run in them.
 */
Test(abort, lines_posted_just_before_close_reach_the_sender)
{
	close_often();
}

Test(abort, lines_that_leave_late_reach_the_sender_of_a_closed_comm)
{
	plug_softefa("fault=delay 0 jitter=2000 p=0.3");
	close_often();
}

/* ---- one side goes, the other goes on ---- */

enum { LATER = 70, LINES = 64 }; /* more than a slab has blocks; as many as a ring */

/*
 * A receiver that has not heard of its sender's end still writes lines to where that one's ring
 * was. Enough later comms would get that memory again.
 */
struct stale {
	struct link l, later[LATER];
	struct mem to;
};

static void stale_open(struct stale *s, struct plug *p)
{
	link_open(&s->l, p, 0, 0);
	mem_get(&s->to, p, s->l.recv, SIZE, 0);
	plug_close_send(p, s->l.send);
	for (int i = 0; i < LATER; i++)
		link_open(&s->later[i], p, 0, 0);
}

static void stale_lines(struct stale *s)
{
	for (int i = 0; i < LINES; i++)
		plug_irecv(s->l.plug, s->l.recv, s->to.at, SIZE, 1, s->to.mh);
	nap_ms(20);
}

static void stale_close(struct stale *s)
{
	struct plug *p = s->l.plug;

	mem_unharmed(&s->to, 0);
	mem_put(&s->to);
	plug_close_recv(p, s->l.recv);
	for (int i = 0; i < LATER; i++)
		link_close(&s->later[i]);
	plug_forget();
}

struct offset {
	bool one_off; /* another comm in front, so that memory falls to others */
};

static struct offset offsets[] = {{false}, {true}};

ParameterizedTestParameters(abort, lines_for_a_sender_that_is_gone_harm_no_later_comm)
{
	return cr_make_param_array(struct offset, offsets, 2);
}

ParameterizedTest(struct offset *o, abort, lines_for_a_sender_that_is_gone_harm_no_later_comm)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	static struct stale s;
	struct plug p;
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	if (o->one_off)
		plug_connect_once(&p, 0, handle); /* has a ring, and waits */
	stale_open(&s, &p);
	stale_lines(&s);
	for (int i = 0; i < LATER; i++) /* a lap of their rings only for the last, which have it */
		for (uint32_t k = 0; k < (i < LATER - 12 ? 1 : LINES + 1); k++)
			link_message(&s.later[i], 100, k);
	stale_close(&s);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

/* The later comms' own lines are there first, and the senders have not looked yet. */
Test(abort, lines_for_a_sender_that_is_gone_do_not_hide_those_of_a_later_comm)
{
	static struct mem from[LATER], to[LATER];
	static void *recv[LATER];
	static struct stale s;
	struct plug p;

	plug_open(&p, 0);
	stale_open(&s, &p);
	for (int i = 0; i < LATER; i++) {
		mem_get(&from[i], &p, s.later[i].send, 100, 0);
		mem_get(&to[i], &p, s.later[i].recv, 100, 0);
		recv[i] = plug_recv(&p, s.later[i].recv, to[i].at, 100, 1, to[i].mh);
	}
	nap_ms(20);
	stale_lines(&s);
	for (int i = 0; i < LATER; i++) {
		plug_wait(&p, plug_send(&p, s.later[i].send, from[i].at, 100, 1, from[i].mh));
		plug_wait(&p, recv[i]);
		mem_put(&from[i]);
		mem_put(&to[i]);
	}
	stale_close(&s);
	plug_close(&p);
}

/* ---- afterwards ---- */

enum { PEERS = 100 };

/* Has as many send comms, until it is told to go on. */
static void connect_many(struct twin *tw, void *arg)
{
	static void *send[PEERS];
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	struct plug p;

	(void)arg;
	plug_open(&p, 0);
	for (int i = 0; i < PEERS; i++) {
		twin_get(tw, handle, sizeof(handle));
		send[i] = plug_connect(&p, 0, handle);
	}
	twin_meet(tw);
	twin_meet(tw);
	for (int i = 0; i < PEERS; i++)
		plug_close_send(&p, send[i]);
	plug_close(&p);
}

static void accept_many(struct plug *p, struct twin *tw, void **recv)
{
	for (int i = 0; i < PEERS; i++) {
		uint8_t handle[NCCL_NET_HANDLE_BYTES];
		void *listen = plug_listen(p, 0, handle);

		twin_put(tw, handle, sizeof(handle));
		recv[i] = plug_accept(p, listen);
		plug_close_listen(p, listen);
	}
	twin_meet(tw);
}

/* The peer stands still, so that lines to it are under way when the comms are closed. */
Test(abort, comms_closed_with_requests_under_way_are_freed_when_those_complete)
{
	static uint8_t memory[4096];
	static void *recv[PEERS];
	struct twin tw;
	struct plug p;
	struct link own;
	size_t before, open, after;

	twin_start(&tw, connect_many, NULL);
	plug_open(&p, 0);
	link_open(&own, &p, 0, 0);
	before = mallinfo2().uordblks;
	accept_many(&p, &tw, recv);
	twin_stop(&tw);
	for (int i = 0; i < PEERS; i++) {
		void *mh = plug_reg(&p, recv[i], memory, sizeof(memory));

		plug_irecv(&p, recv[i], memory, sizeof(memory), 0, mh);
		plug_dereg(&p, recv[i], mh);
	}
	open = mallinfo2().uordblks;
	for (int i = 0; i < PEERS; i++)
		plug_close_recv(&p, recv[i]);
	kill(tw.pid, SIGCONT);
	for (uint32_t i = 0; i < 20; i++) {
		link_message(&own, 100, i);
		nap_ms(5);
	}
	after = mallinfo2().uordblks;
	/* A sanitizer's heap says nothing. */
	need(after <= before + (open - before) / 4,
	     "%zu bytes in use, %zu with the comms, then %zu", before, open, after);
	plug_forget();
	twin_meet(&tw);
	twin_end(&tw);
	link_close(&own);
	plug_close(&p);
}

/* It may never go on. Closing takes what the calls take. */
Test(abort, closing_waits_for_no_peer_that_stands_still)
{
	static uint8_t memory[4096];
	static void *recv[PEERS];
	struct twin tw;
	struct plug p;
	int64_t start;

	twin_start(&tw, connect_many, NULL);
	plug_open(&p, 0);
	accept_many(&p, &tw, recv);
	twin_stop(&tw);
	start = now_ms();
	for (int i = 0; i < PEERS; i++) {
		void *mh = plug_reg(&p, recv[i], memory, sizeof(memory));

		plug_irecv(&p, recv[i], memory, sizeof(memory), 0, mh);
		plug_dereg(&p, recv[i], mh);
		plug_close_recv(&p, recv[i]);
	}
	plug_forget();
	plug_close(&p);
	need(now_ms() - start < 5000, "%d ms", (int)(now_ms() - start));
	kill(tw.pid, SIGCONT);
	twin_meet(&tw);
	twin_end(&tw);
}
