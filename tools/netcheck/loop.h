/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's progress loop, with threads in place of GPUs. An operation has subs, each one direction of
 * one connection: the GPU fills slots that the sender's proxy sends; the receiver's proxy posts
 * slots, its GPU uses them, and then they are posted again. With LL and LL128 the GPU looks at the
 * slots itself, whatever the proxy knows.
 */
#ifndef NETCHECK_LOOP_H
#define NETCHECK_LOOP_H

#include <pthread.h>

#include "check.h"
#include "plan.h"

enum { LOOP_SUBS = 2 * HOST_MAX_RANKS };

/* Counts are of messages, of which step @k is in slot @k % depth. */
struct loop_sub {
	/* What the pattern sets. */
	const struct check_end *end;
	const struct plan *plan;
	void *mhandle;
	int tag, channel;
	char *slots;
	size_t stride; /* between slots */
	int depth;     /* slots, at most PLAN_STEPS */
	int group;     /* receives: subs of one number share a comm, and an irecv */

	/* The proxy's. */
	uint64_t moved, done; /* sent or received; given back */
	uint64_t tested;      /* receives: flushed, too */
	void *request[PLAN_STEPS];
	int reported[PLAN_STEPS];

	/* Between proxy and GPU. */
	_Atomic uint64_t posted;           /* slots that are the GPU's to fill, or the NIC's */
	_Atomic uint64_t tail;             /* filled by the GPU, or by the NIC as the proxy knows */
	_Atomic uint64_t head;             /* used by the GPU */
	_Atomic size_t filled[PLAN_STEPS]; /* bytes of the slot to send */

	/* The GPU's. */
	char *scratch; /* data of a message */
	size_t line;   /* lines seen of the current one */
	bool begun;
};

struct loop {
	struct check_ctx *ctx;
	uint64_t count; /* messages of each sub */
	int nsubs;
	struct loop_sub sub[LOOP_SUBS];
	int max_recvs;
	pthread_t gpu;
	uint64_t lines; /* that the GPU has looked at */
};

/* The slots of @sub that an operation of @nsubs has from a buffer of its own, or from a pool. */
int loop_depth(const struct plan *plan, int nsubs);

/* All messages of all subs, in the order that the loop finds. */
void loop_run(struct loop *l);

/* ---- gpu.c ---- */

void gpu_start(struct loop *l);
void gpu_join(struct loop *l);

uint64_t loop_key(const struct loop *l, const struct loop_sub *sub, uint64_t k);
char *loop_slot(const struct loop_sub *sub, uint64_t k);

#endif
