/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions by their names. */
#include "gpu.h"

#include <string.h>

#define ENTRY(name) \
	{ \
#name, (void *)name \
	}

/* By the names without versions: NCCL asks for the newest that these are, or older and equal ones.
 */
static const struct {
	const char *name;
	void *fn;
} entries[] = {
	ENTRY(cuCtxGetCurrent),
	ENTRY(cuCtxGetDevice),
	ENTRY(cuCtxSetCurrent),
	ENTRY(cuDeviceGet),
	ENTRY(cuDeviceGetAttribute),
	ENTRY(cuDeviceGetUuid),
	ENTRY(cuGetErrorName),
	ENTRY(cuGetErrorString),
	ENTRY(cuLaunchKernelEx),
	ENTRY(cuMemAddressFree),
	ENTRY(cuMemAddressReserve),
	ENTRY(cuMemCreate),
	ENTRY(cuMemExportToShareableHandle),
	ENTRY(cuMemGetAddressRange),
	ENTRY(cuMemGetAllocationGranularity),
	ENTRY(cuMemGetAllocationPropertiesFromHandle),
	ENTRY(cuMemGetHandleForAddressRange),
	ENTRY(cuMemImportFromShareableHandle),
	ENTRY(cuMemMap),
	ENTRY(cuMemRelease),
	ENTRY(cuMemRetainAllocationHandle),
	ENTRY(cuMemSetAccess),
	ENTRY(cuMemUnmap),
	ENTRY(cuPointerGetAttribute),
};

API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **fn, unsigned version,
						 unsigned long long flags,
						 enum cudaDriverEntryPointQueryResult *found)
{
	(void)version;
	(void)flags;
	gpu_current();
	*fn = NULL;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (strcmp(entries[i].name, name) == 0)
			*fn = entries[i].fn;
	if (found)
		*found = *fn ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}
