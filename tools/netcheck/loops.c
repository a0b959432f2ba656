/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's patterns of traffic, each by its progress loop. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "forbid.h"
#include "loop.h"
#include "nccl_tuner_abi.h"

enum {
	CHANNELS = 2,
	LL_BYTES = PLAN_STEPS * (64 << 10),
	LL128_BYTES = PLAN_STEPS * 614400,
	SIMPLE_BYTES = PLAN_STEPS * (512 << 10),
};

/* Buffers of one connection: consecutive parts of one mapping, each registered. */
struct buffers {
	struct host_guard all;
	void *mhandle[3]; /* by enum plan_proto */
	const struct check_end *end;
};

struct mesh {
	struct loop l;
	struct check_link link[HOST_MAX_RANKS];
	int nlinks;
	struct buffers buffers[LOOP_SUBS];
	int nbuffers;
	/* Of senders and receivers, for all connections. */
	struct host_guard pool[2];
	void *pool_mh[2 * HOST_MAX_RANKS];
	const struct check_end *pool_end[2 * HOST_MAX_RANKS];
	int npools;
};

static struct mesh *mesh_new(struct check_ctx *ctx, uint64_t count)
{
	struct mesh *m = calloc(1, sizeof(*m));
	struct nccl_net_props_v12 props;

	if (!m)
		check_skip(ctx, "no memory for %zu bytes", sizeof(*m));
	check_ok(ctx, ctx->net->get_properties(ctx->net, ctx->dev, &props), "getProperties");
	m->l.ctx = ctx;
	m->l.count = count;
	m->l.max_recvs = props.max_recvs;
	return m;
}

/* In NCCL's order: registrations, memory, connections. */
static void mesh_free(struct mesh *m)
{
	struct check_ctx *ctx = m->l.ctx;

	for (int i = 0; i < m->nbuffers; i++) {
		struct buffers *b = &m->buffers[i];

		for (int p = 0; p < 3; p++)
			check_dereg(ctx, b->end, b->mhandle[p]);
		check_buf_fini(ctx, &b->all, "a connection's buffers");
	}
	for (int i = 0; i < m->npools; i++)
		check_dereg(ctx, m->pool_end[i], m->pool_mh[i]);
	for (int i = 0; i < 2 && m->npools; i++)
		check_buf_fini(ctx, &m->pool[i], "a pool");
	for (int i = 0; i < m->nlinks; i++)
		check_disconnect(ctx, &m->link[i]);
	free(m);
}

static struct check_link *mesh_link(struct mesh *m, int shift)
{
	int rank = m->l.ctx->self->rank, n = m->l.ctx->self->nranks;
	struct check_link *link = &m->link[m->nlinks++];

	check_connect(m->l.ctx, link, (rank + shift) % n, (rank + n - shift) % n);
	return link;
}

/* To all others, and from them: by distance. */
static void mesh_all(struct mesh *m)
{
	if (m->l.ctx->self->nranks < 2)
		check_skip(m->l.ctx, "a pattern of several ranks");
	for (int shift = 1; shift < m->l.ctx->self->nranks; shift++)
		mesh_link(m, shift);
}

static struct loop_sub *sub_add(struct mesh *m, const struct plan *plan,
				const struct check_end *end, int channel)
{
	struct loop_sub *sub = &m->l.sub[m->l.nsubs];

	check_need(m->l.ctx, m->l.nsubs < LOOP_SUBS, "expected at most %d subs, saw more",
		   LOOP_SUBS);
	sub->end = end;
	sub->plan = plan;
	sub->channel = channel;
	sub->tag = check_tag(m->l.ctx, end);
	sub->group = m->l.nsubs++;
	return sub;
}

/* A connection of a ring or a tree, with buffers of its own. */
static struct loop_sub *sub_own(struct mesh *m, const struct plan *plan,
				const struct check_end *end, int channel)
{
	static const size_t at[] = {LL_BYTES + LL128_BYTES, 0, LL_BYTES};
	static const size_t bytes[] = {SIMPLE_BYTES, LL_BYTES, LL128_BYTES};
	struct loop_sub *sub = sub_add(m, plan, end, channel);
	struct buffers *b = &m->buffers[m->nbuffers++];

	b->end = end;
	check_buf_init(m->l.ctx, &b->all, LL_BYTES + LL128_BYTES + SIMPLE_BYTES);
	for (int p = 0; p < 3; p++)
		b->mhandle[p] = check_reg(m->l.ctx, end, b->all.addr + at[p], bytes[p]);
	sub->slots = b->all.addr + at[plan->proto];
	sub->mhandle = b->mhandle[plan->proto];
	sub->stride = plan->step * (size_t)plan->slice;
	sub->depth = loop_depth(plan, 1);
	return sub;
}

/* ---- rings ---- */

static void ring(struct check_ctx *ctx, const struct plan *plan, uint64_t count)
{
	struct mesh *m = mesh_new(ctx, count);

	for (int c = 0; c < CHANNELS; c++) {
		struct check_link *link = &m->link[m->nlinks++];

		check_ring(ctx, link);
		sub_own(m, plan, &link->send, c);
		sub_own(m, plan, &link->recv, c);
	}
	loop_run(&m->l);
	mesh_free(m);
}

/* C82 */
static void ring_simple(struct check_ctx *ctx)
{
	ring(ctx, &plan_ring, check_scale(ctx, 24, 1000));
}

/* ---- LL and LL128 ---- */

/* What a plugin forbids it need not do. */
static void lines(struct check_ctx *ctx, const struct plan *plan, int proto, uint64_t count)
{
	const char *by = forbid_by(ctx, plan->name, proto);

	if (by)
		check_report(ctx, "%s is forbidden, by %s", plan->name, by);
	else
		ring(ctx, plan, count);
}

/* C68 */
static void ring_ll(struct check_ctx *ctx)
{
	/* 10^7 lines: 3000 of up to 4096, on either channel. */
	lines(ctx, &plan_ll, NCCL_TUNER_PROTO_LL, check_scale(ctx, 60, 3000));
}

/* C69 */
static void ring_ll128(struct check_ctx *ctx)
{
	lines(ctx, &plan_ll128, NCCL_TUNER_PROTO_LL128, check_scale(ctx, 20, 2500));
}

/* ---- trees ---- */

static bool is_edge(int child, int parent)
{
	return child > 0 && (child - 1) / 2 == parent;
}

/* C83: up and down at once, each node with its parent and two children. */
static void tree(struct check_ctx *ctx)
{
	struct mesh *m = mesh_new(ctx, check_scale(ctx, 24, 1000));
	int rank = ctx->self->rank;

	mesh_all(m);
	for (int i = 0; i < m->nlinks; i++) {
		struct check_link *link = &m->link[i];

		if (is_edge(rank, link->send.peer) || is_edge(link->send.peer, rank))
			sub_own(m, &plan_tree, &link->send, 0);
		if (is_edge(rank, link->recv.peer) || is_edge(link->recv.peer, rank))
			sub_own(m, &plan_tree, &link->recv, 0);
	}
	loop_run(&m->l);
	mesh_free(m);
}

/* ---- send and receive, from pools ---- */

static void pool_open(struct mesh *m, int subs, const struct plan *plan)
{
	size_t bytes = (size_t)(subs * loop_depth(plan, subs)) * plan->step;

	for (int i = 0; i < 2; i++)
		check_buf_init(m->l.ctx, &m->pool[i], bytes);
}

/* Sub @nth of @subs, in slots (message % depth) * subs + nth of the pool. */
static void sub_pool(struct mesh *m, const struct plan *plan, const struct check_end *end, int nth,
		     int subs)
{
	struct loop_sub *sub = sub_add(m, plan, end, 0);
	struct host_guard *pool = &m->pool[!end->sender];

	sub->mhandle = check_reg(m->l.ctx, end, pool->addr, pool->size);
	m->pool_mh[m->npools] = sub->mhandle;
	m->pool_end[m->npools++] = end;
	sub->slots = pool->addr + (size_t)nth * plan->step;
	sub->stride = (size_t)subs * plan->step;
	sub->depth = loop_depth(plan, subs);
}

/* C84 */
static void all_to_all(struct check_ctx *ctx)
{
	struct mesh *m = mesh_new(ctx, check_scale(ctx, 60, 5000));
	int subs;

	mesh_all(m);
	subs = m->nlinks;
	pool_open(m, subs, &plan_p2p);
	for (int i = 0; i < subs; i++) {
		sub_pool(m, &plan_p2p, &m->link[i].send, i, subs);
		sub_pool(m, &plan_p2p, &m->link[i].recv, i, subs);
	}
	loop_run(&m->l);
	mesh_free(m);
}

/* C85: all send to rank 0. */
static void incast(struct check_ctx *ctx)
{
	struct mesh *m = mesh_new(ctx, check_scale(ctx, 60, 5000));
	int subs;

	mesh_all(m);
	subs = ctx->self->rank ? 1 : m->nlinks;
	pool_open(m, subs, &plan_p2p);
	for (int i = 0; i < m->nlinks; i++) {
		if (!ctx->self->rank)
			sub_pool(m, &plan_p2p, &m->link[i].recv, i, subs);
		else if (!m->link[i].send.peer)
			sub_pool(m, &plan_p2p, &m->link[i].send, 0, subs);
	}
	loop_run(&m->l);
	mesh_free(m);
}

/*
 * C86: two communicators of the same ranks, one of which shares the resources of the other: with
 * maxRecvs above 1 the comms, too, and their messages go by tag.
 */
static void split_share(struct check_ctx *ctx)
{
	struct mesh *m = mesh_new(ctx, check_scale(ctx, 100, 10000));
	bool one = m->l.max_recvs > 1 && ctx->abi >= 9;
	struct check_link *link = NULL;
	int at;

	pool_open(m, 2, &plan_p2p);
	for (int i = 0; i < 2; i++) {
		if (!link || !one) {
			link = &m->link[m->nlinks++];
			check_ring(ctx, link);
		}
		at = m->l.nsubs;
		sub_pool(m, &plan_p2p, &link->send, i, 2);
		sub_pool(m, &plan_p2p, &link->recv, i, 2);
		for (int s = at; s < m->l.nsubs; s++) {
			struct loop_sub *sub = &m->l.sub[s];

			sub->channel = i;
			sub->tag = 2 * sub->tag + i;
			sub->group = one ? 0 : s;
		}
	}
	loop_run(&m->l);
	mesh_free(m);
}

const struct check loop_checks[] = {
	{
		.id = "C68",
		.group = "loop",
		.title = "lines of LL have their data when their flags show, polled in the buffer",
		.rule = "src/device/prims_ll.h: the GPU polls flags, whatever test says",
		.run = ring_ll,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C69",
		.group = "loop",
		.title = "lines of LL128 have their data when their flag shows, or LL128 is "
			 "forbidden",
		.rule = "src/device/prims_ll128.h: the GPU polls the last 8 of 128 bytes",
		.run = ring_ll128,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C82",
		.group = "loop",
		.title = "a ring's slices of Simple pass the progress loop",
		.rule = "src/transport/net.cc: two steps of 512 KiB a message",
		.run = ring_simple,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C83",
		.group = "loop",
		.title = "a tree's steps pass the progress loop, up and down at once",
		.rule = "src/transport/net.cc: a step of 512 KiB a message, up to 8 under way",
		.run = tree,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C84",
		.group = "loop",
		.title = "all ranks send to all from one pool",
		.rule = "src/transport/net.cc: NCCL_NET_SHARED_BUFFERS, 16 slots a channel for all "
			"subs",
		.run = all_to_all,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C85",
		.group = "loop",
		.title = "all ranks send to one",
		.rule = "src/transport/net.cc: subs of one operation, from all peers",
		.run = incast,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C86",
		.group = "loop",
		.title = "two communicators share one comm, by tags, or have one each",
		.rule = "src/transport/net.cc: NCCL_NET_SHARED_COMMS; splitShare",
		.run = split_share,
		.flags = CHECK_RANKS,
	},
	{0},
};
