/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simple: data in slots, and counters that say how many are filled. Where the NIC reads or writes
 * the user's registered buffers itself, a step is only announced.
 */
#include "prims.h"

#include <algorithm>
#include <string.h>

uint8_t *simple_slot(const struct ncclConnInfo *conn, uint64_t step)
{
	char *base = conn->buffs[NCCL_PROTO_SIMPLE];
	const struct ncclConnFifo *fifo = conn->connFifo;
	int i = step % NCCL_STEPS;

	/* Buffers that connections share: the proxy says which part. */
	if (fifo && __atomic_load_n(&fifo[i].mode, __ATOMIC_ACQUIRE) == NCCL_MODE_OFFSET)
		return (uint8_t *)base + __atomic_load_n(&fifo[i].offset, __ATOMIC_ACQUIRE);
	return (uint8_t *)base + (size_t)i * conn->stepSize;
}

namespace
{

class simple : public prims
{
      public:
	explicit simple(const struct wiring &wires);
	~simple() override;
	void run(const struct verb &what, size_t from, size_t to, ssize_t count) override;

      private:
	bool await(const struct verb &what, size_t bytes) const;
	void move(const struct verb &what, size_t from_at, size_t to_at, size_t count);
	const uint8_t *arrived(const peer &p, size_t at) const;
	uint8_t *leaving(const peer &p, const struct verb &what, size_t at) const;
	uint64_t round_up(uint64_t step) const;
	void await_sent(const peer &p) const;

	size_t step_count;
};

simple::simple(const struct wiring &wires) : prims(wires)
{
	step_count = w.step_count;
	if (!step_count)
		step_count = w.block->comm->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS / w.red.size;
	for (peer &p : from) {
		p.step = round_up(p.step);
		store(p.conn->head, p.step); /* gives back what the rounding skipped */
		p.registered = w.registered && p.conn->flags & NCCL_DIRECT_NIC;
		if (p.registered)
			__atomic_store_n(&p.conn->connFifo[p.step % NCCL_STEPS].size, 0,
					 __ATOMIC_RELEASE);
	}
	for (peer &p : to) {
		p.step = round_up(p.step);
		p.registered = w.registered && p.conn->flags & NCCL_DIRECT_NIC;
	}
}

/* A chunk begins where a chunk can begin. */
uint64_t simple::round_up(uint64_t step) const
{
	uint64_t chunk = w.slices * w.steps;

	return (step + chunk - 1) / chunk * chunk;
}

/* The user may write to the buffer after the kernel: the NIC must have read it. */
void simple::await_sent(const peer &p) const
{
	const ssize_t *size = &p.conn->connFifo[(p.step - w.steps) % NCCL_STEPS].size;
	class patience wait(w.block);

	while (__atomic_load_n(size, __ATOMIC_ACQUIRE) != -1)
		if (!wait.more())
			return;
}

simple::~simple()
{
	for (const peer &p : from)
		p.conn->step = p.step;
	for (const peer &p : to) {
		p.conn->step = p.step;
		if (p.registered)
			await_sent(p);
	}
}

bool simple::await(const struct verb &what, size_t bytes) const
{
	for (size_t i = 0; what.recv && i < from.size(); i++) {
		class patience wait(w.block);

		while (load(from[i].conn->tail) < from[i].step + w.steps)
			if (!wait.more())
				return false;
	}
	for (size_t i = 0; what.send && i < to.size(); i++) {
		if (!await_slot(to[i], w.steps))
			return false;
		announce(to[i], bytes);
	}
	return true;
}

/* Where the data of a peer is; NULL: already where it belongs. */
const uint8_t *simple::arrived(const peer &p, size_t at) const
{
	if (!p.registered)
		return simple_slot(p.conn, p.step);
	return w.index == 1 ? NULL : user(buf::out, at);
}

/* NULL: it leaves from where it is. */
uint8_t *simple::leaving(const peer &p, const struct verb &what, size_t at) const
{
	if (!p.registered)
		return simple_slot(p.conn, p.step);
	return what.recv ? user(buf::out, at) : NULL;
}

void simple::move(const struct verb &what, size_t from_at, size_t to_at, size_t count)
{
	std::vector<const uint8_t *> srcs;
	std::vector<uint8_t *> dsts;

	if (what.from != buf::none)
		srcs.push_back(user(what.from, from_at));
	for (size_t i = 0; what.recv && i < from.size(); i++)
		if (const uint8_t *src = arrived(from[i], from_at))
			srcs.push_back(src);
	if (srcs.empty())
		return;
	if (what.to != buf::none)
		dsts.push_back(user(what.to, to_at));
	for (size_t i = 0; what.send && i < to.size(); i++)
		if (uint8_t *dst = leaving(to[i], what, to_at))
			dsts.push_back(dst);
	reduce_to(w.red, srcs, dsts, count, what.from == buf::in, what.last);
	if (what.send && dsts.size() > (what.to != buf::none))
		spoil(dsts.back(), count * w.red.size);
}

void simple::run(const struct verb &what, size_t from_at, size_t to_at, ssize_t count)
{
	size_t all = std::max<ssize_t>(count, 0), done = 0;
	/* As the proxies count it: their RingAlgorithm divides chunks the same way. */
	size_t slice = std::max((all + 16 * w.slices - 1) / (16 * w.slices) * 16,
				step_count * w.steps / 32);

	for (int s = 0; s < w.slices; s++) {
		size_t n = std::min(slice, all - done);

		if (!await(what, n * w.red.size))
			return;
		if (n && !w.offloaded)
			move(what, from_at + done, to_at + done, n);
		for (size_t i = 0; what.recv && i < from.size(); i++)
			give_back(&from[i], w.steps);
		for (size_t i = 0; what.send && i < to.size(); i++)
			post(&to[i], w.steps);
		done += n;
	}
}

} /* namespace */

std::unique_ptr<prims> simple_make(const struct wiring &w)
{
	return std::make_unique<simple>(w);
}
