/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunked transfers: the checks before the first chunk. */
#include "srd.h"

#include <string.h>

enum { CHUNK_MAX_BYTES = 1 << 30 };

int srd_xfer_init(struct srd_xfer *x, const struct srd_dev *dev, enum ibv_wr_opcode op,
		  const struct srd_peer *to, const struct srd_mr *mr, uint64_t off, uint64_t len,
		  uint64_t raddr, uint32_t rkey, uint32_t chunk)
{
	uint32_t need = op == IBV_WR_RDMA_READ ? SRD_CAP_RDMA_READ : SRD_CAP_RDMA_WRITE;
	uint32_t max = dev->attr.max_rdma_size;

	memset(x, 0, sizeof(*x));
	if (op != IBV_WR_RDMA_READ && op != IBV_WR_RDMA_WRITE)
		return -EINVAL;
	if (off > mr->len || len > mr->len - off || len > UINT64_MAX - raddr)
		return -EINVAL;
	if (!(dev->attr.caps & need) || max == 0)
		return -EOPNOTSUPP;
	if (chunk == 0)
		chunk = CHUNK_MAX_BYTES;
	x->op = op;
	x->to = to;
	x->mr = mr;
	x->off = off;
	x->len = len;
	x->raddr = raddr;
	x->wr_step = 1;
	x->rkey = rkey;
	x->chunk = chunk < max ? chunk : max;
	return 0;
}
