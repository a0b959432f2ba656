/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives with NCCL's hint that they may be done early: when they are, what it saves, and that the
 * sender's ring of lines is not overrun though nobody tells of the messages.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../cuda/fake.h"
#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { SIZE = 4096, LINES = 256, IN_A_ROW = 127 }; /* lines of a ring; quiet ones that may follow */

TestSuite(quiet, .timeout = 120);

/* With eager messages, receives into memory of the host are done with their data. */
static void without_eager(void)
{
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
}

static void *recv_early(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	void *recv;

	for (unsigned rest = 0; !(recv = plug_irecv_early(p, comm, at, size, tag, mh));
	     relax(&rest))
		need(now_ms() < end, "a receive with the hint does not start");
	return recv;
}

/* Longer than anything takes that is on its way. */
static void stays_open(struct plug *p, void *request)
{
	for (int64_t end = now_ms() + 50; now_ms() < end; sched_yield())
		need(!plug_test(p, request, NULL), "done before its message");
}

static void sends(struct pipe *p, size_t size, uint32_t seed)
{
	bytes_fill(p->from.at, size, seed);
	plug_wait(&p->plug, plug_send(&p->plug, p->l.send, p->from.at, size, 0, p->from.mh));
}

/* ---- when ---- */

Test(quiet, receive_is_done_before_its_message_which_arrives_all_the_same)
{
	static const size_t sizes[] = {SIZE, 1000, 1, 0};
	struct pipe p;

	without_eager();
	pipe_open(&p, 0, SIZE);
	for (int i = 0; i < 4; i++) {
		void *recv = recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);

		memset(p.to.at, MARK, SIZE);
		need(plug_wait(&p.plug, recv) == 0, "bytes that are not here");
		need(bytes_differ_from(p.to.at, SIZE, MARK) < 0, "something was written");
		sends(&p, sizes[i], (uint32_t)i);
		need(bytes_differ(p.to.at, sizes[i], (uint32_t)i) < 0, "%zu bytes", sizes[i]);
		mem_unharmed(&p.to, SIZE);
		need(bytes_differ_from(p.to.at + sizes[i], SIZE - sizes[i], MARK) < 0, "behind %zu",
		     sizes[i]);
	}
	pipe_close(&p);
}

static struct protocol {
	char name[8];
} others[] = {{"read"}, {"send"}};

ParameterizedTestParameters(quiet, other_protocols_wait_for_the_message)
{
	return cr_make_param_array(struct protocol, others, sizeof(others) / sizeof(others[0]));
}

ParameterizedTest(struct protocol *o, quiet, other_protocols_wait_for_the_message)
{
	struct pipe p;
	void *recv;

	without_eager();
	setenv("NCCL_EFA_PROTOCOL", o->name, 1);
	pipe_open(&p, 0, SIZE);
	recv = recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	stays_open(&p.plug, recv);
	sends(&p, SIZE, 1);
	need(plug_wait(&p.plug, recv) == SIZE && bytes_differ(p.to.at, SIZE, 1) < 0, "message");
	pipe_close(&p);
}

/* The handle of such a peer: it says nothing of quiet lines. */
Test(quiet, peer_that_does_not_know_of_it_is_not_asked)
{
	enum { CAPS_AT = 43, QUIET = 1 << 4 };
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	struct pipe p;
	void *listen, *recv;
	struct link l;

	without_eager();
	pipe_open(&p, 0, SIZE);
	listen = plug_listen(&p.plug, 0, handle);
	need(handle[CAPS_AT] & QUIET, "capabilities 0x%x", handle[CAPS_AT]);
	handle[CAPS_AT] &= (uint8_t)~QUIET;
	l = p.l;
	link_open_to(&p.l, &p.plug, 0, handle, listen);
	plug_close_listen(&p.plug, listen);
	recv = recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	stays_open(&p.plug, recv);
	sends(&p, SIZE, 1);
	need(plug_wait(&p.plug, recv) == SIZE && bytes_differ(p.to.at, SIZE, 1) < 0, "message");
	link_close(&p.l);
	p.l = l;
	pipe_close(&p);
}

/* ---- eager messages ---- */

Test(quiet, message_that_went_ahead_is_waited_for)
{
	struct pipe p;

	pipe_open(&p, 0, SIZE);
	for (uint32_t i = 0; i < 200; i++) {
		void *recv = NULL, *send;

		memset(p.to.at, MARK, SIZE);
		bytes_fill(p.from.at, 600, i);
		send = plug_isend(&p.plug, p.l.send, p.from.at, 600, 0, p.from.mh);
		need(send || i < 32, "message %u does not go ahead", i);
		recv = recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
		if (!send)
			send = plug_send(&p.plug, p.l.send, p.from.at, 600, 0, p.from.mh);
		plug_wait(&p.plug, send);
		need(plug_wait(&p.plug, recv) == 600, "receive %u", i);
		need(bytes_differ(p.to.at, 600, i) < 0, "message %u", i);
		nap_ms(i < 32); /* lines on their way */
	}
	pipe_close(&p);
}

static void *gpu_reg(struct pipe *p, void *at, size_t size)
{
	void *mh = NULL;

	need(p->plug.net.reg_mr(&p->plug.net, p->l.recv, at, size, NCCL_NET_PTR_CUDA, &mh) ==
		     NCCL_NET_OK,
	     "%s", plug_warning());
	return mh;
}

/* What comes for it cannot have gone ahead, unless the sender was promised a buffer before. */
Test(quiet, receive_into_memory_of_a_gpu_is_done_early_while_nothing_may_go_ahead)
{
	void *gpu, *mh, *recv;
	struct pipe p;

	fake_cuda_load();
	pipe_open(&p, 0, SIZE);
	gpu = fake_cuda_alloc(SIZE);
	mh = gpu_reg(&p, gpu, SIZE);
	need(plug_wait(&p.plug, recv_early(&p.plug, p.l.recv, gpu, SIZE, 0, mh)) == 0, "first");
	sends(&p, 1000, 1);
	need(bytes_differ(gpu, 1000, 1) < 0, "message 1");

	/* A promise, which is kept open. */
	recv = recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh);
	stays_open(&p.plug, recv);
	sends(&p, 1000, 2);
	need(plug_wait(&p.plug, recv) == 1000, "message 2");
	recv = recv_early(&p.plug, p.l.recv, gpu, SIZE, 0, mh);
	stays_open(&p.plug, recv);
	sends(&p, 1000, 3);
	need(plug_wait(&p.plug, recv) == 1000 && bytes_differ(gpu, 1000, 3) < 0, "message 3");

	/* It is used up, but the message not received. */
	sends(&p, 1000, 4);
	nap_ms(20);
	recv = recv_early(&p.plug, p.l.recv, gpu, SIZE, 0, mh);
	need(plug_wait(&p.plug, recv) == 1000 && bytes_differ(gpu, 1000, 4) < 0, "message 4");

	need(!plug_isend(&p.plug, p.l.send, p.from.at, 1000, 0, p.from.mh), "it went ahead");
	need(plug_wait(&p.plug, recv_early(&p.plug, p.l.recv, gpu, SIZE, 0, mh)) == 0, "last");
	sends(&p, 1000, 5);
	need(bytes_differ(gpu, 1000, 5) < 0, "message 5");
	plug_dereg(&p.plug, p.l.recv, mh);
	pipe_close(&p);
}

/* ---- how many ---- */

enum { SLOTS = 2 * LINES, SMALL = 64, MESSAGES = 1 << 17, REQUESTS = 64 };

/* A receiver that posts what is taken, whether messages come or not. */
struct rush {
	struct pipe pipe;
	int posted, sent, most;
	struct {
		void *request;
		int number;
	} open[REQUESTS];
	int nopen;
};

static uint8_t *slot(struct mem *m, int i)
{
	return m->at + i % SLOTS * SMALL;
}

static bool is_told_of(int i)
{
	return i % (IN_A_ROW + 1) == IN_A_ROW;
}

static void finish_some(struct rush *r)
{
	int left = 0;

	for (int i = 0; i < r->nopen; i++)
		if (!plug_test(&r->pipe.plug, r->open[i].request, NULL))
			r->open[left++] = r->open[i];
	r->nopen = left;
}

/* Until there is but one request, which waits for its message. */
static void post_all(struct rush *r)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	struct pipe *p = &r->pipe;

	while (r->posted < MESSAGES) {
		void *recv = r->nopen < REQUESTS ? plug_irecv_early(&p->plug, p->l.recv,
								    slot(&p->to, r->posted), SMALL,
								    r->posted, p->to.mh)
						 : NULL;

		if (recv) {
			r->open[r->nopen].request = recv;
			r->open[r->nopen++].number = r->posted++;
			continue;
		}
		finish_some(r);
		if (r->nopen == 1 && is_told_of(r->open[0].number))
			break;
		need(now_ms() < end, "%d requests are open", r->nopen);
		sched_yield();
	}
	if (r->posted - r->sent > r->most)
		r->most = r->posted - r->sent;
}

/* A line that was overrun would leave its message without a place. */
static void send_up_to(struct rush *r, int end)
{
	enum { BATCH = 64 };
	struct pipe *p = &r->pipe;
	void *send[BATCH];

	while (r->sent < end) {
		int n = end - r->sent < BATCH ? end - r->sent : BATCH;

		for (int i = r->sent; i < r->sent + n; i++) {
			bytes_fill(slot(&p->from, i), SMALL, (uint32_t)i);
			send[i - r->sent] = plug_send(&p->plug, p->l.send, slot(&p->from, i), SMALL,
						      i, p->from.mh);
		}
		for (int i = 0; i < n; i++)
			plug_wait(&p->plug, send[i]);
		for (int i = r->sent; i < r->sent + n; i++)
			need(bytes_differ(slot(&p->to, i), SMALL, (uint32_t)i) < 0, "message %d",
			     i);
		r->sent += n;
	}
}

Test(quiet, sender_that_lags_gets_all_and_few_messages_are_told_of)
{
	static struct rush r;
	uint64_t random = 1;
	long long received;

	counters_apart();
	without_eager();
	pipe_open(&r.pipe, 0, SLOTS * SMALL);
	received = counters_received();
	while (r.sent < MESSAGES) {
		post_all(&r);
		send_up_to(&r,
			   r.sent + 1 +
				   (int)(bytes_random(&random) % (uint32_t)(r.posted - r.sent)));
	}
	for (int i = 0; i < r.nopen; i++)
		plug_wait(&r.pipe.plug, r.open[i].request);
	cr_assert(eq(int, r.most, IN_A_ROW + REQUESTS));
	cr_assert(eq(llong, counters_received() - received, MESSAGES / (IN_A_ROW + 1)));
	pipe_close(&r.pipe);
}

/* Receives that are done, of which the sender has seen no line: groups come no further than that.
 */
Test(quiet, lines_that_nobody_has_seen_are_not_overrun)
{
	enum { ALL = (LINES - IN_A_ROW) / 8 };
	void *recv[ALL];
	struct pipe p;
	int sizes[8];

	without_eager();
	pipe_open(&p, 0, SLOTS * SMALL);
	for (int i = 0; i < IN_A_ROW; i++)
		plug_wait(&p.plug,
			  recv_early(&p.plug, p.l.recv, slot(&p.to, i), SMALL, i, p.to.mh));
	for (int k = 0; k <= ALL; k++) {
		struct plug_group g = {.n = 8};
		int64_t end = now_ms() + (k < ALL ? PLUG_WAIT_MS : 100);
		void *request;

		for (int i = 0; i < 8; i++) {
			g.at[i] = slot(&p.to, IN_A_ROW + 8 * k + i);
			g.size[i] = SMALL;
			g.tag[i] = IN_A_ROW + 8 * k + i;
			g.mh[i] = p.to.mh;
		}
		while (!(request = plug_irecv_group(&p.plug, p.l.recv, &g)) && now_ms() < end)
			sched_yield();
		need(!request == (k == ALL), "group %d", k);
		if (request)
			recv[k] = request;
	}
	for (int i = 0; i < IN_A_ROW + 8 * ALL; i++) {
		bytes_fill(slot(&p.from, i), SMALL, (uint32_t)i);
		plug_wait(&p.plug,
			  plug_send(&p.plug, p.l.send, slot(&p.from, i), SMALL, i, p.from.mh));
		need(bytes_differ(slot(&p.to, i), SMALL, (uint32_t)i) < 0, "message %d", i);
	}
	for (int k = 0; k < ALL; k++)
		plug_wait_group(&p.plug, recv[k], 8, sizes);
	pipe_close(&p);
}

/* ---- in between ---- */

enum { GROUPS = 3000, WINDOW = 16, ROOM = 8192, BUFFERS = WINDOW * 8 };

struct batch {
	int n, first; /* messages */
	bool early;
	void *recv, *send[8];
};

static struct way {
	char eager[8], rails[4];
} ways[] = {{"0", "1"}, {"0", "4"}, {"8192", "1"}, {"8192", "4"}};

struct mix {
	struct pipe pipe;
	struct batch batch[WINDOW];
	uint64_t random;
	int early; /* receives that were done so */
};

static uint8_t *place(struct mem *m, int i)
{
	return m->at + i % BUFFERS * ROOM;
}

static size_t bytes_of(int i)
{
	return (size_t)i * 7919 % 7 ? (size_t)i * 104729 % 700 : (size_t)i * 104729 % ROOM;
}

static void *post(struct mix *x, struct batch *b)
{
	struct pipe *p = &x->pipe;
	struct plug_group g = {.n = b->n};

	if (b->early)
		return plug_irecv_early(&p->plug, p->l.recv, place(&p->to, b->first), ROOM, 0,
					p->to.mh);
	for (int i = 0; i < b->n; i++) {
		g.at[i] = place(&p->to, b->first + i);
		g.size[i] = ROOM;
		g.mh[i] = p->to.mh;
	}
	return plug_irecv_group(&p->plug, p->l.recv, &g);
}

static void begin(struct mix *x, struct batch *b, int first)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;

	*b = (struct batch){.n = 1, .first = first, .early = bytes_random(&x->random) % 4 != 0};
	if (!b->early && bytes_random(&x->random) % 2)
		b->n = 1 + (int)(bytes_random(&x->random) % 8);
	for (int i = 0; i < b->n; i++)
		memset(place(&x->pipe.to, first + i), MARK, ROOM);
	for (unsigned rest = 0; !(b->recv = post(x, b)); relax(&rest))
		need(now_ms() < end, "a receive does not start");
}

static void send_batch(struct mix *x, struct batch *b)
{
	struct pipe *p = &x->pipe;

	for (int i = 0; i < b->n; i++) {
		uint8_t *at = place(&p->from, b->first + i);

		bytes_fill(at, bytes_of(b->first + i), (uint32_t)(b->first + i));
		b->send[i] =
			plug_send(&p->plug, p->l.send, at, bytes_of(b->first + i), 0, p->from.mh);
	}
}

static void end_batch(struct mix *x, struct batch *b)
{
	int sizes[8] = {0};

	for (int i = 0; i < b->n; i++)
		plug_wait(&x->pipe.plug, b->send[i]);
	plug_wait_group(&x->pipe.plug, b->recv, b->n, sizes);
	if (b->early && sizes[0] == 0 && bytes_of(b->first)) {
		x->early++;
		sizes[0] = (int)bytes_of(b->first);
	}
	for (int i = 0; i < b->n; i++) {
		int k = b->first + i;
		uint8_t *at = place(&x->pipe.to, k);

		need((size_t)sizes[i] == bytes_of(k), "message %d: %d bytes", k, sizes[i]);
		need(bytes_differ(at, bytes_of(k), (uint32_t)k) < 0, "message %d", k);
		need(bytes_differ_from(at + bytes_of(k), ROOM - bytes_of(k), MARK) < 0,
		     "behind message %d", k);
	}
}

ParameterizedTestParameters(quiet, receives_with_and_without_the_hint_keep_their_order)
{
	return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));
}

ParameterizedTest(struct way *w, quiet, receives_with_and_without_the_hint_keep_their_order)
{
	static struct mix x = {.random = 5};
	int posted = 0, sent = 0, done = 0, first = 0;

	setenv("NCCL_EFA_EAGER_MAX", w->eager, 1);
	setenv("NCCL_EFA_RAILS", w->rails, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "4096", 1);
	pipe_open(&x.pipe, 0, BUFFERS * ROOM);
	while (done < GROUPS) {
		uint32_t many = bytes_random(&x.random) % WINDOW;

		for (uint32_t i = 0; i < many && posted < GROUPS && posted - done < WINDOW; i++) {
			begin(&x, &x.batch[posted++ % WINDOW], first);
			first += x.batch[(posted - 1) % WINDOW].n;
		}
		for (many = bytes_random(&x.random) % WINDOW; many && sent < posted; many--)
			send_batch(&x, &x.batch[sent++ % WINDOW]);
		for (many = bytes_random(&x.random) % WINDOW; many && done < sent; many--)
			end_batch(&x, &x.batch[done++ % WINDOW]);
	}
	if (!strcmp(w->eager, "0"))
		need(x.early > GROUPS / 2, "%d", x.early);
	else
		need(x.early == 0, "%d", x.early);
	pipe_close(&x.pipe);
}

/* ---- failures ---- */

enum { BIG = 1 << 20, AHEAD = 8, ROUNDS = 40 };

static struct out {
	char rules[80], rails[4];
	int warnings;
} outs[] = {
	{"dead dev=1", "4", 1},
	{"dead dev=0", "4", 1},
	{"dead dev=0\ndead dev=1\ndead dev=2", "4", 3},
	{"status 2 dev=1 op=write", "4", 1},
	{"status 15 dev=1 op=write", "2", 1},
	{"twice gap=20\nunheard 13 dev=1\ndelay 0 jitter=5000 dev=0", "2", 1},
};

struct flood {
	struct pipe pipe;
	void *recv[AHEAD], *send[AHEAD];
	int early;
};

static size_t size_of(int i)
{
	return (size_t)i * 104729 % BIG;
}

static void start(struct flood *f, int i)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	struct pipe *p = &f->pipe;
	int at = i % AHEAD;

	f->recv[at] = recv_early(&p->plug, p->l.recv, p->to.at + at * BIG, BIG, 0, p->to.mh);
	bytes_fill(p->from.at + at * BIG, size_of(i), (uint32_t)i);
	for (unsigned rest = 0;; relax(&rest)) {
		f->send[at] = plug_isend(&p->plug, p->l.send, p->from.at + at * BIG, size_of(i), 0,
					 p->from.mh);
		if (f->send[at])
			return;
		if (f->recv[at] && plug_test(&p->plug, f->recv[at], NULL)) {
			f->recv[at] = NULL;
			f->early++;
		}
		need(now_ms() < end, "send %d does not start", i);
	}
}

static void finish(struct flood *f, int i)
{
	struct pipe *p = &f->pipe;
	int at = i % AHEAD;
	long bad;

	need((size_t)plug_wait(&p->plug, f->send[at]) == size_of(i), "send %d", i);
	if (f->recv[at])
		f->early += plug_wait(&p->plug, f->recv[at]) == 0 && size_of(i);
	bad = bytes_differ(p->to.at + at * BIG, size_of(i), (uint32_t)i);
	need(bad < 0, "message %d: byte %ld of %zu is wrong", i, bad, size_of(i));
}

ParameterizedTestParameters(quiet, messages_arrive_by_the_rails_that_are_left)
{
	return cr_make_param_array(struct out, outs, sizeof(outs) / sizeof(outs[0]));
}

ParameterizedTest(struct out *o, quiet, messages_arrive_by_the_rails_that_are_left)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	int i = 0, done = 0, more = ROUNDS;
	struct flood f = {.early = 0};

	plug_softefa("timeout_ms=300");
	faults_init();
	without_eager();
	setenv("NCCL_EFA_RAILS", o->rails, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "16384", 1);
	pipe_open(&f.pipe, 0, AHEAD * BIG);
	for (; more; i++) {
		start(&f, i);
		if (i == ROUNDS / 2)
			faults_put(o->rules);
		if (i - done == AHEAD - 1)
			finish(&f, done++);
		more -= i > ROUNDS / 2 && plug_warned() >= o->warnings;
		need(now_ms() < end, "%d warnings, not %d", plug_warned(), o->warnings);
	}
	while (done < i)
		finish(&f, done++);
	cr_assert(eq(int, plug_warned(), o->warnings), "%s", plug_warning());
	need(f.early > 0, "no receive was done before its message");
	plug_forget();
	pipe_close(&f.pipe);
}

/* The receiver is over, so nothing would tell it. */
Test(quiet, memory_that_was_given_up_is_not_written)
{
	enum { CANARY = 0xc3 };
	struct pipe p;
	void *send;

	without_eager();
	pipe_open(&p, 0, SIZE);
	plug_wait(&p.plug, recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh));
	plug_dereg(&p.plug, p.l.recv, p.to.mh);
	memset(p.to.at, CANARY, SIZE);
	send = plug_send(&p.plug, p.l.send, p.from.at, SIZE, 0, p.from.mh);
	cr_assert(eq(int, plug_test_fails(&p.plug, send, PLUG_WAIT_MS), NCCL_NET_REMOTE_ERROR));
	nap_ms(5);
	need(bytes_differ_from(p.to.at, SIZE, CANARY) < 0, "a late write");
	p.to.mh = plug_reg(&p.plug, p.l.recv, p.to.at, SIZE);
	plug_forget();
	pipe_close(&p);
}

/* With eager messages, the failure of a line may mean nothing, but not of this one. */
static struct kill {
	bool gpu;
} kills[] = {{false}, {true}};

ParameterizedTestParameters(quiet, receive_from_a_process_that_was_killed_fails)
{
	return cr_make_param_array(struct kill, kills, sizeof(kills) / sizeof(kills[0]));
}

ParameterizedTest(struct kill *k, quiet, receive_from_a_process_that_was_killed_fails)
{
	struct pipe p = {.plug.ndev = 0};
	struct twin t;
	uint8_t *at;
	void *mh;

	if (k->gpu)
		fake_cuda_load();
	else
		without_eager();
	twin_start(&t, link_idle_twin, NULL);
	plug_open(&p.plug, 0);
	link_open_twin(&p.l, &p.plug, &t);
	mem_get(&p.to, &p.plug, p.l.recv, SIZE, 0);
	at = k->gpu ? fake_cuda_alloc(SIZE) : p.to.at;
	mh = k->gpu ? gpu_reg(&p, at, SIZE) : p.to.mh;
	twin_meet(&t);
	plug_wait(&p.plug, recv_early(&p.plug, p.l.recv, at, SIZE, 0, mh));
	twin_kill(&t);
	cr_assert(eq(int,
		     plug_test_fails(&p.plug, recv_early(&p.plug, p.l.recv, at, SIZE, 0, mh),
				     PLUG_WAIT_MS),
		     NCCL_NET_REMOTE_ERROR));
	need(plug_said("a clear-to-send failed"), "%s", plug_warning());
	plug_forget();
	if (k->gpu)
		plug_dereg(&p.plug, p.l.recv, mh);
	mem_put(&p.to);
	link_close(&p.l);
	plug_close(&p.plug);
}

Test(quiet, receive_that_is_done_is_not_taken_for_a_stalled_one)
{
	struct pipe p;
	struct link other;
	int64_t end;

	without_eager();
	setenv("NCCL_EFA_STALL_WARN_S", "1", 1);
	pipe_open(&p, 0, SIZE);
	link_open(&other, &p.plug, 0, 0);
	plug_wait(&p.plug, recv_early(&p.plug, p.l.recv, p.to.at, SIZE, 0, p.to.mh));
	for (end = now_ms() + 2500; now_ms() < end;) {
		link_message(&other, 100, 1);
		nap_ms(1);
	}
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	sends(&p, SIZE, 2);
	need(bytes_differ(p.to.at, SIZE, 2) < 0, "message");
	link_close(&other);
	pipe_close(&p);
}
