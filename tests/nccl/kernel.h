/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the fake CUDA runtime ends and the interpreter of NCCL's kernels begins. */
#ifndef TESTS_NCCL_KERNEL_H
#define TESTS_NCCL_KERNEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernel_launch {
	const char *name; /* as NCCL declares it, e.g. "ncclDevKernel_AllReduce_Sum_f32_RING_LL" */
	const void *args; /* what the launch passed, a copy, aligned to 16 bytes */
	size_t arg_bytes;
	unsigned grid, block; /* the x of each; y and z are 1 */
	int device;           /* of the stream */
};

/*
 * Do what the GPU would do, in the stream's turn, and return when all blocks are done. The caller
 * is a thread of its own, with @device current; other streams go on meanwhile. Device memory is
 * memory of the process. NULL, or why it could not be done, in words that stay valid: then the
 * stream's error is sticky, and so is the process's exit status. Unknown is an error.
 */
const char *kernel_run(const struct kernel_launch *launch);

typedef const char *kernel_fn(const struct kernel_launch *launch);

/* Of the fake runtime: from now on @entry is the handle of a kernel, which @run does. */
void kernel_add(const void *entry, const char *name, kernel_fn *run);

#ifdef __cplusplus
}
#endif

#endif
