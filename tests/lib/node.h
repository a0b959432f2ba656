/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair of the software adapter with what belongs to it: for tests of the adapter, which
 * runs with settings of the test's own in a domain of the test's own. Failures are MUST()s.
 */
#ifndef TESTS_NODE_H
#define TESTS_NODE_H

#include "raw.h"

enum { NODE_QKEY = 0x600d0000 };

/*
 * First in every test: skips it without softefa; @settings as in --set, comma-separated, or NULL.
 * Children come into the same domain.
 */
void node_settings(const char *settings);
/* The folder that processes of this domain share, as it is when somebody is there. */
void node_fabric_dir(char *path, size_t len);

/* Zero means the default. */
struct node_attr {
	unsigned dev;
	uint32_t type;       /* RAW_SRD */
	uint32_t sq, rq, cq; /* depths; 64, 64, 128 */
	uint32_t stride;
	uint32_t bytes; /* of buf; 1 MiB */
	int rnr;        /* rnr_retry + 1; 0: not set */
	bool unsolicited, sgid, req_id_64;
	uint8_t sl;
	struct node *with; /* in its context and PD, and closed before it */
};

struct node {
	struct raw_dev dev;
	struct raw_pd pd;
	struct raw_cq scq, rcq;
	struct raw_qp qp;
	struct raw_mr mr; /* all of buf, all access */
	uint8_t *buf;
	struct node *with;
};

/* What others need to know. */
struct node_addr {
	struct raw_gid gid;
	uint16_t qpn;
	uint32_t qkey;
	struct raw_sge mr;
};

/* In state RTS. */
void node_init(struct node *n, const struct node_attr *attr);
void node_fini(struct node *n);
/* Close the device with all that is in it. */
void node_abandon(struct node *n);
struct node_addr node_addr(const struct node *n);
/* An AH of @n for @to, which lives as long as the context. */
uint16_t node_ahn(struct node *n, const struct node_addr *to);

/* To @to: @len bytes from @off of buf, to @roff of its memory if it is an RDMA. */
struct raw_wr node_wr(const struct node *n, enum raw_op op, const struct node_addr *to,
		      uint16_t ahn, uint64_t off, uint32_t len, uint64_t roff);
void node_post(struct node *n, const struct raw_wr *wr);
/* Post a receive of @len bytes at @off of buf. */
void node_recv(struct node *n, uint16_t req_id, uint64_t off, uint32_t len);

/* The next completion; fails after KIDS_WAIT_MS. */
struct raw_wc node_wait(struct raw_cq *cq);
struct raw_wc node_wait_status(struct raw_cq *cq, unsigned status);
/* Post and wait. */
struct raw_wc node_run(struct node *n, const struct raw_wr *wr);
/* No completion for @ms. */
bool node_quiet(struct raw_cq *cq, unsigned ms);

/* Bytes that depend on position and seed. */
void node_fill(void *p, size_t n, uint32_t seed);
bool node_filled(const void *p, size_t n, uint32_t seed);

#endif
