/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcasts of several roots in one group: around the ring, a chunk of each in turn. */
#include "work.h"

#include <algorithm>

#include "prims.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)

static void one_chunk(prims *p, const struct ncclDevWorkBcast *work, int nranks, size_t n)
{
	const void *in = work->ringDepth ? NULL : work->sendbuff;
	const struct verb *what = &RECV_COPY_SEND;

	if (!work->ringDepth)
		what = in == work->recvbuff ? &SEND : &COPY_SEND;
	else if (work->ringDepth == nranks - 1)
		what = &RECV;
	p->aim(in, work->recvbuff);
	p->run(*what, work->bytes_done, work->bytes_done, n);
}

void broadcasts(const struct block *block, int proto, std::vector<struct ncclDevWorkBcast> works)
{
	const struct ncclRing *ring = &block->channel->ring;
	auto p = prims_make(
		{block, {ring->prev}, {ring->next}, 0, NULL, NULL, reduction_none(), proto});
	bool left = true;

	while (left && !block_aborted(block)) {
		left = false;
		for (struct ncclDevWorkBcast &work : works) {
			size_t n = std::min(work.bytes, (size_t)work.chunkSize);

			if (n)
				one_chunk(p.get(), &work, block->comm->nRanks, n);
			work.bytes -= n;
			work.bytes_done += n;
			left |= work.bytes > 0;
		}
	}
}

#endif
