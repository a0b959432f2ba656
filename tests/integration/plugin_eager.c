/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are sent before their receives: which go ahead, where they end up. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { SLOT = 16384, SLOTS = 64, MOST = 32, SOME = 4, SMALL = 600 };

TestSuite(eager, .timeout = 120);

static struct way {
	char protocol[8], rails[4];
} ways[] = {{"write", "1"}, {"write", "4"}, {"read", "1"}, {"read", "4"}, {"send", "1"}};

#define WAYS() cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]))

/* A pipe, and a request for each slot of its two buffers. */
struct line {
	struct pipe pipe;
	void *send[SLOTS];
	int waits; /* message that did not go ahead, where it is sent all the same; or -1 */
};

static void use(const struct way *w)
{
	setenv("NCCL_EFA_PROTOCOL", w->protocol, 1);
	setenv("NCCL_EFA_RAILS", w->rails, 1);
}

static uint8_t *from(struct line *n, int i)
{
	return n->pipe.from.at + (i % SLOTS) * SLOT;
}

static uint8_t *to(struct line *n, int i)
{
	return n->pipe.to.at + (i % SLOTS) * SLOT;
}

static bool try_send(struct line *n, int i, size_t size, int tag)
{
	bytes_fill(from(n, i), size, (uint32_t)i);
	n->send[i % SLOTS] =
		plug_isend(&n->pipe.plug, n->pipe.l.send, from(n, i), size, tag, n->pipe.from.mh);
	return n->send[i % SLOTS];
}

static void *post(struct line *n, int i, size_t size, int tag)
{
	memset(to(n, i), MARK, SLOT);
	return plug_recv(&n->pipe.plug, n->pipe.l.recv, to(n, i), size, tag, n->pipe.to.mh);
}

/* Receive @recv, into slot @at, is message @i of @size bytes. */
static void arrives(struct line *n, void *recv, int at, int i, size_t size)
{
	int got = plug_wait(&n->pipe.plug, recv);
	long bad = bytes_differ(to(n, at), size, (uint32_t)i);

	need((size_t)got == size, "message %d: %d of %zu bytes", i, got, size);
	need(bad < 0, "message %d: byte %ld of %zu", i, bad, size);
	bad = bytes_differ_from(to(n, at) + size, SLOT - size, MARK);
	need(bad < 0, "message %d: byte %ld behind it", i, bad);
}

static void sent(struct line *n, int i)
{
	plug_wait(&n->pipe.plug, n->send[i % SLOTS]);
}

/* Without a receive. By reads a send that is not done until then waits to be read. */
static bool goes_ahead(struct line *n, int i, size_t size, int tag)
{
	int64_t end = now_ms() + 3000;

	if (!try_send(n, i, size, tag))
		return false;
	if (!plug_goes_by("read")) {
		sent(n, i);
		return true;
	}
	while (!plug_test(&n->pipe.plug, n->send[i % SLOTS], NULL)) {
		if (now_ms() > end) {
			n->waits = i;
			return false;
		}
	}
	return true;
}

/* What waits, if anything does. */
static void receive_last(struct line *n, size_t size, int tag)
{
	if (n->waits < 0)
		return;
	arrives(n, post(n, n->waits, SLOT, tag), n->waits, n->waits, size);
	sent(n, n->waits);
	n->waits = -1;
}

/* Receives that come first, of all credits there are. */
static void warm_up(struct line *n)
{
	for (int k = 0; k < 3; k++) {
		void *recv[MOST];

		for (int i = 0; i < MOST; i++)
			recv[i] = post(n, i, SLOT, 0);
		for (int i = 0; i < MOST; i++) {
			while (!try_send(n, i, SMALL, 0))
				nap_ms(1);
			sent(n, i);
		}
		for (int i = 0; i < MOST; i++)
			arrives(n, recv[i], i, i, SMALL);
	}
	nap_ms(20); /* lines of other rails, on their way still */
}

static void line_open(struct line *n)
{
	memset(n, 0, sizeof(*n));
	n->waits = -1;
	pipe_open(&n->pipe, 0, SLOTS * SLOT);
	warm_up(n);
}

/* Send up to @most, if they go ahead: how many. */
static int send_ahead(struct line *n, int most, size_t size, int tag)
{
	int i = 0;

	while (i < most && goes_ahead(n, i, size, tag))
		i++;
	return i;
}

/* ---- ahead ---- */

ParameterizedTestParameters(eager, send_is_done_before_its_receive_is_posted)
{
	return WAYS();
}

ParameterizedTest(struct way *w, eager, send_is_done_before_its_receive_is_posted)
{
	static const size_t sizes[] = {0, 1, 7, 8, 9, 64, 1000, 4096, 8191, 8192};
	struct line n;

	use(w);
	line_open(&n);
	for (int i = 0; i < (int)(sizeof(sizes) / sizeof(sizes[0])); i++) {
		need(try_send(&n, i, sizes[i], 0), "%zu bytes wait", sizes[i]);
		sent(&n, i);
		memset(from(&n, i), 0xee, SLOT); /* it is the sender's again */
		arrives(&n, post(&n, i, SLOT, 0), i, i, sizes[i]);
	}
	need(!goes_ahead(&n, 0, 8193, 0), "8193 bytes go ahead");
	receive_last(&n, 8193, 0);
	pipe_close(&n.pipe);
}

static struct limit {
	char text[8];
	size_t most; /* bytes; 0: none */
} limits[] = {{"0", 0}, {"-1", 0}, {"1", 1}, {"100", 100}, {"65536", 8832}};

ParameterizedTestParameters(eager, environment_says_how_large_messages_go_ahead)
{
	return cr_make_param_array(struct limit, limits, sizeof(limits) / sizeof(limits[0]));
}

ParameterizedTest(struct limit *l, eager, environment_says_how_large_messages_go_ahead)
{
	struct line n;

	setenv("NCCL_EFA_EAGER_MAX", l->text, 1);
	line_open(&n);
	need(!try_send(&n, 0, l->most + (l->most != 0), 0), "more than %zu", l->most);
	if (l->most) {
		need(try_send(&n, 0, l->most, 0), "%zu bytes wait", l->most);
		sent(&n, 0);
		arrives(&n, post(&n, 0, SLOT, 0), 0, 0, l->most);
	}
	pipe_close(&n.pipe);
}

Test(eager, message_larger_than_its_receive_is_cut_off)
{
	struct line n;
	int got;

	line_open(&n);
	need(try_send(&n, 0, 1000, 0), "it waits");
	sent(&n, 0);
	got = plug_wait(&n.pipe.plug, post(&n, 0, 300, 0));
	need(got == 300 && bytes_differ(to(&n, 0), 300, 0) < 0, "%d bytes", got);
	need(bytes_differ_from(to(&n, 0) + 300, SLOT - 300, MARK) < 0, "more was written");
	pipe_close(&n.pipe);
}

/* Public report 55: it would be received no earlier, at a higher price. */
Test(eager, nothing_goes_ahead_while_a_message_is_being_moved)
{
	void *recv;
	struct line n;

	line_open(&n);
	recv = post(&n, 0, SLOT, 0);
	while (!try_send(&n, 0, SLOT, 0))
		nap_ms(1);
	need(!try_send(&n, 1, 8, 0), "a tail goes ahead");
	arrives(&n, recv, 0, 0, SLOT);
	sent(&n, 0);
	need(try_send(&n, 1, 8, 0), "it waits");
	sent(&n, 1);
	arrives(&n, post(&n, 1, SLOT, 0), 1, 1, 8);
	pipe_close(&n.pipe);
}

/* ---- how many ---- */

ParameterizedTestParameters(eager, sender_far_ahead_stops_and_nothing_is_lost)
{
	return WAYS();
}

/* Public report 49. */
ParameterizedTest(struct way *w, eager, sender_far_ahead_stops_and_nothing_is_lost)
{
	long long rnr;
	struct line n;

	counters_apart();
	use(w);
	line_open(&n);
	rnr = counters_rnr();
	for (int round = 0; round < 5; round++) {
		int k = send_ahead(&n, SLOTS, SMALL, 0);

		need(k >= 8 && k <= MOST, "%d messages in round %d", k, round);
		for (int i = 0; i < k; i++)
			arrives(&n, post(&n, i, SLOT, 0), i, i, SMALL);
		receive_last(&n, SMALL, 0);
		/* The credits come with lines that are there for it. */
		warm_up(&n);
	}
	cr_assert(eq(llong, counters_rnr() - rnr, 0));
	pipe_close(&n.pipe);
}

/* More than the buffers of the engine; all of them have some, and none meets an empty queue. */
Test(eager, comms_share_the_buffers_and_none_is_without)
{
	enum { LINKS = 40, EACH = 40, BYTES = 64 };
	static struct link l[LINKS];
	static struct mem out[LINKS], in[LINKS];
	int ahead[LINKS] = {0}, sum = 0;
	long long rnr;
	struct plug p;

	counters_apart();
	plug_open(&p, 0);
	for (int i = 0; i < LINKS; i++) {
		link_open(&l[i], &p, 0, 0);
		mem_get(&out[i], &p, l[i].send, EACH * BYTES, 0);
		mem_get(&in[i], &p, l[i].recv, EACH * BYTES, 0);
		bytes_fill(out[i].at, EACH * BYTES, (uint32_t)i);
	}
	rnr = counters_rnr();
	for (int k = 0; k < EACH; k++)
		for (int i = 0; i < LINKS; i++) {
			void *r = plug_recv(&p, l[i].recv, in[i].at, BYTES, 0, in[i].mh);

			plug_wait(&p, plug_send(&p, l[i].send, out[i].at, BYTES, 0, out[i].mh));
			plug_wait(&p, r);
		}
	nap_ms(20);
	for (int i = 0; i < LINKS; i++) {
		void *s;

		while (ahead[i] < EACH &&
		       (s = plug_isend(&p, l[i].send, out[i].at + ahead[i] * BYTES, BYTES, 0,
				       out[i].mh))) {
			plug_wait(&p, s);
			ahead[i]++;
		}
		need(ahead[i] > 0, "comm %d has none", i);
		sum += ahead[i];
	}
	need(sum <= 256, "%d messages", sum);
	for (int i = 0; i < LINKS; i++) {
		for (int k = 0; k < ahead[i]; k++)
			plug_wait(&p, plug_recv(&p, l[i].recv, in[i].at + k * BYTES, BYTES, 0,
						in[i].mh));
		need(bytes_differ(in[i].at, (size_t)ahead[i] * BYTES, (uint32_t)i) < 0, "comm %d",
		     i);
	}
	cr_assert(eq(llong, counters_rnr() - rnr, 0));
	for (int i = 0; i < LINKS; i++) {
		mem_put(&out[i]);
		mem_put(&in[i]);
		link_close(&l[i]);
	}
	plug_close(&p);
}

/* Lines that are written again must not be needed any more, though receives are done early. */
Test(eager, receiver_that_is_ahead_of_what_the_sender_saw_waits)
{
	enum { N = 300 };
	static void *recv[N];
	struct line n;
	int posted = 0, ahead;

	line_open(&n);
	ahead = send_ahead(&n, SLOTS, SMALL, 0);
	for (int i = 0; i < ahead; i++)
		arrives(&n, post(&n, i, SLOT, 0), i, i, SMALL);
	/* Nobody looks at these lines. */
	for (int tries = 0; tries < 2000 && posted < N; tries++) {
		recv[posted] = plug_irecv(&n.pipe.plug, n.pipe.l.recv, to(&n, posted), SMALL, 0,
					  n.pipe.to.mh);
		posted += recv[posted] != NULL;
	}
	need(posted >= 32, "%d receives", posted);
	for (int i = 0; i < posted; i++) {
		while (!try_send(&n, i, SMALL, 0))
			nap_ms(1);
		sent(&n, i);
		need(plug_wait(&n.pipe.plug, recv[i]) == SMALL, "message %d", i);
		need(bytes_differ(to(&n, i), SMALL, (uint32_t)i) < 0, "message %d", i);
	}
	pipe_close(&n.pipe);
}

/* ---- which ---- */

enum { GROUPS = 800, TAGS = 4, WINDOW = 12 };

/* What is sent and received, by number; the k-th of a tag belongs to the k-th buffer with it. */
struct script {
	int n; /* messages */
	int tag[GROUPS * 8];
	size_t size[GROUPS * 8];
	int size_of_group[GROUPS];
	int buffer_tag[GROUPS * 8]; /* in the order of posting */
	int message[GROUPS * 8];    /* for that buffer */
};

/* Sends of a group come in any order. */
static void write_script(struct script *s, uint64_t *random)
{
	int k = 0;

	for (int g = 0; g < GROUPS; g++) {
		int m = bytes_random(random) % 3 ? 1 : 1 + (int)(bytes_random(random) % 8);
		int order[8];

		s->size_of_group[g] = m;
		for (int i = 0; i < m; i++) {
			int at = (int)(bytes_random(random) % (uint32_t)(i + 1));

			order[i] = order[at];
			order[at] = i;
			s->buffer_tag[k + i] = (int)(bytes_random(random) % TAGS);
			s->message[k + i] = -1;
		}
		for (int i = 0; i < m; i++) {
			int b = k, tag = s->buffer_tag[k + order[i]];

			while (s->message[b] >= 0 || s->buffer_tag[b] != tag)
				b++;
			s->message[b] = k + i;
			s->tag[k + i] = tag;
			s->size[k + i] = bytes_random(random) % 8 ? bytes_random(random) % 2000
								  : bytes_random(random) % SLOT;
		}
		k += m;
	}
	s->n = k;
}

struct game {
	struct line n;
	struct script s;
	int sends, recvs, groups; /* started */
	int recv_first[GROUPS];
	void *recv[GROUPS];
	int done; /* groups that are over, in turn */
	int sent; /* messages, likewise */
};

static void try_post(struct game *g)
{
	struct plug_group group = {.n = g->s.size_of_group[g->groups]};

	for (int i = 0; i < group.n; i++) {
		group.at[i] = to(&g->n, g->recvs + i);
		group.size[i] = SLOT;
		group.tag[i] = g->s.buffer_tag[g->recvs + i];
		group.mh[i] = g->n.pipe.to.mh;
	}
	g->recv[g->groups] = plug_irecv_group(&g->n.pipe.plug, g->n.pipe.l.recv, &group);
	if (!g->recv[g->groups])
		return;
	g->recv_first[g->groups++] = g->recvs;
	g->recvs += group.n;
}

static bool group_over(struct game *g)
{
	int first = g->recv_first[g->done], sizes[9], done = 0;
	enum nccl_net_result rc = g->n.pipe.plug.net.test(g->recv[g->done], &done, sizes);

	need(rc == NCCL_NET_OK, "%s", plug_warning());
	for (int i = 0; done && i < g->s.size_of_group[g->done]; i++) {
		int m = g->s.message[first + i];

		need((size_t)sizes[i] == g->s.size[m], "group %d, buffer %d: %d bytes, not %zu",
		     g->done, i, sizes[i], g->s.size[m]);
		need(bytes_differ(to(&g->n, first + i), g->s.size[m], (uint32_t)m) < 0,
		     "group %d, buffer %d is not message %d", g->done, i, m);
	}
	g->done += done;
	return done;
}

static void play(struct game *g, uint64_t *random)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;

	while (g->done < GROUPS) {
		uint32_t what = bytes_random(random) % 8, lead = bytes_random(random) % 64;
		int first = g->done < g->groups ? g->recv_first[g->done] : g->recvs;

		/* Who is first, changes now and then. */
		for (uint32_t k = 0; k < lead; k++) {
			if (what < 3 && g->groups < GROUPS && g->groups - g->done < WINDOW &&
			    g->recvs - first + 8 < SLOTS)
				try_post(g);
			else if (what < 6 && g->sends < g->s.n && g->sends - g->sent < SLOTS)
				g->sends += try_send(&g->n, g->sends, g->s.size[g->sends],
						     g->s.tag[g->sends]);
			else if (what == 6 && g->sent < g->sends)
				g->sent += plug_test(&g->n.pipe.plug, g->n.send[g->sent % SLOTS],
						     NULL);
			else if (what == 7 && g->done < g->groups && group_over(g))
				end = now_ms() + PLUG_WAIT_MS;
		}
		need(now_ms() < end, "%d groups, %d messages of %d", g->done, g->sends, g->s.n);
	}
}

ParameterizedTestParameters(eager, messages_match_by_tag_in_order_whoever_is_first)
{
	return WAYS();
}

ParameterizedTest(struct way *w, eager, messages_match_by_tag_in_order_whoever_is_first)
{
	struct game *g = calloc(1, sizeof(*g));
	uint64_t random = (uint64_t)w->protocol[0] << 8 | (uint64_t)w->rails[0];

	need(g, "memory");
	use(w);
	setenv("NCCL_EFA_MIN_STRIPE", "4096", 1);
	line_open(&g->n);
	write_script(&g->s, &random);
	play(g, &random);
	while (g->sent < g->sends)
		sent(&g->n, g->sent++);
	pipe_close(&g->n.pipe);
	free(g);
}

/* Whoever polls for flags, as LL does, sees nothing before what is below it. */
static struct {
	volatile uint64_t *at;
	int words;
	volatile uint64_t round, seen; /* what is being looked for; what was */
} flags;

static void *watch(void *arg)
{
	for (uint64_t r = 1; r <= (uint64_t)(uintptr_t)arg; r++) {
		while (flags.round != r)
			;
		for (int i = flags.words - 1; i >= 0; i--) {
			while (flags.at[i] != r && i == flags.words - 1)
				;
			need(flags.at[i] == r, "word %d is behind the last", i);
		}
		flags.seen = r;
	}
	return NULL;
}

Test(eager, words_of_a_message_land_in_the_order_of_their_addresses)
{
	enum { ROUNDS = 300, BYTES = 8192 };
	struct line n;
	pthread_t thread;

	line_open(&n);
	flags.at = (volatile uint64_t *)to(&n, 0);
	flags.words = BYTES / 8;
	cr_assert(zero(int, pthread_create(&thread, NULL, watch, (void *)(uintptr_t)ROUNDS)));
	for (uint64_t r = 1; r <= ROUNDS; r++) {
		void *recv;

		for (int i = 0; i < BYTES / 8; i++)
			((uint64_t *)from(&n, 0))[i] = r;
		memset(to(&n, 0), 0, BYTES);
		n.send[0] = plug_isend(&n.pipe.plug, n.pipe.l.send, from(&n, 0), BYTES, 0,
				       n.pipe.from.mh);
		need(n.send[0], "round %d waits", (int)r);
		sent(&n, 0);
		flags.round = r;
		recv = plug_recv(&n.pipe.plug, n.pipe.l.recv, to(&n, 0), BYTES, 0, n.pipe.to.mh);
		need(plug_wait(&n.pipe.plug, recv) == BYTES, "round %d", (int)r);
		while (flags.seen != r)
			;
	}
	pthread_join(thread, NULL);
	pipe_close(&n.pipe);
}

/* ---- the end ---- */

ParameterizedTestParameters(eager, messages_are_received_though_their_sender_has_closed)
{
	return WAYS();
}

ParameterizedTest(struct way *w, eager, messages_are_received_though_their_sender_has_closed)
{
	struct line n;
	int k;

	use(w);
	line_open(&n);
	k = send_ahead(&n, SOME, SMALL, 0);
	mem_put(&n.pipe.from);
	plug_close_send(&n.pipe.plug, n.pipe.l.send);
	for (int i = 0; i < k; i++)
		arrives(&n, post(&n, i, SLOT, 0), i, i, SMALL);
	mem_put(&n.pipe.to);
	plug_close_recv(&n.pipe.plug, n.pipe.l.recv);
	plug_close(&n.pipe.plug);
}

/* ---- a peer that has sent all it had, and is gone ---- */

enum { LAST = 16 };

static void send_and_leave(struct twin *t, void *arg)
{
	struct link l;
	struct mem m;
	struct plug p;

	(void)arg;
	plug_open(&p, 0);
	link_open_twin(&l, &p, t);
	mem_get(&m, &p, l.send, SMALL, 0);
	twin_meet(t); /* receives are posted */
	for (uint32_t i = 0; i < MOST + LAST; i++) {
		if (i == MOST)
			twin_meet(t); /* from here on they are not */
		bytes_fill(m.at, SMALL, i);
		plug_wait(&p, plug_send(&p, l.send, m.at, SMALL, 0, m.mh));
	}
	mem_put(&m);
	link_close(&l);
	plug_close(&p);
}

ParameterizedTestParameters(eager, messages_are_received_though_their_sender_is_gone)
{
	return WAYS();
}

ParameterizedTest(struct way *w, eager, messages_are_received_though_their_sender_is_gone)
{
	void *recv[MOST];
	struct twin t;
	struct plug p;
	struct link l;
	struct mem m;

	use(w);
	twin_start(&t, send_and_leave, NULL);
	plug_open(&p, 0);
	link_open_twin(&l, &p, &t);
	mem_get(&m, &p, l.recv, MOST * SMALL, 0);
	for (int i = 0; i < MOST; i++)
		recv[i] = plug_recv(&p, l.recv, m.at + i * SMALL, SMALL, 0, m.mh);
	twin_meet(&t);
	for (int i = 0; i < MOST; i++)
		cr_assert(eq(int, plug_wait(&p, recv[i]), SMALL));
	twin_meet(&t);
	twin_end(&t);
	for (uint32_t i = 0; i < LAST; i++) {
		memset(m.at, MARK, SMALL);
		recv[0] = plug_recv(&p, l.recv, m.at, SMALL, 0, m.mh);
		cr_assert(eq(int, plug_wait(&p, recv[0]), SMALL));
		cr_assert(lt(long, bytes_differ(m.at, SMALL, MOST + i), 0));
		nap_ms(5); /* for the line to fail */
	}
	cr_assert(eq(int, plug_warned(), 0), "%s", plug_warning());
	recv[0] = plug_recv(&p, l.recv, m.at, SMALL, 0, m.mh);
	cr_assert(eq(int, plug_test_fails(&p, recv[0], 20000), NCCL_NET_REMOTE_ERROR));
	plug_forget();
	mem_put(&m);
	link_close(&l);
	plug_close(&p);
}

ParameterizedTestParameters(eager, receivers_that_close_with_messages_there_leave_room_for_others)
{
	return WAYS();
}

/* Of one engine, which another connection keeps. */
ParameterizedTest(struct way *w, eager,
		  receivers_that_close_with_messages_there_leave_room_for_others)
{
	struct link stays, keep;
	struct line n;

	use(w);
	line_open(&n);
	stays = n.pipe.l;
	for (int i = 0; i < 40; i++) {
		struct mem out = n.pipe.from, in = n.pipe.to;

		link_open(&keep, &n.pipe.plug, 0, 0);
		n.pipe.l = keep;
		mem_get(&n.pipe.from, &n.pipe.plug, keep.send, SLOTS * SLOT, 0);
		mem_get(&n.pipe.to, &n.pipe.plug, keep.recv, SLOTS * SLOT, 0);
		if (i % 10 == 0)
			warm_up(&n);
		else
			for (int k = 0; k < 8; k++) {
				void *recv = post(&n, k, SLOT, 0);

				while (!try_send(&n, k, SMALL, 0))
					nap_ms(1);
				sent(&n, k);
				arrives(&n, recv, k, k, SMALL);
			}
		nap_ms(2);
		need(send_ahead(&n, SOME, SMALL, 3) > 0, "none goes ahead in round %d", i);
		mem_put(&n.pipe.from);
		mem_put(&n.pipe.to);
		link_close(&n.pipe.l);
		n.pipe.l = stays;
		n.pipe.from = out;
		n.pipe.to = in;
	}
	need(send_ahead(&n, SOME, SMALL, 0) > 0, "the one that stays has none");
	pipe_close(&n.pipe);
}

/* It may be gone: nothing is copied there. */
Test(eager, message_for_memory_that_was_deregistered_goes_nowhere)
{
	struct line n;
	void *recv;

	line_open(&n);
	need(try_send(&n, 0, SMALL, 5), "it waits");
	nap_ms(20); /* it is here, and nobody has looked */
	recv = post(&n, 0, SLOT, 5);
	plug_dereg(&n.pipe.plug, n.pipe.l.recv, n.pipe.to.mh);
	n.pipe.to.mh = NULL;
	cr_assert(ne(int, plug_test_fails(&n.pipe.plug, recv, 1000), NCCL_NET_OK));
	need(bytes_differ_from(to(&n, 0), SLOT, MARK) < 0, "it was written");
	pipe_close(&n.pipe);
}

/* ---- sides ---- */

static void run_side(struct twin *t, void *arg)
{
	const bool here = t->pid != 0, mine = *(const int *)arg & (here ? 1 : 2);
	struct line n = {0};

	setenv("NCCL_EFA_EAGER_MAX", mine ? "8192" : "0", 1);
	plug_open(&n.pipe.plug, 0);
	link_open_twin(&n.pipe.l, &n.pipe.plug, t);
	mem_get(&n.pipe.from, &n.pipe.plug, n.pipe.l.send, SLOTS * SLOT, 0);
	mem_get(&n.pipe.to, &n.pipe.plug, n.pipe.l.recv, SLOTS * SLOT, 0);
	warm_up(&n);
	twin_meet(t);
	need((send_ahead(&n, SLOTS, 0, 1) > 0) == (*(const int *)arg == 3), "ahead");
	twin_meet(t);
	mem_put(&n.pipe.from);
	mem_put(&n.pipe.to);
	link_close(&n.pipe.l);
	plug_close(&n.pipe.plug);
}

static int both[] = {0, 1, 2, 3};

ParameterizedTestParameters(eager, messages_go_ahead_if_both_sides_say_so)
{
	return cr_make_param_array(int, both, 4);
}

ParameterizedTest(int *which, eager, messages_go_ahead_if_both_sides_say_so)
{
	struct twin t;

	twin_start(&t, run_side, which);
	run_side(&t, which);
	twin_end(&t);
}

/* ---- rails that fail ---- */

static struct out {
	char rules[48];
	char protocol[8];
	int warnings;
} outs[] = {
	{"dead dev=1", "write", 1},
	{"dead dev=0\ndead dev=2", "write", 2},
	{"status 13 dev=2 op=send nth=3", "write", 1},
	{"status 15 dev=1 op=send", "write", 1},
	{"status 13 dev=2 op=send nth=3", "read", 1},
	{"dead dev=3", "read", 1},
};

ParameterizedTestParameters(eager, messages_ahead_on_a_rail_that_fails_arrive_once)
{
	return cr_make_param_array(struct out, outs, sizeof(outs) / sizeof(outs[0]));
}

ParameterizedTest(struct out *o, eager, messages_ahead_on_a_rail_that_fails_arrive_once)
{
	struct line n;

	plug_softefa("timeout_ms=300");
	setenv("NCCL_EFA_PROTOCOL", o->protocol, 1);
	setenv("NCCL_EFA_RAILS", "4", 1);
	faults_init();
	line_open(&n);
	faults_put(o->rules);
	for (int round = 0; round < 3; round++) {
		int k = 0;

		while (k < 8 && try_send(&n, k, SMALL, 0))
			k++;
		for (int i = 0; i < k; i++)
			arrives(&n, post(&n, i, SLOT, 0), i, i, SMALL);
		for (int i = 0; i < k; i++)
			sent(&n, i);
		need(round || k == 8, "%d went ahead", k);
		nap_ms(20);
	}
	need(plug_warned() >= 1 && plug_warned() <= o->warnings, "%d warnings: %s", plug_warned(),
	     plug_warning());
	plug_forget();
	pipe_close(&n.pipe);
}
