/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory. */
#include "srd_cuda.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cuda_api.h"
#include "libs.h"
#include "log.h"

#define MAX_DEVICES 64
#define PROBE_BYTES ((size_t)64 << 10)

static struct srd_cuda_api cu;
static int loaded;

/* ---- calls ---- */

static int errno_of(int error)
{
	switch (error) {
	case CU_SUCCESS:
		return 0;
	case CU_INVALID_VALUE:
		return -EINVAL;
	case CU_OUT_OF_MEMORY:
		return -ENOMEM;
	case CU_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case CU_NOT_INITIALIZED:
	case CU_DEINITIALIZED:
	case CU_INVALID_CONTEXT:
		return -ENXIO;
	case CU_NO_DEVICE:
		return -ENODEV;
	default:
		return -EIO;
	}
}

static const char *name_of(int error)
{
	const char *name = NULL;

	return cu.cuGetErrorName(error, &name) == CU_SUCCESS && name ? name : "unknown error";
}

/* -errno; logged. */
static int failed(const char *call, int error)
{
	srd_warn("%s: %s (%d)", call, name_of(error), error);
	return errno_of(error);
}

static void load(void)
{
	static const struct srd_sym syms[] = {
#define X(name, needed, args) {#name, &cu.name, needed},
		SRD_CUDA_SYMS(X)
#undef X
	};
	int error;

	loaded = srd_lib_open("libcuda.so.1", "", syms, sizeof(syms) / sizeof(syms[0]));
	if (loaded)
		return;
	error = cu.cuInit(0);
	if (error)
		loaded = failed("cuInit", error);
}

static int load_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return loaded;
}

/* What was done is done, whether the mode can be given back or not. */
static int leave(int mode, int rc)
{
	int error = cu.cuThreadExchangeStreamCaptureMode(&mode);

	if (error)
		failed("cuThreadExchangeStreamCaptureMode", error);
	return rc;
}

/*
 * Load, look for a context, and let the capture of a stream, which forbids some calls, not mind
 * what follows. *@mode is for leave().
 */
static int enter(int *mode)
{
	void *ctx = NULL;
	int error, rc = load_once();

	if (rc)
		return rc;
	*mode = CU_CAPTURE_RELAXED;
	error = cu.cuThreadExchangeStreamCaptureMode(mode);
	if (error)
		return failed("cuThreadExchangeStreamCaptureMode", error);
	error = cu.cuCtxGetCurrent(&ctx);
	if (!error && ctx)
		return 0;
	leave(*mode, 0);
	if (error)
		return failed("cuCtxGetCurrent", error);
	srd_warn("this thread has no CUDA context current");
	return -ENXIO;
}

/* ---- what the device can ---- */

static int attribute(int *value, int which, int device)
{
	int error = cu.cuDeviceGetAttribute(value, which, device);

	/* A driver too old to know the attribute does not have the feature. */
	if (error == CU_INVALID_VALUE)
		*value = 0;
	else if (error)
		return failed("cuDeviceGetAttribute", error);
	return 0;
}

/* All of these calls do without a context. */
static int query_device(int device, struct srd_cuda_attr *attr)
{
	int dmabuf, gpudirect, flush, ordering, error, rc;

	if ((rc = attribute(&dmabuf, CU_DMA_BUF_SUPPORTED, device)) ||
	    (rc = attribute(&gpudirect, CU_GPUDIRECT_SUPPORTED, device)) ||
	    (rc = attribute(&flush, CU_FLUSH_OPTIONS, device)) ||
	    (rc = attribute(&ordering, CU_WRITES_ORDERING, device)))
		return rc;
	memset(attr, 0, sizeof(*attr));
	error = cu.cuDeviceGetPCIBusId(attr->bus_id, sizeof(attr->bus_id), device);
	if (error) {
		attr->bus_id[0] = '\0';
		return failed("cuDeviceGetPCIBusId", error);
	}
	for (char *p = attr->bus_id; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	attr->device = device;
	attr->dmabuf = dmabuf && cu.cuMemGetHandleForAddressRange;
	attr->gpudirect = gpudirect;
	attr->flush = flush & 1 && cu.cuFlushGPUDirectRDMAWrites;
	attr->ordering = (enum srd_cuda_scope)ordering;
	return 0;
}

static int query(struct srd_cuda_attr *attr)
{
	int device, error = cu.cuCtxGetDevice(&device);

	if (error)
		return failed("cuCtxGetDevice", error);
	return query_device(device, attr);
}

int srd_cuda_query(struct srd_cuda_attr *attr)
{
	int mode, rc = enter(&mode);

	memset(attr, 0, sizeof(*attr));
	return rc ? rc : leave(mode, query(attr));
}

int srd_cuda_query_device(int device, struct srd_cuda_attr *attr)
{
	int count, error, rc = load_once();

	memset(attr, 0, sizeof(*attr));
	if (rc)
		return rc;
	error = cu.cuDeviceGetCount(&count);
	if (error)
		return failed("cuDeviceGetCount", error);
	return device < 0 || device >= count ? -ENODEV : query_device(device, attr);
}

/* ---- export ---- */

/*
 * Say why the driver refused the range: that it leaves its allocation; or else, at @level, what the
 * driver says. A driver without dma-bufs did not look at the range; and memory may be mapped in
 * pieces, which count as allocations.
 */
static int refused(uint64_t ptr, size_t len, int error, enum srd_log_level level)
{
	uint64_t base = 0;
	size_t size = 0;

	if (error == CU_INVALID_VALUE &&
	    cu.cuMemGetAddressRange_v2(&base, &size, ptr) == CU_SUCCESS &&
	    (ptr < base || len > size - (ptr - base))) {
		srd_warn("%zu bytes at %#llx leave the allocation of %zu bytes at %#llx", len,
			 (unsigned long long)ptr, size, (unsigned long long)base);
		return -EINVAL;
	}
	srd_log(level, "cuMemGetHandleForAddressRange: %s (%d), %zu bytes at %#llx", name_of(error),
		error, len, (unsigned long long)ptr);
	/* It lies in the allocation: what is invalid is to export it. */
	return error == CU_INVALID_VALUE ? -EOPNOTSUPP : errno_of(error);
}

static int export_range(uint64_t ptr, size_t len, int *fd, uint64_t *offset,
			enum srd_log_level level)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = ptr & ~(page - 1), end;
	int error;

	if (!len || ptr + len < ptr || ptr + len > UINT64_MAX - page) {
		srd_warn("%zu bytes at %#llx are no range of memory", len, (unsigned long long)ptr);
		return -EINVAL;
	}
	if (!cu.cuMemGetHandleForAddressRange)
		return -EOPNOTSUPP;
	end = (ptr + len + page - 1) & ~(page - 1);
	error = cu.cuMemGetHandleForAddressRange(fd, start, end - start, CU_RANGE_DMA_BUF_FD, 0);
	if (error)
		return refused(ptr, len, error, level);
	*offset = ptr - start;
	return 0;
}

static int export(uint64_t ptr, size_t len, int *fd, uint64_t *offset, enum srd_log_level level)
{
	int mode, rc = enter(&mode);

	*fd = -1;
	*offset = 0;
	return rc ? rc : leave(mode, export_range(ptr, len, fd, offset, level));
}

int srd_cuda_export(uint64_t ptr, size_t len, int *fd, uint64_t *offset)
{
	return export(ptr, len, fd, offset, SRD_LOG_WARN);
}

/* ---- registration ---- */

static int register_export(struct srd_mr *mr, struct srd_pd *pd, uint64_t ptr, size_t len,
			   int access)
{
	uint64_t offset;
	int fd, rc;

	/* No warning: there is another way to try. */
	rc = export(ptr, len, &fd, &offset, SRD_LOG_INFO);
	if (rc)
		return rc;
	rc = srd_mr_init_dmabuf(mr, pd, fd, offset, len, ptr, access);
	close(fd);
	return rc;
}

int srd_cuda_mr_init(struct srd_mr *mr, struct srd_pd *pd, uint64_t ptr, size_t len, int access)
{
	int rc;

	memset(mr, 0, sizeof(*mr));
	rc = register_export(mr, pd, ptr, len, access);

	/* These are faults of the caller, which another way would hide or repeat. */
	if (!rc || rc == -EINVAL || rc == -ENXIO || rc == -ENOENT || rc == -ENODEV)
		return rc;
	srd_info("%zu bytes at %#llx: no dma-buf (%d), trying a peer-memory module", len,
		 (unsigned long long)ptr, -rc);
	return srd_mr_init(mr, pd, (void *)(uintptr_t)ptr, len, access);
}

/* ---- probe ---- */

static int allocate(uint64_t *ptr)
{
	int mode, rc = enter(&mode), error;

	if (rc)
		return rc;
	error = cu.cuMemAlloc_v2(ptr, PROBE_BYTES);
	return leave(mode, error ? failed("cuMemAlloc", error) : 0);
}

static void release(uint64_t ptr)
{
	int mode, error;

	if (enter(&mode))
		return;
	error = cu.cuMemFree_v2(ptr);
	if (error)
		failed("cuMemFree", error);
	leave(mode, 0);
}

int srd_cuda_probe(struct srd_pd *pd, int access, unsigned ways)
{
	struct srd_mr mr;
	uint64_t ptr;
	int rc = allocate(&ptr), works = 0;

	if (rc)
		return rc;
	if (ways & SRD_CUDA_BY_DMABUF && !register_export(&mr, pd, ptr, PROBE_BYTES, access))
		works = SRD_CUDA_BY_DMABUF;
	else if (ways & SRD_CUDA_BY_PEER &&
		 !srd_mr_init(&mr, pd, (void *)(uintptr_t)ptr, PROBE_BYTES, access))
		works = SRD_CUDA_BY_PEER;
	if (works)
		srd_mr_fini(&mr);
	release(ptr);
	return works;
}

/* ---- flush ---- */

/* Of each device, known once: 1 + enum srd_cuda_scope for the ordering, negative: no flush. */
static _Atomic int known[MAX_DEVICES];

/* What a flush to @scope takes on the current device: 0 nothing, 1 the call, or -errno. */
static int needs_flush(enum srd_cuda_scope scope)
{
	struct srd_cuda_attr attr;
	int device, error = cu.cuCtxGetDevice(&device), what, rc;

	if (error)
		return failed("cuCtxGetDevice", error);
	what = device < MAX_DEVICES ? atomic_load(&known[device]) : 0;
	if (!what) {
		rc = query(&attr);
		if (rc)
			return rc;
		what = attr.flush ? 1 + (int)attr.ordering : -1 - (int)attr.ordering;
		if (device < MAX_DEVICES)
			atomic_store(&known[device], what);
	}
	if ((what < 0 ? -what : what) - 1 >= (int)scope)
		return 0;
	return what > 0 ? 1 : -EOPNOTSUPP;
}

static int flush(enum srd_cuda_scope scope)
{
	int rc = needs_flush(scope), error;

	if (rc <= 0)
		return rc;
	error = cu.cuFlushGPUDirectRDMAWrites(CU_FLUSH_CURRENT_CTX, (int)scope);
	return error ? failed("cuFlushGPUDirectRDMAWrites", error) : 0;
}

int srd_flush_gpudirect_writes(enum srd_cuda_scope scope)
{
	int mode, rc = enter(&mode);

	return rc ? rc : leave(mode, flush(scope));
}
