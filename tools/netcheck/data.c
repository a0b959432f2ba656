/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: requests, sizes, order. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "common/payload.h"
#include "host/log.h"
#include "stream.h"

enum {
	SLOTS = 8,
	MANY = NCCL_NET_OUTSTANDING,
	PAGE = 4096,
};

static const uint64_t ms_ns = 1000000;

/* Requests a comm must hold: NCCL before 2.19, which has no newer table than v6, has 8. */
static int outstanding(const struct check_ctx *ctx)
{
	return ctx->abi == 6 ? 8 : NCCL_NET_OUTSTANDING;
}

static void run_stream(struct check_ctx *ctx, size_t largest, uint64_t count, int slots,
		       void (*tune)(struct stream *s))
{
	size_t slot = largest + 64;
	struct check_lane lane;
	struct stream s;

	check_lane_open(ctx, &lane, slot * (size_t)slots);
	stream_init(&s, ctx, &lane, count, slots);
	s.largest = largest;
	if (tune)
		tune(&s);
	stream_run(&s);
	check_lane_close(ctx, &lane);
}

static size_t size_serial(const struct stream *s, uint64_t k)
{
	return 8 + (s->largest - 8) * (k % 3) / 2;
}

/* ---- requests ---- */

/* C50 */
static void request_written(struct check_ctx *ctx)
{
	uint64_t since = host_now_ns();
	struct check_lane lane;
	struct stream s;

	check_lane_open(ctx, &lane, 64 * PAGE);
	stream_init(&s, ctx, &lane, 200, 64);
	s.largest = 64;
	s.size = size_serial;
	/* The slots of requests are poisoned by all calls. First a sender alone, until it is told
	 * to wait or has no more; what was told so and yet begun comes twice. */
	while (host_now_ns() - since < 50 * ms_ns && s.sent < 64)
		stream_send(&s);
	/* Then a receiver that posts more than can be held. */
	for (int i = 0; i < 64; i++)
		stream_post(&s);
	stream_run(&s);
	check_lane_close(ctx, &lane);
}

/* Beyond the parts of a request test writes no size. */
static void sizes_intact(struct check_ctx *ctx, const int *sizes, int parts, const char *of)
{
	for (int i = parts; i < NCCL_NET_TEST_SIZES; i++)
		check_need(ctx, sizes[i] == CHECK_STALE_DONE,
			   "expected test of %s of %d to leave sizes[%d], saw 0x%x", of, parts, i,
			   sizes[i]);
}

static void sizes_stale(int *sizes, int parts)
{
	for (int i = 0; i < NCCL_NET_TEST_SIZES; i++)
		sizes[i] = i < parts ? 0 : CHECK_STALE_DONE;
}

/* C51 */
static void done_written(struct check_ctx *ctx)
{
	struct check_end *to, *from;
	int sizes[NCCL_NET_TEST_SIZES];
	uint64_t since = host_now_ns();
	struct check_lane lane;
	void *send, *recv;

	check_lane_open(ctx, &lane, PAGE);
	to = &lane.link.send;
	from = &lane.link.recv;
	for (int i = 0; i < 50; i++) {
		bool put = false, got = false;

		recv = check_recv(ctx, from, lane.in.addr, PAGE, lane.in_mh);
		/* Not done: *done is written all the same. */
		for (int t = 0; t < 20 && !got && !i; t++) {
			sizes_stale(sizes, 1);
			got = check_test(ctx, recv, sizes);
			sizes_intact(ctx, sizes, 1, "a receive");
		}
		check_barrier(ctx);
		for (send = NULL; !put || !got; check_tick(ctx, since, "a message")) {
			if (!send)
				send = check_isend(ctx, to, lane.out.addr, 100, check_tag(ctx, to),
						   lane.out_mh);
			else if (!put)
				put = check_test(ctx, send, i % 2 ? NULL : &sizes[0]);
			sizes_stale(sizes, 1);
			if (!got)
				got = check_test(ctx, recv, sizes);
			sizes_intact(ctx, sizes, 1, "a receive");
		}
	}
	check_lane_close(ctx, &lane);
}

/* C52 */
static void outstanding_held(struct check_ctx *ctx)
{
	int most = 2 * MANY, posted = 0, sent = 0;
	struct check_lane lane;
	struct stream s;

	check_lane_open(ctx, &lane, (size_t)most * PAGE);
	stream_init(&s, ctx, &lane, 4 * MANY, most);
	for (int i = 0; i < most; i++)
		posted += stream_post(&s);
	check_barrier(ctx);
	for (int i = 0; i < most; i++)
		sent += stream_send(&s);
	check_need(ctx, posted >= outstanding(ctx),
		   "expected at least %d receives under way, saw irecv refuse number %d",
		   outstanding(ctx), posted);
	check_barrier(ctx); /* not a call between: what was accepted is not lost */
	stream_run(&s);
	check_report(ctx, "%d receives and, with those posted, %d sends were accepted at once",
		     posted, sent);
	check_lane_close(ctx, &lane);
}

/* ---- order and sizes ---- */

/* C53 */
static void in_order(struct check_ctx *ctx)
{
	run_stream(ctx, PAGE - 64, check_scale(ctx, 1500, 1000000), 16, NULL);
}

static size_t size_zero_often(const struct stream *s, uint64_t k)
{
	return k % 3 ? 0 : 8 + k % (s->largest - 7);
}

static void zero_often(struct stream *s)
{
	s->size = size_zero_often;
}

static size_t size_zero(const struct stream *s, uint64_t k)
{
	(void)s, (void)k;
	return 0;
}

static void zero_only(struct stream *s)
{
	s->size = size_zero;
}

/* C54 */
static void zero_bytes(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_lane_open(ctx, &lane, PAGE);
	check_lane_pass(ctx, &lane, 0);
	check_lane_close(ctx, &lane);
	run_stream(ctx, 200, 100, SLOTS, zero_only);
	run_stream(ctx, 200, 300, SLOTS, zero_often);
}

/* C55 */
static void behind_untouched(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_lane_open(ctx, &lane, 3 * PAGE);
	for (size_t size = 1; size < 2 * PAGE; size += 1 + size / 5)
		check_lane_pass(ctx, &lane, size);
	for (size_t size = 16; size <= 8 * 16; size += 16) /* lines of LL */
		check_lane_pass(ctx, &lane, size);
	check_lane_close(ctx, &lane);
}

/* C59 */
static void all_sizes(struct check_ctx *ctx)
{
	static const size_t sizes[] = {
		1,
		8,
		64,
		4095,
		4096,
		8191,
		8192,
		8193,
		8928,
		8929,
		1 << 16,
		1 << 17,
		(512 << 10) - 1,
		512 << 10,
		(512 << 10) + 1,
		1 << 20,
		4 << 20,
		64 << 20,
		1 << 30,
	};
	size_t most = check_scale(ctx, 4 << 20, 1 << 30);
	struct check_lane lane;

	check_lane_open(ctx, &lane, 1 << 20);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] <= 1 << 20)
			check_lane_pass(ctx, &lane, sizes[i]);
	}
	check_lane_close(ctx, &lane);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] <= 1 << 20 || sizes[i] > most)
			continue;
		check_lane_open(ctx, &lane, sizes[i] + 64);
		check_lane_pass(ctx, &lane, sizes[i]);
		check_lane_close(ctx, &lane);
	}
}

/* ---- longer than the receive ---- */

struct longer {
	struct check_ctx *ctx;
	struct check_lane lane;
	void *send, *recv;
	int sent, got; /* as reported */
	bool put, taken;
	enum nccl_net_result rc; /* first error */
	const char *call;
};

static void longer_note(struct longer *l, enum nccl_net_result rc, const char *call)
{
	if (rc && !l->rc) {
		l->rc = rc;
		l->call = call;
	}
}

static void longer_step(struct longer *l, size_t size)
{
	struct check_end *to = &l->lane.link.send;
	int done = CHECK_STALE_DONE, sizes[NCCL_NET_TEST_SIZES] = {0};
	struct host_net *net = l->ctx->net;

	if (!l->send && !l->rc)
		longer_note(l,
			    net->isend(net, to->comm, l->lane.out.addr, size, check_tag(l->ctx, to),
				       l->lane.out_mh, NULL, &l->send),
			    "isend");
	else if (!l->put && !l->rc) {
		longer_note(l, net->test(l->send, &done, &l->sent), "test of the send");
		l->put = done == 1;
	}
	done = 0;
	if (!l->taken && !l->rc) {
		longer_note(l, net->test(l->recv, &done, sizes), "test of the receive");
		l->taken = done == 1;
		l->got = sizes[0];
	}
}

/* C56 */
static void longer_than_receive(struct check_ctx *ctx)
{
	const size_t size = 2000, room = 1000;
	struct longer l = {.ctx = ctx};
	uint64_t since, key;
	const char *behind;

	check_lane_open(ctx, &l.lane, 2 * PAGE);
	key = payload_key(ctx->self->rank, l.lane.link.send.peer, 0, 0);
	payload_fill(l.lane.out.addr, size, key);
	memset(l.lane.in.addr, PAYLOAD_POISON, l.lane.in.size);
	l.recv = check_recv(ctx, &l.lane.link.recv, l.lane.in.addr, room, l.lane.in_mh);
	check_barrier(ctx);
	since = host_now_ns();
	/* An error at one end may leave the other one waiting, which is not the matter here. */
	while (!(l.put && l.taken) && !l.rc && host_now_ns() - since < 5000 * ms_ns)
		longer_step(&l, size);
	check_need(ctx, l.rc || l.taken || l.put,
		   "expected an end or an error, saw neither in 5 s");
	behind = host_guard_differs(l.lane.in.addr + room, (char)PAYLOAD_POISON,
				    l.lane.in.size - room);
	check_need(ctx, !behind,
		   "expected no byte behind the receive of %zu written, saw one at %td", room,
		   behind ? behind - l.lane.in.addr : 0);
	if (l.taken && !l.rc) {
		char want[1000];

		payload_fill(want, room, payload_key(l.lane.link.recv.peer, ctx->self->rank, 0, 0));
		check_need(ctx, l.got == (int)room,
			   "expected %zu bytes of a longer message reported, saw %d", room, l.got);
		check_need(ctx, !memcmp(want, l.lane.in.addr, room),
			   "expected the first %zu bytes of a longer message, saw others", room);
	}
	if (l.rc)
		check_report(ctx,
			     "a message longer than its receive is an error: %s returns %d (%s)",
			     l.call, (int)l.rc, host_result_str(l.rc));
	else
		check_report(ctx,
			     "a message longer than its receive is cut; its send reports %d "
			     "of %zu bytes, %zu arrived",
			     l.sent, size, room);
	/* What is left under way, if it was an error, is ended as an abort is. */
	check_lane_close(ctx, &l.lane);
}

/* C60 */
static void misaligned(struct check_ctx *ctx)
{
	uint64_t most = check_scale(ctx, 200, 4000);
	struct check_lane lane;
	const size_t at = 256;

	check_lane_open(ctx, &lane, 4 * PAGE);
	for (uint64_t i = 0; i < most; i++) {
		size_t size = (size_t)payload_key(1, 0, 0, i) % (2 * PAGE), first = 0, wrong;
		size_t out = (size_t)(i * 37 % 128), in = (size_t)(i * 53 % 127) + 1;
		struct check_end *to = &lane.link.send, *from = &lane.link.recv;
		uint64_t want = payload_key(from->peer, ctx->self->rank, 2, i);
		uint64_t since = host_now_ns();
		void *recv, *send = NULL;
		const char *beside;
		bool put = false, got = false;

		payload_fill(lane.out.addr + out, size,
			     payload_key(ctx->self->rank, to->peer, 2, i));
		payload_stamp(lane.out.addr + out, size,
			      payload_key(ctx->self->rank, to->peer, 2, i));
		memset(lane.in.addr, PAYLOAD_POISON, lane.in.size);
		recv = check_recv(ctx, from, lane.in.addr + at + in, size, lane.in_mh);
		for (; !put || !got; check_tick(ctx, since, "a message")) {
			int sizes[NCCL_NET_TEST_SIZES] = {0};

			if (!send)
				send = check_isend(ctx, to, lane.out.addr + out, size,
						   check_tag(ctx, to), lane.out_mh);
			else if (!put)
				put = check_test(ctx, send, NULL);
			if (!got)
				got = check_test(ctx, recv, sizes);
		}
		wrong = payload_check(lane.in.addr + at + in, size, want, want, &first);
		check_need(ctx, !wrong,
			   "expected %zu bytes from offset %zu at offset %zu, saw %zu wrong, at "
			   "%zu first",
			   size, out, in, wrong, first);
		beside = host_guard_differs(lane.in.addr, (char)PAYLOAD_POISON, at + in);
		check_need(ctx, !beside,
			   "expected no byte before the receive at offset %zu written, saw one",
			   in);
	}
	check_lane_close(ctx, &lane);
}

/* ---- who waits for whom ---- */

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (uint64_t)pages * PAGE;
}

/* C57 */
static void sender_ahead(struct check_ctx *ctx)
{
	uint64_t wait_ns = check_scale(ctx, 800, 5000) * ms_ns, since, was, now;
	struct check_lane lane;
	struct stream s;
	uint64_t sent;

	check_lane_open(ctx, &lane, 64 * 2 * PAGE);
	stream_init(&s, ctx, &lane, 500, 64);
	since = host_now_ns();
	was = resident_bytes();
	while (host_now_ns() - since < wait_ns) {
		stream_send(&s);
		/* A send that is done before anyone receives it: so be it. */
		stream_sends_reap(&s);
		check_tick(ctx, since, "a wait");
	}
	sent = s.sent;
	now = resident_bytes();
	check_need(ctx, now < was + (64u << 20),
		   "expected bounded memory while a receiver posts nothing, saw %llu MiB more",
		   (unsigned long long)(now - was) >> 20);
	check_barrier(ctx);
	stream_run(&s);
	check_report(ctx, "a sender whose receiver posts nothing has %llu messages accepted",
		     (unsigned long long)sent);
	check_lane_close(ctx, &lane);
}

/* C58 */
static void receiver_ahead(struct check_ctx *ctx)
{
	uint64_t wait_ns = check_scale(ctx, 800, 5000) * ms_ns, since;
	struct check_lane lane;
	struct stream s;

	check_lane_open(ctx, &lane, MANY * PAGE);
	stream_init(&s, ctx, &lane, 4 * MANY, MANY);
	for (int i = 0; i < outstanding(ctx); i++)
		stream_post(&s);
	since = host_now_ns();
	while (host_now_ns() - since < wait_ns) {
		check_need(ctx, !stream_recvs_reap(&s), "expected no message, saw a receive done");
		check_tick(ctx, since, "a wait");
	}
	check_barrier(ctx);
	stream_run(&s);
	check_lane_close(ctx, &lane);
}

/* C61 */
static void newest_first(struct check_ctx *ctx)
{
	uint64_t since;
	struct check_lane lane;
	struct stream s;

	check_lane_open(ctx, &lane, SLOTS * PAGE);
	stream_init(&s, ctx, &lane, 20 * SLOTS, SLOTS);
	for (int round = 0; round < 20; round++) {
		int sizes[NCCL_NET_TEST_SIZES], size;
		bool put = false, got = false;

		since = host_now_ns();
		while (s.posted < s.received + SLOTS) {
			stream_post(&s);
			check_tick(ctx, since, "receives to start");
		}
		memset(sizes, 0, sizeof(sizes));
		check_need(ctx, !check_test(ctx, s.recv[(s.posted - 1) % SLOTS], sizes),
			   "expected no message, as none was sent, saw a receive done");
		check_barrier(ctx);
		while (s.sent < s.sends_done + SLOTS) {
			stream_send(&s);
			check_tick(ctx, since, "sends to start");
		}
		/* The newest of both for a while; that it is not done is as good. */
		while ((!put || !got) && host_now_ns() - since < 20 * ms_ns) {
			if (!put)
				put = check_test(ctx, s.send[(s.sent - 1) % SLOTS], &size);
			if (!got) {
				memset(sizes, 0, sizeof(sizes));
				got = check_test(ctx, s.recv[(s.posted - 1) % SLOTS], sizes);
			}
			check_tick(ctx, since, "the newest");
		}
		while (s.received + got < s.posted || s.sends_done + put < s.sent) {
			if (s.received + got < s.posted)
				stream_recvs_reap(&s);
			if (s.sends_done + put < s.sent)
				stream_sends_reap(&s);
			check_tick(ctx, since, "the oldest");
		}
		if (got)
			stream_verify(&s, s.received++, sizes[0]);
		s.sends_done += put;
	}
	check_need(ctx, stream_over(&s), "expected all messages, saw some left");
	check_lane_close(ctx, &lane);
}

/* C62 */
static void receiver_asleep(struct check_ctx *ctx)
{
	uint64_t nap_ms = 600, since, took = 0;
	struct check_lane lane;
	struct stream s;

	if (ctx->self->nranks < 2)
		check_skip(ctx, "with one rank the receiver is the sender");
	check_lane_open(ctx, &lane, 4 * 4 * PAGE);
	stream_init(&s, ctx, &lane, 4, 4);
	s.size = size_serial;
	for (int i = 0; i < 4; i++)
		stream_post(&s);
	check_barrier(ctx);
	if (ctx->self->rank % 2)
		check_sleep_ms(nap_ms);
	since = host_now_ns();
	while (ctx->self->rank % 2 == 0 && s.sends_done < 4 &&
	       host_now_ns() - since < 2 * nap_ms * ms_ns) {
		stream_send(&s);
		stream_sends_reap(&s);
		check_tick(ctx, since, "sends");
	}
	took = (host_now_ns() - since) / ms_ns;
	stream_run(&s);
	if (ctx->self->rank % 2 == 0)
		check_report(ctx, took < nap_ms / 2
					  ? "sends end without a call of the receiver"
					  : "sends end when the receiver calls the plugin again");
	check_lane_close(ctx, &lane);
}

/* ---- what done means ---- */

static void overwrite(struct stream *s)
{
	s->overwrite = true;
}

/* C66 */
static void source_reused(struct check_ctx *ctx)
{
	run_stream(ctx, 192, check_scale(ctx, 500, 100000), SLOTS, overwrite);
	run_stream(ctx, 96 << 10, check_scale(ctx, 200, 5000), SLOTS, overwrite);
}

static size_t size_whole(const struct stream *s, uint64_t k)
{
	return s->largest - (k % 2 ? 0 : 8);
}

static void whole(struct stream *s)
{
	s->size = size_whole;
}

/* C67 */
static void received_is_there(struct check_ctx *ctx)
{
	run_stream(ctx, 256, check_scale(ctx, 300, 100000), 2, whole);
	run_stream(ctx, 1 << 20, check_scale(ctx, 40, 1000), 4, whole);
}

static void still(struct stream *s)
{
	s->still_ns = ms_ns;
}

/* C70 */
static void no_late_write(struct check_ctx *ctx)
{
	run_stream(ctx, 512, check_scale(ctx, 400, 10000), SLOTS, still);
	run_stream(ctx, 100 << 10, check_scale(ctx, 60, 2000), SLOTS, still);
}

const struct check data_checks[] = {
	{
		.id = "C50",
		.group = "data",
		.title = "isend and irecv write *request always; NULL means that nothing began",
		.rule = "src/transport/net.cc: request slots hold what the last operation left; "
			"NULL is tried again",
		.run = request_written,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C51",
		.group = "data",
		.title = "test writes *done always, the sizes of the receive and no more, none for "
			 "a "
			 "send with NULL",
		.rule = "src/transport/net.cc: done is not initialised, sizes has an element per "
			"part",
		.run = done_written,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C52",
		.group = "data",
		.title = "a comm holds as many requests as NCCL makes, and what is refused is not "
			 "lost",
		.rule = "NCCL_NET_MAX_REQUESTS: 32, of v6 8",
		.run = outstanding_held,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C53",
		.group = "data",
		.title = "messages of any sizes arrive in order, whole, and with their sizes",
		.rule = "src/transport/net.cc: steps are matched by position alone",
		.run = in_order,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C54",
		.group = "data",
		.title = "messages of zero bytes arrive, in their place, and touch no memory",
		.rule = "src/transport/net.cc: sendProxyProgress sends slices of size 0 as any "
			"other",
		.run = zero_bytes,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C55",
		.group = "data",
		.title = "no byte behind a message shorter than its receive is written",
		.rule = "src/device/prims_ll.h: flags of the next step are polled there",
		.run = behind_untouched,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C56",
		.group = "data",
		.title = "a message longer than its receive is cut or an error, and writes nothing "
			 "behind",
		.rule = "NCCL 2.20 to 2.23 with regIsGlobal send so and go on with what was "
			"reported",
		.run = longer_than_receive,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C57",
		.group = "data",
		.title = "a sender whose receiver posts nothing waits, in bounded memory and "
			 "without "
			 "an error",
		.rule = "src/transport/net.cc: isend may come long before the receive",
		.run = sender_ahead,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C58",
		.group = "data",
		.title = "receives that wait for a sender wait as long as it takes",
		.rule = "NCCL has no timeout; ranks compute for minutes",
		.run = receiver_ahead,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C59",
		.group = "data",
		.title =
			"messages of every size arrive: around pages, packets, chunks, up to 1 GiB",
		.rule = "MAX_NET_SIZE is 1 GiB; src/transport/net.cc",
		.run = all_sizes,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C60",
		.group = "data",
		.title = "messages come from any address to any other, alignment or not",
		.rule = "buffers of users are sent from where they are (src/register)",
		.run = misaligned,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C61",
		.group = "data",
		.title = "requests may be tested in any order",
		.rule = "src/proxy.cc: operations are progressed in no order of theirs",
		.run = newest_first,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C62",
		.group = "data",
		.title = "messages to a receiver that makes no calls for a while end when it does "
			 "again",
		.rule = "src/proxy.cc: a progress thread without active operations sleeps",
		.run = receiver_asleep,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C66",
		.group = "data",
		.title = "what is done can be overwritten at once, and the old data arrives",
		.rule = "src/transport/net.cc: done gives the slot back to the GPU",
		.run = source_reused,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C67",
		.group = "data",
		.title = "a receive that is done is there for the CPU, all of it",
		.rule = "src/transport/net.cc: done publishes the slot",
		.run = received_is_there,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C70",
		.group = "data",
		.title = "nothing is written into a slot between its use and the next message",
		.rule = "src/device/prims_ll.h: an old flag that comes late counts as a new one",
		.run = no_late_write,
		.flags = CHECK_RANKS,
	},
	{0},
};
