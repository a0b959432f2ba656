/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PAT: all-gather and reduce-scatter between ranks whose distance is a power of two. Which steps
 * to take, and from where to where, NCCL's own classes say.
 */
#include "work.h"

#include <algorithm>
#include <string.h>

#include "prims.h"

namespace
{

struct end {
	struct ncclConnInfo *conn;
	uint64_t step;
	ssize_t filled; /* elements ever put there, as if slots lay in a row */
};

class pat
{
      public:
	pat(const struct job *job, bool gathers);
	template <typename Algo, void (pat::*act)(const struct ncclPatStep &)> void run(Algo algo);
	void gather(const struct ncclPatStep &ps);
	void reduce(const struct ncclPatStep &ps);

      private:
	uint8_t *slot(const end &e, uint64_t step, ssize_t at) const;
	uint8_t *in(size_t at) const;
	uint8_t *out(size_t at) const;
	bool await_data(const end &e, uint64_t step) const;
	bool await_room(const end &e, uint64_t step) const;
	static bool fresh(ssize_t *filled, ssize_t to);
	ssize_t place(const end &e, uint64_t step, ssize_t at) const;
	void finish(const struct ncclPatStep &ps);

	const struct job *job;
	std::vector<end> from, to;
	ssize_t local = 0;
};

pat::pat(const struct job *j, bool gathers) : job(j)
{
	const struct ncclKernelComm *comm = job->block->comm;
	struct ncclDevChannelPeer **peers = job->block->channel->peers;

	for (int delta = 1; delta < comm->nRanks; delta *= 2) {
		int above = (comm->rank + delta) % comm->nRanks;
		int below = (comm->rank - delta + comm->nRanks) % comm->nRanks;
		struct ncclConnInfo *recv = peers[gathers ? above : below]->recv;
		struct ncclConnInfo *send = peers[gathers ? below : above]->send;

		from.push_back({recv, recv->step, 0});
		to.push_back({send, send->step, 0});
	}
}

uint8_t *pat::slot(const end &e, uint64_t step, ssize_t at) const
{
	return (uint8_t *)e.conn->buffs[NCCL_PROTO_SIMPLE] +
	       step % NCCL_STEPS * (size_t)e.conn->stepSize + at * job->red.size;
}

uint8_t *pat::in(size_t at) const
{
	return (uint8_t *)job->work->sendbuff + at * job->red.size;
}

uint8_t *pat::out(size_t at) const
{
	return (uint8_t *)job->work->recvbuff + at * job->red.size;
}

bool pat::await_data(const end &e, uint64_t step) const
{
	class patience wait(job->block);

	while (load(e.conn->tail) < step + 1)
		if (!wait.more())
			return false;
	return true;
}

bool pat::await_room(const end &e, uint64_t step) const
{
	class patience wait(job->block);

	while (load(e.conn->head) + NCCL_STEPS < step + 1)
		if (!wait.more())
			return false;
	return true;
}

/* Is what ends at @to the first there? If so it is now filled. */
bool pat::fresh(ssize_t *filled, ssize_t to)
{
	if (*filled >= to)
		return false;
	*filled = to;
	return true;
}

ssize_t pat::place(const end &e, uint64_t step, ssize_t at) const
{
	return (ssize_t)(step * (e.conn->stepSize / job->red.size)) + at;
}

void pat::finish(const struct ncclPatStep &ps)
{
	if (ps.sendDim >= 0 && ps.postSend) {
		end &e = to[ps.sendDim];

		if (e.conn->connFifo)
			__atomic_store_n(&e.conn->connFifo[e.step % NCCL_STEPS].size,
					 (ssize_t)((ps.sendOffset + ps.nelem) * job->red.size),
					 __ATOMIC_RELEASE);
		e.conn->step = ++e.step;
		store(e.conn->tail, e.step);
	}
	if (ps.recvDim >= 0 && ps.postRecv) {
		end &e = from[ps.recvDim];

		e.conn->step = ++e.step;
		store(e.conn->head, e.step);
	}
}

/* To a peer's slot or to the result, added to what is there already. */
void pat::reduce(const struct ncclPatStep &ps)
{
	std::vector<const uint8_t *> srcs;
	uint8_t *dst;
	bool first;

	if (ps.recvDim >= 0) {
		const end &e = from[ps.recvDim];

		if (!await_data(e, e.step))
			return;
		srcs.push_back(slot(e, e.step, ps.recvOffset));
	}
	if (ps.sendDim >= 0) {
		end &e = to[ps.sendDim];
		uint64_t step = e.step + ps.stepOffset;

		if (!await_room(e, step))
			return;
		dst = slot(e, step, ps.sendOffset);
		first = fresh(&e.filled, place(e, step, ps.sendOffset + ps.nelem));
	} else {
		dst = out(ps.outIx);
		first = fresh(&local, ps.outIx + ps.nelem);
	}
	srcs.push_back(first ? in(ps.inpIx) : dst);
	reduce_to(job->red, srcs, {dst}, std::max(ps.nelem, 0), false, false);
	if (ps.sendDim >= 0)
		spoil(dst, std::max(ps.nelem, 0) * job->red.size);
	finish(ps);
}

/* To a peer's slot, and to the result if it is new. */
void pat::gather(const struct ncclPatStep &ps)
{
	const uint8_t *src;
	std::vector<uint8_t *> dsts;
	bool first;

	if (ps.recvDim >= 0) {
		end &e = from[ps.recvDim];
		uint64_t step = e.step + ps.stepOffset;

		if (!await_data(e, step))
			return;
		src = slot(e, step, ps.recvOffset);
		first = fresh(&e.filled, place(e, step, ps.recvOffset + ps.nelem));
	} else {
		src = in(ps.inpIx);
		first = fresh(&local, ps.inpIx + ps.nelem);
	}
	if (ps.sendDim >= 0) {
		const end &e = to[ps.sendDim];

		if (!await_room(e, e.step))
			return;
		dsts.push_back(slot(e, e.step, ps.sendOffset));
	}
	if (first)
		dsts.push_back(out(ps.outIx));
	reduce_to(job->red, {src}, dsts, std::max(ps.nelem, 0), false, false);
	if (ps.sendDim >= 0)
		spoil(dsts[0], std::max(ps.nelem, 0) * job->red.size);
	finish(ps);
}

/* The device's warps take several steps at once; one after the other is as good. */
template <typename Algo, void (pat::*act)(const struct ncclPatStep &)> void pat::run(Algo algo)
{
	struct ncclPatStep ps = {};

	do {
		algo.getNextOp(&ps);
		if (!(ps.flags & PatSkipped))
			(this->*act)(ps);
	} while (ps.last != 2 && !block_aborted(job->block));
}

template <typename Algo> Algo plan(const struct job *job)
{
	const struct part *p = &job->part;
	const struct ncclKernelComm *comm = job->block->comm;

	return Algo(p->chunk * job->red.size, NCCL_STEPS, NCCL_PAT_NWORKERS / WARP_SIZE, p->offset,
		    p->offset + p->length, p->count, p->chunk, comm->rank, comm->nRanks);
}

template <typename T> void reduce_all(const struct job *job)
{
	using algo = PatRSAlgorithm<T>;

	pat(job, false).run<algo, &pat::reduce>(plan<algo>(job));
}

} /* namespace */

void pat_all_gather(const struct job *job)
{
	using algo = PatAGAlgorithm<uint8_t>; /* an element is a byte */

	pat(job, true).run<algo, &pat::gather>(plan<algo>(job));
}

void pat_reduce_scatter(const struct job *job)
{
	switch (job->red.size) {
	case 1:
		return reduce_all<uint8_t>(job);
	case 2:
		return reduce_all<uint16_t>(job);
	case 4:
		return reduce_all<uint32_t>(job);
	default:
		return reduce_all<uint64_t>(job);
	}
}
