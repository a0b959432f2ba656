/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, what they can, and which one is current. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUS    0xca /* softefa has those from 0x10 on */
#define TOTAL_BYTES  ((size_t)16 << 30)
#define SHARED_BYTES 232448

/* A context is but the device's. Threads have none until they call the runtime. */
static char contexts[GPU_MAX];
static _Thread_local int current = -1;

static int setting(const char *name, int fallback, int min, int max)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text)
		return fallback;
	value = strtol(text, &end, 10);
	if (*end || end == text || value < min || value > max) {
		fprintf(stderr, "fake CUDA: %s=%s: not %d to %d\n", name, text, min, max);
		exit(1);
	}
	return (int)value;
}

int gpu_count(void)
{
	return setting("FAKE_CUDA_DEVICES", 1, 1, GPU_MAX);
}

static int capability(void)
{
	return setting("FAKE_CUDA_CC", 90, 70, 120);
}

struct address {
	unsigned domain, bus, device;
};

/* Function 0 of it. */
static struct address address(int device)
{
	struct address a = {0, FIRST_BUS + (unsigned)device, 0};
	const char *list = getenv("FAKE_CUDA_PCI"), *at = list;

	if (!list)
		return a;
	for (int i = 0; i < device; i++) {
		at += strcspn(at, ",");
		at += *at == ',';
	}
	if (sscanf(at, "%x:%x:%x.0", &a.domain, &a.bus, &a.device) != 3) {
		fprintf(stderr, "fake CUDA: FAKE_CUDA_PCI=%s: no address of GPU %d\n", list,
			device);
		exit(1);
	}
	return a;
}

int gpu_current(void)
{
	if (current < 0)
		current = 0;
	return current;
}

static bool exists(int device)
{
	return device >= 0 && device < gpu_count();
}

/* ---- the runtime ---- */

API cudaError_t cudaGetDeviceCount(int *count)
{
	*count = gpu_count();
	return cudaSuccess;
}

API cudaError_t cudaGetDevice(int *device)
{
	*device = gpu_current();
	return cudaSuccess;
}

API cudaError_t cudaSetDevice(int device)
{
	if (!exists(device))
		return cudaErrorInvalidDevice;
	current = device;
	return cudaSuccess;
}

API cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	(void)limit;
	(void)value;
	return cudaSuccess;
}

API cudaError_t cudaDriverGetVersion(int *version)
{
	*version = CUDA_VERSION;
	return cudaSuccess;
}

API cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	if (!exists(device))
		return cudaErrorInvalidDevice;
	memset(prop, 0, sizeof(*prop));
	snprintf(prop->name, sizeof(prop->name), "fake GPU %d", device);
	prop->totalGlobalMem = TOTAL_BYTES;
	prop->major = capability() / 10;
	prop->minor = capability() % 10;
	prop->multiProcessorCount = 132;
	prop->warpSize = 32;
	prop->maxThreadsPerBlock = 1024;
	prop->pciDomainID = (int)address(device).domain;
	prop->pciBusID = (int)address(device).bus;
	prop->pciDeviceID = (int)address(device).device;
	prop->unifiedAddressing = 1;
	prop->canMapHostMemory = 1;
	return cudaSuccess;
}

API cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	struct address a;

	if (!exists(device))
		return cudaErrorInvalidDevice;
	a = address(device);
	snprintf(id, (size_t)size, "%04X:%02X:%02X.0", a.domain, a.bus, a.device);
	return cudaSuccess;
}

API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	for (int i = 0; i < gpu_count(); i++) {
		char its[32];

		cudaDeviceGetPCIBusId(its, sizeof(its), i);
		if (strcasecmp(its, id) == 0) {
			*device = i;
			return cudaSuccess;
		}
	}
	return cudaErrorInvalidValue;
}

/* NCCL goes through memory of the host between GPUs: each GPU's memory is its own. */
API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	(void)device;
	(void)peer;
	*can = 0;
	return cudaSuccess;
}

API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	(void)peer;
	(void)flags;
	return cudaErrorNotSupported;
}

/* ---- attributes ---- */

static int attribute(int which, int *value)
{
	switch (which) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = capability() / 10;
		return 0;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*value = capability() % 10;
		return 0;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		*value = SHARED_BYTES;
		return 0;
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
		*value = 1;
		return 0;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
		*value = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
		return 0;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
		*value = capability() < 90 ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE
					   : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;
		return 0;
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED:
		*value = 0;
		return 0;
	default:
		return gpu_fail("device attribute %d is not known here", which);
	}
}

API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
	return exists(device) ? (CUresult)attribute((int)which, value) : CUDA_ERROR_INVALID_DEVICE;
}

API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device)
{
	return exists(device) ? (cudaError_t)attribute((int)which, value) : cudaErrorInvalidDevice;
}

/* ---- the driver ---- */

API CUresult cuInit(unsigned flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *count)
{
	return (CUresult)cudaGetDeviceCount(count);
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return exists(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Different within a host, the same on all of them: NCCL compares those of one host. */
API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	if (!exists(device))
		return CUDA_ERROR_INVALID_DEVICE;
	memset(uuid, 0, sizeof(*uuid));
	uuid->bytes[0] = (char)(FIRST_BUS + device);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
	return (CUresult)cudaDeviceGetPCIBusId(id, size, device);
}

API CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	*ctx = current < 0 ? NULL : (CUcontext)&contexts[current];
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext ctx)
{
	current = ctx ? (int)((char *)ctx - contexts) : -1;
	return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = current;
	return current < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
