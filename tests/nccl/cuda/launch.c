/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels: who they are, and that a stream runs them. */
#include "gpu.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "../kernel.h"

struct kernel {
	struct kernel *next;
	const void *entry;
	const char *name;
	kernel_fn *run;
};

static struct kernel *kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

API void kernel_add(const void *entry, const char *name, kernel_fn *run)
{
	struct kernel *k = malloc(sizeof(*k));

	if (!k)
		abort();
	pthread_mutex_lock(&lock);
	*k = (struct kernel){kernels, entry, name, run};
	kernels = k;
	pthread_mutex_unlock(&lock);
}

API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *fn, const void *entry)
{
	struct kernel *k;

	pthread_mutex_lock(&lock);
	for (k = kernels; k && k->entry != entry; k = k->next)
		;
	pthread_mutex_unlock(&lock);
	*fn = (cudaFunction_t)k;
	return k ? gpu_error() : gpu_fail("%p is no kernel", entry);
}

API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *entry)
{
	(void)entry;
	memset(attr, 0, sizeof(*attr));
	attr->maxThreadsPerBlock = 1024;
	attr->numRegs = 96;
	return cudaSuccess;
}

API cudaError_t cudaFuncSetAttribute(const void *entry, enum cudaFuncAttribute which, int value)
{
	(void)entry;
	(void)which;
	(void)value;
	return cudaSuccess;
}

/* ---- launch ---- */

struct launch {
	struct task task;
	const struct kernel *kernel;
	struct kernel_launch what;
	struct event *started; /* NULL: nobody asks */
	uint64_t nth;
	alignas(16) char args[];
};

static void run_launch(struct task *t)
{
	struct launch *l = (struct launch *)t;
	const char *why;

	if (l->started)
		event_done(l->started, l->nth);
	/* After a failure a GPU runs nothing any more, and a peer would only wait. */
	why = gpu_error() ? NULL : l->kernel->run(&l->what);
	if (why)
		gpu_fail("kernel %s: %s", l->what.name, why);
	free(l);
}

/* The arguments are given as one block of memory. */
static cudaError_t get_args(void **extra, const void **args, size_t *size)
{
	*args = NULL;
	*size = 0;
	for (void **p = extra; p && *p != CU_LAUNCH_PARAM_END; p += 2) {
		if (*p == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*args = p[1];
		else if (*p == CU_LAUNCH_PARAM_BUFFER_SIZE)
			*size = *(size_t *)p[1];
		else
			return gpu_fail("a launch with an unknown parameter");
	}
	return *args ? cudaSuccess : gpu_fail("a launch without a block of arguments");
}

static cudaError_t get_started(const CUlaunchConfig *config, struct event **started)
{
	*started = NULL;
	for (unsigned i = 0; i < config->numAttrs; i++)
		switch ((int)config->attrs[i].id) {
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
			*started =
				(struct event *)config->attrs[i].value.launchCompletionEvent.event;
			break;
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
			break;
		default:
			return gpu_fail("launch attribute %d is not known here",
					(int)config->attrs[i].id);
		}
	return cudaSuccess;
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction fn, void **params,
			      void **extra)
{
	const struct kernel *k = (const struct kernel *)fn;
	struct stream *s = stream_of(config->hStream);
	struct event *started;
	const void *args;
	struct launch *l;
	size_t size;

	if (params || config->gridDimY != 1 || config->gridDimZ != 1 || config->blockDimY != 1 ||
	    config->blockDimZ != 1)
		return (CUresult)gpu_fail("kernel %s: a kind of launch not known here", k->name);
	if (get_args(extra, &args, &size) || get_started(config, &started))
		return (CUresult)gpu_error();
	/* A multiple of its alignment, as aligned_alloc() wants. */
	l = aligned_alloc(16, (sizeof(*l) + size + 15) & ~(size_t)15);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*l = (struct launch){
		.task = {.run = run_launch},
		.kernel = k,
		.what = {k->name, memcpy(l->args, args, size), size, config->gridDimX,
			 config->blockDimX, stream_device(s)},
		.started = started,
		.nth = started ? event_begin(started) : 0,
	};
	stream_push(s, &l->task);
	return (CUresult)gpu_error();
}
