/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LL128: lines of 128 bytes, the last 8 of them a flag that says of which step the line is: it
 * needs 128 bytes to arrive in order. NCCL's warps spread the data over the lines of a unit as
 * suits their registers, here it fills one after the other: no one but receivers looks into it.
 */
#include "prims.h"

#include <algorithm>
#include <string.h>

namespace
{

enum {
	LINE = NCCL_LL128_LINESIZE,
	DATA = LINE - sizeof(uint64_t),
	/* What a warp moves at once: the least that is sent. */
	UNIT_LINES = WARP_SIZE * NCCL_LL128_SHMEM_ELEMS_PER_THREAD / NCCL_LL128_LINEELEMS,
};

class ll128 : public prims
{
      public:
	explicit ll128(const struct wiring &wires);
	~ll128() override;
	void run(const struct verb &what, size_t from, size_t to, ssize_t count) override;

      private:
	uint8_t *line_at(const peer &p, size_t line) const;
	bool open(size_t lines);
	bool read(const peer &p, size_t line, uint8_t *data) const;
	void write(const peer &p, size_t line, const uint8_t *data) const;
	bool gather(const struct verb &what, const uint8_t *own, size_t line, size_t n,
		    uint8_t *data) const;

	size_t slot_bytes;
};

ll128::ll128(const struct wiring &wires) : prims(wires)
{
	slot_bytes = w.block->comm->buffSizes[NCCL_PROTO_LL128] / NCCL_STEPS;
}

ll128::~ll128()
{
	for (const peer &p : from)
		p.conn->step = p.step;
	for (const peer &p : to)
		p.conn->step = p.step;
}

uint8_t *ll128::line_at(const peer &p, size_t line) const
{
	return (uint8_t *)p.conn->buffs[NCCL_PROTO_LL128] + p.step % NCCL_STEPS * slot_bytes +
	       line * LINE;
}

bool ll128::open(size_t lines)
{
	for (const peer &p : to) {
		if (!await_slot(p, 1))
			return false;
		announce(p, lines * LINE);
	}
	return true;
}

bool ll128::read(const peer &p, size_t line, uint8_t *data) const
{
	const uint8_t *at = line_at(p, line);
	class patience wait(w.block);

	while (load((const uint64_t *)(at + DATA)) != p.step + 1)
		if (!wait.more())
			return false;
	memcpy(data, at, DATA);
	return true;
}

void ll128::write(const peer &p, size_t line, const uint8_t *data) const
{
	uint8_t *at = line_at(p, line);

	memcpy(at, data, DATA);
	store((uint64_t *)(at + DATA), p.step + 1);
}

/* The n elements of a line, reduced; @own: the user's, or NULL. */
bool ll128::gather(const struct verb &what, const uint8_t *own, size_t line, size_t n,
		   uint8_t *data) const
{
	alignas(16) uint8_t got[DATA];
	bool have = own;

	if (own)
		memcpy(data, own, n * w.red.size);
	if (what.from == buf::in && w.red.before)
		w.red.before(data, n, w.red.arg);
	for (size_t i = 0; what.recv && i < from.size(); i++) {
		if (!read(from[i], line, got))
			return false;
		if (have)
			w.red.join(data, got, n, w.red.arg);
		else
			memcpy(data, got, DATA);
		have = true;
	}
	if (what.last && w.red.after)
		w.red.after(data, n, w.red.arg);
	return true;
}

void ll128::run(const struct verb &what, size_t from_at, size_t to_at, ssize_t count)
{
	size_t all = std::max<ssize_t>(count, 0), per_line = DATA / w.red.size;
	size_t per_unit = per_line * UNIT_LINES;
	size_t lines = (all + per_unit - 1) / per_unit * UNIT_LINES;

	if (what.send && !open(lines))
		return;
	for (size_t i = 0; i < lines; i++) {
		size_t at = std::min(i * per_line, all), n = std::min(per_line, all - at);
		alignas(16) uint8_t data[DATA] = {0};

		if (!gather(what, what.from == buf::none ? NULL : user(what.from, from_at + at), i,
			    n, data))
			return;
		if (what.to != buf::none)
			memcpy(user(what.to, to_at + at), data, n * w.red.size);
		if (what.send && !to.empty())
			spoil(data, n * w.red.size);
		for (size_t k = 0; what.send && k < to.size(); k++)
			write(to[k], i, data);
	}
	for (size_t i = 0; what.recv && i < from.size(); i++)
		give_back(&from[i], 1);
	for (size_t i = 0; what.send && i < to.size(); i++) {
		/* Only a proxy counts; a peer's tail may not even be there. */
		if (to[i].conn->connFifo)
			post(&to[i], 1);
		else
			to[i].step++;
	}
}

} /* namespace */

std::unique_ptr<prims> ll128_make(const struct wiring &w)
{
	return std::make_unique<ll128>(w);
}
