/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of an EFA device that speaks its command ABI and writes its rings itself, without
 * rdma-core. It checks nothing that the device is to check.
 *
 * Functions return 0 or -errno. An object is used by one thread at a time; what it points to is
 * kept until its destroy. Destroying a zeroed object, or one whose device was closed, asks nobody.
 */
#ifndef TESTS_RAW_H
#define TESTS_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raw_cmd.h"

enum raw_op { RAW_SEND = 0, RAW_READ = 1, RAW_WRITE = 2 };
enum raw_state { RAW_RESET, RAW_INIT, RAW_RTR, RAW_RTS, RAW_SQD, RAW_SQE, RAW_ERR };
enum { RAW_UD = 4, RAW_SRD = 0xff };
enum { RAW_LOCAL_WRITE = 1, RAW_REMOTE_WRITE = 2, RAW_REMOTE_READ = 4 };
enum { RAW_ALL_ACCESS = RAW_LOCAL_WRITE | RAW_REMOTE_WRITE | RAW_REMOTE_READ };
enum { RAW_AHN_UNKNOWN = 0xffff, RAW_GRH = 40 };

struct raw_gid {
	uint8_t b[16];
};

struct raw_dev {
	const struct raw_sys *sys; /* NULL: not open */
	int fd;
	uint32_t num_comp_vectors;
	uint32_t max_llq_size;
	uint16_t inline_size, inline_size_ex, max_tx_batch, min_sq_wr;
};

int raw_open(struct raw_dev *d, const struct raw_sys *sys, unsigned index);
void raw_close(struct raw_dev *d);
int raw_gid(const struct raw_dev *d, struct raw_gid *gid);

struct raw_pd {
	uint32_t handle;
	bool live;
};

int raw_pd_alloc(struct raw_pd *pd, const struct raw_dev *d);
int raw_pd_free(struct raw_pd *pd, const struct raw_dev *d);

struct raw_mr {
	uint32_t handle, key; /* lkey and rkey */
	uint64_t addr, len;
	bool live;
};

int raw_mr_reg(struct raw_mr *mr, const struct raw_dev *d, const struct raw_pd *pd, void *p,
	       uint64_t len, uint32_t access);
/* Of @len bytes at @off of the dma-buf @fd, called @iova in requests. */
struct raw_dmabuf {
	int fd;
	uint64_t off, len, iova;
	uint32_t access;
};

int raw_mr_reg_dmabuf(struct raw_mr *mr, const struct raw_dev *d, const struct raw_pd *pd,
		      const struct raw_dmabuf *b);
int raw_mr_dereg(struct raw_mr *mr, const struct raw_dev *d);

struct raw_ah {
	uint32_t handle;
	uint16_t ahn;
	bool live;
};

int raw_ah_create(struct raw_ah *ah, const struct raw_dev *d, const struct raw_pd *pd,
		  const struct raw_gid *gid);
int raw_ah_destroy(struct raw_ah *ah, const struct raw_dev *d);

/* ---- completion queues ---- */

struct raw_cq_attr {
	uint32_t depth; /* a power of two */
	uint32_t entry; /* bytes; 0: 32 */
	int channel;    /* fd; 0: none */
	int async;      /* fd; 0: the context's */
	uint64_t user;  /* what its events say */
	bool sgid, req_id_64;
};

struct raw_cq {
	uint32_t handle, depth, entry;
	uint32_t next, phase; /* to read next, and its phase bit */
	uint16_t cons;
	uint8_t events; /* that were taken; counted by who takes them */
	uint8_t *ring;
	size_t ring_len;
	uint8_t *db_page;
	uint32_t *db;
	bool live;
};

int raw_channel(const struct raw_dev *d, int *fd);
/* For asynchronous events, of 16 bytes each; the first is where those go that name none. */
int raw_async(const struct raw_dev *d, int *fd);
int raw_cq_create(struct raw_cq *cq, const struct raw_dev *d, const struct raw_cq_attr *attr);
/* @events, if not NULL: how many of its events the device thinks were read. */
int raw_cq_destroy(struct raw_cq *cq, const struct raw_dev *d, uint32_t *events);

struct raw_wc {
	uint64_t req_id;
	uint8_t status, op;
	bool recv, has_imm, unsolicited;
	uint16_t qpn;
	/* receives: */
	uint32_t len, imm;
	uint16_t ahn, src_qpn;
	struct raw_gid sgid;
};

/* The next completion, if there is one; the device learns of it with raw_cq_done(). */
bool raw_cq_next(struct raw_cq *cq, struct raw_wc *wc);
void raw_cq_done(struct raw_cq *cq, bool arm);
/* Both. */
bool raw_poll(struct raw_cq *cq, struct raw_wc *wc);

/* ---- queue pairs ---- */

struct raw_qp_attr {
	uint32_t type;   /* RAW_SRD, RAW_UD */
	uint32_t sq, rq; /* work requests, descriptors: powers of two or 0 */
	uint32_t stride; /* 0: 64 */
	uint32_t max_inline;
	bool unsolicited, req_id_64;
	uint8_t sl;
	int async; /* fd; 0: the context's */
};

struct raw_qp {
	uint32_t handle, qpn, qkey;
	uint32_t sq_depth, rq_depth, stride;
	uint16_t sq_prod, rq_prod; /* descriptors written; the doorbell says so later */
	bool req_id_64, live;
	uint8_t *sq_map, *sq, *rq, *sq_db_page, *rq_db_page;
	size_t sq_len, rq_len;
	uint32_t *sq_db, *rq_db;
};

int raw_qp_create(struct raw_qp *qp, const struct raw_dev *d, const struct raw_pd *pd,
		  const struct raw_cq *scq, const struct raw_cq *rcq,
		  const struct raw_qp_attr *attr);
int raw_qp_destroy(struct raw_qp *qp, const struct raw_dev *d);

enum {
	RAW_M_STATE = 1 << 0,
	RAW_M_CUR_STATE = 1 << 1,
	RAW_M_SQD_NOTIFY = 1 << 2,
	RAW_M_PKEY = 1 << 4,
	RAW_M_PORT = 1 << 5,
	RAW_M_QKEY = 1 << 6,
	RAW_M_RNR = 1 << 11,
	RAW_M_PSN = 1 << 16,
};

struct raw_modify {
	uint32_t mask;
	uint8_t state, cur_state, port, rnr_retry;
	uint16_t pkey;
	uint32_t qkey, psn;
};

int raw_qp_modify(struct raw_qp *qp, const struct raw_dev *d, const struct raw_modify *m);
/* To @state with nothing else; to RESET the rings start anew. */
int raw_qp_to(struct raw_qp *qp, const struct raw_dev *d, enum raw_state state);
/* From RESET to RTS; @rnr < 0: not set. */
int raw_qp_up(struct raw_qp *qp, const struct raw_dev *d, uint32_t qkey, int rnr);

struct raw_sge {
	uint64_t addr;
	uint32_t len, key;
};

struct raw_wr {
	uint64_t req_id;
	enum raw_op op;
	bool imm_on;
	uint32_t imm;
	uint16_t ahn, qpn;
	uint32_t qkey;
	struct raw_sge remote; /* RDMA; its length is the transfer's */
	unsigned nsge;
	struct raw_sge sge[2];
	const void *data; /* inline instead of sge[] */
	uint16_t data_len;
};

/* Write into the next slot; the caller knows that it is free. */
void raw_post(struct raw_qp *qp, const struct raw_wr *wr);
/* One receive of @n descriptors. */
void raw_post_recv(struct raw_qp *qp, uint16_t req_id, const struct raw_sge *sge, unsigned n);
/* Ring both doorbells. */
void raw_ring(struct raw_qp *qp);

struct raw_sge raw_sge(const struct raw_mr *mr, uint64_t off, uint32_t len);

#endif
