/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libcuda.so.1: one kind of device, whose memory is memfds that the process has
 * mapped, so that an export of it is a file which softefa takes for a dma-buf. What the driver
 * would refuse it refuses; what a test wants to be different is in struct fake_cuda.
 */
#ifndef TESTS_CUDA_FAKE_H
#define TESTS_CUDA_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_cuda {
	bool context;    /* the thread has one; true at first */
	bool dmabuf;     /* true at first */
	int flush;       /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS; 1 at first */
	int ordering;    /* 0 at first */
	int fail;        /* what the next export answers; 0: what is right */
	bool capturing;  /* a stream: calls that capture forbids are counted unless the mode allows
			  */
	unsigned unsafe; /* those calls */
	int mode;        /* of capture, of the thread; 0 at first */
	unsigned freed;  /* allocations */
	unsigned flushes;
	int scope; /* of the last flush */
	int device;
	unsigned attributes; /* set for pointers */
};

/* The exported functions of the stand-in that CUDA has not. */
typedef struct fake_cuda *fake_cuda_fn(void);
/*
 * Device memory, next to what was allocated before; NULL: none left. With @piece not 0 it is
 * addresses that were reserved, to which physical memory was mapped in pieces of that size.
 */
typedef void *fake_cuda_alloc_fn(size_t size, size_t piece);

/* Load it in front of any other; once, before srd_cuda is first used. */
struct fake_cuda *fake_cuda_load(void);
void *fake_cuda_alloc(size_t size);
void *fake_cuda_map(size_t size, size_t piece);

#endif
