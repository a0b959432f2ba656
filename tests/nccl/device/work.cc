/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of works: where they are, whether they can be done, who does them. */
#include "work.h"

#include <string.h>

#include "prims.h"

/* ---- reading ---- */

/* Works lie behind the batches, or in a ring in memory that wraps at any 16 bytes. */
template <typename T> static T read_work(const struct ncclDevKernelArgs *args, uint32_t offset)
{
	bool here = args->workStorageType == ncclDevWorkStorageTypeArgs;
	T work;

	for (size_t at = 0; at < sizeof(work); at += 16) {
		const char *from =
			here ? (const char *)args + offset + at
			     : (const char *)args->workBuf + ((offset + at) & args->workMask);

		memcpy((char *)&work + at, from, 16);
	}
	return work;
}

static bool add_work(struct batch *b, const struct ncclDevKernelArgs *args, uint32_t offset)
{
	switch (b->type) {
	case ncclDevWorkTypeP2p:
		b->p2ps.push_back(read_work<struct ncclDevWorkP2p>(args, offset));
		return true;
	case ncclDevWorkTypeColl:
		b->colls.push_back(read_work<struct ncclDevWorkColl>(args, offset));
		return true;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
	case ncclDevWorkTypeBcast:
		b->bcasts.push_back(read_work<struct ncclDevWorkBcast>(args, offset));
		return true;
#endif
	default:
		return fail("works of type %d (registered with NVLS or CollNet?)", b->type);
	}
}

static bool add_works(struct batch *b, const struct ncclDevKernelArgs *args, size_t arg_bytes,
		      const struct ncclDevWorkBatch *at)
{
	size_t size = ncclDevWorkSize(b->type);

	for (int i = 0; i < 64; i++) {
		uint32_t offset = at->offsetBase + i * size;

		if (!(at->offsetBitset >> i & 1))
			continue;
		if (args->workStorageType == ncclDevWorkStorageTypeArgs &&
		    offset + size > arg_bytes)
			return fail("a work at %u of %zu bytes of arguments", offset, arg_bytes);
		if (!add_work(b, args, offset))
			return false;
		b->nworks++;
	}
	return true;
}

bool batch_read(struct batch *b, const struct ncclDevKernelArgs *args, size_t arg_bytes, int ix)
{
	const struct ncclDevWorkBatch *all = (const struct ncclDevWorkBatch *)(args + 1), *at;

	*b = {};
	for (;; ix += at->nextJump) {
		at = &all[ix];
		if ((const char *)(at + 1) > (const char *)args + arg_bytes)
			return fail("batch %d of %zu bytes of arguments", ix, arg_bytes);
		b->type = (enum ncclDevWorkType)at->workType;
		b->func = func_find(at->funcId);
		if (!b->func)
			return fail("device function %u", (unsigned)at->funcId);
		if (!add_works(b, args, arg_bytes, at))
			return false;
		if (!at->nextExtends)
			break;
		if (!at->nextJump)
			return fail("batch %d goes on nowhere", ix);
	}
	b->next = at->nextJump ? ix + (int)at->nextJump : -1;
	return true;
}

/* ---- who does what ---- */

static const struct doer {
	ncclFunc_t coll;
	int algo;
	void (*run)(const struct job *job);
} doers[] = {
	{ncclFuncAllReduce, NCCL_ALGO_RING, ring_all_reduce},
	{ncclFuncAllReduce, NCCL_ALGO_TREE, tree_all_reduce},
	{ncclFuncAllGather, NCCL_ALGO_RING, ring_all_gather},
	{ncclFuncAllGather, NCCL_ALGO_PAT, pat_all_gather},
	{ncclFuncReduceScatter, NCCL_ALGO_RING, ring_reduce_scatter},
	{ncclFuncReduceScatter, NCCL_ALGO_PAT, pat_reduce_scatter},
	{ncclFuncBroadcast, NCCL_ALGO_RING, ring_broadcast},
	{ncclFuncReduce, NCCL_ALGO_RING, ring_reduce},
};

static const struct doer *doer_of(const struct func *f)
{
	for (const struct doer &d : doers)
		if (d.coll == f->coll && d.algo == f->algo)
			return &d;
	return NULL;
}

static bool find_reduction(const struct func *f, struct reduction *red)
{
	*red = reduction_none();
	return (f->coll != ncclFuncAllReduce && f->coll != ncclFuncReduceScatter &&
		f->coll != ncclFuncReduce) ||
	       reduction_find(red, f->op, f->type);
}

static bool check_coll(const struct batch *b)
{
	const struct func *f = b->func;
	struct reduction red;

	if (!doer_of(f))
		return fail("%s by %s", ncclFuncToString(f->coll), ncclAlgoToString(f->algo));
	if (!find_reduction(f, &red))
		return fail("%s: operation %s on %s", ncclFuncToString(f->coll),
			    ncclDevRedOpToString((ncclDevRedOp_t)f->op),
			    ncclDatatypeToString((ncclDataType_t)f->type));
	for (const struct ncclDevWorkColl &work : b->colls)
		if (work.regUsed)
			return fail("%s in buffers that GPUs of the node share",
				    ncclFuncToString(f->coll));
	return true;
}

bool batch_check(const struct batch *b)
{
	if (b->type == ncclDevWorkTypeColl)
		return check_coll(b);
	for (const struct ncclDevWorkP2p &work : b->p2ps)
		if (work.sendIpcReg || work.recvIpcReg)
			return fail("send and recv in buffers that GPUs of the node share");
	return true;
}

/* ---- doing ---- */

struct part part_of(const struct block *block, const struct ncclDevWorkColl *work, int proto,
		    size_t size)
{
	struct part p;

	ncclCollCbdPart((struct ncclDevWorkColl *)work, block->id, proto, (int)size, &p.count,
			&p.offset, &p.length, &p.chunk);
	return p;
}

static uint64_t argument(const struct ncclDevWorkColl *work, size_t size)
{
	uint64_t arg = 0;

	if (!work->redOpArgIsPtr)
		return work->redOpArg;
	memcpy(&arg, (const void *)work->redOpArg, size);
	return arg;
}

static void run_coll(const struct block *block, const struct func *f,
		     const struct ncclDevWorkColl *work)
{
	struct job job = {block, work, f, {}, {}};

	find_reduction(f, &job.red);
	job.red.arg = argument(work, job.red.size);
	job.part = part_of(block, work, f->proto, job.red.size);
	doer_of(f)->run(&job);
}

void batch_run(const struct block *block, struct batch *b)
{
	switch (b->type) {
	case ncclDevWorkTypeP2p:
		send_recv(block, b->p2ps);
		break;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
	case ncclDevWorkTypeBcast:
		broadcasts(block, b->func->proto, b->bcasts);
		break;
#endif
	default:
		for (const struct ncclDevWorkColl &work : b->colls)
			run_coll(block, b->func, &work);
	}
}
