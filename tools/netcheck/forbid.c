/* SPDX-License-Identifier: BSD-3-Clause */
/* Which protocols a plugin forbids NCCL. */
#include "forbid.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/log.h"
#include "nccl_tuner_abi.h"

/* NCCL's, of 2.22 to 2.30. */
enum { ALGOS = 7, PROTOS = 3, ALLREDUCE = 4 };

/* "LL,Simple" or "^LL128" */
static bool listed(const char *value, const char *name)
{
	bool but = *value == '^';
	size_t len;

	for (value += but; *value; value += len + (value[len] == ',')) {
		len = strcspn(value, ",");
		if (strlen(name) == len && !strncasecmp(value, name, len))
			return !but;
	}
	return but;
}

/* Does @get leave no algorithm of protocol @proto between two nodes? */
static bool costs_forbid(enum nccl_net_result (*get)(void *ctx, int coll, size_t nbytes,
						     int npipe_ops, float **costs, int nalgos,
						     int nprotos, int reg_buff, int *nchannels),
			 void *tuner, int proto)
{
	float cost[ALGOS][PROTOS];
	int nchannels = 0;

	for (int a = 0; a < ALGOS; a++)
		cost[a][0] = cost[a][1] = cost[a][2] = 1;
	if (get(tuner, ALLREDUCE, 1 << 20, 1, (float **)cost, ALGOS, PROTOS, 0, &nchannels))
		return false;
	for (int a = 0; a < ALGOS; a++) {
		if (cost[a][proto] >= 0)
			return false;
	}
	return true;
}

/* From NCCL 2.26 on the tuner in the net plugin's library is asked. */
static bool tuner_forbids(struct check_ctx *ctx, int proto)
{
	const struct nccl_tuner_v5 *v5 = dlsym(ctx->net->dl, "ncclTunerPlugin_v5");
	const struct nccl_tuner_v4 *v4 = dlsym(ctx->net->dl, "ncclTunerPlugin_v4");
	void *tuner = NULL;
	bool forbids;

	if (v5 && !v5->init(&tuner, 1, 2, 2, host_nccl_log, NULL, NULL)) {
		forbids = costs_forbid(v5->get_coll_info, tuner, proto);
		v5->finalize(tuner);
		return forbids;
	}
	if (v4 && !v4->init(2, 2, host_nccl_log, &tuner)) {
		forbids = costs_forbid(v4->get_coll_info, tuner, proto);
		v4->destroy(tuner);
		return forbids;
	}
	return false;
}

const char *forbid_by(struct check_ctx *ctx, const char *name, int proto)
{
	const char *value = getenv("NCCL_PROTO");

	if (value && !listed(value, name))
		return "NCCL_PROTO";
	return tuner_forbids(ctx, proto) ? "the plugin's tuner" : NULL;
}
