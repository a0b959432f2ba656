/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers and devices that fail. */
#include <string.h>

#include "check.h"
#include "host/log.h"
#include "rules.h"

static const uint64_t ms_ns = 1000000;

/* ---- C78 ---- */

/* An error of a request, or NULL for none in time. */
static void until_error(struct check_ctx *ctx, struct check_lane *lane, void *recv, uint64_t ms)
{
	uint64_t since = host_now_ns();
	void *send = NULL;

	while (host_now_ns() - since < ms * ms_ns) {
		enum nccl_net_result rc;

		if (!send)
			send = check_isend_anyway(ctx, &lane->link.send, lane->out.addr,
						  lane->out.size, lane->out_mh);
		rc = check_test_anyway(ctx, &send);
		if (!rc)
			rc = check_test_anyway(ctx, &recv);
		check_expect(ctx, !rc || rc == NCCL_NET_REMOTE_ERROR || rc == NCCL_NET_SYSTEM_ERROR,
			     "expected a remote or system error when the peer is dead, saw %d (%s)",
			     (int)rc, host_result_str(rc));
		if (rc)
			return;
		check_tick(ctx, since, "the end of a pause");
	}
}

static void close_soon(struct check_ctx *ctx, struct check_lane *lane)
{
	uint64_t since = host_now_ns(), ms;

	check_lane_close(ctx, lane);
	ms = (host_now_ns() - since) / ms_ns;
	check_expect(ctx, ms < 2000,
		     "expected that close does not wait for a dead peer, saw %llu ms",
		     (unsigned long long)ms);
}

static void peer_killed(struct check_ctx *ctx)
{
	struct check_lane lane, self;
	void *recv;

	if (ctx->self->nranks < 2 || ctx->opt->threads)
		check_skip(ctx, "takes two processes");
	check_lane_open(ctx, &lane, 200000);
	check_self(ctx, &self.link);
	check_lane_bufs(ctx, &self, 20000);
	for (int i = 0; i < 3; i++)
		check_lane_pass(ctx, &lane, 200000);
	check_barrier(ctx);
	recv = check_recv(ctx, &lane.link.recv, lane.in.addr, lane.in.size, lane.in_mh);
	if (ctx->self->rank == 1) {
		check_isend_anyway(ctx, &lane.link.send, lane.out.addr, lane.out.size, lane.out_mh);
		check_die(ctx);
	}
	until_error(ctx, &lane, recv, check_scale(ctx, 500, 10000));
	for (int i = 0; i < 3; i++)
		check_lane_pass(ctx, &self, 20000);
	close_soon(ctx, &lane);
	check_lane_close(ctx, &self);
}

/* ---- C81 ---- */

static void self_lane(struct check_ctx *ctx, struct check_lane *lane, size_t bytes)
{
	check_self(ctx, &lane->link);
	check_lane_bufs(ctx, lane, bytes);
}

/* The next command makes the rules known: any registration will do. */
static void rules_at_once(struct check_ctx *ctx, struct check_lane *lane, const char *rules)
{
	char *page = check_pages(ctx, NULL, 4096);

	nk_rules_put(ctx, rules);
	check_dereg(ctx, &lane->link.recv, check_reg(ctx, &lane->link.recv, page, 4096));
}

static void memory_refused(struct check_ctx *ctx, struct check_lane *lane)
{
	enum { BYTES = 1 << 20 };
	char *map = check_pages(ctx, NULL, BYTES);
	void *mh = NULL;

	nk_rules_put(ctx, "refuse mr\n");
	check_expect(ctx,
		     ctx->net->reg_mr(ctx->net, lane->link.recv.comm, map, BYTES, NCCL_NET_PTR_HOST,
				      &mh),
		     "expected an error of regMr when the device registers none, saw success");
	nk_rules_put(ctx, "");
	check_dereg(ctx, &lane->link.recv, check_reg(ctx, &lane->link.recv, map, BYTES));
	check_lane_pass(ctx, lane, lane->out.size);
}

/* Errors are in order; a connection afterwards must work. */
static void objects_refused(struct check_ctx *ctx)
{
	static const char *const rules[] = {"refuse ah\n", "refuse qp\n", "refuse cq\n",
					    "refuse pd\n"};
	struct nccl_net_device_handle *none = NULL;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		void *listen = NULL, *send = NULL, *recv = NULL;
		char handle[NCCL_NET_HANDLE_BYTES];
		struct host_net *net = ctx->net;
		struct check_lane lane;
		uint64_t since = host_now_ns();
		enum nccl_net_result rc;

		nk_rules_put(ctx, rules[i]);
		rc = net->listen(net, ctx->net_ctx, ctx->dev, handle, &listen);
		while (!rc && (!send || !recv) && host_now_ns() - since < 100 * ms_ns) {
			if (!send)
				rc = net->connect(net, ctx->net_ctx, ctx->dev, handle, &send,
						  &none);
			if (!rc && !recv)
				rc = net->accept(net, listen, &recv, &none);
			check_tick(ctx, since, "the end of a pause");
		}
		nk_rules_put(ctx, "");
		if (send)
			check_ok(ctx, net->close_send(send), "closeSend");
		if (recv)
			check_ok(ctx, net->close_recv(recv), "closeRecv");
		if (listen)
			check_ok(ctx, net->close_listen(listen), "closeListen");
		self_lane(ctx, &lane, 5000);
		check_lane_pass(ctx, &lane, 5000);
		check_lane_close(ctx, &lane);
	}
}

/* More in flight than queues hold, and nobody who looks after completions for a while. */
static void queues_full(struct check_ctx *ctx, struct check_lane *lane)
{
	enum { DEPTH = 8, BYTES = 1000 };
	void *send[DEPTH], *recv[DEPTH];

	rules_at_once(ctx, lane, "delay 3000 jitter=3000 times=200\noverflow\n");
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < DEPTH; i++)
			recv[i] = check_recv(ctx, &lane->link.recv, lane->in.addr + i * BYTES,
					     BYTES, lane->in_mh);
		for (int i = 0; i < DEPTH; i++)
			send[i] = check_send(ctx, &lane->link.send, lane->out.addr + i * BYTES,
					     BYTES, lane->out_mh);
		check_sleep_ms(20);
		for (int i = 0; i < DEPTH; i++)
			check_need(ctx, check_finish(ctx, &lane->link.recv, recv[i]) == BYTES,
				   "expected %d bytes, saw others", BYTES);
		for (int i = 0; i < DEPTH; i++)
			check_finish(ctx, &lane->link.send, send[i]);
	}
	rules_at_once(ctx, lane, "");
}

/* A device that ends every request with an error. */
static void requests_fail(struct check_ctx *ctx, struct check_lane *lane)
{
	enum nccl_net_result rc = NCCL_NET_OK;
	void *request = NULL, *recv, *send = NULL, *failed = NULL;
	uint64_t since = host_now_ns();
	int done, sizes[NCCL_NET_TEST_SIZES];
	bool sender = false;

	rules_at_once(ctx, lane, "status 8\n");
	recv = check_irecv(ctx, &lane->link.recv, lane->in.addr, lane->in.size, 0, lane->in_mh);
	while (!rc) {
		if (!send)
			send = check_isend_anyway(ctx, &lane->link.send, lane->out.addr,
						  lane->out.size, lane->out_mh);
		sender = !sender;
		failed = sender ? send : recv;
		rc = check_test_anyway(ctx, sender ? &send : &recv);
		check_tick(ctx, since, "an error of a request that failed");
	}
	check_expect(ctx, rc == NCCL_NET_REMOTE_ERROR || rc == NCCL_NET_SYSTEM_ERROR,
		     "expected a remote or system error, saw %d (%s)", (int)rc,
		     host_result_str(rc));
	check_expect(ctx, ctx->net->test(failed, &done, sizes),
		     "expected that the error stays, saw success of the next test");
	if (sender)
		check_expect(ctx,
			     ctx->net->isend(ctx->net, lane->link.send.comm, lane->out.addr, 1, 0,
					     lane->out_mh, NULL, &request),
			     "expected an error of isend on a failed comm, saw success");
}

static void device_fails(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_load(ctx, ctx->abi);
	check_begin(ctx, host_nccl_log);
	if (!nk_rules_apply())
		check_skip(ctx, "the plugin does not run on softefa");
	self_lane(ctx, &lane, 20000);
	check_lane_pass(ctx, &lane, 20000);
	memory_refused(ctx, &lane);
	objects_refused(ctx);
	queues_full(ctx, &lane);
	requests_fail(ctx, &lane);
	check_lane_close(ctx, &lane);
	check_over(ctx);
	check_unload(ctx);
}

const struct check fail_checks[] = {
	{
		.id = "C78",
		.group = "fail",
		.title = "a peer that is killed costs an error at most, and no other comm",
		.rule = "src/proxy.cc: an error of test ends the communicator; it is aborted, "
			"others "
			"live on",
		.run = peer_killed,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C81",
		.group = "fail",
		.title = "what the device refuses or fails becomes an error, once and for all",
		.rule = "src/proxy.cc: any error of the data path stops the communicator",
		.run = device_fails,
		.flags = CHECK_BARE | CHECK_SOFTEFA,
	},
	{0},
};
