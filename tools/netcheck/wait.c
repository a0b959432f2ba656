/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits for whom, and how long. */
#include <stdio.h>

#include "check.h"
#include "stream.h"

enum { MANY = NCCL_NET_OUTSTANDING, PAGE = 4096 };

static const uint64_t ms_ns = 1000000;

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
	for (int i = 0; i < check_outstanding(ctx); i++)
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
	s.size = stream_size_serial;
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

const struct check wait_checks[] = {
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
		.id = "C62",
		.group = "data",
		.title = "messages to a receiver that makes no calls for a while end when it does "
			 "again",
		.rule = "src/proxy.cc: a progress thread without active operations sleeps",
		.run = receiver_asleep,
		.flags = CHECK_RANKS,
	},
	{0},
};
