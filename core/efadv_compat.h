/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libefa, whatever its release: our own declarations of the structs of <infiniband/efadv.h> that
 * we use, and what older releases do differently.
 *
 * These structs grow from release to release and the caller passes the length it knows. libefa
 * accepts a longer one as long as the part it does not know is zero, and a shorter one that
 * reaches the fields it must have. Ours end with the last field we need, unless they say why not.
 */
#ifndef SRD_CORE_EFADV_COMPAT_H
#define SRD_CORE_EFADV_COMPAT_H

#include <stdbool.h>
#include <stdint.h>

#include "srd.h"

struct srd_dv_device_attr {
	uint64_t comp_mask;
	uint32_t max_sq_wr;
	uint32_t max_rq_wr;
	uint16_t max_sq_sge;
	uint16_t max_rq_sge;
	uint16_t inline_buf_size;
	uint16_t inline_buf_size_ex; /* release 63; 0 before */
	uint32_t device_caps;
	uint32_t max_rdma_size;
};

struct srd_dv_ah_attr {
	uint64_t comp_mask;
	uint16_t ahn;
	uint8_t reserved[6];
};

/*
 * All that release 65 knows, though we use wc_flags only: 59.0 and 60.0 mistake a shorter one for
 * one longer than their own, and want zeroes far behind its end.
 */
struct srd_dv_cq_attr {
	uint64_t comp_mask;
	uint64_t wc_flags;
	uint64_t flags;
	struct {
		uint8_t *buffer;
		uint64_t length;
		uint64_t offset;
		int32_t fd;
		uint8_t reserved[4];
	} ext_mem_dmabuf;
};

enum {
	SRD_DV_WC_SGID = 1u << 0,
	SRD_DV_WC_IS_UNSOLICITED = 1u << 1, /* release 52 */
};

struct srd_dv_cq {
	uint64_t comp_mask;
	int (*wc_read_sgid)(struct srd_dv_cq *cq, union ibv_gid *sgid);
	bool (*wc_is_unsolicited)(struct srd_dv_cq *cq); /* release 52; not there before */
};

/* Release 59. */
struct srd_dv_cq_ring {
	uint64_t comp_mask;
	uint8_t *buffer;
	uint32_t entry_size;
	uint32_t num_entries;
	uint32_t *doorbell; /* NULL in some 59 */
};

struct srd_dv_wq {
	uint64_t comp_mask;
	uint8_t *buffer;
	uint32_t entry_size;
	uint32_t num_entries;
	uint32_t *doorbell;
	uint32_t max_batch;
	uint16_t caps;
	uint8_t reserved[2];
};

/* Release 50. */
struct srd_dv_mr_attr {
	uint64_t comp_mask;
	uint16_t ic_id_validity;
	uint16_t recv_ic_id;
	uint16_t rdma_read_ic_id;
	uint16_t rdma_recv_ic_id;
};

struct srd_dv_qp_attr {
	uint64_t comp_mask;
	uint32_t driver_qp_type;
	uint16_t flags; /* release 52; must be 0 before */
	uint8_t sl;     /* release 55; must be 0 before */
	uint8_t reserved;
};

enum { SRD_DV_QP_UNSOLICITED_WRITE_RECV = 1u << 0 };

/* Fill the fields of @attr that libefa knows. */
int srd_dv_query(struct ibv_context *ctx, struct srd_dev_attr *attr);

/* NULL with errno, as the libefa calls behind them. @attr is not changed unless they succeed. */
struct ibv_cq_ex *srd_dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				   uint64_t wc_flags);
struct ibv_qp *srd_dv_create_srd(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				 uint16_t flags, uint8_t sl);

/*
 * Before release 58 (and in 52 ... 57 before their last fixes), a completion of a destroyed QP
 * that is met by ibv_next_poll() makes libefa give back a request slot of another QP a second
 * time. ibv_start_poll() meets it without harm. Told by a symbol of release 59.
 */
bool srd_dv_next_poll_is_safe(void);

/*
 * Thread domains came with release 59, the barrier that replaces the lock they remove, after some
 * of 59 and 60 had been published without. Told by a symbol of release 62.
 */
bool srd_dv_thread_domains_are_safe(void);

#endif
