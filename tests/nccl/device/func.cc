/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of device functions, from NCCL's own table. */
#include "func.h"

#include <map>
#include <vector>

/*
 * ncclDevFuncId() gives the number of a function; what it does not know it counts to a neighbour's
 * row, so only what generate.py lists may be asked.
 */
struct kind {
	ncclFunc_t coll;
	std::vector<int> algos;
	bool reduces;
};

static const std::vector<struct kind> kinds = {
	{ncclFuncSendRecv, {NCCL_ALGO_RING}, false},
	{ncclFuncAllGather,
	 {NCCL_ALGO_RING, NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_NVLS, NCCL_ALGO_PAT},
	 false},
	{ncclFuncBroadcast, {NCCL_ALGO_RING}, false},
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
	{ncclFuncAllGatherV, {NCCL_ALGO_RING}, false},
#endif
	{ncclFuncAllReduce,
	 {NCCL_ALGO_TREE, NCCL_ALGO_RING, NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN,
	  NCCL_ALGO_NVLS, NCCL_ALGO_NVLS_TREE},
	 true},
	{ncclFuncReduce, {NCCL_ALGO_RING}, true},
	{ncclFuncReduceScatter,
	 {NCCL_ALGO_RING, NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_NVLS, NCCL_ALGO_PAT},
	 true},
};

using table = std::map<int, struct func>;

static void add(table *funcs, const struct func &f)
{
	int id = ncclDevFuncId(f.coll, f.op, f.type, f.algo, f.proto);

	/* Signed integers share the functions of unsigned ones, whose types come after theirs. */
	if (id >= 0)
		(*funcs)[id] = f;
}

static table make(void)
{
	table funcs;

	for (const struct kind &k : kinds)
		for (int algo : k.algos)
			for (int proto = 0; proto < NCCL_NUM_PROTOCOLS; proto++) {
				if (!k.reduces)
					add(&funcs, {k.coll, ncclDevSum, ncclUint8, algo, proto});
				for (int op = 0; k.reduces && op < ncclNumDevRedOps; op++)
					for (int type = 0; type < ncclNumTypes; type++)
						add(&funcs, {k.coll, op, type, algo, proto});
			}
	return funcs;
}

const struct func *func_find(int id)
{
	/* NCCL launches kernels from atexit(), so it is never destroyed. */
	static const table &funcs = *new table(make());
	auto found = funcs.find(id);

	return found == funcs.end() ? NULL : &found->second;
}
