/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures are loud, stay, and spoil the exit status. */
#include "gpu.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define EXIT_STATUS 86

static atomic_bool failed;

cudaError_t gpu_fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "fake CUDA: FAILED: %s\n", text);
	atomic_store(&failed, true);
	return cudaErrorLaunchFailure;
}

cudaError_t gpu_error(void)
{
	return atomic_load(&failed) ? cudaErrorLaunchFailure : cudaSuccess;
}

/* A test that does not look at what CUDA says must not pass either. */
__attribute__((destructor)) static void spoil(void)
{
	if (!atomic_load(&failed))
		return;
	fflush(NULL);
	_exit(EXIT_STATUS);
}

API cudaError_t cudaGetLastError(void)
{
	return gpu_error();
}

API const char *cudaGetErrorName(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "cudaSuccess";
	case cudaErrorInvalidValue:
		return "cudaErrorInvalidValue";
	case cudaErrorMemoryAllocation:
		return "cudaErrorMemoryAllocation";
	case cudaErrorInvalidDevice:
		return "cudaErrorInvalidDevice";
	case cudaErrorNotReady:
		return "cudaErrorNotReady";
	case cudaErrorNotSupported:
		return "cudaErrorNotSupported";
	case cudaErrorLaunchFailure:
		return "cudaErrorLaunchFailure";
	default:
		return "an error of the fake CUDA";
	}
}

API const char *cudaGetErrorString(cudaError_t error)
{
	return cudaGetErrorName(error);
}

API CUresult cuGetErrorName(CUresult error, const char **name)
{
	*name = cudaGetErrorName((cudaError_t)error);
	return CUDA_SUCCESS;
}

API CUresult cuGetErrorString(CUresult error, const char **text)
{
	return cuGetErrorName(error, text);
}
