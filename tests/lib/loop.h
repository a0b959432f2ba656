/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A loop: two queue pairs A and B on one device, each with its own CQ, that know each other.
 *
 * The helpers assert; they are for tests only. Fields may be used and replaced freely.
 */
#ifndef TESTS_LOOP_H
#define TESTS_LOOP_H

#include "srd.h"

enum {
	LOOP_BYTES = 1 << 20,    /* of buf; A's half, then B's */
	LOOP_B = LOOP_BYTES / 2, /* offset of B's half */
	LOOP_QKEY = 0x11110000,
	LOOP_WAIT_MS = 60000, /* longer than any retry, and than a GiB takes on a busy machine */
};

struct loop_attr {
	bool td;        /* QPs and CQs on a thread domain */
	bool strangers; /* B in a PD of its own, without an AH for A */
	bool a_unsolicited, b_unsolicited;
	enum srd_qp_type type;
	uint32_t depth; /* of all queues; 0 = 64 */
	uint32_t sges;  /* of sends and receives; 0 = 1 */
	uint32_t max_inline;
	uint32_t cq_fields; /* SRD_CQ_* of both CQs */
	int rnr_retry;      /* of A; 0 = leave it to the device */
	uint32_t need;      /* SRD_CAP_*: skip the test without */
	bool channel;       /* both CQs announce to ch */
};

struct loop {
	struct srd_dev dev;
	struct srd_pd pd, b_pd;
	struct srd_td td;
	struct srd_channel ch; /* zero unless asked for */
	struct srd_cq a_cq, b_cq;
	struct srd_qp a, b;
	struct srd_peer to_a, to_b; /* to_a is zero among strangers */
	uint8_t *buf;
	struct srd_mr mr, b_mr; /* all of buf, in pd and in the PD of B */
};

/* The first EFA; skips the test when there is none. */
void loop_open_dev(struct srd_dev *dev);
/* Unless the device and libefa have all of @caps, close it and skip the test. */
void loop_need(struct srd_dev *dev, uint32_t caps);

void loop_init(struct loop *l, const struct loop_attr *attr);
void loop_fini(struct loop *l);

/* The release of rdma-core that libsrd found, by the name of libefa's file; INT_MAX: no number. */
int loop_release(void);

/*
 * The kind of the CQs of the loop, by LOOP_CQ: "direct", "classic", or neither. Before release 59,
 * direct ones are asked for in vain: they are plain.
 */
bool loop_direct(void);
bool loop_classic(void);

/* The attributes of one of the QPs, for tests that make a third one. */
struct srd_qp_attr loop_qp_attr(struct loop *l, const struct loop_attr *attr);

/* Bytes that depend on position and seed, so that swaps and tears show. */
void loop_fill(uint8_t *p, size_t n, uint32_t seed);
bool loop_filled(const uint8_t *p, size_t n, uint32_t seed);

/* Request from A to B: @op of @len bytes at @off of buf, to offset @to of buf if it is an RDMA. */
struct srd_wr loop_wr(const struct loop *l, enum ibv_wr_opcode op, uint64_t off, uint32_t len,
		      uint64_t to);

/* Post one receive at B: @len bytes at @off of buf. */
void loop_recv(struct loop *l, uint64_t wr_id, uint64_t off, uint32_t len);

/* Poll until @n completions are there; fails the test after LOOP_WAIT_MS. */
void loop_wait(struct srd_cq *cq, struct srd_wc *wc, int n);
/* One completion; fails the test unless it is a success. */
struct srd_wc loop_wait_ok(struct srd_cq *cq);
/* Post one from A, return its completion. */
struct srd_wc loop_run(struct loop *l, const struct srd_wr *wr);
/* True when no completion comes for some milliseconds. */
bool loop_quiet(struct srd_cq *cq);

/* ibv_query_qp() of the library that libsrd found. */
int loop_query_qp(struct srd_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);

/* Move a QP to the error state, which libsrd has no call for. */
void loop_to_error(struct srd_qp *qp);

#endif
