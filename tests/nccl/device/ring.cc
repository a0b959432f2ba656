/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives around a ring. */
#include "work.h"

#include <algorithm>
#include <string.h>

#include "prims.h"

/* NCCL's proxies count steps by the same numbers. */
struct shape {
	int slices, steps;
};

static constexpr struct shape shape_of(int chunk_steps, int slice_steps)
{
	return {chunk_steps / slice_steps, slice_steps};
}

static std::unique_ptr<prims> around(const struct job *job, struct shape s, bool offloaded = false)
{
	const struct ncclRing *ring = &job->block->channel->ring;
	struct wiring w = {job->block, {ring->prev},        {ring->next},
			   0,          job->work->sendbuff, job->work->recvbuff,
			   job->red,   job->func->proto};

	w.slices = s.slices;
	w.steps = s.steps;
	w.registered = job->work->netRegUsed;
	w.offloaded = offloaded;
	w.step_count = offloaded ? NCCL_MAX_NET_SIZE : 0;
	return prims_make(w);
}

/* One loop of an all-reduce: a chunk for each rank. */
static void all_reduce_loop(const struct job *job, prims *p, ssize_t start, ssize_t left,
			    ssize_t chunk)
{
	int n = job->block->comm->nRanks, ix = job->block->channel->ring.index;
	auto go = [&](const struct verb &what, int which) {
		ssize_t at = which % n * chunk, where = job->part.offset + start + at;

		p->run(what, where, where, std::min(chunk, left - at));
	};

	go(SEND, ix + n - 1);
	for (int j = 2; j < n; j++)
		go(RECV_REDUCE_SEND, ix + n - j);
	go(RECV_REDUCE_LAST_SEND, ix);
	for (int j = 1; j < n - 1; j++)
		go(RECV_COPY_SEND, ix + n - j);
	go(RECV, ix + 1);
}

void ring_all_reduce(const struct job *job)
{
	int n = job->block->comm->nRanks;
	ssize_t chunk = job->part.chunk, loop = n * chunk, align = 16 / job->red.size;
	auto p = around(job, shape_of(ALLREDUCE_CHUNKSTEPS, ALLREDUCE_SLICESTEPS));

	for (ssize_t at = 0; at < job->part.length && !block_aborted(job->block); at += loop) {
		ssize_t left = job->part.length - at;

		if (left < loop)
			chunk = ((left + n - 1) / n + align - 1) / align * align;
		all_reduce_loop(job, p.get(), at, left, chunk);
	}
}

/* For all chunks of the channel's part: fn(first element, how many). */
template <typename Fn> static void each_chunk(const struct job *job, ssize_t chunk, Fn fn)
{
	const struct part *part = &job->part;

	for (ssize_t at = 0; at < part->length && !block_aborted(job->block); at += chunk)
		fn(part->offset + at, std::min(chunk, part->length - at));
}

/* With one rank to a node and all in registered buffers, the NICs do it alone. */
static bool is_offloaded(const struct job *job)
{
	return job->work->isOneRPN && job->work->netRegUsed;
}

static void copy_own(const struct job *job, size_t to)
{
	size_t size = job->red.size, at = job->part.offset;
	const char *src = (const char *)job->work->sendbuff + at * size;
	char *dst = (char *)job->work->recvbuff + (to + at) * size;

	if (src != dst)
		memmove(dst, src, job->part.length * size);
}

void ring_all_gather(const struct job *job)
{
	const int *ranks = job->block->channel->ring.userRanks;
	int n = job->block->comm->nRanks;
	bool offloaded = is_offloaded(job) && job->func->proto == NCCL_PROTO_SIMPLE;
	struct shape s = shape_of(ALLGATHER_CHUNKSTEPS, ALLGATHER_SLICESTEPS);
	auto p = around(job, offloaded ? shape_of(1, 1) : s, offloaded);
	size_t own = ranks[0] * job->part.count;
	bool in_place =
		(char *)job->work->sendbuff == (char *)job->work->recvbuff + own * job->red.size;

	if (offloaded)
		copy_own(job, own);
	each_chunk(job, offloaded ? NCCL_MAX_NET_SIZE : job->part.chunk,
		   [&](ssize_t at, ssize_t k) {
			   p->run(in_place || offloaded ? SEND : COPY_SEND, at, own + at, k);
			   for (int j = 1; j < n - 1; j++) {
				   size_t to = ranks[n - j] * job->part.count + at;

				   p->run(RECV_COPY_SEND, to, to, k);
			   }
			   p->run(RECV, ranks[1] * job->part.count + at,
				  ranks[1] * job->part.count + at, k);
		   });
}

void ring_reduce_scatter(const struct job *job)
{
	const int *ranks = job->block->channel->ring.userRanks;
	int n = job->block->comm->nRanks;
	auto p = around(job, shape_of(REDUCESCATTER_CHUNKSTEPS, REDUCESCATTER_SLICESTEPS));

	each_chunk(job, job->part.chunk, [&](ssize_t at, ssize_t k) {
		p->run(SEND, ranks[n - 1] * job->part.count + at, 0, k);
		for (int j = 2; j < n; j++)
			p->run(RECV_REDUCE_SEND, ranks[n - j] * job->part.count + at, 0, k);
		p->run(RECV_REDUCE_LAST, ranks[0] * job->part.count + at, at, k);
	});
}

void ring_broadcast(const struct job *job)
{
	const int *ranks = job->block->channel->ring.userRanks;
	int root = job->work->root;
	auto p = around(job, shape_of(BROADCAST_CHUNKSTEPS, BROADCAST_SLICESTEPS));
	bool offloaded = is_offloaded(job);
	const struct verb *what = &RECV_COPY_SEND;

	if (ranks[0] == root)
		what = offloaded || job->work->sendbuff == job->work->recvbuff ? &SEND : &COPY_SEND;
	else if (ranks[1] == root)
		what = &RECV;
	if (offloaded && ranks[0] == root)
		copy_own(job, 0);
	each_chunk(job, job->part.chunk, [&](ssize_t at, ssize_t k) { p->run(*what, at, at, k); });
}

void ring_reduce(const struct job *job)
{
	int root = job->work->root;
	const int *ranks = job->block->channel->ring.userRanks;
	auto p = around(job, shape_of(REDUCE_CHUNKSTEPS, REDUCE_SLICESTEPS));
	const struct verb *what = &RECV_REDUCE_SEND;

	if (ranks[job->block->comm->nRanks - 1] == root)
		what = &SEND;
	else if (job->block->comm->rank == root)
		what = &RECV_REDUCE_LAST;
	each_chunk(job, job->part.chunk, [&](ssize_t at, ssize_t k) { p->run(*what, at, at, k); });
}
