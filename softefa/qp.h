/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation, states, queues. What they do is in requester.c and responder.c. */
#ifndef SE_QP_H
#define SE_QP_H

#include "cq.h"
#include "pd.h"

enum se_qp_type { SE_QPT_UD, SE_QPT_SRD };
enum se_qp_state { SE_RESET, SE_INIT, SE_RTR, SE_RTS, SE_SQD, SE_SQE, SE_ERR };

/* Bits of modify and query masks (enum ib_qp_attr_mask) that mean something here. */
enum {
	SE_QP_STATE = 1 << 0,
	SE_QP_CUR_STATE = 1 << 1,
	SE_QP_EN_SQD = 1 << 2,
	SE_QP_PKEY = 1 << 4,
	SE_QP_PORT = 1 << 5,
	SE_QP_QKEY = 1 << 6,
	SE_QP_RNR_RETRY = 1 << 11,
	SE_QP_SQ_PSN = 1 << 16,
	SE_QP_CAP = 1 << 19,
};

struct se_qp_cap {
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_data;
};

struct se_qp_attr {
	struct se_pd *pd;
	struct se_cq *send_cq, *recv_cq;
	enum se_qp_type type;
	struct se_qp_cap cap;
	uint32_t sq_bytes, rq_bytes;
	bool unsolicited;
	bool req_id_64;
	uint8_t sl;               /* service level; 0: bulk */
	uint64_t user;            /* what events say */
	struct se_channel *async; /* NULL: the context's */
};

struct se_sq {
	struct se_region mem;
	uint8_t *ring;
	uint32_t depth, stride;
	uint16_t fetched;      /* against the doorbell */
	uint32_t outstanding;  /* fetched, not completed */
	struct se_tx *tx;      /* depth of them */
	uint32_t fresh;        /* tx from here on were never used */
	struct se_list free;   /* used ones that are free again */
	struct se_list unsent; /* tx fetched, not on their way yet */
};

struct se_rq {
	struct se_region mem;
	struct se_rx_desc *ring;
	uint32_t depth;          /* descriptors */
	uint16_t consumed;       /* against the doorbell */
	struct se_list returned; /* receives that were taken and not used */
	struct se_list parked;   /* struct se_rx that wait for a receive */
};

struct se_qp {
	struct se_obj obj;
	struct se_list node; /* of all QPs of this process */
	struct se_pd *pd;
	struct se_cq *send_cq, *recv_cq;
	struct se_gid gid; /* of its device */
	uint16_t qpn;
	enum se_qp_type type;
	enum se_qp_state state;
	bool unsolicited, req_id_64;
	bool failed;       /* by its own fault: to be flushed in the next round */
	uint8_t rnr_retry; /* 7: for ever */
	uint8_t sl;        /* changes nothing here but what is counted */
	uint32_t qkey, sq_psn;
	struct se_qp_cap cap;
	struct se_doorbell db; /* SQ at +0, RQ at +SE_RQ_DB */
	struct se_sq sq;
	struct se_rq rq;
	struct se_async async;
};

#define SE_RQ_DB 8

extern struct se_list se_qps;

int se_qp_create(struct se_ctx *ctx, const struct se_qp_attr *attr, struct se_qp **out);
/* Afterwards nothing completes for it any more. Tells how many events of it were read. */
void se_qp_destroy(struct se_qp *qp, uint32_t *events);
/* After fork(): only its memory goes. */
void se_qp_forget(struct se_qp *qp);

struct se_qp_modify {
	uint32_t mask;
	enum se_qp_state state, cur_state;
	uint32_t qkey, sq_psn;
	uint16_t pkey_index;
	uint8_t port, rnr_retry;
};

int se_qp_modify(struct se_qp *qp, const struct se_qp_modify *m);

/* Into the error state from within the engine: a queue makes no sense. */
void se_qp_fail(struct se_qp *qp);
/* Complete all that is outstanding as flushed: after the move to the error state. */
void se_qp_flush(struct se_qp *qp);

/* A QP of this process on device @dev, or NULL. */
struct se_qp *se_qp_find(uint32_t dev, uint16_t qpn);
/* After fork(): all QPs are the parent's. */
void se_qp_forget_all(void);

#endif
