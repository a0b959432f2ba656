/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel is to do: for each of its blocks a list of batches of works. */
#ifndef TESTS_NCCL_DEVICE_WORK_H
#define TESTS_NCCL_DEVICE_WORK_H

#include <vector>

#include "block.h"
#include "func.h"
#include "reduce.h"

struct batch {
	const struct func *func;
	enum ncclDevWorkType type;
	/* One of them has the works. */
	std::vector<struct ncclDevWorkColl> colls;
	std::vector<struct ncclDevWorkP2p> p2ps;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
	std::vector<struct ncclDevWorkBcast> bcasts;
#endif
	size_t nworks;
	int next; /* -1: the last one */
};

/* The batch at @ix of the kernel's; false and a failure if it is not one. */
bool batch_read(struct batch *b, const struct ncclDevKernelArgs *args, size_t arg_bytes, int ix);
/* Can it be done? False and a failure if not. */
bool batch_check(const struct batch *b);
void batch_run(const struct block *block, struct batch *b);

/* The part of a collective that a channel has, in elements. */
struct part {
	ssize_t count;          /* of all channels: of a rank's data */
	ssize_t offset, length; /* of this one */
	ssize_t chunk;
};

struct part part_of(const struct block *block, const struct ncclDevWorkColl *work, int proto,
		    size_t size);

/* One work of a collective, done by one algorithm. */
struct job {
	const struct block *block;
	const struct ncclDevWorkColl *work;
	const struct func *func;
	struct reduction red;
	struct part part;
};

void ring_all_reduce(const struct job *job);
void ring_all_gather(const struct job *job);
void ring_reduce_scatter(const struct job *job);
void ring_broadcast(const struct job *job);
void ring_reduce(const struct job *job);
void tree_all_reduce(const struct job *job);
void pat_all_gather(const struct job *job);
void pat_reduce_scatter(const struct job *job);

void send_recv(const struct block *block, const std::vector<struct ncclDevWorkP2p> &works);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
void broadcasts(const struct block *block, int proto, std::vector<struct ncclDevWorkBcast> works);
#endif

#endif
