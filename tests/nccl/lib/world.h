/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of NCCL over the plugin: a process each, on hosts that NCCL takes for different ones, all
 * on the EFAs of one softefa. What fails in a rank fails the test.
 */
#ifndef TESTS_NCCL_WORLD_H
#define TESTS_NCCL_WORLD_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
	WORLD_RANKS = 8,
	WORLD_COMMS = 16,
	WORLD_ENV = 24,
	WORLD_LIMIT_MS = 120000, /* for all that ranks do; far more than any of it takes */
};

struct world {
	int nranks;
	int per_host;               /* GPUs and ranks of a host; 0: one */
	const char *softefa;        /* settings, or NULL */
	const char *env[WORLD_ENV]; /* of all ranks: NAME=VALUE */
};

struct rank {
	const struct world *world;
	int rank;
	ncclComm_t comm; /* of all ranks */
	cudaStream_t stream;
	unsigned calls; /* of collectives so far: the same in all ranks */
};

#define NCCL(call) world_nccl(__FILE__, __LINE__, #call, (call))
#define CUDA(call) world_cuda(__FILE__, __LINE__, #call, (call))
void world_nccl(const char *file, int line, const char *what, ncclResult_t rc);
void world_cuda(const char *file, int line, const char *what, cudaError_t rc);

typedef void rank_fn(struct rank *self);

/* All ranks run @fn with a communicator, destroy it and end well. */
void world_run(const struct world *w, rank_fn *fn);

/* The same apart: the ranks start with no communicator. */
void world_start(const struct world *w, rank_fn *fn);
void world_join(int rank);
void world_join_all(void);
void world_kill(int rank);

/* ---- in a rank ---- */

/* A communicator of all ranks, the @nth that they make. */
ncclComm_t rank_comm(struct rank *self, int nth);
/* What they make it of; rank 0 makes this itself. */
ncclUniqueId rank_id(struct rank *self, int nth);
/* All that was put into the stream is done, without an error. */
void rank_wait(struct rank *self);
/* Until the communicator reports an error, which is returned; it must within @ms. */
ncclResult_t rank_await_error(struct rank *self, ncclComm_t comm, unsigned ms);
/* All ranks came so far. */
void rank_meet(struct rank *self);
/* Shared by all ranks and the test; 0 at first. */
extern atomic_uint *world_step;

/* ---- what a rank's NCCL and plugin said, once it ended ---- */

bool world_said(int rank, const char *text);
/* All had the plugin for a network, and connections between hosts were as @how says. */
void world_check_net(int nranks, const char *how);

#endif
