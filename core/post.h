/* SPDX-License-Identifier: BSD-3-Clause */
/* What both ways to post, through libefa and into the rings, ask of a request. */
#ifndef SRD_CORE_POST_H
#define SRD_CORE_POST_H

#include <assert.h>

#include "srd.h"

static_assert(IBV_QP_EX_WITH_RDMA_WRITE == 1 << IBV_WR_RDMA_WRITE, "bit");
static_assert(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM == 1 << IBV_WR_RDMA_WRITE_WITH_IMM, "bit");
static_assert(IBV_QP_EX_WITH_SEND == 1 << IBV_WR_SEND, "bit");
static_assert(IBV_QP_EX_WITH_SEND_WITH_IMM == 1 << IBV_WR_SEND_WITH_IMM, "bit");
static_assert(IBV_QP_EX_WITH_RDMA_READ == 1 << IBV_WR_RDMA_READ, "bit");

/* Is its opcode one of those the QP was made with? They are bits of qp->ops, by opcode. */
static inline bool srd_wr_allowed(const struct srd_qp *qp, const struct srd_wr *wr)
{
	return qp->ops >> (wr->op & 63) & 1;
}

static inline bool srd_wr_is_rdma(const struct srd_wr *wr)
{
	return wr->op != IBV_WR_SEND && wr->op != IBV_WR_SEND_WITH_IMM;
}

#endif
