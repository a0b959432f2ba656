/* SPDX-License-Identifier: BSD-3-Clause */
/* A block of a kernel: all of the GPU that NCCL gives to one channel. */
#ifndef TESTS_NCCL_DEVICE_BLOCK_H
#define TESTS_NCCL_DEVICE_BLOCK_H

#include "collectives.h"
#include "device.h"

struct block {
	const struct ncclDevKernelArgs *args;
	const struct ncclKernelComm *comm;
	struct ncclDevChannel *channel;
	int id; /* of the channel */
};

struct ncclKernelCommAndChannels *block_home(const struct ncclDevKernelArgs *args);

/*
 * Waiting for a peer or a proxy: while (what is awaited is not there && wait.more()). The
 * processors are few and those that wait many, so it sleeps soon. False: the communicator is
 * being aborted, and the block must end without what it waited for.
 */
class patience
{
      public:
	explicit patience(const struct block *b) : block(b)
	{
	}
	bool more();

      private:
	const struct block *block;
	unsigned turns = 0;
};

static inline bool block_aborted(const struct block *b)
{
	return __atomic_load_n(b->comm->abortFlag, __ATOMIC_RELAXED) != 0;
}

/* The first of all reasons of the process stays; always false. */
bool fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* NULL: none so far. */
const char *failure(void);

#endif
