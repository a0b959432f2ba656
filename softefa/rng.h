/* SPDX-License-Identifier: BSD-3-Clause */
/* splitmix64: small, seeded, the same everywhere. */
#ifndef SE_RNG_H
#define SE_RNG_H

#include <stdint.h>

static inline uint64_t se_rng(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint32_t se_rng_below(uint64_t *state, uint32_t n)
{
	return n ? (uint32_t)(se_rng(state) % n) : 0;
}

#endif
