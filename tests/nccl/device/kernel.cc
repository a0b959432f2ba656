/* SPDX-License-Identifier: BSD-3-Clause */
/* A launch: a thread for each block, and NCCL's counters for its profiler. */
#include "../kernel.h"

#include <string.h>
#include <thread>
#include <time.h>
#include <vector>

#include "work.h"

static std::vector<bool> profiled(const struct batch *b)
{
	std::vector<bool> which;

	for (const struct ncclDevWorkP2p &work : b->p2ps)
		which.push_back(work.profilerEnabled);
	for (const struct ncclDevWorkColl &work : b->colls)
		which.push_back(work.profilerEnabled);
	return which;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

static void stamp(const struct block *b, struct ncclDevProfiler *when, const struct batch *batch)
{
	uint64_t nth = b->channel->workCounter;

	for (bool wanted : profiled(batch)) {
		auto *slot = &when[b->id].data[++nth % MAX_PROFILER_EVENTS_PER_CHANNEL];

		if (!wanted)
			continue;
		__atomic_store_n(&slot->timestamp, now_ns(), __ATOMIC_RELAXED);
		__atomic_store_n(&slot->counter, nth, __ATOMIC_RELEASE);
	}
}

/* The n-th of the channels in the mask; -1: it has not so many. */
static int channel_of(uint64_t mask, unsigned n)
{
	for (int c = 0; c < MAXCHANNELS; c++)
		if (mask >> c & 1 && n-- == 0)
			return c;
	return -1;
}

static void run_block(const struct ncclDevKernelArgs *args, int channel,
		      std::vector<struct batch> *batches)
{
	struct block b = {args, args->comm, &block_home(args)->channels[channel], channel};

	for (struct batch &batch : *batches) {
		if (block_aborted(&b))
			return;
		stamp(&b, b.comm->workStarted, &batch);
		batch_run(&b, &batch);
		stamp(&b, b.comm->workCompleted, &batch);
		b.channel->workCounter += batch.nworks;
	}
}

/* All that the blocks are to do, read and checked before any of them begins. */
static bool plan(const struct kernel_launch *launch, std::vector<std::vector<struct batch>> *todo)
{
	const struct ncclDevKernelArgs *args = (const struct ncclDevKernelArgs *)launch->args;

	for (unsigned i = 0; i < launch->grid; i++) {
		std::vector<struct batch> batches;

		if (channel_of(args->channelMask, i) < 0)
			return fail("%s: %u blocks, channels 0x%llx", launch->name, launch->grid,
				    (unsigned long long)args->channelMask);
		for (int ix = i; ix >= 0; ix = batches.back().next) {
			batches.emplace_back();
			if (!batch_read(&batches.back(), args, launch->arg_bytes, ix) ||
			    !batch_check(&batches.back()))
				return false;
		}
		todo->push_back(batches);
	}
	return true;
}

const char *kernel_run(const struct kernel_launch *launch)
{
	const struct ncclDevKernelArgs *args = (const struct ncclDevKernelArgs *)launch->args;
	std::vector<std::vector<struct batch>> todo;
	std::vector<std::thread> blocks;

	if (!strstr(launch->name, "ncclDevKernel_")) {
		fail("the kernel %s is not interpreted", launch->name);
		return failure();
	}
	if (launch->arg_bytes < sizeof(*args)) {
		fail("%s: %zu bytes of arguments", launch->name, launch->arg_bytes);
		return failure();
	}
	if (!plan(launch, &todo))
		return failure();
	for (unsigned i = 0; i < launch->grid; i++)
		blocks.emplace_back(run_block, args, channel_of(args->channelMask, i), &todo[i]);
	for (std::thread &block : blocks)
		block.join();
	return failure();
}
