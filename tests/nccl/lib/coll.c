/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives: memory for them, the call, the check. */
#include "coll.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/kids.h"
#include "data.h"

enum {
	GUARD = 64, /* bytes behind a result that nobody may touch */
	UNTOUCHED = 0xee,
};

static const char *const names[COLLS] = {"all-reduce", "all-gather", "reduce-scatter",
					 "broadcast",  "reduce",     "send and recv",
					 "all-to-all"};

/* ---- lengths ---- */

static size_t sent(const struct coll_call *c, size_t nranks)
{
	return c->count * (c->coll == REDUCE_SCATTER || c->coll == ALL_TO_ALL ? nranks : 1);
}

static size_t got(const struct coll_call *c, size_t nranks)
{
	return c->count * (c->coll == ALL_GATHER || c->coll == ALL_TO_ALL ? nranks : 1);
}

static void *offset(void *at, const struct coll_job *job, size_t elements)
{
	return (char *)at + elements * data_size(job->call.type);
}

/* ---- memory ---- */

static void *take(struct coll_job *job, int which, size_t bytes)
{
	if (job->call.registered) {
		NCCL(ncclMemAlloc(&job->mem[which], bytes));
		NCCL(ncclCommRegister(job->comm, job->mem[which], bytes, &job->handle[which]));
	} else {
		CUDA(cudaMalloc(&job->mem[which], bytes));
	}
	return job->mem[which];
}

static void give_back(struct coll_job *job)
{
	for (int i = 0; i < 2; i++) {
		if (job->handle[i])
			NCCL(ncclCommDeregister(job->comm, job->handle[i]));
		if (job->call.registered)
			NCCL(job->mem[i] ? ncclMemFree(job->mem[i]) : ncclSuccess);
		else
			CUDA(cudaFree(job->mem[i]));
	}
}

/* The user's buffers, as each of the calls defines "in place". */
static void lay_out(struct coll_job *job)
{
	size_t size = data_size(job->call.type), larger = job->sent;

	if (!job->call.in_place) {
		job->send = take(job, 0, job->sent * size + GUARD);
		job->recv = take(job, 1, job->got * size + GUARD);
		return;
	}
	if (job->got > larger)
		larger = job->got;
	job->send = job->recv = take(job, 0, larger * size + GUARD);
	if (job->call.coll == ALL_GATHER)
		job->send = offset(job->recv, job, (size_t)job->rank * job->call.count);
	if (job->call.coll == REDUCE_SCATTER)
		job->recv = offset(job->send, job, (size_t)job->rank * job->call.count);
}

static void fill(struct coll_job *job)
{
	const struct coll_call *c = &job->call;
	size_t size = data_size(c->type);
	void *data = malloc(job->sent * size + 1);

	MUST(data, "no memory");
	data_fill(data, c->type, c->op, job->rank, job->seed, 0, job->sent);
	CUDA(cudaMemset(job->recv, UNTOUCHED, job->got * size + (c->in_place ? 0 : GUARD)));
	CUDA(cudaMemcpy(job->send, data, job->sent * size, cudaMemcpyHostToDevice));
	free(data);
}

void coll_prepare(struct rank *self, ncclComm_t comm, const struct coll_call *call,
		  struct coll_job *job)
{
	*job = (struct coll_job){.call = *call, .comm = comm, .seed = ++self->calls};
	NCCL(ncclCommUserRank(comm, &job->rank));
	NCCL(ncclCommCount(comm, &job->nranks));
	job->sent = sent(call, (size_t)job->nranks);
	job->got = got(call, (size_t)job->nranks);
	lay_out(job);
	fill(job);
}

/* ---- the call ---- */

static void exchange(const struct coll_job *job, cudaStream_t stream)
{
	const struct coll_call *c = &job->call;

	NCCL(ncclGroupStart());
	for (int r = 0; r < job->nranks; r++) {
		size_t at = (size_t)r * c->count;

		NCCL(ncclSend(offset(job->send, job, at), c->count, c->type, r, job->comm, stream));
		NCCL(ncclRecv(offset(job->recv, job, at), c->count, c->type, r, job->comm, stream));
	}
	NCCL(ncclGroupEnd());
}

static void pass_on(const struct coll_job *job, cudaStream_t stream)
{
	const struct coll_call *c = &job->call;
	int next = (job->rank + 1) % job->nranks;
	int before = (job->rank + job->nranks - 1) % job->nranks;

	NCCL(ncclGroupStart());
	NCCL(ncclSend(job->send, c->count, c->type, next, job->comm, stream));
	NCCL(ncclRecv(job->recv, c->count, c->type, before, job->comm, stream));
	NCCL(ncclGroupEnd());
}

void coll_start(struct rank *self, struct coll_job *job)
{
	const struct coll_call *c = &job->call;
	cudaStream_t s = self->stream;

	switch (c->coll) {
	case ALL_REDUCE:
		NCCL(ncclAllReduce(job->send, job->recv, c->count, c->type, c->op, job->comm, s));
		break;
	case ALL_GATHER:
		NCCL(ncclAllGather(job->send, job->recv, c->count, c->type, job->comm, s));
		break;
	case REDUCE_SCATTER:
		NCCL(ncclReduceScatter(job->send, job->recv, c->count, c->type, c->op, job->comm,
				       s));
		break;
	case BROADCAST:
		NCCL(ncclBroadcast(job->send, job->recv, c->count, c->type, c->root, job->comm, s));
		break;
	case REDUCE:
		NCCL(ncclReduce(job->send, job->recv, c->count, c->type, c->op, c->root, job->comm,
				s));
		break;
	case SEND_RECV:
		pass_on(job, s);
		break;
	default:
		exchange(job, s);
	}
}

/* ---- the check ---- */

/* All ranks' elements, in the order of the ranks. */
static long wrong_parts(const struct coll_job *job, void *result)
{
	const struct coll_call *c = &job->call;

	for (int r = 0; r < job->nranks; r++) {
		size_t at = (size_t)r * c->count;
		size_t first = c->coll == ALL_TO_ALL ? (size_t)job->rank * c->count : 0;
		long bad = data_wrong(offset(result, job, at), c->type, c->op, r, job->seed, first,
				      c->count);

		if (bad >= 0)
			return (long)at + bad;
	}
	return -1;
}

static long wrong(const struct coll_job *job, void *result)
{
	const struct coll_call *c = &job->call;
	int from = c->coll == BROADCAST ? c->root : (job->rank + job->nranks - 1) % job->nranks;
	size_t first = c->coll == REDUCE_SCATTER ? (size_t)job->rank * c->count : 0;

	switch (c->coll) {
	case ALL_GATHER:
	case ALL_TO_ALL:
		return wrong_parts(job, result);
	case BROADCAST:
	case SEND_RECV:
		return data_wrong(result, c->type, c->op, from, job->seed, 0, c->count);
	case REDUCE:
		if (job->rank != c->root)
			return -1; /* its buffer is NCCL's to use */
				   /* fallthrough */
	default:
		return data_wrong_result(result, c->type, c->op, job->nranks, job->seed, first,
					 c->count);
	}
}

static bool guard_is_whole(const struct coll_job *job, const uint8_t *result)
{
	for (size_t i = 0; !job->call.in_place && i < GUARD; i++)
		if (result[job->got * data_size(job->call.type) + i] != UNTOUCHED)
			return false;
	return true;
}

long coll_finish(struct coll_job *job)
{
	size_t bytes = job->got * data_size(job->call.type) + (job->call.in_place ? 0 : GUARD);
	uint8_t *result = malloc(bytes + 1);
	long bad;

	MUST(result, "no memory");
	CUDA(cudaMemcpy(result, job->recv, bytes, cudaMemcpyDeviceToHost));
	bad = wrong(job, result);
	if (bad < 0 && !guard_is_whole(job, result))
		bad = (long)job->got;
	free(result);
	give_back(job);
	return bad;
}

void coll_check(struct rank *self, ncclComm_t comm, const struct coll_call *call)
{
	struct coll_job job;
	long bad;

	coll_prepare(self, comm, call, &job);
	coll_start(self, &job);
	rank_wait(self);
	bad = coll_finish(&job);
	MUST(bad < 0, "rank %d of %d: %s%s of %zu %s, %s, root %d: element %ld is wrong", job.rank,
	     job.nranks, names[call->coll], call->in_place ? " in place" : "", call->count,
	     data_type_name(call->type), data_op_name(call->op), call->root, bad);
}

void coll_check_all(struct rank *self, ncclComm_t comm, ncclDataType_t type, const size_t *counts,
		    int ncounts)
{
	for (int coll = 0; coll < COLLS; coll++)
		for (int i = 0; i < ncounts; i++) {
			struct coll_call call = {.coll = (enum coll)coll,
						 .type = type,
						 .op = ncclSum,
						 .count = counts[i]};

			coll_check(self, comm, &call);
		}
}
