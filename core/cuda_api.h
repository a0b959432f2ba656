/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the CUDA driver API that is used, from the documentation of cuda.h; a test compares
 * it with the real header where there is one. X(name, needed, (arguments))
 */
#ifndef SRD_CORE_CUDA_API_H
#define SRD_CORE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* Results. */
enum {
	CU_SUCCESS = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_DEINITIALIZED = 4,
	CU_NO_DEVICE = 100,
	CU_INVALID_CONTEXT = 201,
	CU_NOT_SUPPORTED = 801,
};

/* Device attributes. */
enum {
	CU_GPUDIRECT_SUPPORTED = 116,
	CU_FLUSH_OPTIONS = 117, /* bit 0: cuFlushGPUDirectRDMAWrites() */
	CU_WRITES_ORDERING = 118,
	CU_DMA_BUF_SUPPORTED = 124,
};

enum { CU_RANGE_DMA_BUF_FD = 1, CU_FLUSH_CURRENT_CTX = 0, CU_CAPTURE_RELAXED = 2 };

#define SRD_CUDA_SYMS(X) \
	X(cuInit, true, (unsigned flags)) \
	X(cuGetErrorName, true, (int error, const char **name)) \
	X(cuCtxGetCurrent, true, (void **ctx)) \
	X(cuCtxGetDevice, true, (int *device)) \
	X(cuDeviceGetCount, true, (int *count)) \
	X(cuDeviceGetPCIBusId, true, (char *bus_id, int size, int device)) \
	X(cuDeviceGetAttribute, true, (int *value, int attribute, int device)) \
	X(cuMemAlloc_v2, true, (uint64_t * ptr, size_t size)) \
	X(cuMemFree_v2, true, (uint64_t ptr)) \
	X(cuMemGetAddressRange_v2, true, (uint64_t * base, size_t * size, uint64_t ptr)) \
	X(cuThreadExchangeStreamCaptureMode, true, (int *mode)) \
	X(cuMemGetHandleForAddressRange, false, \
	  (void *handle, uint64_t ptr, size_t size, int type, unsigned long long flags)) \
	X(cuFlushGPUDirectRDMAWrites, false, (int target, int scope))

struct srd_cuda_api {
#define X(name, needed, args) int(*name) args;
	SRD_CUDA_SYMS(X)
#undef X
};

#endif
