/* SPDX-License-Identifier: BSD-3-Clause */
/* A request of another QP, from arrival to answer. What is done with it is in responder.c. */
#ifndef SE_RX_H
#define SE_RX_H

#include "move.h"
#include "msg.h"
#include "recv.h"

#define SE_GRH_BYTES 40 /* room in front of a UD message */

enum se_rx_state {
	SE_RX_ARRIVED,  /* on the list of arrivals */
	SE_RX_PARKED,   /* on qp->rq.parked: waits for a posted receive */
	SE_RX_FETCHING, /* these four on the busy list: of another host, is it wanted still? */
	SE_RX_MOVING,
	SE_RX_COMPLETING, /* the CQ has no room */
	SE_RX_ANSWERING,  /* the ring has no room */
};

struct se_rx {
	struct se_list node;
	enum se_rx_state state;
	struct se_qp *qp; /* NULL once it has none any more */
	int slot;         /* who asks */
	uint64_t incarnation;
	uint64_t rnr_deadline_us; /* 0: not waiting */
	uint8_t defers;
	uint8_t status;       /* to the requester */
	uint8_t rx_status;    /* to the receiver */
	bool took;            /* recv, which must complete */
	bool placed;          /* the bytes are there already */
	struct se_seg grant;  /* RDMA read */
	struct se_seg target; /* RDMA write */
	uint8_t *payload;     /* the bytes, when they came along; NULL: they are at the sender */
	struct se_move move;
	struct se_msg msg;
	struct se_recv recv;
};

extern struct se_list se_rx_busy;

/* All zero up to msg; NULL when there are too many. */
struct se_rx *se_rx_get(void);
void se_rx_put(struct se_rx *rx);
/* To @state, at the end of @list. */
void se_rx_set(struct se_rx *rx, enum se_rx_state state, struct se_list *list);

/* Give it memory for @len bytes; false: there is none. And take that away. */
bool se_rx_payload(struct se_rx *rx, uint32_t len);
void se_rx_drop_payload(struct se_rx *rx);

/* Does the sender still want it? What it gave up must not be carried out: its memory is reused. */
bool se_rx_wanted(const struct se_rx *rx);
/* The bytes are there, or will never be: to the CQ, then to the requester. */
void se_rx_moved(struct se_rx *rx, enum se_status rx_status, enum se_status status);
/* Only to the requester. */
void se_rx_finish(struct se_rx *rx, enum se_status status);

/* Try again what found no room; true when it did now. */
bool se_rx_complete(struct se_rx *rx);
bool se_rx_answer(struct se_rx *rx);

/* Complete a posted receive of @qp, which failed, as flushed; false: there is none, or no room. */
bool se_rx_flush(struct se_qp *qp);

unsigned se_rx_parked(void);
/* After fork(): free those on @list. */
void se_rx_forget(struct se_list *list);
void se_rx_forget_all(void);

#endif
