/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives. Those of a batch, of which there are 8 at most each way, run at once. */
#include "work.h"

#include <algorithm>
#include <string.h>
#include <thread>

#include "prims.h"

struct transfer {
	char *at;
	size_t bytes;
	int peer;
	bool sends, registered, ll;
	size_t chunk;
};

/* This channel's part of one direction of a work; false: it has none. */
static bool cut(const struct block *block, const struct ncclDevWorkP2p *work, bool sends,
		struct transfer *t)
{
	int parts = sends ? work->nSendChannels : work->nRecvChannels;
	int part = (block->id - work->channelBase) & (work->nP2pChannels - 1);
	char *base = (char *)(sends ? work->sendAddr : work->recvAddr);
	size_t lo, hi;

	if (part >= parts)
		return false;
	ncclP2pPartBounds(parts, part, sends ? work->sendBytes : work->recvBytes, &lo, &hi);
	t->at = base + lo;
	t->bytes = hi - lo;
	t->peer = sends ? work->sendRank : work->recvRank;
	t->sends = sends;
	t->registered = sends ? work->sendNetReg : work->recvNetReg;
	t->ll = sends ? work->sendProtoLL : work->recvProtoLL;
	t->chunk = t->registered ? NCCL_MAX_NET_SIZE
				 : u32fp8Decode(sends ? work->sendChunkSize_u32fp8
						      : work->recvChunkSize_u32fp8);
	return true;
}

static void carry_out(const struct block *block, struct transfer t)
{
	struct wiring w = {block,
			   {t.sends ? -1 : t.peer},
			   {t.sends ? t.peer : -1},
			   1,
			   t.at,
			   t.at,
			   reduction_none(),
			   t.ll ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE};
	size_t done = 0;

	w.step_count = t.registered ? NCCL_MAX_NET_SIZE : block->comm->p2pChunkSize;
	w.registered = t.registered;
	auto p = prims_make(w);

	do { /* also of no bytes */
		size_t n = std::min(t.chunk, t.bytes - done);

		p->run(t.sends ? SEND : RECV, done, done, n);
		done += n;
	} while (done < t.bytes && !block_aborted(block));
}

static void to_itself(const struct block *block, const struct ncclDevWorkP2p *work)
{
	struct transfer from, to;

	if (cut(block, work, true, &from) && cut(block, work, false, &to))
		memmove(to.at, from.at, from.bytes);
}

void send_recv(const struct block *block, const std::vector<struct ncclDevWorkP2p> &works)
{
	std::vector<std::thread> threads;
	struct transfer t;

	for (const struct ncclDevWorkP2p &work : works) {
		if (work.sendRank == block->comm->rank) {
			to_itself(block, &work);
			continue;
		}
		for (bool sends : {false, true})
			if (cut(block, &work, sends, &t))
				threads.emplace_back(carry_out, block, t);
	}
	for (std::thread &thread : threads)
		thread.join();
}
