/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of floats. Inner loops have a fixed length so that gcc vectorises them at -O2 too. */
#include "reduce.h"

#include <string.h>

enum { BLOCK = 256, FLOAT_BITS = 24 };

static void reduce_block(float *restrict out, const float *restrict a, const float *restrict b)
{
	for (int i = 0; i < BLOCK; i++)
		out[i] = a[i] + b[i];
}

void nb_reduce(float *out, const float *a, const float *b, size_t n)
{
	size_t i = 0;

	for (; n - i >= BLOCK; i += BLOCK)
		reduce_block(out + i, a + i, b + i);
	for (; i < n; i++)
		out[i] = a[i] + b[i];
}

static uint32_t mix(uint32_t x)
{
	x = (x ^ (x >> 16)) * 0x7feb352du;
	x = (x ^ (x >> 15)) * 0x846ca68bu;
	return x ^ (x >> 16);
}

static uint32_t key_of(int rank, uint64_t serial)
{
	return mix(mix((uint32_t)serial) + (uint32_t)(serial >> 32) + (uint32_t)rank * 0x85ebca6bu);
}

/* As many bits as leave room for the carries of @nranks summands. */
static uint32_t mask_of(int nranks)
{
	uint32_t bits = FLOAT_BITS;

	for (int n = 1; n < nranks; n *= 2)
		bits--;
	return (1u << bits) - 1;
}

static inline uint32_t value_at(uint64_t index, uint32_t key, uint32_t mask)
{
	return mix((uint32_t)index * 0x9e3779b1u + key) & mask;
}

/* Add elements first ... first + n - 1, n <= BLOCK. */
static void values_add(int32_t *sum, uint64_t first, size_t n, uint32_t key, uint32_t mask)
{
	if (n == BLOCK) {
		for (uint32_t i = 0; i < BLOCK; i++)
			sum[i] += (int32_t)value_at((uint32_t)first + i, key, mask);
	} else {
		for (size_t i = 0; i < n; i++)
			sum[i] += (int32_t)value_at(first + i, key, mask);
	}
}

void nb_reduce_fill(float *data, uint64_t first, size_t n, int rank, int nranks, uint64_t serial)
{
	uint32_t key = key_of(rank, serial), mask = mask_of(nranks);

	for (size_t i = 0; i < n; i += BLOCK) {
		size_t len = n - i < BLOCK ? n - i : BLOCK;
		int32_t value[BLOCK];

		memset(value, 0, len * sizeof(value[0]));
		values_add(value, first + i, len, key, mask);
		for (size_t j = 0; j < len; j++)
			data[i + j] = (float)value[j];
	}
}

size_t nb_reduce_check(const float *data, uint64_t first, size_t n, int nranks, uint64_t serial,
		       size_t *at)
{
	uint32_t mask = mask_of(nranks);
	size_t wrong = 0;

	for (size_t i = 0; i < n; i += BLOCK) {
		size_t len = n - i < BLOCK ? n - i : BLOCK;
		int32_t sum[BLOCK];

		memset(sum, 0, len * sizeof(sum[0]));
		for (int r = 0; r < nranks; r++)
			values_add(sum, first + i, len, key_of(r, serial), mask);
		for (size_t j = 0; j < len; j++) {
			if (data[i + j] == (float)sum[j])
				continue;
			if (!wrong)
				*at = i + j;
			wrong++;
		}
	}
	return wrong;
}
