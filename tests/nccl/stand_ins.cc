// SPDX-License-Identifier: BSD-3-Clause
// In place of NCCL's device code: its kernels as mere names, and the host functions that lie in it.
#include <stdio.h>

#include "collectives.h"
#include "device.h"
#include "sym_kernels.h"

#include "kernel.h"

// kernels.inc is made from NCCL's own lists: KERNEL(name, type of its argument). Their addresses
// are their handles; nothing calls them.
#define KERNEL(name, args) \
	void name(args const) \
	{ \
	}
#include "kernels.inc"
#undef KERNEL

__attribute__((constructor)) static void add_kernels()
{
#define KERNEL(name, args) kernel_add((const void *)name, #name, kernel_run);
#include "kernels.inc"
}

// A communicator of one rank: a copy, unless the operation scales the data.
ncclResult_t ncclLaunchOneRank(void *dst, void const *src, size_t count, struct ncclDevRedOpFull op,
			       ncclDataType_t type, cudaStream_t stream)
{
	if (op.op == ncclDevPreMulSum) {
		fprintf(stderr, "ncclLaunchOneRank: no scaling here\n");
		return ncclInvalidUsage;
	}
	if (dst != src &&
	    cudaMemcpyAsync(dst, src, count * ncclTypeSize(type), cudaMemcpyDeviceToDevice, stream))
		return ncclUnhandledCudaError;
	return ncclSuccess;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
// Signals and counters of kernels that talk to the network themselves: there are none here.
ncclResult_t ncclGinResetSignalsAndCounters(struct ncclComm *, ncclDevComm_t const *devComm)
{
	if (devComm->ginSignalCount == 0 && devComm->ginCounterCount == 0)
		return ncclSuccess;
	fprintf(stderr, "ncclGinResetSignalsAndCounters: no GIN here\n");
	return ncclInvalidUsage;
}
#endif
