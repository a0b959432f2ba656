/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of requests that nothing happens to, and of aborts that are asked for. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/deny.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { SIZE = 1000, SILENT_MS = 20000 };

TestSuite(stall, .timeout = 60);

static void open_with(struct pipe *p, const char *seconds)
{
	setenv("NCCL_EFA_STALL_WARN_S", seconds, 1);
	pipe_open(p, 0, SIZE);
}

/* Test @request, which is not done, for so long. */
static void test_for(struct pipe *p, void *request, int ms)
{
	int64_t end = now_ms() + ms;

	while (now_ms() < end)
		for (int i = 0; i < 1000; i++)
			need(!plug_test(&p->plug, request, NULL), "it is done");
}

static void nobody_sends(void)
{
	struct pipe p;
	void *recv;

	open_with(&p, "1");
	recv = plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	test_for(&p, recv, 500);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	test_for(&p, recv, 3500);
	cr_assert(eq(int, plug_warned(), 1));
	need(strstr(plug_warning(), "to a receive") && strstr(plug_warning(), "knows of it"), "%s",
	     plug_warning());
	plug_wait(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh));
	cr_assert(eq(int, plug_wait(&p.plug, recv), SIZE), "it goes on as if nothing had been");
	plug_forget();
	pipe_close(&p);
}

Test(stall, receive_that_nobody_sends_to_is_warned_of_once)
{
	nobody_sends();
}

/* As in some containers: then threads hold a mutex, and none of them is the owner. */
Test(stall, receive_is_warned_of_without_membarrier_too)
{
	deny_call(SYS_membarrier, ENOSYS);
	need(syscall(SYS_membarrier, 0, 0, 0) == -1 && errno == ENOSYS, "membarrier is there");
	nobody_sends();
}

Test(stall, send_that_takes_long_is_warned_of)
{
	struct pipe p;
	void *recv, *send;

	plug_softefa("log=0");
	faults_init();
	open_with(&p, "1");
	faults_put("delay 4000000 op=write");
	test_for(&p, plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh), 100);
	recv = plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	send = plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh);
	test_for(&p, send, 2500);
	need(plug_said("to a send of 1000 bytes"), "%s", plug_warning());
	faults_put("");
	plug_wait(&p.plug, send);
	plug_wait(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh));
	plug_wait(&p.plug, recv);
	plug_forget();
	pipe_close(&p);
}

/* There is always an open request, but never the same for long. */
Test(stall, requests_that_move_are_not_warned_of)
{
	struct pipe p;
	int64_t end;
	void *recv, *next;

	open_with(&p, "1");
	recv = plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	for (end = now_ms() + 3000; now_ms() < end; recv = next) {
		next = plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
		test_for(&p, next, 20);
		plug_wait(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh));
		plug_wait(&p.plug, recv);
	}
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_wait(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh));
	plug_wait(&p.plug, recv);
	pipe_close(&p);
}

Test(stall, nothing_is_said_when_that_is_not_wanted)
{
	struct pipe p;
	void *recv;

	open_with(&p, "0");
	recv = plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	test_for(&p, recv, 2500);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_wait(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh));
	plug_wait(&p.plug, recv);
	pipe_close(&p);
}

/* ---- a peer that goes away, and posted nothing ---- */

struct widow {
	struct twin t;
	struct plug p;
	struct link l, own;
	struct mem from, to;
	void *recv; /* of the link to itself, which is in order */
	void *send; /* of the other */
};

static void widow_open(struct widow *w)
{
	twin_start(&w->t, link_idle_twin, NULL);
	plug_open(&w->p, 0);
	link_open_twin(&w->l, &w->p, &w->t);
	link_open(&w->own, &w->p, 0, 0);
	mem_get(&w->from, &w->p, w->l.send, SIZE, 0);
	mem_get(&w->to, &w->p, w->own.recv, SIZE, 0);
	w->recv = plug_recv(&w->p, w->own.recv, w->to.at, SIZE, 0, w->to.mh);
	twin_meet(&w->t);
}

/* What isend, or by reads the test of it, says at last, in turn with a test, as NCCL's progress
 * thread calls; @ms at most. */
static enum nccl_net_result isend_for(struct widow *w, int ms)
{
	struct host_net *net = &w->p.net;
	enum nccl_net_result rc = NCCL_NET_OK;
	int64_t end = now_ms() + ms;
	int done = 0;

	while (!rc && now_ms() < end)
		for (int i = 0; i < 1000 && !rc; i++) {
			if (w->send)
				rc = net->test(w->send, &done, NULL);
			else
				rc = net->isend(net, w->l.send, w->from.at, SIZE, 0, w->from.mh,
						NULL, &w->send);
			need(!done && (!w->send || plug_goes_by("read")),
			     "there was no receive for it");
			need(!plug_test(&w->p, w->recv, NULL), "done before it was sent");
		}
	return rc;
}

static void widow_close(struct widow *w)
{
	plug_wait(&w->p, plug_send(&w->p, w->own.send, w->from.at, SIZE, 0, w->from.mh));
	cr_assert(eq(int, plug_wait(&w->p, w->recv), SIZE), "other comms go on");
	plug_forget();
	mem_put(&w->from);
	mem_put(&w->to);
	link_close(&w->own);
	link_close(&w->l);
	plug_close(&w->p);
}

static struct way {
	char protocol[8], rails[2];
} ways[] = {{"write", "1"}, {"write", "4"}, {"read", "4"}, {"send", "4"}};

ParameterizedTestParameters(stall, send_that_no_receive_is_there_for_fails_when_the_peer_is_killed)
{
	return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));
}

ParameterizedTest(struct way *way, stall,
		  send_that_no_receive_is_there_for_fails_when_the_peer_is_killed)
{
	struct widow w = {0};

	setenv("NCCL_EFA_PROTOCOL", way->protocol, 1);
	setenv("NCCL_EFA_RAILS", way->rails, 1);
	widow_open(&w);
	cr_assert(zero(int, isend_for(&w, 300)));
	twin_kill(&w.t);
	cr_assert(eq(int, isend_for(&w, SILENT_MS), NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	widow_close(&w);
}

/* It is asked meanwhile whether it lives, and nothing comes of that. */
Test(stall, send_that_no_receive_is_there_for_waits_for_a_peer_that_lives)
{
	struct widow w = {0};

	setenv("NCCL_EFA_STALL_WARN_S", "6", 1);
	widow_open(&w);
	cr_assert(zero(int, isend_for(&w, 8000)));
	cr_assert(eq(int, plug_warned(), 2), "one of the receive, one of the send");
	need(plug_said("has posted no receive for"), "%s", plug_warning());
	twin_meet(&w.t);
	widow_close(&w);
	twin_end(&w.t);
}

/* ---- abort ---- */

Test(stall, failure_aborts_where_the_user_wants_it, .signal = SIGABRT)
{
	struct pipe p;

	setenv("NCCL_EFA_ABORT_ON_ERROR", "1", 1);
	plug_softefa("fault=status 7 op=write nth=2");
	open_with(&p, "0");
	plug_recv(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	plug_test_fails(&p.plug, plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh),
			10000);
}
