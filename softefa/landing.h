/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strange ways for the bytes of a move to land: line by line in any order, twice, or only some of
 * them before the process dies. Part of struct se_move.
 */
#ifndef SE_LANDING_H
#define SE_LANDING_H

#include <stdbool.h>
#include <stdint.h>

struct se_move;

struct se_landing {
	bool odd; /* any of what follows */
	bool lines, twice, same, die;
	uint32_t mul, add; /* lines: the i-th to land is mul * i + add, modulo their number */
	uint32_t next;     /* i */
	uint32_t line_gap_us, again_gap_us;
	uint32_t die_at; /* bytes */
	uint64_t not_before_us;
	uint8_t *copy; /* twice: what was placed first, if that was not too much; ours */
};

/*
 * Of what is pulled from another host, each piece has its lines permuted when it comes, without
 * gaps; and it is asked for again to be placed twice.
 *
 * @mul, @add: any numbers; they make the order. Not for moves to several places. */
void se_landing_lines(struct se_move *m, uint32_t mul, uint32_t add, uint32_t gap_us);
/*
 * @same: the second time the same bytes land, even if the sender has written others there
 * meanwhile, up to 64 KiB. Otherwise they are read again.
 */
void se_landing_twice(struct se_move *m, uint32_t gap_us, bool same);
void se_landing_die(struct se_move *m, uint32_t at);
/* The move is over. */
void se_landing_end(struct se_landing *l);

#endif
