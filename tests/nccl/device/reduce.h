/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of collectives. */
#ifndef TESTS_NCCL_DEVICE_REDUCE_H
#define TESTS_NCCL_DEVICE_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* On arrays of n elements; arg is what NCCL gives with the work. */
struct reduction {
	size_t size; /* bytes of an element */
	uint64_t arg;
	void (*before)(void *x, size_t n, uint64_t arg); /* to each rank's own data, or NULL */
	void (*join)(void *acc, const void *x, size_t n, uint64_t arg);
	void (*after)(void *acc, size_t n, uint64_t arg); /* to the result, or NULL */
};

/* Of an ncclDevRedOp_t and an ncclDataType_t; false: not interpreted. */
bool reduction_find(struct reduction *red, int op, int type);
/* What is moved and not reduced. */
struct reduction reduction_none(void);

#endif
