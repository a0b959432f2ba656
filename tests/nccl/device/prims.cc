/* SPDX-License-Identifier: BSD-3-Clause */
/* What the protocols have in common. */
#include "prims.h"

#include <algorithm>
#include <atomic>
#include <stdlib.h>
#include <string.h>

prims::prims(const struct wiring &wires) : w(wires)
{
	struct ncclDevChannelPeer **peers = w.block->channel->peers;

	for (int rank : w.recv)
		if (rank >= 0) {
			struct ncclConnInfo *conn = &peers[rank]->recv[w.index];

			from.push_back({conn, conn->step, false});
		}
	for (int rank : w.send)
		if (rank >= 0) {
			struct ncclConnInfo *conn = &peers[rank]->send[w.index];

			to.push_back({conn, conn->step, false});
		}
}

void prims::aim(const void *in, void *out)
{
	w.in = in;
	w.out = out;
}

uint8_t *prims::user(buf which, size_t at) const
{
	uint8_t *base = which == buf::in ? (uint8_t *)w.in : (uint8_t *)w.out;

	return base + at * w.red.size;
}

/* Room for @steps at a peer, or at the proxy that sends to it. */
bool prims::await_slot(const peer &p, int steps) const
{
	class patience wait(w.block);

	while (load(p.conn->head) + NCCL_STEPS < p.step + steps)
		if (!wait.more())
			return false;
	return true;
}

/* To the proxy: what the slot will hold. */
void prims::announce(const peer &p, size_t bytes) const
{
	if (p.conn->connFifo)
		__atomic_store_n(&p.conn->connFifo[p.step % NCCL_STEPS].size, (ssize_t)bytes,
				 __ATOMIC_RELEASE);
}

void prims::give_back(peer *p, int steps)
{
	p->step += steps;
	store(p->conn->head, p->step);
}

void prims::post(peer *p, int steps)
{
	p->step += steps;
	store(p->conn->tail, p->step);
}

std::unique_ptr<prims> prims_make(const struct wiring &w)
{
	switch (w.proto) {
	case NCCL_PROTO_LL:
		return ll_make(w);
	case NCCL_PROTO_LL128:
		return ll128_make(w);
	default:
		return simple_make(w);
	}
}

/* KERNEL_SPOIL=N: the N-th piece of data that this process sends has a wrong byte. */
static long spoil_turn(void)
{
	const char *n = getenv("KERNEL_SPOIL");

	return n ? strtol(n, NULL, 10) : 0;
}

void spoil(void *data, size_t bytes)
{
	static const long turn = spoil_turn();
	static std::atomic<long> pieces;

	/* The top of an element, whatever its size: a change below may vanish in a sum of floats.
	 */
	if (turn && bytes && ++pieces == turn)
		((uint8_t *)data)[std::min(bytes / 2 | 7, bytes - 1)] ^= 0x55;
}

/*
 * By way of a buffer of our own, because each of the destinations may be a source. @own: the first
 * source is the user's.
 */
void reduce_to(const struct reduction &red, const std::vector<const uint8_t *> &srcs,
	       const std::vector<uint8_t *> &dsts, size_t count, bool own, bool last)
{
	alignas(16) uint8_t acc[4096];
	size_t batch = sizeof(acc) / red.size;

	for (size_t done = 0; done < count; done += batch) {
		size_t n = std::min(batch, count - done), at = done * red.size;

		memcpy(acc, srcs[0] + at, n * red.size);
		if (own && red.before)
			red.before(acc, n, red.arg);
		for (size_t i = 1; i < srcs.size(); i++)
			red.join(acc, srcs[i] + at, n, red.arg);
		if (last && red.after)
			red.after(acc, n, red.arg);
		for (uint8_t *dst : dsts)
			memcpy(dst + at, acc, n * red.size);
	}
}
