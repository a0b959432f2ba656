/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: order, sizes, and what is where when they are done. */
#include <string.h>

#include "check.h"
#include "common/payload.h"
#include "host/log.h"
#include "stream.h"

enum { SLOTS = 8, PAGE = 4096 };

static const uint64_t ms_ns = 1000000;

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
