/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request of one of our QPs, from work request to completion. What is done with it is in
 * requester.c and, when it goes to another host, in away.c. Engine lock held.
 */
#ifndef SE_TX_H
#define SE_TX_H

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

extern struct se_list se_tx_in_flight; /* SE_TX_SENT and SE_TX_NOBODY */
extern struct se_list se_tx_moving;

int se_tx_init(struct se_qp *qp);
void se_tx_fini(struct se_qp *qp);

/* A free one; there is one for each entry of the queue. */
struct se_tx *se_tx_get(struct se_qp *qp);
/* Off whatever list it is on, and free; an answer that comes later finds another generation. */
void se_tx_put(struct se_tx *tx);
/* Into @state, at the end of @list. */
void se_tx_set(struct se_tx *tx, enum se_tx_state state, struct se_list *list);

/* What names it in messages, and what a name stands for; NULL: it is over. */
uint64_t se_tx_token(const struct se_tx *tx);
struct se_tx *se_tx_find(uint64_t token);

/* It is with the process in @slot. */
void se_tx_sent(struct se_tx *tx, int slot, uint64_t incarnation);

/* To the CQ, or to those that wait for room there. */
void se_tx_complete(struct se_tx *tx, enum se_status status);
/* The same, but a UD sender never learns what became of its message. */
void se_tx_refuse(struct se_tx *tx, enum se_status status);
/* Completions for which @cq has room now; how many. */
unsigned se_tx_retry(struct se_cq *cq);
/* Do any wait? */
bool se_tx_waiting(void);

/* What to say when the peer's process is gone, and when nobody answers. */
enum se_status se_tx_lost(const struct se_tx *tx);
enum se_status se_tx_silent(const struct se_tx *tx);

void se_tx_forget_all(void);

#endif
