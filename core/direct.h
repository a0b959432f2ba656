/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's own queues, worked without libefa: what is in them, and what we keep beside them.
 *
 * Layouts are facts of the device (rdma-core's providers/efa/efa_io_defs.h states them as well);
 * all fields little-endian.
 */
#ifndef SRD_CORE_DIRECT_H
#define SRD_CORE_DIRECT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "srd.h"

/* ---- layouts ---- */

enum { WQE_SEND = 0, WQE_READ = 1, WQE_WRITE = 2 }; /* operations, in requests and completions */

enum {
	WQE_IMM = 1u << 4, /* ctrl1, with the operation in its low bits */
	WQE_INLINE = 1u << 5,
	WQE_META = 1u << 7,                       /* always */
	WQE_PHASE = 1u << 0,                      /* ctrl2; 0 on the first lap of the ring */
	WQE_ALWAYS = 1u << 2 | 1u << 3 | 1u << 4, /* first, last, completion requested */
	WQE_INLINE_BYTES = 32, /* of a 64-byte request; a 128-byte one takes 80 */
	WQE_INLINE_BYTES_128 = 80,
	LKEY_MASK = 0xffffff,
};

/* A buffer: here (key: lkey) or at the peer (key: rkey). */
struct srd_wqe_buf {
	uint32_t length, key;
	uint64_t addr;
};

struct srd_wqe {
	uint16_t req_id;
	uint8_t ctrl1, ctrl2;
	uint16_t dest_qpn;
	uint16_t length; /* bytes if inline, else SGEs */
	uint32_t imm;
	uint16_t ahn, hints;
	uint32_t qkey;
	uint32_t zero[3];
	union {
		struct srd_wqe_buf buf[2]; /* send: SGEs; RDMA: remote, local */
		uint8_t data[WQE_INLINE_BYTES_128];
	};
};

static_assert(offsetof(struct srd_wqe, imm) == 8, "imm");
static_assert(offsetof(struct srd_wqe, qkey) == 16, "qkey");
static_assert(offsetof(struct srd_wqe, buf) == 32, "buf");
static_assert(offsetof(struct srd_wqe, data) + WQE_INLINE_BYTES_128 <= 128, "fits");

enum { RX_FIRST = 1u << 30, RX_LAST = 1u << 31 }; /* lkey_ctrl, above the lkey */

struct srd_rx_desc {
	uint64_t addr;
	uint16_t req_id; /* in the first descriptor of a request */
	uint16_t length;
	uint32_t lkey_ctrl;
};

static_assert(sizeof(struct srd_rx_desc) == 16, "rx");

enum {
	CQE_FLAGS_AT = 3,
	CQE_PHASE = 1u << 0,
	CQE_RECV = 2u << 1, /* else a send */
	CQE_IMM = 1u << 3,
	CQE_OP_SHIFT = 4,
	CQE_UNSOLICITED = 1u << 7,
	AHN_UNKNOWN = 0xffff,
};

struct srd_cqe {
	uint16_t req_id;
	uint8_t status, flags;
	uint16_t qpn;
	uint16_t length; /* from here on receives only */
	uint16_t ahn;
	uint16_t src_qpn;
	uint32_t imm;
	union {
		uint16_t length_hi; /* of a write */
		uint8_t sgid[16];   /* of a sender whose ahn is unknown */
	};
};

static_assert(sizeof(struct srd_cqe) == 32 && offsetof(struct srd_cqe, imm) == 12, "cqe");

/* ---- what we keep ---- */

/* A request from post to completion, by the number in WQE and CQE. */
struct srd_slot {
	uint64_t wr_id;
	/* NULL: free, or its QP is gone while the completion is in the ring */
	struct srd_qp_direct *qp;
};

/*
 * Of a CQ. There are as many slots as entries, so that posted requests cannot overrun it; only
 * unsolicited writes can.
 */
struct srd_cq_direct {
	uint32_t *doorbell;
	uint16_t taken; /* completions ever, as the doorbell counts */
	uint32_t sn;    /* events ever, in the bits of the doorbell: CQ_SN_MASK */
	uint32_t nfree;
	uint16_t *free; /* the first nfree are numbers of free slots */
	struct srd_slot *slot;
};

/* Of a QP. Counters run freely, as the doorbells do. */
struct srd_qp_direct {
	struct srd_cq_direct *send_cq, *recv_cq;
	bool sends, receives;      /* by the state of the QP */
	uint32_t sq_left, rq_left; /* requests that there is room for; 0 before the QP sends */
	uint8_t *sq, *sq_first, *sq_end; /* the next entry */
	uint32_t sq_entry;               /* bytes: 64 or 128 */
	uint32_t sq_phase; /* WQE_PHASE of the next entry, as it is in its first word */
	uint32_t *sq_doorbell;
	uint16_t sq_posted;
	uint32_t sq_batch; /* most requests for one doorbell */
	struct srd_rx_desc *rq;
	uint32_t *rq_doorbell;
	uint16_t rq_mask, rq_next;
};

/* After cq.c has found the ring. 0 with cq->direct NULL where it cannot be done; -ENOMEM. */
int srd_cq_direct_init(struct srd_cq *cq, const struct srd_dev *dev);
void srd_cq_direct_fini(struct srd_cq *cq);
/* After the provider has made the QP; -ENOMEM, -EOPNOTSUPP. */
int srd_qp_direct_init(struct srd_qp *qp, struct srd_cq *send_cq, struct srd_cq *recv_cq);
/* After the provider has destroyed it: nothing completes for it any more. */
void srd_qp_direct_fini(struct srd_qp *qp, uint32_t qpn);

int srd_direct_post(struct srd_qp *qp, const struct srd_wr *wr, int n);
int srd_direct_post_recv(struct srd_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* As srd_cq_poll(), which has seen that there is an entry. */
int srd_direct_poll(struct srd_cq *cq, struct srd_wc *wc, int n);
/* Take the next entry, which is there: of a CQ without any SRD_CQ_*, and of one with some. */
bool srd_direct_take(struct srd_cq *cq, struct srd_wc *wc);
bool srd_direct_take_fields(struct srd_cq *cq, struct srd_wc *wc);

/* ---- completion doorbell ---- */

enum { CQ_SN_SHIFT = 29, CQ_SN_MASK = 3u << CQ_SN_SHIFT };
#define CQ_ARM (1u << 31)

/* @arm: CQ_ARM, or 0: the device only learns how far we are. */
static inline void srd_direct_tell(struct srd_cq_direct *d, uint32_t arm)
{
	/* release: what was read of entries goes before */
	__atomic_store_n(d->doorbell, d->taken | d->sn | arm, __ATOMIC_RELEASE);
}

static inline void srd_direct_event(struct srd_cq_direct *d)
{
	d->sn = (d->sn + (1u << CQ_SN_SHIFT)) & CQ_SN_MASK;
}

/* ---- slots ---- */

static inline uint16_t srd_slot_get(struct srd_cq_direct *r, struct srd_qp_direct *qp,
				    uint64_t wr_id)
{
	uint16_t i = r->free[--r->nfree];

	r->slot[i].wr_id = wr_id;
	r->slot[i].qp = qp;
	return i;
}

static inline void srd_slot_put(struct srd_cq_direct *r, uint16_t i)
{
	r->slot[i].qp = NULL;
	r->free[r->nfree++] = i;
}

#endif
