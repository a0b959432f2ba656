/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: objects and states. */
#include "qp.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "requester.h"
#include "recv.h"
#include "responder.h"
#include "settings.h"

#define CAP_UNSOLICITED (1u << 6)
#define CAP_REQ_ID_64   (1u << 9)
#define SQ_OFFSET       64u /* of the first work request in its region: any multiple of 64 */

struct se_list se_qps = SE_LIST_INIT(se_qps);
static struct se_qp **by_qpn[SE_MAX_DEV];

/* ---- create, destroy ---- */

static int cap_check(const struct se_qp_attr *a)
{
	const struct se_settings *set = se_settings();
	uint32_t stride = a->cap.send_wr ? a->sq_bytes / a->cap.send_wr : SE_WQE_64;
	uint32_t inline_max = stride == SE_WQE_128 ? set->inline_size_ex : set->inline_size;

	if (a->cap.send_wr > set->max_sq_wr || a->cap.send_sge > set->max_sq_sge ||
	    a->cap.recv_sge > set->max_rq_sge || a->cap.inline_data > inline_max)
		return -EINVAL;
	if (a->cap.send_wr && a->cap.send_wr < set->min_sq_wr)
		return -EINVAL;
	/* Rings are powers of two: slots follow from the free-running doorbell. */
	if (a->cap.send_wr & (a->cap.send_wr - 1) ||
	    a->sq_bytes != (uint64_t)a->cap.send_wr * stride || a->sq_bytes > set->max_llq_size ||
	    (stride != SE_WQE_64 && stride != SE_WQE_128))
		return -EINVAL;
	if (a->rq_bytes % sizeof(struct se_rx_desc) || a->rq_bytes & (a->rq_bytes - 1) ||
	    a->rq_bytes / sizeof(struct se_rx_desc) > set->max_rq_wr)
		return -EINVAL;
	return 0;
}

static int attr_check(const struct se_qp_attr *a)
{
	uint32_t caps = se_settings()->caps;

	if ((a->unsolicited && !(caps & CAP_UNSOLICITED)) ||
	    (a->req_id_64 && !(caps & CAP_REQ_ID_64)))
		return -EOPNOTSUPP;
	if (a->unsolicited && a->type != SE_QPT_SRD)
		return -EINVAL;
	return cap_check(a);
}

static int queues_init(struct se_qp *qp, const struct se_qp_attr *a)
{
	struct se_space *space = &a->pd->obj.ctx->space;
	int rc = se_doorbell_init(&qp->db, space);

	qp->sq.depth = a->cap.send_wr;
	qp->sq.stride = a->cap.send_wr ? a->sq_bytes / a->cap.send_wr : SE_WQE_64;
	qp->rq.depth = a->rq_bytes / sizeof(struct se_rx_desc);
	if (!rc && qp->sq.depth) {
		rc = se_region_init(&qp->sq.mem, space, SQ_OFFSET + a->sq_bytes);
		qp->sq.ring = (uint8_t *)qp->sq.mem.va + SQ_OFFSET;
	}
	if (!rc && qp->rq.depth) {
		rc = se_region_init(&qp->rq.mem, space, a->rq_bytes);
		qp->rq.ring = qp->rq.mem.va;
	}
	if (!rc)
		rc = se_tx_init(qp);
	return rc;
}

static void queues_fini(struct se_qp *qp)
{
	struct se_space *space = &qp->obj.ctx->space;

	se_tx_fini(qp);
	se_recv_forget_returned(qp);
	se_region_fini(&qp->rq.mem, space);
	se_region_fini(&qp->sq.mem, space);
	se_doorbell_fini(&qp->db, space);
}

static int qpn_init(struct se_qp *qp)
{
	struct se_ctx *ctx = qp->obj.ctx;
	int qpn = se_fabric_qpn_get((int)ctx->dev, ctx->qpn_used, ctx->qpn_mask,
				    se_settings()->max_qp);

	if (qpn < 0)
		return qpn;
	if (!by_qpn[ctx->dev])
		by_qpn[ctx->dev] = calloc(1 << 16, sizeof(struct se_qp *));
	if (!by_qpn[ctx->dev]) {
		se_fabric_qpn_put((int)ctx->dev, (uint16_t)qpn);
		return -ENOMEM;
	}
	qp->qpn = (uint16_t)qpn;
	ctx->qpn_used[qp->qpn & ctx->qpn_mask] = 1;
	by_qpn[ctx->dev][qp->qpn] = qp;
	return 0;
}

int se_qp_create(struct se_ctx *ctx, const struct se_qp_attr *attr, struct se_qp **out)
{
	struct se_qp *qp;
	int rc = attr_check(attr);

	if (!rc)
		rc = se_fault_refuse(ctx->dev, SE_QP);
	if (rc)
		return rc;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->obj.ctx = ctx;
	qp->pd = attr->pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->gid = se_gid_of(se_settings(), ctx->dev);
	qp->type = attr->type;
	qp->unsolicited = attr->unsolicited;
	qp->req_id_64 = attr->req_id_64;
	qp->sl = attr->sl;
	qp->cap = attr->cap;
	qp->rnr_retry = 7;
	se_list_init(&qp->rq.parked);
	se_list_init(&qp->rq.returned);
	rc = queues_init(qp, attr);
	if (!rc)
		rc = se_ctx_add(ctx, &qp->obj, SE_QP);
	if (rc)
		goto fail;
	rc = qpn_init(qp);
	if (rc) {
		se_ctx_del(&qp->obj);
		goto fail;
	}
	qp->pd->obj.users++;
	qp->send_cq->obj.users++;
	qp->recv_cq->obj.users++;
	se_cq_attach(qp->send_cq, qp->sq.depth, false);
	se_cq_attach(qp->recv_cq, qp->cap.recv_wr, qp->unsolicited);
	se_list_append(&se_qps, &qp->node);
	se_async_init(&qp->async, ctx, attr->async, attr->user);
	*out = qp;
	return 0;

fail:
	queues_fini(qp);
	free(qp);
	return rc;
}

void se_qp_destroy(struct se_qp *qp, uint32_t *events)
{
	struct se_ctx *ctx = qp->obj.ctx;

	by_qpn[ctx->dev][qp->qpn] = NULL;
	se_requester_drop(qp);
	se_responder_drop(qp);
	se_fabric_qpn_put((int)ctx->dev, qp->qpn);
	ctx->qpn_used[qp->qpn & ctx->qpn_mask] = 0;
	se_list_remove(&qp->node);
	qp->pd->obj.users--;
	qp->send_cq->obj.users--;
	qp->recv_cq->obj.users--;
	*events = se_async_fini(&qp->async);
	se_cq_detach(qp->send_cq, qp->sq.depth, false);
	se_cq_detach(qp->recv_cq, qp->cap.recv_wr, qp->unsolicited);
	queues_fini(qp);
	se_ctx_del(&qp->obj);
	free(qp);
}

void se_qp_forget(struct se_qp *qp)
{
	queues_fini(qp);
	free(qp);
}

struct se_qp *se_qp_find(uint32_t dev, uint16_t qpn)
{
	return by_qpn[dev] ? by_qpn[dev][qpn] : NULL;
}

void se_qp_forget_all(void)
{
	se_list_init(&se_qps);
	for (int i = 0; i < SE_MAX_DEV; i++) {
		free(by_qpn[i]);
		by_qpn[i] = NULL;
	}
}

/* ---- states ---- */

/* What a transition must and may bring; from and to RESET and ERR is checked apart. */
struct transition {
	enum se_qp_state from, to;
	uint32_t must, may;
};

static const struct transition transitions[] = {
	{SE_RESET, SE_INIT, SE_QP_PKEY | SE_QP_PORT | SE_QP_QKEY, 0},
	{SE_INIT, SE_INIT, 0, SE_QP_PKEY | SE_QP_PORT | SE_QP_QKEY},
	{SE_INIT, SE_RTR, 0, SE_QP_PKEY | SE_QP_QKEY},
	{SE_RTR, SE_RTS, SE_QP_SQ_PSN, SE_QP_CUR_STATE | SE_QP_QKEY | SE_QP_RNR_RETRY},
	{SE_RTS, SE_RTS, 0, SE_QP_CUR_STATE | SE_QP_QKEY},
	{SE_RTS, SE_SQD, 0, SE_QP_EN_SQD},
	{SE_SQD, SE_SQD, 0, SE_QP_PKEY | SE_QP_QKEY},
	{SE_SQD, SE_RTS, 0, SE_QP_CUR_STATE | SE_QP_QKEY},
	{SE_SQE, SE_RTS, 0, SE_QP_CUR_STATE | SE_QP_QKEY},
};

static int transition_check(const struct se_qp *qp, enum se_qp_state to, uint32_t mask)
{
	uint32_t may_srd_only = qp->type == SE_QPT_SRD ? 0 : SE_QP_RNR_RETRY;

	mask &= ~(uint32_t)SE_QP_STATE;
	if (to == SE_RESET || (to == SE_ERR && qp->state != SE_RESET))
		return mask & ~(uint32_t)SE_QP_CUR_STATE ? -EINVAL : 0;
	for (unsigned i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from != qp->state || t->to != to)
			continue;
		if ((mask & t->must) != t->must || mask & ~(t->must | t->may) ||
		    mask & may_srd_only)
			return -EINVAL;
		return 0;
	}
	return -EINVAL;
}

static int modify_check(const struct se_qp *qp, const struct se_qp_modify *m)
{
	const uint32_t known = SE_QP_STATE | SE_QP_CUR_STATE | SE_QP_EN_SQD | SE_QP_PKEY |
			       SE_QP_PORT | SE_QP_QKEY | SE_QP_RNR_RETRY | SE_QP_SQ_PSN;
	enum se_qp_state to = m->mask & SE_QP_STATE ? m->state : qp->state;

	if (m->mask & ~known)
		return -EOPNOTSUPP;
	if ((m->mask & SE_QP_PORT && m->port != 1) || (m->mask & SE_QP_PKEY && m->pkey_index))
		return -EOPNOTSUPP;
	if (m->mask & SE_QP_STATE && (unsigned)m->state > SE_ERR)
		return -EINVAL;
	if (m->mask & SE_QP_CUR_STATE && m->cur_state != qp->state)
		return -EINVAL;
	if (m->mask & SE_QP_RNR_RETRY && m->rnr_retry > 7)
		return -EINVAL;
	return transition_check(qp, to, m->mask);
}

/* The provider starts its counters anew and leaves the doorbells to the device. */
static void reset(struct se_qp *qp)
{
	se_requester_drop(qp);
	se_responder_drop(qp);
	memset(qp->db.va, 0, SE_RQ_DB + sizeof(uint32_t));
	qp->sq.fetched = 0;
	qp->rq.consumed = 0;
	se_recv_forget_returned(qp);
	qp->failed = false;
}

int se_qp_modify(struct se_qp *qp, const struct se_qp_modify *m)
{
	int rc = modify_check(qp, m);

	if (rc)
		return rc;
	if (m->mask & SE_QP_QKEY)
		qp->qkey = m->qkey;
	if (m->mask & SE_QP_SQ_PSN)
		qp->sq_psn = m->sq_psn;
	if (m->mask & SE_QP_RNR_RETRY)
		qp->rnr_retry = m->rnr_retry;
	if (!(m->mask & SE_QP_STATE))
		return 0;
	if (m->state == SE_RESET)
		reset(qp);
	qp->state = m->state;
	if (m->state == SE_ERR)
		se_qp_flush(qp);
	return 0;
}

void se_qp_fail(struct se_qp *qp)
{
	qp->state = SE_ERR;
	qp->failed = true;
	se_async_raise(&qp->async, SE_EVENT_QP_FATAL);
}

void se_qp_flush(struct se_qp *qp)
{
	qp->failed = false;
	se_requester_flush(qp);
	se_responder_flush(qp);
}
