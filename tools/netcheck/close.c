/* SPDX-License-Identifier: BSD-3-Clause */
/* How things end: comms with requests in flight, processes with comms. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "common/payload.h"

static const uint64_t ms_ns = 1000000;

/* ---- C76 ---- */

/*
 * The receiver is not asked while the sender sends, unless nothing goes on without it: then the
 * send cannot be done before the data is there.
 */
static void send_alone(struct check_ctx *ctx, struct check_lane *lane, void **recv, int *got)
{
	uint64_t since = host_now_ns();
	void *send =
		check_send(ctx, &lane->link.send, lane->out.addr, lane->out.size, lane->out_mh);
	int sizes[NCCL_NET_TEST_SIZES] = {0};

	while (!check_test(ctx, send, sizes)) {
		memset(sizes, 0, sizeof(sizes));
		if (*recv && host_now_ns() - since > 300 * ms_ns && check_test(ctx, *recv, sizes)) {
			*got = sizes[0];
			*recv = NULL;
		}
		check_tick(ctx, since, "a send to end");
	}
}

static void close_after_send(struct check_ctx *ctx)
{
	enum { BYTES = 40000 };
	size_t first = 0, wrong;
	struct check_lane lane;
	uint64_t key;
	int got = -1;
	void *recv;

	check_lane_open(ctx, &lane, BYTES);
	key = payload_key(ctx->self->rank, 0, 0, 7);
	payload_fill(lane.out.addr, BYTES, key);
	payload_stamp(lane.out.addr, BYTES, key);
	recv = check_recv(ctx, &lane.link.recv, lane.in.addr, BYTES, lane.in_mh);
	check_barrier(ctx);
	send_alone(ctx, &lane, &recv, &got);
	check_dereg(ctx, &lane.link.send, lane.out_mh);
	check_close(ctx, &lane.link.send);
	memset(lane.out.addr, 0, BYTES);
	/* The other's send may need calls at this end to end: nobody may wait for it before. */
	check_sleep_ms(check_scale(ctx, 100, 2000));
	if (recv)
		got = check_finish(ctx, &lane.link.recv, recv);
	key = payload_key(lane.link.recv.peer, 0, 0, 7);
	wrong = payload_check(lane.in.addr, BYTES, key, key, &first);
	check_expect(ctx, got == BYTES, "expected %d bytes after the sender closed, saw %d", BYTES,
		     got);
	check_expect(ctx, !wrong, "expected the bytes that were sent, saw %zu wrong, at %zu first",
		     wrong, first);
	check_dereg(ctx, &lane.link.recv, lane.in_mh);
	check_close(ctx, &lane.link.recv);
	check_buf_fini(ctx, &lane.in, "the target");
	check_buf_fini(ctx, &lane.out, "the source");
}

/* ---- C77 ---- */

enum { FLIGHT = 4, PIECE = 128 << 10 };

/* Messages in flight in both ends of a connection, by buffers of whole pages. */
struct flight {
	struct check_link link;
	char *out, *in;
	void *out_mh, *in_mh;
	void *send[FLIGHT], *recv[FLIGHT];
};

static void flight_start(struct check_ctx *ctx, struct flight *f)
{
	f->out = check_pages(ctx, NULL, FLIGHT * PIECE);
	f->in = check_pages(ctx, NULL, FLIGHT * PIECE);
	memset(f->out, 0x11, FLIGHT * PIECE);
	f->out_mh = check_reg(ctx, &f->link.send, f->out, FLIGHT * PIECE);
	f->in_mh = check_reg(ctx, &f->link.recv, f->in, FLIGHT * PIECE);
	for (size_t i = 0; i < FLIGHT; i++) {
		f->recv[i] = check_irecv(ctx, &f->link.recv, f->in + i * PIECE, PIECE,
					 check_tag(ctx, &f->link.recv), f->in_mh);
		f->send[i] = check_isend_anyway(ctx, &f->link.send, f->out + i * PIECE, PIECE,
						f->out_mh);
	}
}

/* Some of them, so that they are in any state. */
static void flight_some(struct check_ctx *ctx, struct flight *f, int tests)
{
	for (int i = 0; i < tests; i++) {
		check_test_anyway(ctx, &f->send[i % FLIGHT]);
		check_test_anyway(ctx, &f->recv[i % FLIGHT]);
	}
}

/* As NCCL does when it aborts: deregister, free, close. Another owner gets the memory. */
static void flight_end(struct check_ctx *ctx, struct flight *f, bool send_first)
{
	struct check_end *end[2] = {&f->link.recv, &f->link.send};
	void *mh[2] = {f->in_mh, f->out_mh};
	const char *written;

	for (int i = 0; i < 2; i++)
		check_dereg(ctx, end[i ^ send_first], mh[i ^ send_first]);
	munmap(f->in, FLIGHT * PIECE);
	munmap(f->out, FLIGHT * PIECE);
	check_pages(ctx, f->in, FLIGHT * PIECE);
	memset(f->in, 0x22, FLIGHT * PIECE);
	for (int i = 0; i < 2; i++)
		check_close(ctx, end[i ^ send_first]);
	check_sleep_ms(check_scale(ctx, 20, 500));
	written = host_guard_differs(f->in, 0x22, FLIGHT * PIECE);
	check_expect(ctx, !written, "expected no write after close, saw one at byte %td",
		     written ? written - f->in : 0);
	munmap(f->in, FLIGHT * PIECE);
}

static void close_in_flight(struct check_ctx *ctx)
{
	for (int i = 0; i < 6; i++) {
		struct flight f = {0};

		check_self(ctx, &f.link);
		flight_start(ctx, &f);
		flight_some(ctx, &f, i / 2 * 3);
		flight_end(ctx, &f, i & 1);
	}
}

/* ---- C79 ---- */

/* Rank 0 goes with messages in flight; the others find out, or not, and go as well. */
static void peer_went(struct check_ctx *ctx)
{
	uint64_t wait_ns = check_scale(ctx, 200, 3000) * ms_ns, since;
	struct flight f = {0};

	check_ring(ctx, &f.link);
	flight_start(ctx, &f);
	check_barrier(ctx);
	if (ctx->self->rank) {
		since = host_now_ns();
		while (host_now_ns() - since < wait_ns) {
			flight_some(ctx, &f, FLIGHT);
			check_tick(ctx, since, "the end of a pause");
		}
	}
	flight_end(ctx, &f, false);
}

/* ---- C80 ---- */

static void *exit_main(void *arg)
{
	(void)arg;
	exit(0);
}

static void exit_open(struct check_ctx *ctx)
{
	struct flight f = {0};
	pthread_t thread;

	check_ring(ctx, &f.link);
	flight_start(ctx, &f);
	check_expect(ctx, f.recv[0], "expected a receive to start, saw none");
	check_barrier(ctx);
	host_entering(ctx->self, HOST_MAIN, "exit handlers of the plugin");
	atomic_store(&ctx->note->state, CHECK_DONE);
	/* One process ends once. */
	while (ctx->opt->threads && ctx->self->rank)
		pause();
	if (ctx->self->rank % 2)
		exit(0);
	if (pthread_create(&thread, NULL, exit_main, NULL))
		check_skip(ctx, "no thread can be started");
	for (;;)
		pause();
}

#define ABORT \
	"src/transport/net.cc: an abort ends the progress thread, then deregisters, frees, closes"

const struct check close_checks[] = {
	{
		.id = "C76",
		.group = "close",
		.title = "what was sent arrives after closeSend, 2 s later as well (quick: 0.1 s)",
		.rule = "src/transport/net.cc: sendProxyFree; no rank waits for another",
		.run = close_after_send,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C77",
		.group = "close",
		.title = "comms close in any order with requests in flight, and write no more",
		.rule = ABORT,
		.run = close_in_flight,
	},
	{
		.id = "C79",
		.group = "close",
		.title = "deregMr and close succeed, whoever went first",
		.rule = ABORT "; an error leaks what comes after it",
		.run = peer_went,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C80",
		.group = "close",
		.title = "the process may exit with all open, by any thread",
		.rule = "applications exit without ncclCommDestroy",
		.run = exit_open,
		.flags = CHECK_RANKS,
	},
	{0},
};
