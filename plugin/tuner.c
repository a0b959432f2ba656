/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's tuner interface, to forbid protocols that need an order which the NIC does not keep
 * (order.h). All else is left to NCCL.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_tuner_abi.h"
#include "net.h"
#include "order.h"

static char forbids; /* the context of communicators for which it does */

static bool on(const char *env)
{
	const char *value = getenv(env);

	return value && strcmp(value, "0") != 0;
}

/* Within a node NCCL uses no network, unless it is kept from the rest. */
static void *context_for(size_t nnodes)
{
	bool network = nnodes > 1 || on("NCCL_P2P_DISABLE") || on("NCCL_SHM_DISABLE");

	return network && net_order_forbids() ? &forbids : NULL;
}

static enum nccl_net_result init_v3(size_t nranks, size_t nnodes, nccl_net_log_fn log, void **ctx)
{
	(void)nranks;
	(void)log;
	*ctx = context_for(nnodes);
	return NCCL_NET_OK;
}

static enum nccl_net_result init_v5(void **ctx, uint64_t comm_id, size_t nranks, size_t nnodes,
				    nccl_net_log_fn log, void *nvl_domain, void *constants)
{
	(void)comm_id;
	(void)nvl_domain;
	(void)constants;
	return init_v3(nranks, nnodes, log, ctx);
}

/* Without any choice but those the user has forced them: that was warned of. */
static void forbid(float *cost, int nalgos, int nprotos)
{
	bool choice = false;

	for (int a = 0; a < nalgos; a++)
		choice |= cost[a * nprotos + NCCL_TUNER_PROTO_SIMPLE] >= 0;
	for (int a = 0; a < nalgos && choice; a++) {
		cost[a * nprotos + NCCL_TUNER_PROTO_LL] = NCCL_TUNER_FORBIDDEN;
		cost[a * nprotos + NCCL_TUNER_PROTO_LL128] = NCCL_TUNER_FORBIDDEN;
	}
}

static enum nccl_net_result coll_info_v4(void *ctx, int coll, size_t nbytes, int npipe_ops,
					 float **costs, int nalgos, int nprotos, int reg_buff,
					 int *nchannels)
{
	(void)coll;
	(void)nbytes;
	(void)npipe_ops;
	(void)reg_buff;
	(void)nchannels;
	if (ctx && nprotos > NCCL_TUNER_PROTO_SIMPLE)
		forbid((float *)costs, nalgos, nprotos);
	return NCCL_NET_OK;
}

static enum nccl_net_result coll_info_v3(void *ctx, int coll, size_t nbytes, int npipe_ops,
					 float **costs, int nalgos, int nprotos, int *nchannels)
{
	return coll_info_v4(ctx, coll, nbytes, npipe_ops, costs, nalgos, nprotos, 0, nchannels);
}

static enum nccl_net_result finalize(void *ctx)
{
	(void)ctx;
	return NCCL_NET_OK;
}

NET_EXPORT const struct nccl_tuner_v3 ncclTunerPlugin_v3 = {
	.name = NET_NAME, .init = init_v3, .get_coll_info = coll_info_v3, .destroy = finalize};

NET_EXPORT const struct nccl_tuner_v4 ncclTunerPlugin_v4 = {
	.name = NET_NAME, .init = init_v3, .get_coll_info = coll_info_v4, .destroy = finalize};

NET_EXPORT const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {
	.name = NET_NAME, .init = init_v5, .get_coll_info = coll_info_v4, .finalize = finalize};

NET_EXPORT const struct nccl_tuner_v6 ncclTunerPlugin_v6 = {
	.name = NET_NAME, .init = init_v5, .get_coll_info = coll_info_v4, .finalize = finalize};
