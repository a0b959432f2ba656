/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunked transfers: the checks before the first chunk. */
#include "srd.h"

#include <string.h>

enum { CHUNK_MAX_BYTES = 1 << 30 };

static int check(const struct srd_xfer *x)
{
	const struct srd_dev_attr *dev = &x->to->pd->dev->attr;
	bool read = x->op == IBV_WR_RDMA_READ;

	if (!read && x->op != IBV_WR_RDMA_WRITE)
		return -EINVAL;
	if (x->off > x->mr->len || x->len > x->mr->len - x->off || x->len > UINT64_MAX - x->raddr)
		return -EINVAL;
	if (!(dev->caps & (read ? SRD_CAP_RDMA_READ : SRD_CAP_RDMA_WRITE)) || !dev->max_rdma_size)
		return -EOPNOTSUPP;
	return 0;
}

int srd_xfer_begin(struct srd_xfer *x)
{
	uint32_t max = x->to->pd->dev->attr.max_rdma_size;
	int rc = check(x);

	if (rc) {
		memset(x, 0, sizeof(*x));
		return rc;
	}
	if (x->chunk == 0)
		x->chunk = CHUNK_MAX_BYTES;
	if (x->chunk > max)
		x->chunk = max;
	return 0;
}
