/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to register memory. */
#include "mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "log.h"
#include "param.h"
#include "srd_cuda.h"

enum { WHY_BYTES = 768 };

/* What a device of these capabilities can be asked to do with the memory. */
static int access_flags(const struct srd_dev *dev)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (dev->attr.caps & SRD_CAP_RDMA_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (dev->attr.caps & SRD_CAP_RDMA_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	return access;
}

/* ---- what works here ---- */

static int probe(const struct net_dev *first)
{
	unsigned ways = SRD_CUDA_BY_PEER | (net_param()->dmabuf ? SRD_CUDA_BY_DMABUF : 0);
	struct srd_pd pd = {0};
	struct srd_dev dev;
	int rc = srd_dev_open(&dev, first->efa[0]);

	if (!rc)
		rc = srd_pd_init(&pd, &dev);
	if (!rc)
		rc = srd_cuda_probe(&pd, access_flags(&dev), ways);
	srd_pd_fini(&pd);
	srd_dev_close(&dev);
	return rc;
}

/* 0: cannot be said yet. */
static int find_support(void)
{
	const struct net_dev *first = net_dev_at(0);
	struct srd_cuda_attr attr;
	char why[WHY_BYTES];
	int rc;

	if (!first)
		return NCCL_NET_PTR_HOST;
	net_log_capture(why, sizeof(why));
	rc = srd_cuda_query(&attr);
	if (!rc)
		rc = attr.dmabuf || attr.gpudirect ? probe(first) : 0;
	net_log_capture(NULL, 0);
	if (rc == -ENXIO)
		return 0;
	if (rc > 0) {
		net_info("NET/EFA: GPU memory is registered %s",
			 rc == SRD_CUDA_BY_DMABUF ? "as dma-buf" : "by a peer-memory module");
		return NCCL_NET_PTR_HOST | NCCL_NET_PTR_CUDA |
		       (rc == SRD_CUDA_BY_DMABUF ? NCCL_NET_PTR_DMABUF : 0);
	}
	if (attr.dmabuf || attr.gpudirect)
		net_warn("NET/EFA: GPU memory cannot be registered, data go through memory of the "
			 "host: %s",
			 why);
	return NCCL_NET_PTR_HOST;
}

int net_mem_support(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static atomic_int known;
	int bits = atomic_load(&known);

	if (bits)
		return bits;
	pthread_mutex_lock(&lock);
	bits = atomic_load(&known);
	if (!bits) {
		bits = find_support();
		atomic_store(&known, bits);
	}
	pthread_mutex_unlock(&lock);
	return bits ? bits : NCCL_NET_PTR_HOST;
}

/* ---- registration ---- */

int net_range_pages(const struct net_range *r, uintptr_t *start, uintptr_t *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), past = r->addr + r->len;

	if (r->len == 0 || past < r->addr || past > UINTPTR_MAX - page)
		return -EINVAL;
	*start = r->addr & ~(page - 1);
	*end = (past + page - 1) & ~(page - 1);
	return 0;
}

/* Pages and who they are registered with. */
struct target {
	struct srd_mr *mr;
	struct srd_pd *const *pd;
	int n;
	uintptr_t start, end;
};

/*
 * With all functions that are to be, or none; as plain memory when @fd is -1, else @offset of it is
 * the start.
 */
static int register_pages(const struct target *t, int fd, uint64_t offset)
{
	int rc = 0, i;

	for (i = 0; i < t->n; i++) {
		int access = t->pd[i] ? access_flags(t->pd[i]->dev) : 0;

		if (!t->pd[i])
			continue;
		if (fd < 0)
			rc = srd_mr_init(&t->mr[i], t->pd[i], (void *)t->start, t->end - t->start,
					 access);
		else
			rc = srd_mr_init_dmabuf(&t->mr[i], t->pd[i], fd, offset, t->end - t->start,
						t->start, access);
		if (rc)
			break;
	}
	while (rc && i > 0)
		srd_mr_fini(&t->mr[--i]);
	return rc;
}

/* The caller's dma-buf. The kernel wants addresses and offsets to be alike within a page. */
static int register_theirs(const struct target *t, const struct net_range *r)
{
	uint64_t in_page = r->addr - t->start;

	if (r->offset < in_page)
		return -EINVAL;
	return register_pages(t, r->fd, r->offset - in_page);
}

static int register_export(const struct target *t, const struct net_range *r)
{
	uint64_t in_page;
	int fd, rc = srd_cuda_export(r->addr, r->len, &fd, &in_page);

	if (rc)
		return rc;
	rc = register_pages(t, fd, in_page - (r->addr - t->start));
	close(fd);
	return rc;
}

/* These are faults of the caller: another way would hide or repeat them. */
static bool hopeless(int rc)
{
	return rc == -EINVAL || rc == -ENXIO || rc == -ENOENT || rc == -ENODEV || rc == -ENOMEM;
}

static int register_gpu(const struct target *t, const struct net_range *r)
{
	int rc = r->fd >= 0 ? register_theirs(t, r) : -EBADF;

	if (rc && net_param()->dmabuf) {
		rc = register_export(t, r);
		if (!rc || hopeless(rc))
			return rc;
	}
	return rc ? register_pages(t, -1, 0) : 0;
}

int net_mem_register(struct srd_mr *mr, struct srd_pd *const *pd, int n, const struct net_range *r,
		     const char *context)
{
	struct target t = {mr, pd, n, 0, 0};
	char why[WHY_BYTES];
	int rc = net_range_pages(r, &t.start, &t.end);

	if (rc)
		return rc;
	net_log_capture(why, sizeof(why));
	if (r->gpu)
		rc = register_gpu(&t, r);
	else
		rc = r->fd >= 0 ? register_theirs(&t, r) : register_pages(&t, -1, 0);
	net_log_capture(NULL, 0);
	if (rc)
		net_warn("NET/EFA: %zu bytes of %s memory cannot be registered: %s%s", r->len,
			 r->gpu ? "GPU" : "host", why, context);
	else if (why[0])
		net_log(NCCL_NET_LOG_INFO, NCCL_NET_SUBSYS_REG | NCCL_NET_SUBSYS_NET, __func__,
			"NET/EFA: %zu bytes of GPU memory are registered in another way, after %s",
			r->len, why);
	return rc;
}
