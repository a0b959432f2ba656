/* SPDX-License-Identifier: BSD-3-Clause */
/* What the core says of CUDA, compared with cuda.h where there is one. */
#include "../../core/cuda_api.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "srd_cuda.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#define SAME(ours, theirs) cr_assert(eq(int, (int)(ours), (int)(theirs)))

Test(cuda_api, numbers)
{
	SAME(CU_SUCCESS, CUDA_SUCCESS);
	SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
	SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
	SAME(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
	SAME(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
	SAME(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
	SAME(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
	SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
	SAME(CU_GPUDIRECT_SUPPORTED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
	SAME(CU_FLUSH_OPTIONS, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
	SAME(CU_WRITES_ORDERING, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
	SAME(CU_DMA_BUF_SUPPORTED, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
	SAME(CU_RANGE_DMA_BUF_FD, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
	SAME(CU_FLUSH_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
	SAME(CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
	SAME(1, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
	SAME(SRD_CUDA_NONE, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
	SAME(SRD_CUDA_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
	SAME(SRD_CUDA_ALL_DEVICES, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES);
	SAME(SRD_CUDA_OWNER, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
	SAME(SRD_CUDA_ALL_DEVICES, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
}

/* What a call passes is as long as what the header declares, and there is as much of it. */
#define CALLED(fn, ...) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&fn), CUresult (*)(__VA_ARGS__)), \
		       #fn)
#define LIKE(type, theirs) _Static_assert(sizeof(type) == sizeof(theirs), #theirs)

CALLED(cuInit, unsigned);
CALLED(cuGetErrorName, CUresult, const char **);
CALLED(cuCtxGetCurrent, CUcontext *);
CALLED(cuCtxGetDevice, CUdevice *);
CALLED(cuDeviceGetCount, int *);
CALLED(cuDeviceGetPCIBusId, char *, int, CUdevice);
CALLED(cuDeviceGetAttribute, int *, CUdevice_attribute, CUdevice);
CALLED(cuMemAlloc_v2, CUdeviceptr *, size_t);
CALLED(cuMemFree_v2, CUdeviceptr);
CALLED(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr);
CALLED(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *);
CALLED(cuMemGetHandleForAddressRange, void *, CUdeviceptr, size_t, CUmemRangeHandleType,
       unsigned long long);
CALLED(cuFlushGPUDirectRDMAWrites, CUflushGPUDirectRDMAWritesTarget,
       CUflushGPUDirectRDMAWritesScope);
LIKE(int, CUresult);
LIKE(void *, CUcontext);
LIKE(int, CUdevice);
LIKE(int, CUdevice_attribute);
LIKE(uint64_t, CUdeviceptr);
LIKE(int, CUstreamCaptureMode);
LIKE(int, CUmemRangeHandleType);
LIKE(int, CUflushGPUDirectRDMAWritesTarget);
LIKE(int, CUflushGPUDirectRDMAWritesScope);
#else
Test(cuda_api, numbers)
{
	cr_skip("there is no cuda.h");
}
#endif
