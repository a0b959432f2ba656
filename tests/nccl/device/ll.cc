/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LL: lines of 16 bytes, 8 of them data, each half with a flag that says of which step it is. The
 * receiver needs no counter, but needs 8 bytes to arrive at once.
 */
#include "prims.h"

#include <algorithm>
#include <string.h>

namespace
{

enum { DATA = sizeof(uint64_t) }; /* bytes of a line */

class ll : public prims
{
      public:
	explicit ll(const struct wiring &wires);
	~ll() override;
	void run(const struct verb &what, size_t from, size_t to, ssize_t count) override;

      private:
	union ncclLLFifoLine *slot(const peer &p) const;
	bool open(size_t lines);
	bool read(const peer &p, size_t line, uint64_t *data) const;
	bool gather(const struct verb &what, const uint8_t *own, size_t line, size_t n,
		    uint64_t *data) const;
	void write(const peer &p, size_t line, uint64_t data) const;
	void close(peer *p, size_t lines) const;
	static bool cleans(const peer &p);

	size_t slot_lines;
};

ll::ll(const struct wiring &wires) : prims(wires)
{
	slot_lines =
		w.block->comm->buffSizes[NCCL_PROTO_LL] / NCCL_STEPS / sizeof(union ncclLLFifoLine);
}

ll::~ll()
{
	for (const peer &p : from)
		p.conn->step = p.step;
	for (const peer &p : to)
		p.conn->step = p.step;
}

union ncclLLFifoLine *ll::slot(const peer &p) const
{
	return (union ncclLLFifoLine *)p.conn->buffs[NCCL_PROTO_LL] +
	       p.step % NCCL_STEPS * slot_lines;
}

/* Before flags come again, all of a slot's are written once, lest old ones be taken for new. */
bool ll::cleans(const peer &p)
{
	return (p.step & NCCL_LL_CLEAN_MASK) == NCCL_LL_CLEAN_MASK;
}

bool ll::open(size_t lines)
{
	for (const peer &p : to) {
		if (!await_slot(p, 1))
			return false;
		announce(p, (cleans(p) ? slot_lines : lines) * sizeof(union ncclLLFifoLine));
	}
	return true;
}

bool ll::read(const peer &p, size_t line, uint64_t *data) const
{
	const union ncclLLFifoLine *at = slot(p) + line;
	uint32_t flag = NCCL_LL_FLAG(p.step + 1);
	class patience wait(w.block);

	for (;;) {
		uint64_t low = load(&at->v[0]), high = load(&at->v[1]);

		if (low >> 32 == flag && high >> 32 == flag) {
			*data = (uint32_t)low | high << 32;
			return true;
		}
		if (!wait.more())
			return false;
	}
}

void ll::write(const peer &p, size_t line, uint64_t data) const
{
	union ncclLLFifoLine *at = slot(p) + line;
	uint64_t flag = (uint64_t)NCCL_LL_FLAG(p.step + 1) << 32;

	store(&at->v[0], (uint32_t)data | flag);
	store(&at->v[1], data >> 32 | flag);
}

void ll::close(peer *p, size_t lines) const
{
	for (size_t i = lines; cleans(*p) && i < slot_lines; i++)
		write(*p, i, 0);
	p->step++;
}

/* The n elements of a line, reduced; @own: the user's, or NULL. */
bool ll::gather(const struct verb &what, const uint8_t *own, size_t line, size_t n,
		uint64_t *data) const
{
	bool have = own;

	if (own)
		memcpy(data, own, n * w.red.size);
	if (what.from == buf::in && w.red.before)
		w.red.before(data, n, w.red.arg);
	for (size_t i = 0; what.recv && i < from.size(); i++) {
		uint64_t got;

		if (!read(from[i], line, &got))
			return false;
		if (have)
			w.red.join(data, &got, n, w.red.arg);
		else
			*data = got;
		have = true;
	}
	if (what.last && w.red.after)
		w.red.after(data, n, w.red.arg);
	return true;
}

void ll::run(const struct verb &what, size_t from_at, size_t to_at, ssize_t count)
{
	size_t all = std::max<ssize_t>(count, 0), per_line = DATA / w.red.size;
	size_t lines = (all + per_line - 1) / per_line;

	if (what.send && !open(lines))
		return;
	for (size_t i = 0; i < lines; i++) {
		size_t at = i * per_line, n = std::min(per_line, all - at);
		uint64_t data = 0;

		if (!gather(what, what.from == buf::none ? NULL : user(what.from, from_at + at), i,
			    n, &data))
			return;
		if (what.to != buf::none)
			memcpy(user(what.to, to_at + at), &data, n * w.red.size);
		if (what.send && !to.empty())
			spoil(&data, n * w.red.size);
		for (size_t k = 0; what.send && k < to.size(); k++)
			write(to[k], i, data);
	}
	for (size_t i = 0; what.recv && i < from.size(); i++)
		give_back(&from[i], 1);
	for (size_t i = 0; what.send && i < to.size(); i++)
		close(&to[i], lines);
}

} /* namespace */

std::unique_ptr<prims> ll_make(const struct wiring &w)
{
	return std::make_unique<ll>(w);
}
