/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "fabric.h"
#include "fault.h"
#include "settings.h"
#include "stats.h"

#define CAP_RDMA_READ  (1u << 0)
#define CAP_RDMA_WRITE (1u << 5)
#define OPTIONAL_BITS  0x3ff00000u /* of the access flags: to be ignored when not understood */
#define KNOWN_BITS     0x3ffu      /* IB_ACCESS_SUPPORTED without these */
#define PAGE           4096

/* By device and key index; allocated on first use, sparse. */
static struct se_mr **table[SE_MAX_DEV];

static int access_check(uint32_t access)
{
	uint32_t caps = se_settings()->caps, allowed = SE_LOCAL_WRITE | OPTIONAL_BITS;

	if (access & (SE_REMOTE_WRITE | SE_REMOTE_ATOMIC) && !(access & SE_LOCAL_WRITE))
		return -EINVAL;
	if (access & ~(KNOWN_BITS | OPTIONAL_BITS))
		return -EINVAL;
	if (caps & CAP_RDMA_READ)
		allowed |= SE_REMOTE_READ;
	if (caps & CAP_RDMA_WRITE)
		allowed |= SE_REMOTE_WRITE;
	return access & ~allowed ? -EOPNOTSUPP : 0;
}

/* A kernel would pin all pages, writable if the device may write. */
static int memory_get(const struct se_mr_attr *a, struct se_mr *mr)
{
	bool write = a->access & SE_LOCAL_WRITE;

	if (a->iova + a->len < a->iova)
		return -EINVAL;
	if (a->dmabuf)
		return se_dmabuf_map(&mr->dmabuf, a->fd, a->addr, a->len, write, &mr->addr);
	if (a->len == 0 || a->addr + a->len < a->addr)
		return -EINVAL;
	mr->addr = a->addr;
	return se_copy_probe(a->addr, a->len, write);
}

static int table_add(uint32_t dev, struct se_mr *mr)
{
	if (!table[dev]) {
		table[dev] = calloc(1u << SE_KEY_BITS, sizeof(struct se_mr *));
		if (!table[dev])
			return -ENOMEM;
	}
	table[dev][SE_KEY_INDEX(mr->key)] = mr;
	return 0;
}

static int number(struct se_mr *mr, struct se_ctx *ctx)
{
	uint32_t dev = ctx->dev;
	int rc = se_fabric_key_get((int)dev, se_settings()->max_mr, &mr->key);

	if (rc)
		return rc;
	rc = table_add(dev, mr);
	if (!rc)
		rc = se_ctx_add(ctx, &mr->obj, SE_MR);
	if (rc) {
		if (table[dev])
			table[dev][SE_KEY_INDEX(mr->key)] = NULL;
		se_fabric_key_put((int)dev, mr->key);
	}
	return rc;
}

int se_mr_create(struct se_pd *pd, const struct se_mr_attr *attr, struct se_mr **out)
{
	struct se_ctx *ctx = pd->obj.ctx;
	struct se_mr *mr;
	int rc = (attr->addr ^ attr->iova) % PAGE ? -EINVAL : access_check(attr->access);

	if (!rc)
		rc = se_fault_refuse(ctx->dev, SE_MR);
	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	mr->access = attr->access & ~OPTIONAL_BITS;
	mr->iova = attr->iova;
	mr->len = attr->len;
	rc = memory_get(attr, mr);
	if (!rc)
		rc = number(mr, ctx);
	if (rc) {
		se_dmabuf_unmap(&mr->dmabuf);
		free(mr);
		return rc;
	}
	pd->obj.users++;
	se_stat_add(ctx->dev, SE_STAT_REGISTERED, mr->len);
	*out = mr;
	return 0;
}

int se_mr_destroy(struct se_mr *mr)
{
	uint32_t dev = mr->obj.ctx->dev;

	se_fabric_key_put((int)dev, mr->key);
	table[dev][SE_KEY_INDEX(mr->key)] = NULL;
	mr->pd->obj.users--;
	se_stat_add(dev, SE_STAT_DEREGISTERED, mr->len);
	se_ctx_del(&mr->obj);
	se_mr_forget(mr);
	return 0;
}

void se_mr_forget(struct se_mr *mr)
{
	se_dmabuf_unmap(&mr->dmabuf);
	free(mr);
}

uint64_t se_mr_resolve(const struct se_pd *pd, uint32_t key, uint64_t iova, uint64_t len,
		       uint32_t access)
{
	uint32_t dev = pd->obj.ctx->dev;
	struct se_mr *mr = table[dev] ? table[dev][SE_KEY_INDEX(key)] : NULL;

	if (!mr || mr->key != key || mr->pd != pd || (mr->access & access) != access)
		return 0;
	if (iova < mr->iova || iova - mr->iova > mr->len || len > mr->len - (iova - mr->iova))
		return 0;
	return mr->addr + (iova - mr->iova);
}

void se_mr_forget_all(void)
{
	for (int i = 0; i < SE_MAX_DEV; i++) {
		free(table[i]);
		table[i] = NULL;
	}
}
