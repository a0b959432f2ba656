/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in itself: the part of the CUDA driver API that srd_cuda uses. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

#define EXPORT    __attribute__((visibility("default")))
#define ARENA     ((size_t)1 << 30)
#define MAX_ALLOC 64
#define PAGE      4096u

enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_FOUND = 500,
	INVALID_CONTEXT = 201,
	NOT_SUPPORTED = 801
};
enum { RELAXED = 2 };

static struct fake_cuda fake = {.context = true, .dmabuf = true, .flush = 1};

static struct alloc {
	uint8_t *at;  /* NULL: freed */
	size_t size;  /* as asked for */
	size_t piece; /* 0: allocated as one */
	int fd;       /* of the whole of it */
} allocs[MAX_ALLOC];
static unsigned nallocs;
static uint8_t *arena, *next;

EXPORT fake_cuda_fn fake_cuda_state;
EXPORT fake_cuda_alloc_fn fake_cuda_malloc;

struct fake_cuda *fake_cuda_state(void)
{
	return &fake;
}

static size_t pages(size_t size)
{
	return (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* A file of @size bytes, mapped at @at. */
static int file_at(void *at, size_t size)
{
	int fd = memfd_create("device memory", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)size) ||
	    mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return -1;
	return fd;
}

void *fake_cuda_malloc(size_t size, size_t piece)
{
	struct alloc *a = &allocs[nallocs];

	if (!arena) {
		arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
		next = arena;
	}
	if (arena == MAP_FAILED || nallocs == MAX_ALLOC || next + pages(size) > arena + ARENA)
		return NULL;
	*a = (struct alloc){
		.at = next, .size = size, .piece = piece, .fd = file_at(next, pages(size))};
	if (a->fd < 0)
		return NULL;
	next += pages(size);
	nallocs++;
	return a->at;
}

static struct alloc *find(uint64_t ptr)
{
	for (struct alloc *a = allocs; a < allocs + nallocs; a++)
		if (a->at && ptr - (uintptr_t)a->at < pages(a->size))
			return a;
	return NULL;
}

/* ---- the API ---- */

/* Calls that capture forbids, or that need a context. */
static int enter(void)
{
	if (fake.capturing && fake.mode != RELAXED)
		fake.unsafe++;
	return fake.context ? OK : INVALID_CONTEXT;
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuGetErrorName(int error, const char **name);
EXPORT int cuCtxGetCurrent(void **ctx);
EXPORT int cuCtxGetDevice(int *device);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGetPCIBusId(char *bus_id, int size, int device);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuMemAlloc_v2(uint64_t *ptr, size_t size);
EXPORT int cuMemFree_v2(uint64_t ptr);
EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t ptr);
EXPORT int cuPointerSetAttribute(const void *value, int attribute, uint64_t ptr);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t ptr, size_t size, int type,
					 unsigned long long flags);
EXPORT int cuFlushGPUDirectRDMAWrites(int target, int scope);

int cuInit(unsigned flags)
{
	return flags ? INVALID_VALUE : OK;
}

int cuGetErrorName(int error, const char **name)
{
	*name = error == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
		: error == NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED"
					 : "CUDA_ERROR_INVALID_VALUE";
	return OK;
}

int cuCtxGetCurrent(void **ctx)
{
	*ctx = fake.context ? &fake : NULL;
	return OK;
}

int cuCtxGetDevice(int *device)
{
	*device = fake.device;
	return fake.context ? OK : INVALID_CONTEXT;
}

int cuDeviceGetCount(int *count)
{
	*count = fake.device + 1;
	return OK;
}

int cuDeviceGetPCIBusId(char *bus_id, int size, int device)
{
	if (device != fake.device)
		return INVALID_VALUE;
	return snprintf(bus_id, (size_t)size, "0000:%02X:00.0", 0xCA + device) < size
		       ? OK
		       : INVALID_VALUE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	if (device != fake.device)
		return INVALID_VALUE;
	switch (attribute) {
	case 116:
		*value = 1;
		return OK;
	case 117:
		*value = fake.flush;
		return OK;
	case 118:
		*value = fake.ordering;
		return OK;
	case 124:
		*value = fake.dmabuf;
		return OK;
	default:
		return INVALID_VALUE;
	}
}

int cuMemAlloc_v2(uint64_t *ptr, size_t size)
{
	int rc = enter();
	void *p;

	if (rc)
		return rc;
	p = fake_cuda_malloc(size, 0);
	*ptr = (uintptr_t)p;
	return p ? OK : OUT_OF_MEMORY;
}

/* The addresses are not used again. */
int cuMemFree_v2(uint64_t ptr)
{
	struct alloc *a = find(ptr);
	int rc = enter();

	if (rc)
		return rc;
	if (!a || a->piece || ptr != (uintptr_t)a->at)
		return INVALID_VALUE;
	mmap(a->at, pages(a->size), PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	close(a->fd);
	a->at = NULL;
	fake.freed++;
	return OK;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t ptr)
{
	struct alloc *a = find(ptr);
	int rc = enter();

	if (rc)
		return rc;
	if (!a)
		return NOT_FOUND;
	*base = (uintptr_t)a->at;
	*size = a->size;
	if (a->piece) {
		*base += (ptr - *base) / a->piece * a->piece;
		*size = a->piece;
	}
	return OK;
}

/* Of memory that is mapped in pieces there is none to set. */
int cuPointerSetAttribute(const void *value, int attribute, uint64_t ptr)
{
	struct alloc *a = find(ptr);

	(void)value, (void)attribute;
	fake.attributes++;
	return !a ? INVALID_VALUE : a->piece ? NOT_SUPPORTED : OK;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int was = fake.mode;

	fake.mode = *mode;
	*mode = was;
	return OK;
}

/*
 * A file can be handed out only from its beginning: other parts of an allocation become a file of
 * their own first. An earlier export of the same pages then is of the past.
 */
static int export_part(struct alloc *a, uint64_t ptr, size_t size)
{
	uint8_t *at = (uint8_t *)(uintptr_t)ptr, *copy;
	int fd;

	if (at == a->at)
		return dup(a->fd);
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return -1;
	memcpy(copy, at, size);
	fd = file_at(at, size);
	memcpy(at, copy, size);
	munmap(copy, size);
	return fd;
}

int cuMemGetHandleForAddressRange(void *handle, uint64_t ptr, size_t size, int type,
				  unsigned long long flags)
{
	struct alloc *a = find(ptr);
	int rc = enter();

	if (rc)
		return rc;
	if (fake.fail)
		return fake.fail;
	if (!fake.dmabuf)
		return NOT_SUPPORTED;
	if (type != 1 || flags || ptr % PAGE || size % PAGE || !size || !a ||
	    size > pages(a->size) - (size_t)(ptr - (uintptr_t)a->at))
		return INVALID_VALUE;
	*(int *)handle = export_part(a, ptr, size);
	return *(int *)handle < 0 ? INVALID_VALUE : OK;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	int rc = enter();

	if (rc)
		return rc;
	if (target || (scope != 100 && scope != 200))
		return INVALID_VALUE;
	fake.flushes++;
	fake.scope = scope;
	return OK;
}
