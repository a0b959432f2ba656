/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for libnvidia-ml.so.1: the GPUs of the fake CUDA, with no links between them. */
#include <stdint.h>

#include <cuda_runtime_api.h>

#define API __attribute__((visibility("default")))

/* As in NVML's documentation: nvmlReturn_t. */
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };
/* nvmlGpuP2PStatus_t */
enum { P2P_NOT_SUPPORTED = 5 };

/* A device's is its number plus one. */
typedef void *handle;

static int number(handle device)
{
	return (int)((uintptr_t)device - 1);
}

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API const char *nvmlErrorString(int error);
API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetHandleByIndex(unsigned index, handle *device);
API int nvmlDeviceGetHandleByPciBusId(const char *id, handle *device);
API int nvmlDeviceGetIndex(handle device, unsigned *index);
API int nvmlDeviceGetPciInfo_v3(handle device, void *pci);
API int nvmlDeviceGetPciInfoExt(handle device, void *pci);
API int nvmlDeviceGetCurrPcieLinkGeneration(handle device, unsigned *generation);
API int nvmlDeviceGetCurrPcieLinkWidth(handle device, unsigned *width);
API int nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor);
API int nvmlDeviceGetNvLinkState(handle device, unsigned link, int *active);
API int nvmlDeviceGetNvLinkRemotePciInfo(handle device, unsigned link, void *pci);
API int nvmlDeviceGetNvLinkCapability(handle device, unsigned link, int which, unsigned *value);
API int nvmlDeviceGetP2PStatus(handle a, handle b, int which, int *status);
API int nvmlDeviceGetFieldValues(handle device, int count, void *values);

int nvmlInit_v2(void)
{
	return SUCCESS;
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

const char *nvmlErrorString(int error)
{
	return error == SUCCESS ? "Success" : error == NOT_SUPPORTED ? "Not Supported" : "Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	return cudaGetDeviceCount((int *)count) ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetHandleByIndex(unsigned index, handle *device)
{
	unsigned count;

	if (nvmlDeviceGetCount_v2(&count) || index >= count)
		return INVALID_ARGUMENT;
	*device = (handle)(uintptr_t)(index + 1);
	return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId(const char *id, handle *device)
{
	int index;

	if (cudaDeviceGetByPCIBusId(&index, id))
		return INVALID_ARGUMENT;
	return nvmlDeviceGetHandleByIndex((unsigned)index, device);
}

int nvmlDeviceGetIndex(handle device, unsigned *index)
{
	*index = (unsigned)number(device);
	return SUCCESS;
}

/* NCCL asks from 2.30 on, where sysfs has no such device, and goes on without an answer. */
int nvmlDeviceGetPciInfo_v3(handle device, void *pci)
{
	(void)device;
	(void)pci;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetPciInfoExt(handle device, void *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

int nvmlDeviceGetCurrPcieLinkGeneration(handle device, unsigned *generation)
{
	return nvmlDeviceGetPciInfo_v3(device, generation);
}

int nvmlDeviceGetCurrPcieLinkWidth(handle device, unsigned *width)
{
	return nvmlDeviceGetPciInfo_v3(device, width);
}

int nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor)
{
	if (cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, number(device)) ||
	    cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, number(device)))
		return INVALID_ARGUMENT;
	return SUCCESS;
}

int nvmlDeviceGetNvLinkState(handle device, unsigned link, int *active)
{
	(void)device;
	(void)link;
	*active = 0;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo(handle device, unsigned link, void *pci)
{
	(void)device;
	(void)link;
	(void)pci;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkCapability(handle device, unsigned link, int which, unsigned *value)
{
	(void)device;
	(void)link;
	(void)which;
	*value = 0;
	return NOT_SUPPORTED;
}

int nvmlDeviceGetP2PStatus(handle a, handle b, int which, int *status)
{
	(void)a;
	(void)b;
	(void)which;
	*status = P2P_NOT_SUPPORTED;
	return SUCCESS;
}

int nvmlDeviceGetFieldValues(handle device, int count, void *values)
{
	(void)device;
	(void)count;
	(void)values;
	return NOT_SUPPORTED;
}
