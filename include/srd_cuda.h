/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srd_cuda - GPU memory as memory regions, and what makes remote writes to it visible.
 *
 * The conventions are those of srd.h. libcuda.so.1 is loaded on first use; without it these calls
 * fail with -ENOENT. The calling thread must have a CUDA context current, that of the memory:
 * -ENXIO otherwise. All calls are safe while a stream of the thread is being captured. What CUDA
 * says is logged and becomes -EINVAL, -ENOMEM, -EOPNOTSUPP, -ENXIO, or else -EIO.
 *
 * The NIC does not wait for streams: synchronize the stream that wrote a buffer before sending it,
 * and call srd_flush_gpudirect_writes() between the completion that announces data and the CUDA
 * work that reads them.
 */
#ifndef SRD_CUDA_H
#define SRD_CUDA_H

#include "srd.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Who sees remote writes; the values are those of CUDA. */
enum srd_cuda_scope {
	SRD_CUDA_NONE = 0,
	SRD_CUDA_OWNER = 100,       /* the device that has the memory */
	SRD_CUDA_ALL_DEVICES = 200, /* and all others */
};

struct srd_cuda_attr {
	int device;                   /* CUDA ordinal */
	char bus_id[24];              /* PCI address in lower case, as in srd_topo.h */
	bool dmabuf;                  /* its memory can be exported as a dma-buf */
	bool gpudirect;               /* a peer-memory kernel module could map it */
	bool flush;                   /* srd_flush_gpudirect_writes() can help where it must */
	enum srd_cuda_scope ordering; /* who sees remote writes in order without a flush */
};

/* Of the device of the current context. */
int srd_cuda_query(struct srd_cuda_attr *attr);
/* Of the device with the ordinal @device; needs no context. -ENODEV: there is none. */
int srd_cuda_query_device(int device, struct srd_cuda_attr *attr);

/*
 * Export [@ptr, @ptr + @len) of device memory: *@fd, which the caller closes, holds the whole pages
 * around it, and the range begins at *@offset in it. -EINVAL: empty, or not within one allocation
 * or one fully mapped reservation.
 */
int srd_cuda_export(uint64_t ptr, size_t len, int *fd, uint64_t *offset);

/*
 * Register device memory: by exporting it, or else as plain memory, which needs a peer-memory
 * kernel module. Each way that fails is logged with its errno, and tried again the next time. The
 * allocation must outlive the region. @access: IBV_ACCESS_*. mr->addr is @ptr.
 */
int srd_cuda_mr_init(struct srd_mr *mr, struct srd_pd *pd, uint64_t ptr, size_t len, int access);

/* Ways to register device memory. */
enum {
	SRD_CUDA_BY_DMABUF = 1u << 0,
	SRD_CUDA_BY_PEER = 1u << 1, /* as plain memory, by a peer-memory kernel module */
};

/*
 * The first of @ways that works for the current device and @pd, tried with some memory of its own;
 * 0: none. Attributes of the device do not tell what kernel, NIC and machine allow.
 */
int srd_cuda_probe(struct srd_pd *pd, int access, unsigned ways);

/*
 * Remote writes whose completion was seen become visible to @scope; returns at once where they are
 * anyway. -EOPNOTSUPP: the device has no such call.
 */
int srd_flush_gpudirect_writes(enum srd_cuda_scope scope);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
