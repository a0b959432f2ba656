/* SPDX-License-Identifier: BSD-3-Clause */
/* What an entry of a completion ring says, all but the request and its status. */
#ifndef SRD_CORE_CQE_H
#define SRD_CORE_CQE_H

#include <string.h>

#include "direct.h"

/* Opcode and flags of a completion. */
struct srd_cqe_kind {
	enum ibv_wc_opcode opcode;
	uint32_t flags;
};

static_assert(offsetof(struct srd_wc, flags) == offsetof(struct srd_wc, opcode) + 4, "a pair");

/* The kind of an entry: its flags without the lowest two bits. */
enum { CQE_KINDS = 64, CQE_KIND_SHIFT = 2 };
extern const struct srd_cqe_kind srd_cqe_kind[CQE_KINDS];

/* @flags: of the entry. */
static inline void srd_cqe_kind_put(uint32_t flags, struct srd_wc *wc)
{
	memcpy(&wc->opcode, &srd_cqe_kind[flags >> CQE_KIND_SHIFT], sizeof(*srd_cqe_kind));
}

/* @fields: SRD_CQ_* */
static inline void srd_cqe_received(const struct srd_cqe *e, uint32_t flags, struct srd_wc *wc,
				    uint32_t fields)
{
	bool write = (flags >> CQE_OP_SHIFT & 7) == WQE_WRITE;

	srd_cqe_kind_put(flags, wc);
	wc->byte_len = e->length;
	if (write)
		wc->byte_len |= (uint32_t)e->length_hi << 16;
	wc->imm = e->imm;
	if (__builtin_expect(fields & SRD_CQ_SRC, 0)) {
		wc->src_qpn = e->src_qpn;
		wc->ahn = e->ahn;
	}
	if (__builtin_expect(fields & SRD_CQ_SGID, 0) && !write && e->ahn == AHN_UNKNOWN) {
		memcpy(wc->sgid.raw, e->sgid, sizeof(e->sgid));
		wc->flags |= SRD_WC_SGID;
	}
}

static inline void srd_cqe_sent(uint32_t flags, struct srd_wc *wc)
{
	srd_cqe_kind_put(flags, wc);
	wc->byte_len = 0;
}

#endif
