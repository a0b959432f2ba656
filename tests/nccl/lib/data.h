/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks give to a collective, and what must come out, element by element. The numbers are so
 * small that sums, products and means of 8 ranks (means: of 2, 4 or 8) are exact in every type.
 */
#ifndef TESTS_NCCL_DATA_H
#define TESTS_NCCL_DATA_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

size_t data_size(ncclDataType_t type);
const char *data_type_name(ncclDataType_t type);
const char *data_op_name(ncclRedOp_t op);

/* Rank @rank's elements from @first on, for operation @op; @seed tells calls apart. */
void data_fill(void *at, ncclDataType_t type, ncclRedOp_t op, int rank, unsigned seed, size_t first,
	       size_t count);

/* Are they @rank's elements from @first on? The first that is not, or -1. */
long data_wrong(const void *at, ncclDataType_t type, ncclRedOp_t op, int rank, unsigned seed,
		size_t first, size_t count);

/* Are they those of @nranks ranks from @first on, reduced? */
long data_wrong_result(const void *at, ncclDataType_t type, ncclRedOp_t op, int nranks,
		       unsigned seed, size_t first, size_t count);

#endif
