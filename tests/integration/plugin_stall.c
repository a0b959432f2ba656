/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of requests that nothing happens to, and of aborts that are asked for. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { SIZE = 1000 };

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

Test(stall, receive_that_nobody_sends_to_is_warned_of_once)
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
