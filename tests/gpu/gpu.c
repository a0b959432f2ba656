/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srd_cuda on a real GPU. Says of each thing whether it was right, wrong, or could not be checked
 * here. Exits 1 when something was wrong or nothing could be checked.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "srd_cuda.h"

enum { BYTES = 4 << 20, OFFSET = 5000, LEN = 1 << 20 };

static unsigned right, wrong, unchecked;

static void tell(int rc, const char *what)
{
	printf("%-9s %s%s%s\n", rc ? "WRONG" : "right", what, rc ? ": " : "",
	       rc ? strerror(rc < 0 ? -rc : rc) : "");
	wrong += rc != 0;
	right += rc == 0;
}

static void cannot(const char *what, const char *why)
{
	printf("%-9s %s: %s\n", "unchecked", what, why);
	unchecked++;
}

/* What a program has done before it calls us. The context stays current. */
static uint64_t allocate(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned), (*device)(int *, int), (*retain)(void **, int), (*set)(void *);
	int (*alloc)(uint64_t *, size_t), dev;
	uint64_t ptr = 0;
	void *ctx;

	if (!lib)
		return 0;
	*(void **)&init = dlsym(lib, "cuInit");
	*(void **)&device = dlsym(lib, "cuDeviceGet");
	*(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
	*(void **)&set = dlsym(lib, "cuCtxSetCurrent");
	*(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
	if (!init || !device || !retain || !set || !alloc || init(0) || device(&dev, 0) ||
	    retain(&ctx, dev) || set(ctx) || alloc(&ptr, BYTES))
		return 0;
	return ptr;
}

static void check_export(uint64_t ptr)
{
	uint64_t offset;
	int fd, rc = srd_cuda_export(ptr + OFFSET, LEN, &fd, &offset);

	tell(rc, "export of a part of an allocation");
	if (rc)
		return;
	tell(offset == OFFSET % (uint64_t)sysconf(_SC_PAGESIZE) ? 0 : EINVAL, "its offset");
	close(fd);
	rc = srd_cuda_export(ptr + BYTES / 2, 1ull << 40, &fd, &offset);
	tell(rc == -EINVAL ? 0 : EINVAL, "refusal of a range that leaves its allocation");
}

static void check_flush(const struct srd_cuda_attr *attr)
{
	if (!attr->flush && attr->ordering < SRD_CUDA_OWNER) {
		cannot("flush", "the device has none");
		return;
	}
	tell(srd_flush_gpudirect_writes(SRD_CUDA_OWNER), "flush for the owner");
	tell(srd_flush_gpudirect_writes(SRD_CUDA_ALL_DEVICES), "flush for all devices");
}

static void check_region(uint64_t ptr)
{
	struct srd_dev_info info;
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_mr mr;

	if (srd_dev_list(&info, 1, true) < 1 || srd_dev_open(&dev, info.name)) {
		cannot("registration", "there is no EFA");
		return;
	}
	if (srd_pd_init(&pd, &dev) == 0) {
		tell(srd_cuda_mr_init(&mr, &pd, ptr + OFFSET, LEN, IBV_ACCESS_LOCAL_WRITE),
		     "registration of a part of an allocation");
		srd_mr_fini(&mr);
		srd_pd_fini(&pd);
	}
	srd_dev_close(&dev);
}

int main(void)
{
	struct srd_cuda_attr attr;
	uint64_t ptr = allocate();
	int rc;

	if (!ptr) {
		cannot("all", "there is no GPU, or no memory on it");
		return 1;
	}
	rc = srd_cuda_query(&attr);
	tell(rc, "query");
	if (!rc) {
		printf("          device %d: dmabuf %d, gpudirect %d, flush %d, ordering %d\n",
		       attr.device, attr.dmabuf, attr.gpudirect, attr.flush, (int)attr.ordering);
		if (attr.dmabuf)
			check_export(ptr);
		else
			cannot("export", "the device cannot");
		check_flush(&attr);
		check_region(ptr);
	}
	printf("gpu: %u right, %u wrong, %u unchecked\n", right, wrong, unchecked);
	return wrong || !right;
}
