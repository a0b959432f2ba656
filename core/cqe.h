/* SPDX-License-Identifier: BSD-3-Clause */
/* What an entry of a completion ring says, all but the request and its status. */
#ifndef SRD_CORE_CQE_H
#define SRD_CORE_CQE_H

#include <string.h>

#include "direct.h"

static inline void srd_cqe_sent(const struct srd_cqe *e, struct srd_wc *wc)
{
	static const uint8_t opcode[8] = {
		[WQE_SEND] = IBV_WC_SEND, /* and what is none of these */
		[WQE_READ] = IBV_WC_RDMA_READ,
		[WQE_WRITE] = IBV_WC_RDMA_WRITE,
	};
	unsigned op = e->flags >> CQE_OP_SHIFT & 7;

	wc->opcode = opcode[op];
	wc->byte_len = 0;
	wc->flags = 0;
}

/* @fields: SRD_CQ_* */
static inline void srd_cqe_received(const struct srd_cqe *e, struct srd_wc *wc, uint32_t fields)
{
	bool write = (e->flags >> CQE_OP_SHIFT & 7) == WQE_WRITE;

	wc->opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	wc->byte_len = e->length;
	if (write)
		wc->byte_len |= (uint32_t)e->length_hi << 16;
	wc->flags = e->flags & CQE_UNSOLICITED ? SRD_WC_UNSOLICITED : 0;
	if (e->flags & CQE_IMM) {
		wc->flags |= SRD_WC_IMM;
		wc->imm = e->imm;
	}
	if (__builtin_expect(fields & SRD_CQ_SRC, 0)) {
		wc->src_qpn = e->src_qpn;
		wc->ahn = e->ahn;
	}
	if (__builtin_expect(fields & SRD_CQ_SGID, 0) && !write && e->ahn == AHN_UNKNOWN) {
		memcpy(wc->sgid.raw, e->sgid, sizeof(e->sgid));
		wc->flags |= SRD_WC_SGID;
	}
}

#endif
