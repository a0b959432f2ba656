/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: their memory, their names, their completion. */
#include "tx.h"

#include <errno.h>
#include <stdlib.h>

#include "fault.h"
#include "log.h"
#include "settings.h"
#include "stats.h"

struct se_list se_tx_in_flight = SE_LIST_INIT(se_tx_in_flight);
struct se_list se_tx_moving = SE_LIST_INIT(se_tx_moving);
static unsigned waiting; /* SE_TX_DONE */

int se_tx_init(struct se_qp *qp)
{
	se_list_init(&qp->sq.free);
	se_list_init(&qp->sq.unsent);
	if (!qp->sq.depth)
		return 0;
	qp->sq.tx = calloc(qp->sq.depth, sizeof(*qp->sq.tx));
	return qp->sq.tx ? 0 : -ENOMEM;
}

void se_tx_fini(struct se_qp *qp)
{
	free(qp->sq.tx);
	qp->sq.tx = NULL;
}

struct se_tx *se_tx_get(struct se_qp *qp)
{
	struct se_sq *sq = &qp->sq;
	struct se_tx *tx;

	if (!se_list_empty(&sq->free)) {
		tx = se_container(sq->free.next, struct se_tx, node);
		se_list_remove(&tx->node);
	} else {
		tx = &sq->tx[sq->fresh];
		tx->qp = qp;
		tx->index = (uint16_t)sq->fresh++;
	}
	tx->generation++;
	sq->outstanding++;
	return tx;
}

void se_tx_put(struct se_tx *tx)
{
	if (tx->state == SE_TX_DONE)
		waiting--;
	se_move_cancel(&tx->move);
	se_list_remove(&tx->node);
	tx->state = SE_TX_FREE;
	se_list_append(&tx->qp->sq.free, &tx->node);
	tx->qp->sq.outstanding--;
}

uint64_t se_tx_token(const struct se_tx *tx)
{
	return (uint64_t)tx->qp->obj.ctx->dev << 48 | (uint64_t)tx->qp->qpn << 32 |
	       (uint32_t)tx->index << 16 | tx->generation;
}

struct se_tx *se_tx_find(uint64_t t)
{
	struct se_qp *qp = se_qp_find((uint32_t)(t >> 48) % SE_MAX_DEV, (uint16_t)(t >> 32));
	uint16_t index = (uint16_t)(t >> 16);

	if (!qp || index >= qp->sq.fresh || qp->sq.tx[index].generation != (uint16_t)t)
		return NULL;
	return &qp->sq.tx[index];
}

void se_tx_set(struct se_tx *tx, enum se_tx_state state, struct se_list *list)
{
	se_list_remove(&tx->node);
	tx->state = state;
	se_list_append(list, &tx->node);
}

void se_tx_sent(struct se_tx *tx, int slot, uint64_t incarnation)
{
	tx->slot = slot;
	tx->incarnation = incarnation;
	se_fault_sent(tx->msg.src_dev, tx->msg.src_qpn, tx->msg.op);
	se_tx_set(tx, SE_TX_SENT, &se_tx_in_flight);
}

/* ---- completion ---- */

static void count_completion(const struct se_tx *tx)
{
	uint32_t dev = tx->qp->obj.ctx->dev;

	se_stat_add(dev, se_stat_of(SE_STAT_COMPLETIONS, tx->status), 1);
	if (tx->status == SE_OK)
		se_stat_add(dev, SE_STAT_BYTES + tx->msg.op % SE_STAT_OPS, tx->msg.len);
}

static void push_completion(const struct se_tx *tx)
{
	struct se_cqe e = {
		.req_id = (uint16_t)tx->req_id,
		.status = tx->status,
		.flags = (uint8_t)(SE_CQE_SEND | SE_CQE_OP(tx->msg.op)),
		.qpn = tx->qp->qpn,
	};

	if (tx->qp->req_id_64) {
		e.tx.req_id_hi[0] = (uint16_t)(tx->req_id >> 16);
		e.tx.req_id_hi[1] = (uint16_t)(tx->req_id >> 32);
		e.tx.req_id_hi[2] = (uint16_t)(tx->req_id >> 48);
	}
	se_cq_push(tx->qp->send_cq, &e);
	count_completion(tx);
}

void se_tx_complete(struct se_tx *tx, enum se_status status)
{
	struct se_cq *cq = tx->qp->send_cq;

	se_move_cancel(&tx->move);
	if (status == SE_OK)
		status = se_fault_unheard(tx->msg.src_dev, tx->qp->qpn, tx->msg.op);
	tx->status = (uint8_t)status;
	if (status)
		se_log(SE_LOG_ALL, "qp %u: request %u ends with status %d", tx->qp->qpn,
		       (unsigned)tx->req_id, status);
	if (se_cq_room(cq) && se_list_empty(&cq->waiting)) {
		push_completion(tx);
		se_tx_put(tx);
		return;
	}
	se_list_remove(&tx->node);
	tx->state = SE_TX_DONE;
	waiting++;
	se_list_append(&cq->waiting, &tx->node);
}

unsigned se_tx_retry(struct se_cq *cq)
{
	unsigned n = 0;

	while (!se_list_empty(&cq->waiting) && se_cq_room(cq)) {
		struct se_tx *tx = se_container(cq->waiting.next, struct se_tx, node);

		push_completion(tx);
		se_tx_put(tx);
		n++;
	}
	return n;
}

void se_tx_refuse(struct se_tx *tx, enum se_status status)
{
	se_tx_complete(tx, tx->qp->type == SE_QPT_UD ? SE_OK : status);
}

bool se_tx_waiting(void)
{
	return waiting != 0;
}

/* ---- peers that do not answer ---- */

/* One packet gets no answer from a QP that is gone; of several, the rest do not. */
enum se_status se_tx_lost(const struct se_tx *tx)
{
	return tx->msg.len > se_settings()->max_msg_size ? SE_REM_ABORT : SE_REM_BAD_QPN;
}

/* 15 or 13: did it ever answer? */
enum se_status se_tx_silent(const struct se_tx *tx)
{
	const struct se_known *peer = se_pd_ahn(tx->qp->pd, tx->ahn);

	return peer && peer->answered ? SE_UNRESP_REMOTE : SE_UNREACH_REMOTE;
}

void se_tx_forget_all(void)
{
	se_list_init(&se_tx_in_flight);
	se_list_init(&se_tx_moving);
	waiting = 0;
}
