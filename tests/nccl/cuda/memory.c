/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocations, and what is known of an address. */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct range *ranges;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t gpu_pages(size_t size)
{
	return (size + GPU_PAGE - 1) & ~(size_t)(GPU_PAGE - 1);
}

void *gpu_file(size_t size, int *fd)
{
	void *at;

	*fd = memfd_create("fake CUDA", MFD_CLOEXEC);
	if (*fd < 0)
		return NULL;
	at = ftruncate(*fd, (off_t)size)
		     ? MAP_FAILED
		     : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (at != MAP_FAILED)
		return at;
	close(*fd);
	return NULL;
}

bool range_find(uintptr_t at, struct range *found)
{
	struct range *r;

	pthread_mutex_lock(&lock);
	for (r = ranges; r && at - r->at >= gpu_pages(r->size); r = r->next)
		;
	if (r)
		*found = *r;
	pthread_mutex_unlock(&lock);
	return r;
}

void range_add(const struct range *r)
{
	struct range *new = malloc(sizeof(*new));

	if (!new)
		abort();
	*new = *r;
	pthread_mutex_lock(&lock);
	new->next = ranges;
	ranges = new;
	pthread_mutex_unlock(&lock);
}

bool range_remove(uintptr_t at, struct range *removed)
{
	struct range **p, *r;

	pthread_mutex_lock(&lock);
	for (p = &ranges; *p && (*p)->at != at; p = &(*p)->next)
		;
	r = *p;
	if (r)
		*p = r->next;
	pthread_mutex_unlock(&lock);
	if (!r)
		return false;
	*removed = *r;
	free(r);
	return true;
}

/* ---- allocation ---- */

static cudaError_t allocate(void **ptr, size_t size, bool host)
{
	struct range r = {.size = size ? size : 1, .host = host, .device = gpu_current()};
	void *at = gpu_file(gpu_pages(r.size), &r.fd);

	if (!at)
		return cudaErrorMemoryAllocation;
	r.at = (uintptr_t)at;
	range_add(&r);
	*ptr = at;
	return cudaSuccess;
}

static cudaError_t release(void *ptr)
{
	struct range r;

	if (!range_remove((uintptr_t)ptr, &r))
		return cudaErrorInvalidValue;
	if (r.fd < 0 || r.handle)
		return gpu_fail("%p is freed, and was not allocated", ptr);
	munmap(ptr, gpu_pages(r.size));
	close(r.fd);
	return cudaSuccess;
}

API cudaError_t cudaMalloc(void **ptr, size_t size)
{
	return allocate(ptr, size, false);
}

/* Nothing of the device may still use it. */
API cudaError_t cudaFree(void *ptr)
{
	struct range r;

	if (!ptr)
		return cudaSuccess;
	if (range_find((uintptr_t)ptr, &r))
		stream_wait_all(r.device, false);
	return release(ptr);
}

API cudaError_t cudaHostAlloc(void **ptr, size_t size, unsigned flags)
{
	(void)flags;
	return allocate(ptr, size, true);
}

API cudaError_t cudaFreeHost(void *ptr)
{
	return ptr ? release(ptr) : cudaSuccess;
}

API cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned flags)
{
	(void)flags;
	range_add(&(struct range){.at = (uintptr_t)ptr,
				  .size = size,
				  .host = true,
				  .device = gpu_current(),
				  .fd = -1});
	return cudaSuccess;
}

API cudaError_t cudaHostUnregister(void *ptr)
{
	struct range r;

	return range_remove((uintptr_t)ptr, &r) ? cudaSuccess : cudaErrorInvalidValue;
}

API cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
	(void)flags;
	*device = host;
	return cudaSuccess;
}

API CUresult cuMemAlloc(CUdeviceptr *ptr, size_t size)
{
	void *at = NULL;
	cudaError_t error = cudaMalloc(&at, size);

	*ptr = (CUdeviceptr)at;
	return (CUresult)error;
}

API CUresult cuMemFree(CUdeviceptr ptr)
{
	return (CUresult)cudaFree((void *)ptr);
}

/* ---- pools: their allocations are in no order, so they are made at once ---- */

API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	static char any;

	(void)props;
	*pool = (cudaMemPool_t)&any;
	return cudaSuccess;
}

API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	(void)pool;
	return cudaSuccess;
}

API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
	(void)pool;
	(void)which;
	(void)value;
	return cudaSuccess;
}

API cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t pool,
					cudaStream_t stream)
{
	(void)pool;
	(void)stream;
	return cudaMalloc(ptr, size);
}

struct release {
	struct task task;
	void *ptr;
};

static void run_release(struct task *t)
{
	struct release *r = (struct release *)t;

	if (release(r->ptr))
		gpu_fail("%p is freed, and was not allocated", r->ptr);
	free(r);
}

API cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
	struct release *r = malloc(sizeof(*r));

	if (!r)
		return cudaErrorMemoryAllocation;
	*r = (struct release){{.run = run_release}, ptr};
	stream_push(stream_of(stream), &r->task);
	return gpu_error();
}

/* ---- what is known of an address ---- */

API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attr, const void *ptr)
{
	struct range r;

	memset(attr, 0, sizeof(*attr));
	if (!range_find((uintptr_t)ptr, &r)) {
		attr->type = cudaMemoryTypeUnregistered;
		attr->device = -1;
		return cudaSuccess;
	}
	attr->type = r.host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
	attr->device = r.device;
	attr->devicePointer = (void *)(uintptr_t)ptr;
	attr->hostPointer = r.host ? (void *)(uintptr_t)ptr : NULL;
	return cudaSuccess;
}

API CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr ptr)
{
	struct range r;

	if (!range_find(ptr, &r))
		return CUDA_ERROR_INVALID_VALUE;
	switch (which) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(CUmemorytype *)value = r.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)value = r.device;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)value = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(uint64_t *)value = r.handle ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
		return CUDA_SUCCESS;
	default:
		return (CUresult)gpu_fail("pointer attribute %d is not known here", (int)which);
	}
}

API CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
	struct range r;

	if (!range_find(ptr, &r))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = r.at;
	if (size)
		*size = r.size;
	return CUDA_SUCCESS;
}
