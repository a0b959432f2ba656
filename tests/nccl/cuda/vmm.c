/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is created, mapped and given to others in steps: cuMem*(). */
#include "gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)

struct handle {
	CUmemAllocationProp prop;
	size_t size;
	int fd;
	unsigned refs; /* of the application and of mappings */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void get(struct handle *h)
{
	pthread_mutex_lock(&lock);
	h->refs++;
	pthread_mutex_unlock(&lock);
}

static void put(struct handle *h)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --h->refs == 0;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	close(h->fd);
	free(h);
}

/* Takes @fd. */
static CUresult make(CUmemGenericAllocationHandle *handle, int fd, size_t size,
		     const CUmemAllocationProp *prop)
{
	struct handle *h = fd < 0 ? NULL : malloc(sizeof(*h));

	if (!h) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*h = (struct handle){*prop, size, fd, 1};
	*handle = (uintptr_t)h;
	return CUDA_SUCCESS;
}

/* ---- creation ---- */

API CUresult cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *prop,
					   CUmemAllocationGranularity_flags which)
{
	(void)prop;
	(void)which;
	*size = GRANULARITY;
	return CUDA_SUCCESS;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			 const CUmemAllocationProp *prop, unsigned long long flags)
{
	int fd;

	if (flags || !size || size % GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("fake CUDA", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)size)) {
		close(fd);
		fd = -1;
	}
	return make(handle, fd, size, prop);
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	put((struct handle *)(uintptr_t)handle);
	return CUDA_SUCCESS;
}

API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						    CUmemGenericAllocationHandle handle)
{
	*prop = ((struct handle *)(uintptr_t)handle)->prop;
	return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *ptr)
{
	struct range r;

	if (!range_find((uintptr_t)ptr, &r) || !r.handle)
		return CUDA_ERROR_INVALID_VALUE;
	get(r.handle);
	*handle = (uintptr_t)r.handle;
	return CUDA_SUCCESS;
}

/* ---- mapping ---- */

API CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t align, CUdeviceptr hint,
				 unsigned long long flags)
{
	uintptr_t start, at;
	void *all;

	(void)hint;
	(void)flags;
	if (align < GRANULARITY)
		align = GRANULARITY;
	all = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		   0);
	if (all == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	start = (uintptr_t)all;
	at = (start + align - 1) / align * align;
	if (at > start)
		munmap(all, at - start);
	if (start + align > at)
		munmap((void *)(at + size), start + align - at);
	*ptr = at;
	return CUDA_SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	return munmap((void *)ptr, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
		      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct handle *h = (struct handle *)(uintptr_t)handle;
	struct range r = {.at = ptr, .size = size, .handle = h, .offset = (off_t)offset};

	if (flags || offset > h->size || size > h->size - offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap((void *)ptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd,
		 r.offset) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	get(h);
	r.host = h->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	r.device = r.host ? gpu_current() : h->prop.location.id;
	r.fd = h->fd;
	range_add(&r);
	return CUDA_SUCCESS;
}

API CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct range r;

	if (!range_remove(ptr, &r) || !r.handle || r.size != size)
		return (CUresult)gpu_fail("cuMemUnmap of %zu bytes at %#llx, where none are", size,
					  ptr);
	mmap((void *)ptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	     -1, 0);
	put(r.handle);
	return CUDA_SUCCESS;
}

API CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	(void)ptr;
	(void)size;
	(void)desc;
	(void)count;
	return CUDA_SUCCESS;
}

/* ---- for other processes ---- */

API CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
					  CUmemAllocationHandleType type, unsigned long long flags)
{
	int fd;

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_NOT_SUPPORTED;
	fd = fcntl(((struct handle *)(uintptr_t)handle)->fd, F_DUPFD_CLOEXEC, 0);
	*(int *)out = fd;
	return fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* What the file cannot say, whose memory it is, is taken to be the importer's. */
API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from,
					    CUmemAllocationHandleType type)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = type,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu_current()}};
	int fd = (int)(intptr_t)from;
	struct stat st;

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fstat(fd, &st))
		return CUDA_ERROR_INVALID_VALUE;
	return make(handle, fcntl(fd, F_DUPFD_CLOEXEC, 0), (size_t)st.st_size, &prop);
}

/* ---- for devices ---- */

/*
 * In place of a dma-buf: a memfd, opened once more, whose position says where in it the dma-buf
 * begins. softefa takes it so.
 */
static int export(const struct range *r, off_t offset)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && lseek(fd, offset, SEEK_SET) != offset) {
		close(fd);
		return -1;
	}
	return fd;
}

API CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size,
					   CUmemRangeHandleType type, unsigned long long flags)
{
	struct range r;
	int fd;

	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (ptr % GPU_PAGE || size % GPU_PAGE || !size || !range_find(ptr, &r) || r.host ||
	    size > gpu_pages(r.size) - (ptr - r.at))
		return CUDA_ERROR_INVALID_VALUE;
	fd = export(&r, r.offset + (off_t)(ptr - r.at));
	*(int *)handle = fd;
	return fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
					CUflushGPUDirectRDMAWritesScope scope)
{
	(void)target;
	(void)scope;
	return CUDA_SUCCESS;
}
