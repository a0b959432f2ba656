/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements: made, reduced and compared. */
#include "data.h"

#include <stdint.h>
#include <string.h>

static const struct type {
	const char *name;
	size_t size;
	bool is_signed, is_float;
} types[ncclNumTypes] = {
	[ncclInt8] = {"int8", 1, true, false},     [ncclUint8] = {"uint8", 1, false, false},
	[ncclInt32] = {"int32", 4, true, false},   [ncclUint32] = {"uint32", 4, false, false},
	[ncclInt64] = {"int64", 8, true, false},   [ncclUint64] = {"uint64", 8, false, false},
	[ncclFloat16] = {"half", 2, true, true},   [ncclFloat32] = {"float", 4, true, true},
	[ncclFloat64] = {"double", 8, true, true}, [ncclBfloat16] = {"bfloat16", 2, true, true},
};

size_t data_size(ncclDataType_t type)
{
	return types[type].size;
}

const char *data_type_name(ncclDataType_t type)
{
	return types[type].name;
}

const char *data_op_name(ncclRedOp_t op)
{
	static const char *const names[] = {"sum", "prod", "max", "min", "avg"};

	return names[op];
}

/* ---- numbers in memory ---- */

static uint16_t bfloat16(double x)
{
	float f = (float)x;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return (uint16_t)(bits >> 16); /* our numbers need no rounding */
}

static double from_bfloat16(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static void put(void *at, ncclDataType_t type, size_t i, double x)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		((uint8_t *)at)[i] = (uint8_t)(int64_t)x;
		break;
	case ncclInt32:
	case ncclUint32:
		((uint32_t *)at)[i] = (uint32_t)(int64_t)x;
		break;
	case ncclInt64:
	case ncclUint64:
		((uint64_t *)at)[i] = (uint64_t)(int64_t)x;
		break;
	case ncclFloat16:
		((_Float16 *)at)[i] = (_Float16)x;
		break;
	case ncclBfloat16:
		((uint16_t *)at)[i] = bfloat16(x);
		break;
	case ncclFloat32:
		((float *)at)[i] = (float)x;
		break;
	default:
		((double *)at)[i] = x;
	}
}

static double get(const void *at, ncclDataType_t type, size_t i)
{
	switch (type) {
	case ncclInt8:
		return ((const int8_t *)at)[i];
	case ncclUint8:
		return ((const uint8_t *)at)[i];
	case ncclInt32:
		return ((const int32_t *)at)[i];
	case ncclUint32:
		return ((const uint32_t *)at)[i];
	case ncclInt64:
		return (double)((const int64_t *)at)[i];
	case ncclUint64:
		return (double)((const uint64_t *)at)[i];
	case ncclFloat16:
		return (double)((const _Float16 *)at)[i];
	case ncclBfloat16:
		return from_bfloat16(((const uint16_t *)at)[i]);
	case ncclFloat32:
		return ((const float *)at)[i];
	default:
		return ((const double *)at)[i];
	}
}

/* ---- what they are ---- */

/* Element @i of rank @rank: 1 or 2 for products, else 8 numbers about 0 or from 0 on. */
static int number(ncclDataType_t type, ncclRedOp_t op, int rank, unsigned seed, size_t i)
{
	uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * 0x632be59bd9b4e019 +
		     (uint64_t)seed * 0xd6e8feb86659fd93;

	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x >>= 61;
	if (op == ncclProd)
		return 1 + (int)(x & 1);
	return (int)x - (types[type].is_signed ? 3 : 0);
}

static long join(ncclRedOp_t op, long a, long b)
{
	switch (op) {
	case ncclProd:
		return a * b;
	case ncclMax:
		return a > b ? a : b;
	case ncclMin:
		return a < b ? a : b;
	default:
		return a + b;
	}
}

/* Integers wrap; their mean is cut off towards 0. */
static double finish(ncclDataType_t type, ncclRedOp_t op, int nranks, long x)
{
	if (op == ncclAvg && types[type].is_float)
		return (double)x / nranks;
	if (op == ncclAvg)
		return (double)(x / nranks);
	if (type == ncclInt8)
		return (int8_t)x;
	if (type == ncclUint8)
		return (uint8_t)x;
	return (double)x;
}

void data_fill(void *at, ncclDataType_t type, ncclRedOp_t op, int rank, unsigned seed, size_t first,
	       size_t count)
{
	for (size_t i = 0; i < count; i++)
		put(at, type, i, number(type, op, rank, seed, first + i));
}

long data_wrong(const void *at, ncclDataType_t type, ncclRedOp_t op, int rank, unsigned seed,
		size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (get(at, type, i) != number(type, op, rank, seed, first + i))
			return (long)i;
	return -1;
}

long data_wrong_result(const void *at, ncclDataType_t type, ncclRedOp_t op, int nranks,
		       unsigned seed, size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		long x = number(type, op, 0, seed, first + i);

		for (int r = 1; r < nranks; r++)
			x = join(op, x, number(type, op, r, seed, first + i));
		if (get(at, type, i) != finish(type, op, nranks, x))
			return (long)i;
	}
	return -1;
}
