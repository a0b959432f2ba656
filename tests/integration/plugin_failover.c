/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails that stop to work under traffic. Needs softefa with four devices. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { BIG = 1 << 20, AHEAD = 8, ROUNDS = 40 };

TestSuite(failover, .timeout = 120);

/* A pipe that is always full. */
struct flood {
	struct pipe pipe;
	void *recv[AHEAD], *send[AHEAD];
};

static void use(const char *rails)
{
	plug_softefa("timeout_ms=300");
	setenv("NCCL_EFA_RAILS", rails, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "16384", 1);
	faults_init();
}

static size_t size_of(int i)
{
	return (size_t)i * 104729 % BIG;
}

/* Both ends are worked, as NCCL works all that it has posted. */
static void start(struct flood *p, int i)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	int at = i % AHEAD;

	p->recv[at] = plug_recv(&p->pipe.plug, p->pipe.l.recv, p->pipe.to.at + at * BIG, BIG, 0,
				p->pipe.to.mh);
	bytes_fill(p->pipe.from.at + at * BIG, size_of(i), (uint32_t)i);
	for (unsigned rest = 0;; relax(&rest)) {
		p->send[at] = plug_isend(&p->pipe.plug, p->pipe.l.send, p->pipe.from.at + at * BIG,
					 size_of(i), 0, p->pipe.from.mh);
		if (p->send[at])
			return;
		need(!plug_test(&p->pipe.plug, p->recv[at], NULL), "done before it was sent");
		need(now_ms() < end, "send %d does not start", i);
	}
}

static void finish(struct flood *p, int i)
{
	int at = i % AHEAD, got = plug_wait(&p->pipe.plug, p->recv[at]);
	long bad = bytes_differ(p->pipe.to.at + at * BIG, size_of(i), (uint32_t)i);

	need((size_t)got == size_of(i), "message %d: %d of %zu bytes", i, got, size_of(i));
	need(bad < 0, "message %d: byte %ld of %zu is wrong", i, bad, size_of(i));
	need((size_t)plug_wait(&p->pipe.plug, p->send[at]) == size_of(i), "send %d", i);
}

/* Always AHEAD messages under way; @rules strike in the middle, until there are @warnings. */
static void stream(struct flood *p, const char *rules, int warnings)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	int i = 0, done = 0, more = ROUNDS;

	for (; more; i++) {
		start(p, i);
		if (i == ROUNDS / 2)
			faults_put(rules);
		if (i - done == AHEAD - 1)
			finish(p, done++);
		more -= i > ROUNDS / 2 && plug_warned() >= warnings;
		need(now_ms() < end, "%d warnings, not %d", plug_warned(), warnings);
	}
	while (done < i)
		finish(p, done++);
}

/* Out of a connection before it is there. */
static struct way {
	char rule[40], rails[4];
} ways[] = {
	{"dead dev=0", "2"},
	{"dead dev=0", "4"},
	{"status 2 dev=0 op=send", "2"},
	{"unheard 13 dev=0 op=send", "2"}, /* what is asked and answered arrives twice */
};

ParameterizedTestParameters(failover, connections_come_up_while_rail_0_is_out)
{
	return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));
}

ParameterizedTest(struct way *w, failover, connections_come_up_while_rail_0_is_out)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	struct flood p, q;
	void *listen;

	use(w->rails);
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	faults_put(w->rule);
	listen = plug_listen(&p.pipe.plug, 0, handle);
	for (int i = 1; i <= 3; i++) {
		uint8_t copy[NCCL_NET_HANDLE_BYTES];

		memcpy(copy, handle, sizeof(copy));
		/* It asks by one rail and the other before it gets an answer. */
		for (int64_t end = now_ms() + 100; now_ms() < end; nap_ms(1))
			need(!plug_connect_once(&p.pipe.plug, 0, copy), "nobody has accepted");
		q = p; /* with its memory */
		link_open_to(&q.pipe.l, &p.pipe.plug, 0, copy, listen);
		start(&q, i);
		finish(&q, i);
		link_close(&q.pipe.l);
	}
	for (int64_t end = now_ms() + 500; now_ms() < end; nap_ms(1))
		need(!plug_accept_once(&p.pipe.plug, listen), "nobody has connected");
	plug_close_listen(&p.pipe.plug, listen);
	faults_put("");
	plug_forget();
	pipe_close(&p.pipe);
}

static struct out {
	char rules[80];
	int warnings;
	char protocol[8], rails[4];
} outs[] = {
	{"dead dev=1", 1, "write", "4"},
	{"dead dev=3", 1, "write", "4"},
	{"dead dev=0", 1, "write", "4"},
	{"dead dev=1\ndead dev=2", 2, "write", "4"},
	{"dead dev=0\ndead dev=1\ndead dev=2", 3, "write", "4"},
	{"status 13 dev=2 nth=5", 1, "write", "4"},
	{"status 15 dev=1 op=write", 1, "write", "4"},
	{"status 2 dev=1 op=write", 1, "write", "4"},
	{"event qp_fatal dev=3", 1, "write", "4"},
	{"dead dev=1", 1, "read", "4"},
	{"dead dev=0", 1, "read", "4"},
	{"dead dev=0\ndead dev=1\ndead dev=2", 3, "read", "4"},
	{"status 13 dev=2 op=read nth=5", 1, "read", "4"},
	{"status 13 dev=2 op=send nth=5", 1, "read", "4"},
	{"status 15 dev=1", 1, "read", "4"},
	{"dead dev=1", 1, "send", "4"},
	{"dead dev=0", 1, "send", "4"},
	{"dead dev=0", 1, "send", "2"},
	{"status 13 dev=1 op=send nth=300", 1, "send", "2"},
	{"dead dev=0\ndead dev=1\ndead dev=2", 3, "send", "4"},
	{"status 13 dev=2 op=send nth=5", 1, "send", "4"},
	{"status 15 dev=1", 1, "send", "4"},
	{"status 2 dev=3", 1, "send", "4"},
	{"event qp_fatal dev=3", 1, "send", "4"},
};

ParameterizedTestParameters(failover, traffic_completes_on_the_rails_that_are_left)
{
	return cr_make_param_array(struct out, outs, sizeof(outs) / sizeof(outs[0]));
}

ParameterizedTest(struct out *o, failover, traffic_completes_on_the_rails_that_are_left)
{
	struct flood p;

	use(o->rails);
	setenv("NCCL_EFA_PROTOCOL", o->protocol, 1);
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	stream(&p, o->rules, o->warnings);
	cr_assert(eq(int, plug_warned(), o->warnings), "%s", plug_warning());
	need(plug_said("rails go on"), "%s", plug_warning());
	plug_forget();
	pipe_close(&p.pipe);
}

static struct protocol {
	char name[8];
} protocols[] = {{"write"}, {"read"}, {"send"}};

ParameterizedTestParameters(failover, device_that_failed_is_a_rail_less)
{
	return cr_make_param_array(struct protocol, protocols,
				   sizeof(protocols) / sizeof(protocols[0]));
}

/* Nothing of it can be closed any more, and each call says so: left to the end of the process. */
ParameterizedTest(struct protocol *c, failover, device_that_failed_is_a_rail_less)
{
	static struct flood p; /* or it would count as leaked */

	use("4");
	setenv("NCCL_EFA_PROTOCOL", c->name, 1);
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	stream(&p, "event device_fatal dev=2", 1);
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	need(plug_said("3 rails go on"), "%s", plug_warning());
}

ParameterizedTestParameters(failover, piece_that_comes_twice_counts_once)
{
	return cr_make_param_array(struct protocol, protocols,
				   sizeof(protocols) / sizeof(protocols[0]));
}

/*
 * What was thought lost has arrived: the bytes are there, the request ends with 13. The rest of the
 * message is late, so that it is not over when the same comes again.
 */
ParameterizedTest(struct protocol *c, failover, piece_that_comes_twice_counts_once)
{
	struct flood p;

	plug_softefa("max_msg_size=1100"); /* more segments than are under way at once */
	use("2");
	setenv("NCCL_EFA_PROTOCOL", c->name, 1);
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	stream(&p, "twice gap=20\nunheard 13 dev=1\ndelay 0 jitter=5000 dev=0", 1);
	plug_forget();
	pipe_close(&p.pipe);
}

/* From now on, for sure: with a command. */
static void strike(struct pipe *p, const char *rules)
{
	struct mem any;

	faults_put(rules);
	mem_get(&any, &p->plug, p->l.send, 1, 0);
	mem_put(&any);
}

/*
 * The word of where data are has arrived, but its rail said no, and there is a second of silence
 * before the others say it again. Meanwhile the data were read, and the request is another's.
 */
Test(failover, word_of_a_send_that_was_over_is_not_said_for_the_next)
{
	enum { LARGE = 1 << 17, SMALL = 64 };
	void *recv[3], *send[3];
	struct pipe p;

	setenv("NCCL_EFA_PROTOCOL", "read", 1);
	use("2");
	pipe_open(&p, 1, 3 * LARGE);
	for (int i = 0; i < 3; i++)
		recv[i] = plug_recv(&p.plug, p.l.recv, p.to.at + i * LARGE, LARGE, i, p.to.mh);
	strike(&p, "unheard 2 dev=0 op=send");
	send[0] = plug_send(&p.plug, p.l.send, p.from.at, LARGE, 0, p.from.mh);
	cr_assert(eq(int, plug_wait(&p.plug, recv[0]), LARGE));
	cr_assert(eq(int, plug_wait(&p.plug, send[0]), LARGE));
	/* In the place of the first, and not looked at before what it waited for is due. */
	send[1] = plug_send(&p.plug, p.l.send, p.from.at, SMALL, 1, p.from.mh);
	cr_assert(eq(int, plug_wait(&p.plug, recv[1]), SMALL));
	nap_ms(1200);
	send[2] = plug_send(&p.plug, p.l.send, p.from.at, LARGE, 2, p.from.mh);
	cr_assert(eq(int, plug_wait(&p.plug, recv[2]), LARGE));
	cr_assert(eq(int, plug_wait(&p.plug, send[2]), LARGE));
	cr_assert(eq(int, plug_wait(&p.plug, send[1]), SMALL));
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	plug_forget();
	pipe_close(&p);
}

#define FAILS(n) "status 13 op=send nth=" #n "\n"

static struct end {
	char rails[4], rules[64];
	int close_ms; /* until the receiver is closed; -1: it stays */
	enum nccl_net_result result;
} ends[] = {
	{"2", FAILS(2), 0, NCCL_NET_OK},
	{"1", FAILS(2), 0, NCCL_NET_OK},
	{"1", FAILS(2), -1, NCCL_NET_OK},
	{"1", FAILS(2) FAILS(3), 0, NCCL_NET_REMOTE_ERROR},
	{"1", FAILS(2) FAILS(3), 2000, NCCL_NET_REMOTE_ERROR},
};

ParameterizedTestParameters(failover, sender_does_not_wait_for_a_last_word_that_failed)
{
	return cr_make_param_array(struct end, ends, sizeof(ends) / sizeof(ends[0]));
}

/*
 * That data were read is said last of all, by a receiver that may be closed then. It is said again,
 * by another rail if there is one; if it fails again the sender hears that its receiver is over.
 */
ParameterizedTest(struct end *end, failover, sender_does_not_wait_for_a_last_word_that_failed)
{
	enum nccl_net_result rc = NCCL_NET_OK;
	void *recv, *send, *waits;
	int64_t start;
	struct link other; /* whose receive keeps the engine at work */
	char rules[128];
	struct mem none;
	struct pipe p;
	int done = 0;

	setenv("NCCL_EFA_PROTOCOL", "read", 1);
	use(end->rails);
	pipe_open(&p, 1, BIG);
	link_open(&other, &p.plug, 0, 1);
	recv = plug_recv(&p.plug, p.l.recv, p.to.at, BIG, 0, p.to.mh);
	mem_get(&none, &p.plug, other.recv, 1, 0);
	waits = plug_recv(&p.plug, other.recv, none.at, 1, 0, none.mh);
	nap_ms(50); /* what they said has left */
	snprintf(rules, sizeof(rules), "delay 500000 op=send nth=2\n%s", end->rules);
	strike(&p, rules);
	send = plug_send(&p.plug, p.l.send, p.from.at, BIG, 0, p.from.mh);
	cr_assert(eq(int, plug_wait(&p.plug, recv), BIG));
	for (start = now_ms(); now_ms() < start + end->close_ms; nap_ms(1))
		need(!plug_test(&p.plug, waits, NULL), "done by nothing");
	if (end->close_ms >= 0) {
		mem_put(&p.to);
		plug_close_recv(&p.plug, p.l.recv);
	}
	for (; !done && rc == NCCL_NET_OK && now_ms() < start + PLUG_WAIT_MS; nap_ms(1)) {
		need(!plug_test(&p.plug, waits, NULL), "done by nothing");
		rc = p.plug.net.test(send, &done, NULL);
	}
	cr_assert(eq(int, rc, end->result));
	cr_assert(eq(int, done, rc == NCCL_NET_OK), "it waits");
	mem_put(&none);
	link_close(&other);
	mem_put(&p.from);
	plug_close_send(&p.plug, p.l.send);
	if (end->close_ms < 0) {
		mem_put(&p.to);
		plug_close_recv(&p.plug, p.l.recv);
	}
	plug_forget();
	plug_close(&p.plug);
}

/* Messages until one fails. */
static enum nccl_net_result run_dry(struct flood *p)
{
	int64_t end = now_ms() + 10000;

	while (now_ms() < end) {
		void *recv = plug_irecv(&p->pipe.plug, p->pipe.l.recv, p->pipe.to.at, BIG, 0,
					p->pipe.to.mh),
		     *send = NULL;
		enum nccl_net_result rc = NCCL_NET_OK;
		int done = 0;

		while (!send && rc == NCCL_NET_OK && now_ms() < end) {
			rc = p->pipe.plug.net.isend(&p->pipe.plug.net, p->pipe.l.send,
						    p->pipe.from.at, BIG, 0, p->pipe.from.mh, NULL,
						    &send);
			if (!send && rc == NCCL_NET_OK && recv)
				rc = p->pipe.plug.net.test(recv, &done, NULL);
		}
		for (done = 0; !done && rc == NCCL_NET_OK && now_ms() < end;)
			rc = p->pipe.plug.net.test(send, &done, NULL);
		for (done = 0; !done && rc == NCCL_NET_OK && now_ms() < end;)
			rc = p->pipe.plug.net.test(recv, &done, NULL);
		if (rc != NCCL_NET_OK)
			return rc;
	}
	return NCCL_NET_OK;
}

Test(failover, last_rail_that_goes_is_an_error)
{
	struct flood p;

	use("2");
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	faults_put("status 13 op=write");
	cr_assert(eq(int, run_dry(&p), NCCL_NET_REMOTE_ERROR));
	need(plug_said("status 13"), "%s", plug_warning());
	plug_forget();
	pipe_close(&p.pipe);
}

ParameterizedTestParameters(failover, can_be_switched_off)
{
	return cr_make_param_array(struct protocol, protocols,
				   sizeof(protocols) / sizeof(protocols[0]));
}

ParameterizedTest(struct protocol *c, failover, can_be_switched_off)
{
	struct flood p;

	use("4");
	setenv("NCCL_EFA_PROTOCOL", c->name, 1);
	setenv("NCCL_EFA_FAILOVER", "0", 1);
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	faults_put("status 13 dev=1");
	cr_assert(eq(int, run_dry(&p), NCCL_NET_REMOTE_ERROR));
	need(!plug_said("rails go on"), "%s", plug_warning());
	plug_forget();
	pipe_close(&p.pipe);
}

/* A status that says something about the memory says nothing about the rail. */
Test(failover, other_errors_are_errors)
{
	struct flood p;

	use("4");
	pipe_open(&p.pipe, 0, AHEAD * BIG);
	faults_put("status 7 op=write dev=1");
	cr_assert(eq(int, run_dry(&p), NCCL_NET_REMOTE_ERROR));
	need(!plug_said("rails go on"), "%s", plug_warning());
	plug_forget();
	pipe_close(&p.pipe);
}
