/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory as NCCL hands it over, of the host or of a GPU, and the ways to register it with the
 * functions of a device.
 */
#ifndef NET_MEM_H
#define NET_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "srd.h"

struct net_range {
	uintptr_t addr;
	size_t len;
	bool gpu;        /* the thread must have the GPU's CUDA context current */
	int fd;          /* of a dma-buf that holds it, borrowed; -1: none */
	uint64_t offset; /* of addr in it */
};

/*
 * NCCL_NET_PTR_*: what can be registered. GPU memory is found out about by trying, once, when a
 * thread with a CUDA context asks; before, it is the host's alone.
 */
int net_mem_support(void);

/* The whole pages around @r; -EINVAL: it is empty, or ends past the end of memory. */
int net_range_pages(const struct net_range *r, uintptr_t *start, uintptr_t *end);

/*
 * Register the pages of @r with @n functions, all or none; NULL is passed over. GPU memory: by the
 * caller's dma-buf, else by an export of our own, else as plain memory. What fails all ways is one
 * warning, to which @context (may be empty) is added.
 */
int net_mem_register(struct srd_mr *mr, struct srd_pd *const *pd, int n, const struct net_range *r,
		     const char *context);

#endif
