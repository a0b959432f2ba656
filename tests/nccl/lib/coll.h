/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of collectives, with every element of the result checked. */
#ifndef TESTS_NCCL_COLL_H
#define TESTS_NCCL_COLL_H

#include "world.h"

enum coll {
	ALL_REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	BROADCAST,
	REDUCE,
	SEND_RECV,  /* to the next rank, from the one before */
	ALL_TO_ALL, /* as sends and receives in one group */
	COLLS
};

struct coll_call {
	enum coll coll;
	ncclDataType_t type;
	ncclRedOp_t op; /* ncclSum where nothing is reduced */
	size_t count;   /* as the call takes it */
	int root;
	bool in_place; /* what can be, and is not between two ranks */
	bool registered;
};

/* One that was put into the stream. */
struct coll_job {
	struct coll_call call;
	ncclComm_t comm;
	int rank, nranks;
	unsigned seed;
	void *mem[2], *handle[2]; /* what was allocated and registered */
	void *send, *recv;
	size_t sent, got; /* elements */
};

void coll_prepare(struct rank *self, ncclComm_t comm, const struct coll_call *call,
		  struct coll_job *job);
void coll_start(struct rank *self, struct coll_job *job);
/* Where the result is wrong, or -1; frees. */
long coll_finish(struct coll_job *job);

/* All of it, on @comm; the result must be right. */
void coll_check(struct rank *self, ncclComm_t comm, const struct coll_call *call);
/* Each of the collectives, of some lengths. */
void coll_check_all(struct rank *self, ncclComm_t comm, ncclDataType_t type, const size_t *counts,
		    int ncounts);

#endif
