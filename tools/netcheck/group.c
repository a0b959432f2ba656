/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives of several parts, hints, and the flush after them. */
#include <string.h>

#include "check.h"
#include "common/payload.h"
#include "host/log.h"

enum {
	PARTS = 8,         /* at most that are tried; NCCL has no more on one comm */
	PART_BYTES = 2048, /* of memory; a receive takes a little less */
	GROUPS = 2,        /* under way */
	ROOM = PART_BYTES - 64,
};

/* One receive and the messages for it. */
struct group {
	int n;
	int tag[PARTS];
	size_t size[PARTS];
	uint64_t key[PARTS]; /* of the message that is to be there */
	char *at[PARTS];
	void *recv;
	int sizes[NCCL_NET_TEST_SIZES]; /* as reported */
	bool got;
};

struct groups {
	struct check_ctx *ctx;
	struct check_lane lane;
	int most; /* parts of a receive */
	uint64_t serial;
	struct group group[GROUPS];
};

static int max_recvs(struct check_ctx *ctx)
{
	struct nccl_net_props_v12 props;

	check_ok(ctx, ctx->net->get_properties(ctx->net, ctx->dev, &props), "getProperties");
	return props.max_recvs;
}

static void groups_open(struct groups *g, struct check_ctx *ctx, int least)
{
	*g = (struct groups){.ctx = ctx, .most = max_recvs(ctx)};
	if (g->most < least)
		check_skip(ctx, "the plugin has maxRecvs %d: NCCL groups nothing", g->most);
	if (g->most > PARTS)
		g->most = PARTS;
	check_lane_open(ctx, &g->lane, GROUPS * PARTS * PART_BYTES);
}

/* Post group @i, of @n parts with the tags and sizes in it. Both ranks do it with equal keys. */
static void group_post(struct groups *g, int i, int n)
{
	struct check_end *end = &g->lane.link.recv;
	struct group *q = &g->group[i];
	size_t room[PARTS];
	void *mh[PARTS];
	uint64_t since = host_now_ns();

	q->n = n;
	q->got = false;
	for (int p = 0; p < n; p++) {
		q->at[p] = g->lane.in.addr + (i * PARTS + p) * PART_BYTES;
		memset(q->at[p], PAYLOAD_POISON, PART_BYTES);
		q->key[p] = payload_key(end->peer, g->ctx->self->rank, p, g->serial + (uint64_t)i);
		room[p] = ROOM;
		mh[p] = g->lane.in_mh;
	}
	do {
		q->recv = CHECK_STALE_REQUEST;
		check_irecv_group(g->ctx, end, n, (void **)q->at, room, q->tag, mh, &q->recv);
		check_tick(g->ctx, since, "a receive of several parts to start");
	} while (!q->recv);
}

static char *source_at(struct groups *g, int i, int p)
{
	return g->lane.out.addr + (i * PARTS + p) * PART_BYTES;
}

/* Send what part @p of group @i takes, if it can be now. */
static void *part_send(struct groups *g, int i, int p)
{
	struct check_end *end = &g->lane.link.send;
	struct group *q = &g->group[i];
	uint64_t key = payload_key(g->ctx->self->rank, end->peer, p, g->serial + (uint64_t)i);

	payload_fill(source_at(g, i, p), q->size[p], key);
	payload_stamp(source_at(g, i, p), q->size[p], key);
	return check_isend(g->ctx, end, source_at(g, i, p), q->size[p], q->tag[p], g->lane.out_mh);
}

static void group_test(struct groups *g, int i)
{
	struct group *q = &g->group[i];

	if (q->got)
		return;
	for (int p = 0; p < NCCL_NET_TEST_SIZES; p++)
		q->sizes[p] = p < q->n ? 0 : CHECK_STALE_DONE;
	q->got = check_test(g->ctx, q->recv, q->sizes);
	for (int p = q->n; p < NCCL_NET_TEST_SIZES; p++)
		check_need(g->ctx, q->sizes[p] == CHECK_STALE_DONE,
			   "expected test of a receive of %d to leave sizes[%d], saw 0x%x", q->n, p,
			   q->sizes[p]);
}

static void part_verify(struct groups *g, const struct group *q, int p)
{
	size_t first = 0, wrong = payload_check(q->at[p], q->size[p], q->key[p], q->key[p], &first);
	const char *behind = host_guard_differs(q->at[p] + q->size[p], (char)PAYLOAD_POISON,
						PART_BYTES - q->size[p]);

	check_need(g->ctx, q->sizes[p] == (int)q->size[p],
		   "expected %zu bytes in part %d of %d, saw %d reported", q->size[p], p, q->n,
		   q->sizes[p]);
	check_need(
		g->ctx, !wrong,
		"expected the %zu bytes sent with tag %d in part %d of %d, saw %zu wrong, at %zu "
		"first",
		q->size[p], q->tag[p], p, q->n, wrong, first);
	check_need(g->ctx, !behind, "expected nothing behind part %d of %d, saw a write at %td", p,
		   q->n, behind ? behind - q->at[p] : 0);
}

/* Send the parts of group @i in the order @order, and see both ends through. */
static void group_pass(struct groups *g, int i, const int *order)
{
	struct group *q = &g->group[i];
	void *send[PARTS] = {NULL};
	uint64_t since = host_now_ns();
	int begun = 0, put = 0;

	while (put < q->n || !q->got) {
		int size = 0;

		if (begun < q->n) {
			send[begun] = part_send(g, i, order[begun]);
			begun += send[begun] != NULL;
		}
		if (put < begun && check_test(g->ctx, send[put], &size))
			put++;
		group_test(g, i);
		check_tick(g->ctx, since, "a receive of several parts to end");
	}
	for (int p = 0; p < q->n; p++)
		part_verify(g, q, p);
	atomic_fetch_add(&g->ctx->note->expected, 1);
}

/* By round: the same in all ranks. */
static void permute(int *order, int n, uint64_t round)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int with = (int)(payload_key(i, n, 3, round) % (uint64_t)(i + 1)), was = order[i];

		order[i] = order[with];
		order[with] = was;
	}
}

static size_t part_size(uint64_t round, int p)
{
	uint64_t key = payload_key(p, 0, 4, round);

	return key % 8 == 0 ? 0 : (size_t)(key >> 8) % (ROOM + 1);
}

/* C63 */
static void parts_by_tag(struct check_ctx *ctx)
{
	uint64_t rounds = check_scale(ctx, 200, 20000);
	int order[PARTS];
	struct groups g;

	groups_open(&g, ctx, 2);
	for (uint64_t r = 0; r < rounds; r++) {
		struct group *q = &g.group[0];
		/* It shrinks: senders that have no more drop out. */
		int n = g.most - (int)(r % (uint64_t)g.most);

		permute(order, n, r);
		for (int p = 0; p < n; p++) {
			q->tag[p] = 1000 + 7 * p;
			q->size[p] = part_size(r, p);
		}
		group_post(&g, 0, n);
		group_pass(&g, 0, order);
		g.serial += GROUPS;
	}
	/* Equal tags: the first part that is free. */
	for (int p = 0; p < g.most; p++) {
		order[p] = p;
		g.group[0].tag[p] = 5;
		g.group[0].size[p] = 100 + (size_t)p;
	}
	group_post(&g, 0, g.most);
	group_pass(&g, 0, order);
	check_lane_close(ctx, &g.lane);
}

/* C64 */
static void group_after_group(struct check_ctx *ctx)
{
	static const int order[] = {0, 1};
	void *early = NULL;
	uint64_t since;
	struct groups g;
	int size;

	groups_open(&g, ctx, 2);
	for (int i = 0; i < GROUPS; i++) {
		for (int p = 0; p < 2; p++) {
			g.group[i].tag[p] = 10 * (i + 1) + p;
			g.group[i].size[p] = 500 + (size_t)(100 * i + p);
		}
		group_post(&g, i, 2);
	}
	check_barrier(ctx);
	/* A message for the second receive, tried while the first has none. */
	since = host_now_ns();
	do {
		early = part_send(&g, 1, 0);
		for (int i = 0; i < GROUPS; i++) {
			group_test(&g, i);
			check_need(ctx, !g.group[i].got,
				   "expected receives that lack messages to wait, saw number %d "
				   "done",
				   i);
		}
		check_tick(ctx, since, "a message for the second receive");
	} while (!early && host_now_ns() - since < 50000000);
	check_barrier(ctx);
	group_pass(&g, 0, order);
	since = host_now_ns();
	if (early) {
		while (!check_test(ctx, early, &size)) {
			group_test(&g, 1);
			check_tick(ctx, since, "the early message to end");
		}
		while (!(early = part_send(&g, 1, 1)))
			check_tick(ctx, since, "the last message to start");
		for (bool put = false; !put || !g.group[1].got; check_tick(ctx, since, "the end")) {
			put = put || check_test(ctx, early, &size);
			group_test(&g, 1);
		}
		for (int p = 0; p < 2; p++)
			part_verify(&g, &g.group[1], p);
		check_report(ctx, "a send whose tag is not in the first receive is accepted and "
				  "arrives where it belongs");
	} else {
		group_pass(&g, 1, order);
	}
	check_lane_close(ctx, &g.lane);
}

/* C65 */
static void hint_is_no_pointer(struct check_ctx *ctx)
{
	struct check_lane lane;
	int early = 0, rounds = 20;

	check_lane_open(ctx, &lane, 4096);
	for (int r = 0; r < rounds; r++) {
		struct check_end *to = &lane.link.send, *from = &lane.link.recv;
		uint64_t key = payload_key(ctx->self->rank, to->peer, 5, (uint64_t)r);
		uint64_t want = payload_key(from->peer, ctx->self->rank, 5, (uint64_t)r);
		int tag = check_tag(ctx, from), sizes[NCCL_NET_TEST_SIZES] = {0};
		void *recv = NULL, *send = NULL, *addr = lane.in.addr;
		size_t room = 4096, first = 0;
		bool put = false, got = false;
		uint64_t since = host_now_ns();

		payload_fill(lane.out.addr, 1024, key);
		payload_stamp(lane.out.addr, 1024, key);
		memset(addr, PAYLOAD_POISON, room);
		while (!recv) {
			recv = NCCL_NET_EARLY_RECV_HINT;
			check_irecv_group(ctx, from, 1, &addr, &room, &tag, &lane.in_mh, &recv);
			check_need(ctx, recv != NCCL_NET_EARLY_RECV_HINT,
				   "expected a request or NULL, saw the hint left in *request");
			check_tick(ctx, since, "a receive with the hint to start");
		}
		/* Nothing is sent yet. */
		got = check_test(ctx, recv, sizes);
		early += got;
		check_barrier(ctx);
		for (; !put || !got; check_tick(ctx, since, "a message with the hint")) {
			if (!send)
				send = check_isend(ctx, to, lane.out.addr, 1024, check_tag(ctx, to),
						   lane.out_mh);
			else if (!put)
				put = check_test(ctx, send, NULL);
			got = got || check_test(ctx, recv, sizes);
		}
		/* The consumer looks for itself; others are tested meanwhile, as this one is not.
		 */
		while (payload_check(addr, 1024, want, want, &first))
			check_tick(ctx, since, "the data of a receive that was done early");
		check_barrier(ctx);
	}
	if (early)
		check_report(ctx, "%d of %d receives with the hint were done before their message",
			     early, rounds);
	check_lane_close(ctx, &lane);
}

static void flush(struct groups *g, const struct group *q, int n)
{
	struct check_ctx *ctx = g->ctx;
	void *request = NULL, *mh[PARTS];
	uint64_t since = host_now_ns();
	int sizes[PARTS];

	for (int p = 0; p < q->n; p++) {
		sizes[p] = q->sizes[p];
		mh[p] = g->lane.in_mh;
	}
	host_entering(ctx->self, HOST_PROGRESS, "iflush");
	check_ok(ctx,
		 ctx->net->iflush(g->lane.link.recv.comm, n, (void **)q->at, sizes, mh, &request),
		 "iflush");
	while (request && !check_test(ctx, request, NULL))
		check_tick(ctx, since, "a flush to end");
}

/* C71 */
static void flushes(struct check_ctx *ctx)
{
	int order[PARTS], n;
	struct groups g;

	groups_open(&g, ctx, 1);
	for (uint64_t r = 0; r < 40; r++) {
		struct group *q = &g.group[0];

		n = r % 2 ? g.most : 1;
		permute(order, n, r);
		for (int p = 0; p < n; p++) {
			q->tag[p] = n == 1 ? check_tag(ctx, &g.lane.link.recv) : 1000 + p;
			q->size[p] = p && r % 3 ? 0 : 1 + part_size(r, p) / 2;
		}
		group_post(&g, 0, n);
		/* With one part the tag is the sender's rank, which is another at this end. */
		if (n == 1)
			q->tag[0] = check_tag(ctx, &g.lane.link.send);
		group_pass(&g, 0, order);
		flush(&g, q, n);
		for (int p = 0; p < n; p++)
			part_verify(&g, q, p);
		g.serial += GROUPS;
	}
	check_lane_close(ctx, &g.lane);
}

const struct check group_checks[] = {
	{
		.id = "C63",
		.group = "data",
		.title = "a receive of several parts takes messages by tag, in any order of theirs",
		.rule = "src/transport/net.cc: recvProxyProgress groups what shares a comm",
		.run = parts_by_tag,
		.flags = CHECK_RANKS,
		.min_abi = 9,
	},
	{
		.id = "C64",
		.group = "data",
		.title = "a message whose tag is in a later receive waits, or gets there all the "
			 "same",
		.rule = "src/transport/net_ib: the first receive is completed before the next",
		.run = group_after_group,
		.flags = CHECK_RANKS,
		.min_abi = 9,
	},
	{
		.id = "C65",
		.group = "data",
		.title = "the hint in *request of irecv is taken for no pointer",
		.rule = "NCCL_NET_OPTIONAL_RECV_COMPLETION, NCCL 2.24: LL and LL128 preset it",
		.run = hint_is_no_pointer,
		.flags = CHECK_RANKS,
		.min_abi = 9,
	},
	{
		.id = "C71",
		.group = "data",
		.title = "a flush of one part or all, empty ones too, ends and changes no data",
		.rule = "src/transport/net.cc: iflush with *request NULL, then test with sizes "
			"NULL",
		.run = flushes,
		.flags = CHECK_RANKS,
	},
	{0},
};
