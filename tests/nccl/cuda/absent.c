/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What NCCL is linked to and must not come to here: graphs, copies in batches, memory shared by the
 * older way. CUDA's headers are not included: the arguments do not matter.
 */
#define API           __attribute__((visibility("default")))
#define NOT_SUPPORTED 801

int gpu_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define ABSENT(name) \
	API int name(void); \
	int name(void) \
	{ \
		gpu_fail("%s is not here", #name); \
		return NOT_SUPPORTED; \
	}

ABSENT(cudaGraphAddDependencies)
ABSENT(cudaGraphAddEventRecordNode)
ABSENT(cudaGraphRetainUserObject)
ABSENT(cudaStreamUpdateCaptureDependencies)
ABSENT(cudaUserObjectCreate)
ABSENT(cudaIpcCloseMemHandle)
ABSENT(cudaIpcGetMemHandle)
ABSENT(cudaIpcOpenMemHandle)
ABSENT(cudaMemcpyBatchAsync)
