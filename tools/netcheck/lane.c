/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, by the body's thread. */
#include <string.h>

#include "check.h"
#include "common/payload.h"

static void enter(struct check_ctx *ctx, const char *call)
{
	host_entering(ctx->self, HOST_PROGRESS, call);
}

int check_tag(const struct check_ctx *ctx, const struct check_end *end)
{
	return end->sender ? ctx->self->rank : end->peer;
}

int check_outstanding(const struct check_ctx *ctx)
{
	return ctx->abi == 6 ? 8 : NCCL_NET_OUTSTANDING;
}

static void slot_written(struct check_ctx *ctx, const void *request, const char *call)
{
	check_need(ctx, request != CHECK_STALE_REQUEST,
		   "expected that %s writes *request, saw what was there before", call);
}

void *check_isend(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		  int tag, void *mhandle)
{
	void *request = CHECK_STALE_REQUEST;

	enter(ctx, "isend");
	check_ok(ctx,
		 ctx->net->isend(ctx->net, end->comm, addr, size, tag, mhandle, NULL, &request),
		 "isend");
	slot_written(ctx, request, "isend");
	return request;
}

void check_irecv_group(struct check_ctx *ctx, const struct check_end *end, int n, void **addrs,
		       size_t *sizes, int *tags, void **mhandles, void **request)
{
	void *phandles[NCCL_NET_TEST_SIZES] = {NULL};

	enter(ctx, "irecv");
	check_ok(ctx,
		 ctx->net->irecv(ctx->net, end->comm, n, addrs, sizes, tags, mhandles, phandles,
				 request),
		 "irecv");
	slot_written(ctx, *request, "irecv");
}

void *check_irecv(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		  int tag, void *mhandle)
{
	void *request = CHECK_STALE_REQUEST;

	check_irecv_group(ctx, end, 1, &addr, &size, &tag, &mhandle, &request);
	return request;
}

bool check_test(struct check_ctx *ctx, void *request, int *sizes)
{
	int done = CHECK_STALE_DONE;

	enter(ctx, "test");
	check_ok(ctx, ctx->net->test(request, &done, sizes), "test");
	check_need(ctx, done != CHECK_STALE_DONE,
		   "expected that test writes *done, saw what was there before");
	return done;
}

void *check_send(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		 void *mhandle)
{
	uint64_t since = host_now_ns();
	void *request;

	while (!(request = check_isend(ctx, end, addr, size, check_tag(ctx, end), mhandle)))
		check_tick(ctx, since, "a send to start");
	return request;
}

void *check_recv(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		 void *mhandle)
{
	uint64_t since = host_now_ns();
	void *request;

	while (!(request = check_irecv(ctx, end, addr, size, check_tag(ctx, end), mhandle)))
		check_tick(ctx, since, "a receive to start");
	return request;
}

int check_finish(struct check_ctx *ctx, const struct check_end *end, void *request)
{
	int sizes[NCCL_NET_TEST_SIZES] = {0};
	uint64_t since = host_now_ns();

	while (!check_test(ctx, request, sizes))
		check_tick(ctx, since, end->sender ? "a send to end" : "a receive to end");
	return end->sender ? 0 : sizes[0];
}

enum nccl_net_result check_test_anyway(struct check_ctx *ctx, void **request)
{
	int done = 0, sizes[NCCL_NET_TEST_SIZES] = {0};
	enum nccl_net_result rc;

	if (!*request)
		return NCCL_NET_OK;
	enter(ctx, "test");
	rc = ctx->net->test(*request, &done, sizes);
	if (rc || done)
		*request = NULL;
	return rc;
}

void *check_isend_anyway(struct check_ctx *ctx, const struct check_end *end, void *addr,
			 size_t size, void *mhandle)
{
	void *request = NULL;

	enter(ctx, "isend");
	if (ctx->net->isend(ctx->net, end->comm, addr, size, check_tag(ctx, end), mhandle, NULL,
			    &request))
		return NULL;
	return request;
}

/* ---- lanes ---- */

void check_lane_bufs(struct check_ctx *ctx, struct check_lane *lane, size_t bytes)
{
	lane->serial = 0;
	check_buf_init(ctx, &lane->out, bytes);
	check_buf_init(ctx, &lane->in, bytes);
	lane->out_mh = check_reg(ctx, &lane->link.send, lane->out.addr, bytes);
	lane->in_mh = check_reg(ctx, &lane->link.recv, lane->in.addr, bytes);
}

void check_lane_open(struct check_ctx *ctx, struct check_lane *lane, size_t bytes)
{
	check_ring(ctx, &lane->link);
	check_lane_bufs(ctx, lane, bytes);
}

void check_lane_close(struct check_ctx *ctx, struct check_lane *lane)
{
	check_dereg(ctx, &lane->link.send, lane->out_mh);
	check_dereg(ctx, &lane->link.recv, lane->in_mh);
	check_buf_fini(ctx, &lane->out, "the source");
	check_buf_fini(ctx, &lane->in, "the target");
	check_disconnect(ctx, &lane->link);
}

/* Both ends are polled in turn: with one rank they are this rank's. */
static int pass_finish(struct check_ctx *ctx, struct check_lane *lane, size_t size, void *recv)
{
	const struct check_end *end = &lane->link.send;
	int sizes[NCCL_NET_TEST_SIZES] = {0}, sent;
	uint64_t since = host_now_ns();
	void *send = NULL;
	bool got = false;

	for (bool put = false; !put || !got;) {
		if (!got)
			got = check_test(ctx, recv, sizes);
		if (send && !put)
			put = check_test(ctx, send, &sent);
		else if (!put)
			send = check_isend(ctx, end, lane->out.addr, size, check_tag(ctx, end),
					   lane->out_mh);
		check_tick(ctx, since, "a message to pass");
	}
	return sizes[0];
}

void check_lane_pass(struct check_ctx *ctx, struct check_lane *lane, size_t size)
{
	int rank = ctx->self->rank, from = lane->link.recv.peer;
	uint64_t key = payload_key(rank, lane->link.send.peer, 0, lane->serial);
	uint64_t want = payload_key(from, rank, 0, lane->serial++);
	size_t first = 0, wrong;
	const char *behind;
	void *recv;
	int got;

	payload_fill(lane->out.addr, size, key);
	payload_stamp(lane->out.addr, size, key);
	memset(lane->in.addr, PAYLOAD_POISON, lane->in.size);
	recv = check_recv(ctx, &lane->link.recv, lane->in.addr, lane->in.size, lane->in_mh);
	got = pass_finish(ctx, lane, size, recv);
	check_need(ctx, got == (int)size, "expected a message of %zu bytes, saw %d reported", size,
		   got);
	wrong = payload_check(lane->in.addr, size, want, want, &first);
	check_need(ctx, !wrong,
		   "expected the %zu bytes that were sent, saw %zu wrong, at %zu first", size,
		   wrong, first);
	behind = host_guard_differs(lane->in.addr + size, (char)PAYLOAD_POISON,
				    lane->in.size - size);
	check_need(ctx, !behind, "expected no byte behind a message of %zu written, saw one at %td",
		   size, behind ? behind - lane->in.addr : 0);
}
