/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of any size, in pieces. */
#include "content.h"

/* Each piece has its own key, so that pieces in each other's place show. */
static const uint64_t piece = 1 << 20;

static size_t piece_at(uint64_t off, uint64_t size)
{
	return (size_t)(size - off < piece ? size - off : piece);
}

void bw_content_fill(uint8_t *data, uint64_t size, uint64_t key)
{
	for (uint64_t off = 0; off < size; off += piece) {
		payload_fill(data + off, piece_at(off, size), key + off);
		payload_stamp(data + off, piece_at(off, size), key + off);
	}
}

uint64_t bw_content_check(const uint8_t *data, uint64_t size, uint64_t key, uint64_t *first)
{
	uint64_t wrong = 0;

	for (uint64_t off = 0; off < size; off += piece) {
		size_t at = 0, n;

		n = payload_check(data + off, piece_at(off, size), key + off, key + off, &at);
		if (n && !wrong)
			*first = off + at;
		wrong += n;
	}
	return wrong;
}
