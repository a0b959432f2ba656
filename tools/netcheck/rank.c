/* SPDX-License-Identifier: BSD-3-Clause */
/* The process of a check: load, init, the body, finalize, unload, exit. */
#include "rank.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/log.h"
#include "rules.h"

/* NCCL serialises init and finalize. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;

static void ctx_init(struct check_ctx *ctx, const struct nk_ranks *ranks, struct host_rank *self,
		     struct host_net *net)
{
	*ctx = (struct check_ctx){
		.check = ranks->check,
		.opt = ranks->opt,
		.abi = ranks->abi,
		.net = net,
		.self = self,
		.note = &ranks->notes[self->rank],
		.random = ranks->opt->seed << 20 | (uint64_t)self->rank,
	};
	for (const char *at = ranks->check->id; *at; at++)
		ctx->random = ctx->random * 31 + (uint64_t)*at;
}

void check_load(struct check_ctx *ctx, int abi)
{
	host_entering(ctx->self, HOST_MAIN, "dlopen");
	if (host_net_open(ctx->net, ctx->opt->plugin, abi))
		check_fail(ctx, "expected a usable table of v%d, saw none", abi);
	host_entering(ctx->self, HOST_MAIN, NULL);
}

void check_unload(struct check_ctx *ctx)
{
	host_entering(ctx->self, HOST_MAIN, "dlclose");
	host_net_close(ctx->net);
	host_entering(ctx->self, HOST_MAIN, NULL);
}

enum nccl_net_result check_init(struct check_ctx *ctx, nccl_net_log_fn log, void **net_ctx)
{
	struct nccl_net_config config = {.traffic_class = NCCL_NET_TRAFFIC_CLASS_NONE};
	enum nccl_net_result rc;

	pthread_mutex_lock(&life);
	host_entering(ctx->self, HOST_MAIN, "init");
	rc = ctx->net->init(ctx->net, net_ctx, 1, &config, log, NULL);
	host_entering(ctx->self, HOST_MAIN, NULL);
	pthread_mutex_unlock(&life);
	return rc;
}

void check_finalize(struct check_ctx *ctx, void *net_ctx)
{
	enum nccl_net_result rc;

	pthread_mutex_lock(&life);
	host_entering(ctx->self, HOST_MAIN, "finalize");
	rc = ctx->net->finalize(ctx->net, net_ctx);
	host_entering(ctx->self, HOST_MAIN, NULL);
	pthread_mutex_unlock(&life);
	check_ok(ctx, rc, "finalize");
}

enum nccl_net_result check_try_begin(struct check_ctx *ctx, nccl_net_log_fn log)
{
	enum nccl_net_result rc = check_init(ctx, log, &ctx->net_ctx);

	if (rc)
		return rc;
	host_entering(ctx->self, HOST_MAIN, "devices");
	check_ok(ctx, ctx->net->devices(&ctx->ndev), "devices");
	host_entering(ctx->self, HOST_MAIN, NULL);
	if (ctx->ndev < 1)
		check_fail(ctx, "expected a device, saw %d", ctx->ndev);
	ctx->dev = ctx->self->rank % ctx->ndev;
	if (host_role_start(&ctx->service, "service"))
		check_skip(ctx, "no thread can be started");
	return NCCL_NET_OK;
}

void check_begin(struct check_ctx *ctx, nccl_net_log_fn log)
{
	check_ok(ctx, check_try_begin(ctx, log), "init");
}

void check_over(struct check_ctx *ctx)
{
	host_role_stop(&ctx->service);
	check_finalize(ctx, ctx->net_ctx);
}

static void play(struct check_ctx *ctx)
{
	bool bare = ctx->check->flags & CHECK_BARE;

	if (!bare)
		check_begin(ctx, host_nccl_log);
	/* What the harness saw is no merit of the check. */
	atomic_store(&ctx->note->expected, 0);
	ctx->check->run(ctx);
	if (!bare)
		check_over(ctx);
	host_entering(ctx->self, HOST_MAIN, "unload and exit handlers of the plugin");
	atomic_store(&ctx->note->state, CHECK_DONE);
}

static void *thread_main(void *arg)
{
	play(arg);
	return NULL;
}

static void play_threads(const struct nk_ranks *ranks, struct host_net *net)
{
	static struct check_ctx ctx[HOST_MAX_RANKS];
	static struct host_rank self[HOST_MAX_RANKS];
	pthread_t thread[HOST_MAX_RANKS];

	for (int r = 0; r < ranks->nranks; r++) {
		self[r] = host_boot_rank(ranks->boot, r, ranks->nranks, (int)ranks->opt->timeout);
		ctx_init(&ctx[r], ranks, &self[r], net);
	}
	for (int r = 0; r < ranks->nranks; r++) {
		if (pthread_create(&thread[r], NULL, thread_main, &ctx[r]))
			check_skip(&ctx[r], "no thread can be started");
	}
	for (int r = 0; r < ranks->nranks; r++)
		pthread_join(thread[r], NULL);
}

static void play_one(const struct nk_ranks *ranks, int rank, struct host_net *net)
{
	struct host_rank self =
		host_boot_rank(ranks->boot, rank, ranks->nranks, (int)ranks->opt->timeout);
	struct check_ctx ctx;

	ctx_init(&ctx, ranks, &self, net);
	play(&ctx);
}

/* Why not is said on stderr. */
static void net_load(const struct nk_ranks *ranks, int rank, struct host_net *net)
{
	struct check_ctx ctx = {.note = &ranks->notes[rank]};

	if (host_net_open(net, ranks->opt->plugin, ranks->abi))
		check_fail(&ctx, "expected the table of v%d, saw that it cannot be used",
			   ranks->abi);
}

void nk_ranks_play(const struct nk_ranks *ranks, int rank)
{
	struct host_net net = {0};
	bool bare = ranks->check->flags & CHECK_BARE;

	if (ranks->check->flags & CHECK_SOFTEFA)
		nk_rules_init();
	if (!bare)
		net_load(ranks, rank, &net);
	if (ranks->opt->threads && ranks->nranks > 1)
		play_threads(ranks, &net);
	else
		play_one(ranks, rank, &net);
	if (!bare)
		host_net_close(&net);
	exit(0);
}
