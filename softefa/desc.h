/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device reads and writes in memory: work requests, receive descriptors, completions and
 * doorbells. Layouts are facts of the device (rdma-core's providers/efa shows the other side);
 * all fields little-endian, which this adapter's host must be.
 */
#ifndef SE_DESC_H
#define SE_DESC_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "device layouts are little-endian");

enum se_op { SE_OP_SEND = 0, SE_OP_READ = 1, SE_OP_WRITE = 2 };

/* The device's completion codes; libefa hands them on as vendor_err. */
enum se_status {
	SE_OK = 0,
	SE_FLUSHED = 1,
	SE_QP_INTERNAL = 2,
	SE_UNSUPPORTED_OP = 3,
	SE_INVALID_AH = 4,
	SE_INVALID_LKEY = 5,
	SE_BAD_LENGTH = 6,
	SE_REM_BAD_ADDRESS = 7,
	SE_REM_ABORT = 8,
	SE_REM_BAD_QPN = 9,
	SE_REM_RNR = 10,
	SE_REM_BAD_LENGTH = 11,
	SE_REM_BAD_STATUS = 12,
	SE_UNRESP_REMOTE = 13,
	SE_REM_UNKNOWN_PEER = 14,
	SE_UNREACH_REMOTE = 15,
	SE_REM_FEATURE_MISMATCH = 18,
};

/* ---- send work request: a meta descriptor, then what its op needs ---- */

#define SE_META_OP(ctrl1) (0xf & (ctrl1))
#define SE_META_IMM       0x10 /* ctrl1 */
#define SE_META_INLINE    0x20
#define SE_META_EXT       0x40 /* must be zero */
#define SE_META_META      0x80 /* must be one */
#define SE_META_FIRST     0x04 /* ctrl2 */
#define SE_META_LAST      0x08
#define SE_META_COMP      0x10

struct se_meta {
	uint16_t req_id;
	uint8_t ctrl1;
	uint8_t ctrl2;
	uint16_t dest_qpn;
	uint16_t length; /* bytes when inline, else SGEs */
	uint32_t imm;
	uint16_t ahn;
	uint8_t ctrl3; /* hints, ignored */
	uint8_t pad;
	uint32_t qkey;
	uint8_t zero[6];
	uint16_t req_id_hi[3]; /* with 64-bit request ids */
};

/* A buffer here (key: lkey, 24 bits) or at the peer (key: rkey). */
struct se_buf {
	uint32_t length;
	uint32_t key;
	uint32_t addr_lo;
	uint32_t addr_hi;
};

struct se_wqe {
	struct se_meta meta;
	union {
		struct se_buf sgl[2];
		uint8_t send_inline[80]; /* 32 in a 64-byte request */
		struct {
			struct se_buf remote;
			union {
				struct se_buf local;
				uint8_t write_inline[80]; /* 128-byte request only */
			};
		} rdma;
	};
};

#define SE_WQE_64     64
#define SE_WQE_128    128
#define SE_INLINE_64  32
#define SE_INLINE_MAX 80
#define SE_LKEY_MASK  0xffffff

_Static_assert(sizeof(struct se_meta) == 32, "meta");
_Static_assert(offsetof(struct se_meta, dest_qpn) == 4, "dest_qpn");
_Static_assert(offsetof(struct se_meta, imm) == 8, "imm");
_Static_assert(offsetof(struct se_meta, ahn) == 12, "ahn");
_Static_assert(offsetof(struct se_meta, qkey) == 16, "qkey");
_Static_assert(offsetof(struct se_meta, req_id_hi) == 26, "req_id_hi");
_Static_assert(sizeof(struct se_buf) == 16, "buf");
_Static_assert(sizeof(struct se_wqe) == SE_WQE_128, "wqe");
_Static_assert(offsetof(struct se_wqe, sgl) == 32, "sgl");
_Static_assert(offsetof(struct se_wqe, rdma.local) == 48, "local");
_Static_assert(offsetof(struct se_wqe, rdma.write_inline) == 48, "write_inline");

static inline uint64_t se_buf_addr(const struct se_buf *b)
{
	return (uint64_t)b->addr_hi << 32 | b->addr_lo;
}

/* ---- receive descriptor ---- */

#define SE_RX_FIRST (1u << 30)
#define SE_RX_LAST  (1u << 31)

struct se_rx_desc {
	uint32_t addr_lo;
	uint32_t addr_hi;
	uint16_t req_id; /* of the request, in its FIRST descriptor */
	uint16_t length;
	uint32_t lkey_ctrl;
};

_Static_assert(sizeof(struct se_rx_desc) == 16, "rx_desc");
_Static_assert(offsetof(struct se_rx_desc, req_id) == 8, "rx req_id");
_Static_assert(offsetof(struct se_rx_desc, lkey_ctrl) == 12, "rx lkey");

/* ---- completion ---- */

#define SE_CQE_PHASE       0x01
#define SE_CQE_SEND        (1 << 1)
#define SE_CQE_RECV        (2 << 1)
#define SE_CQE_IMM         0x08
#define SE_CQE_OP(op)      ((7 & (op)) << 4)
#define SE_CQE_UNSOLICITED 0x80
#define SE_AHN_UNKNOWN     0xffff

struct se_cqe {
	uint16_t req_id;
	uint8_t status;
	uint8_t flags;
	uint16_t qpn;
	union {
		struct {
			uint16_t req_id_hi[3];
		} tx;
		struct {
			uint16_t length; /* low 16 bits */
			uint16_t ahn;
			uint16_t src_qpn;
		} rx;
	};
	uint32_t imm;
	/* entries of 32 bytes only */
	union {
		uint16_t length_hi; /* of an RDMA write */
		uint8_t sgid[16];   /* of a sender without AH here */
	};
};

_Static_assert(sizeof(struct se_cqe) == 32, "cqe");
_Static_assert(offsetof(struct se_cqe, qpn) == 4, "cqe qpn");
_Static_assert(offsetof(struct se_cqe, rx.src_qpn) == 10, "cqe src_qpn");
_Static_assert(offsetof(struct se_cqe, imm) == 12, "cqe imm");
_Static_assert(offsetof(struct se_cqe, sgid) == 16, "cqe sgid");

/* ---- CQ doorbell ---- */

#define SE_CQ_DB_CONS(db) ((uint16_t)(db))
#define SE_CQ_DB_SN(db)   ((db) >> 29 & 3) /* events that the program has taken */
#define SE_CQ_DB_ARM      (1u << 31)

#endif
