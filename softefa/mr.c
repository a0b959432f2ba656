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

#define CAP_RDMA_READ  (1u << 0)
#define CAP_RDMA_WRITE (1u << 5)
#define OPTIONAL_BITS  0x3ff00000u /* of the access flags: to be ignored when not understood */
#define PAGE           4096

/* By device and key index; allocated on first use, sparse. */
static struct se_mr **table[SE_MAX_DEV];

static int access_check(uint32_t access)
{
	uint32_t caps = se_settings()->caps, allowed = SE_LOCAL_WRITE;

	if (access & (SE_REMOTE_WRITE | SE_REMOTE_ATOMIC) && !(access & SE_LOCAL_WRITE))
		return -EINVAL;
	if (caps & CAP_RDMA_READ)
		allowed |= SE_REMOTE_READ;
	if (caps & CAP_RDMA_WRITE)
		allowed |= SE_REMOTE_WRITE;
	return access & ~allowed ? -EOPNOTSUPP : 0;
}

static int range_check(uint64_t addr, uint64_t len, uint64_t iova, uint32_t access)
{
	if (len == 0 || addr + len < addr || iova + len < iova || (addr ^ iova) % PAGE)
		return -EINVAL;
	/* A kernel would pin all pages, writable if the device may write. */
	return se_copy_probe(addr, len, access & SE_LOCAL_WRITE);
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

int se_mr_create(struct se_pd *pd, uint64_t addr, uint64_t len, uint64_t iova, uint32_t access,
		 struct se_mr **out)
{
	uint32_t dev = pd->obj.ctx->dev;
	struct se_mr *mr;
	int rc;

	access &= ~OPTIONAL_BITS;
	rc = access_check(access);
	if (!rc)
		rc = range_check(addr, len, iova, access);
	if (!rc)
		rc = se_fault_refuse(dev, SE_MR);
	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	*mr = (struct se_mr){.pd = pd, .access = access, .addr = addr, .iova = iova, .len = len};
	rc = se_fabric_key_get((int)dev, se_settings()->max_mr, &mr->key);
	if (rc)
		goto free_mr;
	rc = table_add(dev, mr);
	if (!rc)
		rc = se_ctx_add(pd->obj.ctx, &mr->obj, SE_MR);
	if (rc)
		goto put_key;
	pd->obj.users++;
	*out = mr;
	return 0;

put_key:
	if (table[dev])
		table[dev][SE_KEY_INDEX(mr->key)] = NULL;
	se_fabric_key_put((int)dev, mr->key);
free_mr:
	free(mr);
	return rc;
}

int se_mr_destroy(struct se_mr *mr)
{
	uint32_t dev = mr->obj.ctx->dev;

	se_fabric_key_put((int)dev, mr->key);
	table[dev][SE_KEY_INDEX(mr->key)] = NULL;
	mr->pd->obj.users--;
	se_ctx_del(&mr->obj);
	free(mr);
	return 0;
}

uint64_t se_mr_resolve(const struct se_pd *pd, uint32_t key, uint64_t iova, uint64_t len,
		       uint32_t access)
{
	uint32_t dev = pd->obj.ctx->dev;
	struct se_mr *mr = table[dev] ? table[dev][SE_KEY_INDEX(key)] : NULL;

	if (!mr || mr->key != key || mr->pd != pd || (mr->access & access) != access)
		return 0;
	if (!len)
		return mr->addr;
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
