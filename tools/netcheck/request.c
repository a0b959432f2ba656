/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: that they are told, how many there are, and in what order they are tested. */
#include <string.h>

#include "check.h"
#include "stream.h"

enum { SLOTS = 8, MANY = NCCL_NET_OUTSTANDING, PAGE = 4096 };

static const uint64_t ms_ns = 1000000;

/* C50 */
static void request_written(struct check_ctx *ctx)
{
	struct check_lane lane;
	struct stream s;
	uint64_t since;

	check_lane_open(ctx, &lane, 64 * PAGE);
	stream_init(&s, ctx, &lane, 200, 64);
	s.largest = 64;
	s.size = stream_size_serial;
	/* The slots of requests are poisoned by all calls. First a sender alone, until it is told
	 * to wait or has no more; what was told so and yet begun comes twice. */
	since = host_now_ns();
	do {
		stream_send(&s);
	} while (host_now_ns() - since < 50 * ms_ns && s.sent < 64);
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
	check_need(ctx, posted >= check_outstanding(ctx),
		   "expected at least %d receives under way, saw irecv refuse number %d",
		   check_outstanding(ctx), posted);
	check_barrier(ctx); /* not a call between: what was accepted is not lost */
	stream_run(&s);
	check_report(ctx, "%d receives and, with those posted, %d sends were accepted at once",
		     posted, sent);
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

const struct check request_checks[] = {
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
		.title = "test writes *done always, the sizes of the receive and no more, "
			 "none for a send with NULL",
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
		.id = "C61",
		.group = "data",
		.title = "requests may be tested in any order",
		.rule = "src/proxy.cc: operations are progressed in no order of theirs",
		.run = newest_first,
		.flags = CHECK_RANKS,
	},
	{0},
};
