/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending half: fetches work requests behind the doorbell, checks them, sends them to the
 * process that owns the destination, and completes them when the answer is there. Engine lock held.
 */
#ifndef SE_REQUESTER_H
#define SE_REQUESTER_H

#include "move.h"
#include "qp.h"

enum se_tx_state {
	SE_TX_FREE,    /* on qp->sq.free */
	SE_TX_HELD,    /* a fault rule delays it */
	SE_TX_UNSENT,  /* on qp->sq.unsent: no room in the ring yet */
	SE_TX_ROUTING, /* for another host: no way there yet, or no room on it */
	SE_TX_SENT,    /* with the responder; on the list of requests in flight */
	SE_TX_NOBODY,  /* no such host: on its way into a timeout */
	SE_TX_MOVING,  /* RDMA read: bytes are coming in */
	SE_TX_DONE,    /* on cq->waiting: no room for the completion */
};

/* A work request from fetch to completion. */
struct se_tx {
	struct se_list node;
	struct se_qp *qp;
	enum se_tx_state state;
	uint16_t index, generation; /* together with the QPN: the token in messages */
	uint16_t ahn;
	uint8_t status;
	uint64_t req_id;
	int slot; /* of the responder */
	uint64_t incarnation;
	struct se_host *host; /* of the responder; NULL: this one */
	uint64_t route_by_us; /* 0: there was a way at once */
	uint64_t deadline_us;
	struct se_seg remote; /* RDMA read: where the responder said the bytes are */
	struct se_move move;
	struct se_msg msg;
};

int se_requester_init(struct se_qp *qp);
void se_requester_fini(struct se_qp *qp);

/* Forget all requests of @qp (reset, destroy), or complete them as flushed (error state). */
void se_requester_drop(struct se_qp *qp);
void se_requester_flush(struct se_qp *qp);
/* @pd has no address handle with @ahn any more: what went there ends as flushed. */
void se_requester_forsake(const struct se_pd *pd, uint16_t ahn);

/* One round: doorbells, unsent requests, reads, completions that found no room. */
unsigned se_requester_poll(void);
/* Requests that wait for a dead process or for nobody; every few milliseconds. */
void se_requester_timers(uint64_t now_us);
void se_requester_answer(const struct se_msg *msg, int slot);
/* Bytes of a request that the responder in @slot asks for. */
enum se_data_status se_requester_source(int slot, const struct se_pull *p, void *out);
void se_requester_forget_all(void);
/* Is anything outstanding? */
bool se_requester_busy(void);

#endif
