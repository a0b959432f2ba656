/* SPDX-License-Identifier: BSD-3-Clause */
/* What the flags of an entry of a completion ring say, worked out beforehand. */
#include "cqe.h"

#define OP(i)       ((i) << CQE_KIND_SHIFT >> CQE_OP_SHIFT & 7)
#define HAS(i, bit) ((i) << CQE_KIND_SHIFT & (bit))

#define RECEIVED(i) \
	{ \
		OP(i) == WQE_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, \
			(HAS(i, CQE_IMM) ? SRD_WC_IMM : 0) | \
				(HAS(i, CQE_UNSOLICITED) ? SRD_WC_UNSOLICITED : 0), \
	}
/* An operation that is none of these counts as a send. */
#define SENT(i) \
	{ \
		OP(i) == WQE_READ ? IBV_WC_RDMA_READ \
				  : (OP(i) == WQE_WRITE ? IBV_WC_RDMA_WRITE : IBV_WC_SEND), \
			0, \
	}
/* CQE_RECV is the lowest bit that is left. */
#define PAIR(i) SENT(i), RECEIVED((i) + 1)
#define ROW(i)  PAIR(i), PAIR((i) + 2), PAIR((i) + 4), PAIR((i) + 6)

static_assert(CQE_RECV == 1 << CQE_KIND_SHIFT, "recv");

const struct srd_cqe_kind srd_cqe_kind[CQE_KINDS] = {
	ROW(0), ROW(8), ROW(16), ROW(24), ROW(32), ROW(40), ROW(48), ROW(56),
};
