/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: what a key stands for. lkey and rkey are the same number of 24 bits. */
#ifndef SE_MR_H
#define SE_MR_H

#include "dmabuf.h"
#include "pd.h"

enum {
	SE_LOCAL_WRITE = 1 << 0,
	SE_REMOTE_WRITE = 1 << 1,
	SE_REMOTE_READ = 1 << 2,
	SE_REMOTE_ATOMIC = 1 << 3,
};

struct se_mr {
	struct se_obj obj;
	struct se_pd *pd;
	uint32_t key;
	uint32_t access;
	uint64_t addr; /* in the process */
	uint64_t iova; /* in work requests */
	uint64_t len;
	struct se_dmabuf dmabuf; /* where addr lies, unless it is memory of the application's own */
};

struct se_mr_attr {
	uint64_t addr; /* in the process; in a dma-buf: the offset */
	uint64_t len;
	uint64_t iova; /* what work requests call addr; lies alike in its page */
	uint32_t access;
	bool dmabuf;
	int fd; /* of the dma-buf; not kept */
};

/*
 * -EINVAL, -EOPNOTSUPP (access the device lacks), -EFAULT (not mapped), -ENOMEM; for a dma-buf also
 * what se_dmabuf_map() says.
 */
int se_mr_create(struct se_pd *pd, const struct se_mr_attr *attr, struct se_mr **out);
/* When it returns, the memory is not written any more, and reads of it count as failed. */
int se_mr_destroy(struct se_mr *mr);
/* After fork(): only its memory goes. */
void se_mr_forget(struct se_mr *mr);

/*
 * The address in this process of [@iova, @iova + @len) under @key for @pd, all of @access allowed;
 * 0 when any of this does not hold. An empty range must lie inside or at an end, as any other.
 */
uint64_t se_mr_resolve(const struct se_pd *pd, uint32_t key, uint64_t iova, uint64_t len,
		       uint32_t access);

/* After fork(): all regions are the parent's. */
void se_mr_forget_all(void);

#endif
