/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floats whose sums are exact: each rank's element is an integer so small that the sum over all
 * ranks needs no more than the 24 bits a float has. So every order of summation gives one result,
 * and it can be verified bit by bit.
 */
#ifndef NETBENCH_REDUCE_H
#define NETBENCH_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* out[i] = a[i] + b[i]; a and b do not overlap out. */
void nb_reduce(float *out, const float *a, const float *b, size_t n);

/* Elements first ... first + n - 1 of @rank's input in round @serial. */
void nb_reduce_fill(float *data, uint64_t first, size_t n, int rank, int nranks, uint64_t serial);

/* How many of these elements differ from the sum over all ranks; *@at is the first of them. */
size_t nb_reduce_check(const float *data, uint64_t first, size_t n, int nranks, uint64_t serial,
		       size_t *at);

#endif
