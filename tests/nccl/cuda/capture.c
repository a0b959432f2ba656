/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs: no stream is ever captured, and nothing else of CUDA that NCCL has use for is here. */
#include "gpu.h"

API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	(void)stream;
	*status = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
					 unsigned long long *id, cudaGraph_t *graph,
					 const cudaGraphNode_t **nodes,
					 const cudaGraphEdgeData **edges, size_t *count)
{
	(void)stream;
	*status = cudaStreamCaptureStatusNone;
	if (id)
		*id = 0;
	if (graph)
		*graph = NULL;
	if (nodes)
		*nodes = NULL;
	if (edges)
		*edges = NULL;
	if (count)
		*count = 0;
	return cudaSuccess;
}

API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	static _Thread_local enum cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
	enum cudaStreamCaptureMode was = now;

	now = *mode;
	*mode = was;
	return cudaSuccess;
}

API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	return (CUresult)cudaThreadExchangeStreamCaptureMode((enum cudaStreamCaptureMode *)mode);
}
