/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's command interface as far as <rdma/...> of older distributions does not state it: the
 * driver-specific parts of EFA commands with their newest fields. Facts of the kernel's
 * include/uapi/rdma/efa-abi.h and ib_user_ioctl_cmds.h.
 */
#ifndef SE_ABI_H
#define SE_ABI_H

#include <assert.h>
#include <stdint.h>

#define SE_DRIVER_ID 17 /* RDMA_DRIVER_EFA */

/* GET_CONTEXT */
#define SE_UCAP_TX_BATCH  (1u << 0)
#define SE_UCAP_MIN_SQ_WR (1u << 1)

struct se_abi_ucontext_in {
	uint32_t supported_caps;
	uint8_t zero[4];
};

struct se_abi_ucontext_out {
	uint32_t comp_mask;
	uint32_t cmds_supp_udata_mask; /* 1: query_device, 2: create_ah; both needed */
	uint16_t sub_cqs_per_cq;
	uint16_t inline_buf_size;
	uint32_t max_llq_size;
	uint16_t max_tx_batch;
	uint16_t min_sq_wr;
	uint16_t inline_buf_size_ex;
	uint8_t zero[2];
};
_Static_assert(sizeof(struct se_abi_ucontext_out) == 24, "ucontext");

/* QUERY_DEVICE */
struct se_abi_device_out {
	uint32_t comp_mask;
	uint32_t max_sq_wr, max_rq_wr;
	uint16_t max_sq_sge, max_rq_sge;
	uint32_t max_rdma_size;
	uint32_t device_caps;
};
_Static_assert(sizeof(struct se_abi_device_out) == 24, "device");

/* ALLOC_PD, CREATE_AH: both answer a 16-bit number. */
struct se_abi_number_out {
	uint32_t comp_mask;
	uint16_t number;
	uint8_t zero[2];
};
_Static_assert(sizeof(struct se_abi_number_out) == 8, "number");

/* CREATE_CQ */
#define SE_CQ_WITH_CHANNEL 1
#define SE_CQ_WITH_SGID    2
#define SE_CQ_REQ_ID_64    4
#define SE_CQ_DB_OFF       1 /* comp_mask of the answer */

struct se_abi_cq_in {
	uint32_t comp_mask;
	uint32_t entry_size;
	uint16_t num_sub_cqs;
	uint8_t flags;
	uint8_t zero[5];
};
_Static_assert(sizeof(struct se_abi_cq_in) == 16, "cq in");

struct se_abi_cq_out {
	uint32_t comp_mask;
	uint8_t zero[4];
	uint64_t q_mmap_key, q_mmap_size;
	uint16_t cq_idx;
	uint8_t zero2[2];
	uint32_t db_off;
	uint64_t db_mmap_key;
};
_Static_assert(sizeof(struct se_abi_cq_out) == 40, "cq out");

/* CREATE_QP */
#define SE_QP_UNSOLICITED 1
#define SE_QP_REQ_ID_64   2

struct se_abi_qp_in {
	uint32_t comp_mask;
	uint32_t rq_ring_size, sq_ring_size; /* bytes */
	uint32_t driver_qp_type;             /* 0: SRD */
	/* from here: rdma-core 52 and later; zero when absent */
	uint16_t flags;
	uint8_t sl;
	uint8_t zero[5];
};
_Static_assert(sizeof(struct se_abi_qp_in) == 24, "qp in");

struct se_abi_qp_out {
	uint32_t comp_mask;
	uint32_t rq_db_offset, sq_db_offset, llq_desc_offset;
	uint64_t rq_mmap_key, rq_mmap_size, rq_db_mmap_key, sq_db_mmap_key, llq_desc_mmap_key;
	uint16_t send_sub_cq_idx, recv_sub_cq_idx;
	uint8_t zero[4];
};
_Static_assert(sizeof(struct se_abi_qp_out) == 64, "qp out");

/* Newer than <rdma/ib_user_ioctl_cmds.h> of Debian 12. */
#define SE_METHOD_QUERY_PORT_SPEED 7 /* of DEVICE */
#define SE_ATTR_PORT_SPEED_PORT    0
#define SE_ATTR_PORT_SPEED_RESP    1 /* in 100 Mb/s */

/* of CQ's creation: memory of the application's own for the ring */
#define SE_ATTR_CREATE_CQ_VA     8
#define SE_ATTR_CREATE_CQ_LENGTH 9
#define SE_ATTR_CREATE_CQ_FD     10
#define SE_ATTR_CREATE_CQ_OFFSET 11
/* of MR: Linux 6.17 */
#define SE_METHOD_REG_MR         5
#define SE_ATTR_REG_MR_HANDLE    0
#define SE_ATTR_REG_MR_PD        1
#define SE_ATTR_REG_MR_DMAH      2
#define SE_ATTR_REG_MR_IOVA      3
#define SE_ATTR_REG_MR_ADDR      4
#define SE_ATTR_REG_MR_LENGTH    5
#define SE_ATTR_REG_MR_ACCESS    6
#define SE_ATTR_REG_MR_FD        7
#define SE_ATTR_REG_MR_FD_OFFSET 8
#define SE_ATTR_REG_MR_LKEY      9
#define SE_ATTR_REG_MR_RKEY      10

/* of MR, EFA's own */
#define SE_METHOD_MR_QUERY        0x1000
#define SE_ATTR_MR_QUERY_HANDLE   0x1000
#define SE_ATTR_MR_QUERY_VALIDITY 0x1001
#define SE_ATTR_MR_QUERY_RECV     0x1002
#define SE_ATTR_MR_QUERY_READ     0x1003
#define SE_ATTR_MR_QUERY_WRITE    0x1004

#endif
