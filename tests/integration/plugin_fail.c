/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers that fail: an error in bounded time, kept, said once, and no concern of other comms. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { SIZE = 10000, SOON_MS = 10000, SILENT_MS = 20000 };

#define ABIS() cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS)

static enum nccl_net_result isend_result(struct link *l, const struct mem *m)
{
	void *request = &request;
	enum nccl_net_result rc =
		l->plug->net.isend(&l->plug->net, l->send, m->at, SIZE, 0, m->mh, NULL, &request);

	need(!request, "a request, with result %d", rc);
	return rc;
}

static enum nccl_net_result irecv_result(struct link *l, const struct mem *m)
{
	void *request = &request, *at = m->at, *mh = m->mh;
	size_t size = SIZE;
	int tag = 0;
	enum nccl_net_result rc = l->plug->net.irecv(&l->plug->net, l->recv, 1, &at, &size, &tag,
						     &mh, NULL, &request);

	need(!request, "a request, with result %d", rc);
	return rc;
}

/* A link whose receiver gave up its memory with a receive posted, and the send that finds out. */
struct broken {
	struct link l;
	struct mem from, to;
	void *send, *recv;
};

static void broken_open(struct broken *b, struct plug *p, int from, int to)
{
	link_open(&b->l, p, from, to);
	mem_get(&b->from, p, b->l.send, SIZE, 0);
	mem_get(&b->to, p, b->l.recv, SIZE, 0);
	b->recv = plug_recv(p, b->l.recv, b->to.at, SIZE, 0, b->to.mh);
	plug_dereg(p, b->l.recv, b->to.mh);
	b->send = plug_send(p, b->l.send, b->from.at, SIZE, 0, b->from.mh);
}

static void broken_close(struct broken *b)
{
	plug_dereg(b->l.plug, b->l.send, b->from.mh);
	link_close(&b->l);
	plug_forget();
}

ParameterizedTestParameters(fail, send_to_memory_that_is_gone_is_a_remote_error)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, fail, send_to_memory_that_is_gone_is_a_remote_error)
{
	struct broken b;
	struct plug p;

	plug_open(&p, abi->v);
	broken_open(&b, &p, 0, 0);
	cr_assert(eq(int, plug_test_fails(&p, b.send, SOON_MS), NCCL_NET_REMOTE_ERROR));
	mem_unharmed(&b.to, 0);
	broken_close(&b);
	plug_close(&p);
}

Test(fail, every_later_call_on_the_comm_returns_the_error)
{
	struct broken b;
	struct plug p;

	plug_open(&p, 0);
	broken_open(&b, &p, 0, 0);
	plug_test_fails(&p, b.send, SOON_MS);
	for (int i = 0; i < 3; i++) {
		cr_assert(eq(int, plug_test_fails(&p, b.send, 0), NCCL_NET_REMOTE_ERROR));
		cr_assert(eq(int, isend_result(&b.l, &b.from), NCCL_NET_REMOTE_ERROR));
	}
	broken_close(&b);
	plug_close(&p);
}

/* The text of a GID as the device has it, from the handle of a listen. */
static void gid_of(struct plug *p, int dev, char text[64])
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];

	plug_close_listen(p, plug_listen(p, dev, handle));
	need(inet_ntop(AF_INET6, handle + 7, text, 64), "no GID");
}

Test(fail, one_warning_names_status_and_both_ends)
{
	char here[64], there[64], *qp;
	struct broken b;
	struct plug p;
	int to;

	setenv("NCCL_EFA_MIN_STRIPE", "1073741824", 1); /* or any rail may say it first */
	plug_open(&p, 0);
	to = p.ndev > 1;
	gid_of(&p, 0, here);
	gid_of(&p, to, there);
	broken_open(&b, &p, 0, to);
	plug_test_fails(&p, b.send, SOON_MS);
	plug_test_fails(&p, b.send, 0);
	isend_result(&b.l, &b.from);
	cr_assert(eq(int, plug_warned(), 1));
	need(strstr(plug_warning(), plug_goes_by("read") ? "no longer registered" : "status 7"),
	     "%s", plug_warning());
	need(strstr(plug_warning(), here), "%s not in: %s", here, plug_warning());
	need(strstr(plug_warning(), there), "%s not in: %s", there, plug_warning());
	qp = strstr(plug_warning(), " qp ");
	need(qp && strstr(qp + 1, " qp "), "not two queue pairs in: %s", plug_warning());
	broken_close(&b);
	plug_close(&p);
}

/* All that is under way fails, and each failure is the same news. */
Test(fail, many_failures_of_one_comm_are_one_warning)
{
	enum { N = 16 };
	void *send[N];
	struct mem from, to;
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, SIZE, 0);
	mem_get(&to, &p, l.recv, SIZE, 0);
	for (int i = 0; i < N; i++)
		plug_recv(&p, l.recv, to.at, SIZE, 0, to.mh);
	nap_ms(20); /* the lines are there: isend finds them though the comm is about to fail */
	plug_dereg(&p, l.recv, to.mh);
	for (int i = 0; i < N; i++)
		send[i] = plug_send(&p, l.send, from.at, SIZE, 0, from.mh);
	for (int i = 0; i < N; i++)
		cr_assert(eq(int, plug_test_fails(&p, send[i], SOON_MS), NCCL_NET_REMOTE_ERROR));
	nap_ms(20);
	plug_test_fails(&p, send[0], 0);
	cr_assert(eq(int, plug_warned(), 1));
	plug_forget();
	mem_put(&from);
	link_close(&l);
	plug_close(&p);
}

Test(fail, other_comms_of_the_device_go_on)
{
	struct link before, after;
	struct broken b;
	struct plug p;

	plug_open(&p, 0);
	link_open(&before, &p, 0, 0);
	broken_open(&b, &p, 0, 0);
	link_open(&after, &p, 0, 0);
	plug_test_fails(&p, b.send, SOON_MS);
	plug_forget();
	for (uint32_t i = 0; i < 20; i++) {
		link_message(&before, 3000, i);
		link_message(&after, 3000, i);
	}
	broken_close(&b);
	link_message(&before, 3000, 21);
	link_message(&after, 3000, 22);
	link_close(&before);
	link_close(&after);
	plug_close(&p);
}

Test(fail, send_from_memory_that_its_handle_does_not_cover_is_a_remote_error)
{
	struct mem from, to;
	struct plug p;
	struct link l;
	void *send;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, SIZE, 0);
	mem_get(&to, &p, l.recv, SIZE, 0);
	plug_recv(&p, l.recv, to.at, SIZE, 0, to.mh);
	send = plug_send(&p, l.send, from.at + (1 << 20), SIZE, 0, from.mh);
	cr_assert(eq(int, plug_test_fails(&p, send, SOON_MS), NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, plug_warned(), 1));
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_forget();
	plug_close(&p);
}

/* The one that failed stays failed; those that were done before stay done. */
Test(fail, requests_that_were_done_before_the_error_still_say_so)
{
	struct mem from, to, lost;
	struct plug p;
	struct link l;
	void *good, *send;
	unsigned tries = 0;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, SIZE, 0);
	mem_get(&to, &p, l.recv, SIZE, 0);
	mem_get(&lost, &p, l.recv, SIZE, 0);
	good = plug_recv(&p, l.recv, to.at, SIZE, 0, to.mh);
	plug_recv(&p, l.recv, lost.at, SIZE, 0, lost.mh);
	plug_dereg(&p, l.recv, lost.mh);
	bytes_fill(from.at, SIZE, 1);
	plug_wait(&p, plug_send(&p, l.send, from.at, SIZE, 0, from.mh));
	send = plug_send(&p, l.send, from.at, SIZE, 0, from.mh);
	plug_test_fails(&p, send, SOON_MS);
	while (!plug_test(&p, good, NULL))
		relax(&tries);
	cr_assert(eq(long, bytes_differ(to.at, SIZE, 1), -1));
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_forget();
	plug_close(&p);
}

/*
 * The first message is more than a send queue takes, so that nothing of the second has left when
 * its memory is given up; it must not be read by what is no longer a registration.
 */
Test(fail, send_that_waits_ends_with_its_memory)
{
	enum { BIG = 16 << 20 };
	struct mem first, from, to;
	struct plug p;
	struct link l;
	void *send;

	setenv("NCCL_EFA_PROTOCOL", "send", 1);
	setenv("NCCL_EFA_RAILS", "1", 1);
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&first, &p, l.send, BIG, 0);
	mem_get(&from, &p, l.send, SIZE, 0);
	mem_get(&to, &p, l.recv, BIG, 0);
	for (int i = 0; i < 2; i++)
		plug_recv(&p, l.recv, to.at, BIG, 0, to.mh);
	plug_send(&p, l.send, first.at, BIG, 0, first.mh);
	send = plug_send(&p, l.send, from.at, SIZE, 0, from.mh);
	mem_put(&from);
	cr_assert(ne(int, plug_test_fails(&p, send, SOON_MS), NCCL_NET_OK));
	need(plug_said("no longer registered"), "%s", plug_warning());
	plug_forget();
	mem_put(&first);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

/* ---- a peer that goes away ---- */

/* Talks as long as it lives. */
static void chatter(struct twin *t, void *arg)
{
	struct mem from, to;
	struct plug p;
	struct link l;

	(void)arg;
	plug_open(&p, 0);
	link_open_twin(&l, &p, t);
	mem_get(&from, &p, l.send, SIZE, 0);
	mem_get(&to, &p, l.recv, SIZE, 0);
	twin_meet(t);
	for (;;) {
		void *recv = plug_recv(&p, l.recv, to.at, SIZE, 0, to.mh);

		plug_wait(&p, plug_send(&p, l.send, from.at, SIZE, 0, from.mh));
		plug_wait(&p, recv);
	}
}

/* How many became done: none or one. */
static int step(struct plug *p, void **request, enum nccl_net_result *rc)
{
	int done = 0;

	if (!*request || *rc)
		return 0;
	*rc = p->net.test(*request, &done, NULL);
	need(*rc == NCCL_NET_OK || *rc == NCCL_NET_REMOTE_ERROR, "result %d", *rc);
	if (done)
		*request = NULL;
	return done;
}

/* Exchange messages for @ms; returns how many. The comms may fail meanwhile. */
static int converse(struct link *l, struct mem *from, struct mem *to, int ms)
{
	enum nccl_net_result send_rc = NCCL_NET_OK, recv_rc = NCCL_NET_OK;
	static void *send, *recv; /* still under way from the call before */
	int64_t end = now_ms() + ms;
	unsigned tries = 0;
	int n = 0, did;

	while (now_ms() < end) {
		void *at = to->at;
		size_t size = SIZE;
		int tag = 0;

		if (!send && !send_rc)
			send_rc = l->plug->net.isend(&l->plug->net, l->send, from->at, SIZE, 0,
						     from->mh, NULL, &send);
		if (!recv && !recv_rc)
			recv_rc = l->plug->net.irecv(&l->plug->net, l->recv, 1, &at, &size, &tag,
						     &to->mh, NULL, &recv);
		did = step(l->plug, &send, &send_rc) + step(l->plug, &recv, &recv_rc);
		n += did;
		if (!did)
			relax(&tries);
	}
	return n;
}

Test(fail, peer_killed_in_mid_traffic_ends_its_comms_and_no_others)
{
	struct mem from, to;
	struct link l, own;
	struct twin t;
	struct plug p;
	int64_t start;

	twin_start(&t, chatter, NULL);
	plug_open(&p, 0);
	link_open_twin(&l, &p, &t);
	link_open(&own, &p, 0, 0);
	mem_get(&from, &p, l.send, SIZE, 0);
	mem_get(&to, &p, l.recv, SIZE, 0);
	twin_meet(&t);
	cr_assert(gt(int, converse(&l, &from, &to, 300), 0));
	twin_kill(&t);
	converse(&l, &from, &to, 1500);
	need(plug_warned() <= 2, "%d warnings, the last: %s", plug_warned(), plug_warning());
	plug_forget();
	link_message(&own, 3000, 1);
	start = now_ms();
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	need(now_ms() - start < 1000, "closing took %d ms", (int)(now_ms() - start));
	link_message(&own, 3000, 2);
	link_close(&own);
	link_open(&own, &p, 0, 0);
	link_message(&own, 3000, 3);
	link_close(&own);
	plug_close(&p);
}

/* Has posted receives when it meets the other. */
static void post_then_meet(struct twin *t, void *arg)
{
	struct mem to;
	struct plug p;
	struct link l;

	(void)arg;
	plug_open(&p, 0);
	link_open_twin(&l, &p, t);
	mem_get(&to, &p, l.recv, SIZE, 0);
	for (int i = 0; i < 8; i++)
		plug_recv(&p, l.recv, to.at, SIZE, 0, to.mh);
	nap_ms(50); /* the lines leave */
	twin_meet(t);
	twin_meet(t);
}

/* Comms with such a process, and memory at this end of one of them. */
struct widow {
	struct twin t;
	struct plug p;
	struct link l;
	struct mem m;
};

static void widow_open(struct widow *w, bool sends)
{
	twin_start(&w->t, post_then_meet, NULL);
	plug_open(&w->p, 0);
	link_open_twin(&w->l, &w->p, &w->t);
	mem_get(&w->m, &w->p, sends ? w->l.send : w->l.recv, SIZE, 0);
	twin_meet(&w->t);
}

static void *widow_send(struct widow *w)
{
	return plug_send(&w->p, w->l.send, w->m.at, SIZE, 0, w->m.mh);
}

static void *widow_recv(struct widow *w)
{
	return plug_recv(&w->p, w->l.recv, w->m.at, SIZE, 0, w->m.mh);
}

/* All that is to be done for @request was done, and it waits for the peer. */
static void settle(struct widow *w, void *request)
{
	int64_t end = now_ms() + 300;

	while (now_ms() < end)
		cr_assert(not(plug_test(&w->p, request, NULL)));
}

static void fails(struct widow *w, void *request, int within_ms)
{
	cr_assert(eq(int, plug_test_fails(&w->p, request, within_ms), NCCL_NET_REMOTE_ERROR));
}

static void widow_close(struct widow *w)
{
	cr_assert(eq(int, plug_warned(), 1));
	plug_forget();
	mem_put(&w->m);
	link_close(&w->l);
	plug_close(&w->p);
}

static void receive_one(struct twin *t, void *arg)
{
	struct plug p;
	struct link l;
	struct mem m;

	(void)arg;
	plug_open(&p, 0);
	link_open_twin(&l, &p, t);
	mem_get(&m, &p, l.recv, SIZE, 0);
	twin_meet(t);
	cr_assert(eq(int, plug_wait(&p, plug_recv(&p, l.recv, m.at, SIZE, 0, m.mh)), SIZE));
	twin_meet(t);
	mem_put(&m);
	link_close(&l);
	plug_close(&p);
}

/* By reads: the word of where data are is said to have failed, and they were read. */
Test(fail, word_that_failed_and_was_heard_is_no_error)
{
	struct twin t;
	struct plug p;
	struct link l;
	struct mem m;
	void *send;

	setenv("NCCL_EFA_PROTOCOL", "read", 1);
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	setenv("NCCL_EFA_RAILS", "1", 1);
	faults_init();
	twin_start(&t, receive_one, NULL);
	plug_open(&p, 0);
	link_open_twin(&l, &p, &t);
	mem_get(&m, &p, l.send, SIZE, 0);
	faults_put("unheard 9 op=send");
	twin_meet(&t);
	send = plug_send(&p, l.send, m.at, SIZE, 0, m.mh);
	twin_meet(&t); /* it has it; here nobody has looked, at either */
	nap_ms(200);
	cr_assert(eq(int, plug_wait(&p, send), SIZE));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	mem_put(&m);
	link_close(&l);
	plug_close(&p);
	twin_end(&t);
}

Test(fail, send_to_a_process_that_was_killed_fails_in_bounded_time)
{
	struct widow w;

	widow_open(&w, true);
	twin_kill(&w.t);
	fails(&w, widow_send(&w), SOON_MS);
	cr_assert(eq(int, isend_result(&w.l, &w.m), NCCL_NET_REMOTE_ERROR));
	widow_close(&w);
}

/* The peer stands still, so that its end is noticed only after the comm was closed. */
Test(fail, failure_after_close_is_no_news)
{
	struct widow w;
	struct link own;

	widow_open(&w, true);
	link_open(&own, &w.p, 0, 0);
	twin_stop(&w.t);
	for (int i = 0; i < 4; i++)
		widow_send(&w);
	nap_ms(50); /* they leave, so that nothing fails here */
	mem_put(&w.m);
	link_close(&w.l);
	twin_kill(&w.t);
	for (uint32_t i = 0; i < 20; i++) {
		nap_ms(10);
		link_message(&own, 100, i);
	}
	link_close(&own);
	plug_close(&w.p); /* without a warning */
}

Test(fail, receive_from_a_process_that_was_killed_fails_in_bounded_time)
{
	struct widow w;

	widow_open(&w, false);
	twin_kill(&w.t);
	fails(&w, widow_recv(&w), SOON_MS);
	cr_assert(eq(int, irecv_result(&w.l, &w.m), NCCL_NET_REMOTE_ERROR));
	mem_unharmed(&w.m, 0);
	widow_close(&w);
}

/* Nothing is sent to it that could fail. */
Test(fail, receive_that_waits_for_a_process_when_it_is_killed_fails_in_bounded_time)
{
	struct widow w;
	void *recv;

	widow_open(&w, false);
	recv = widow_recv(&w);
	settle(&w, recv);
	twin_kill(&w.t);
	fails(&w, recv, SILENT_MS);
	mem_unharmed(&w.m, 0);
	widow_close(&w);
}

/* The peer knows of the message and has not begun to read it. */
Test(fail, send_that_waits_for_the_reads_of_a_process_when_it_is_killed_fails_in_bounded_time)
{
	struct widow w;
	void *send;

	setenv("NCCL_EFA_PROTOCOL", "read", 1);
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	widow_open(&w, true);
	send = widow_send(&w);
	settle(&w, send);
	twin_kill(&w.t);
	fails(&w, send, SILENT_MS);
	widow_close(&w);
}
