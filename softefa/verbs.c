/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands that make, change and destroy objects: arguments in, one call, answers out. Those of
 * memory regions are in verbs_mr.c.
 */
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "ah.h"
#include "channel.h"
#include "cq.h"
#include "engine.h"
#include "pd.h"
#include "qp.h"
#include "real.h"
#include "uverbs.h"

#define OBJ(type, o) se_container(o, struct type, obj)

static struct se_pd *pd_of(struct se_cmd *c, uint32_t handle)
{
	struct se_obj *o = se_ctx_get(c->ctx, handle, SE_PD);

	return o ? OBJ(se_pd, o) : NULL;
}

/* ---- PD, AH ---- */

int se_verbs_alloc_pd(struct se_cmd *c)
{
	struct ib_uverbs_alloc_pd_resp r = {0};
	struct se_abi_number_out out = {0};
	struct se_pd *pd;
	int rc = se_engine_start();

	if (!rc)
		rc = se_pd_create(c->ctx, &pd);
	if (rc)
		return rc;
	r.pd_handle = pd->obj.handle;
	out.number = pd->pdn;
	rc = se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_UHW_OUT, &out, sizeof(out));
	if (rc)
		se_pd_destroy(pd);
	return rc;
}

int se_verbs_dealloc_pd(struct se_cmd *c)
{
	struct se_obj *o;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_DESTROY_PD_HANDLE, SE_PD, &o);

	return rc ? rc : se_pd_destroy(OBJ(se_pd, o));
}

int se_verbs_create_ah(struct se_cmd *c)
{
	struct ib_uverbs_create_ah in;
	struct ib_uverbs_create_ah_resp r = {0};
	struct se_abi_number_out out = {0};
	struct se_gid gid;
	struct se_pd *pd;
	struct se_ah *ah;
	int rc = se_cmd_in(c, UVERBS_ATTR_CORE_IN, &in, sizeof(in));

	if (rc)
		return rc;
	pd = pd_of(c, in.pd_handle);
	if (!pd || in.attr.port_num != 1)
		return -EINVAL;
	memcpy(gid.b, in.attr.grh.dgid, sizeof(gid.b));
	rc = se_ah_create(pd, &gid, &ah);
	if (rc)
		return rc;
	r.ah_handle = ah->obj.handle;
	out.number = ah->peer->ahn;
	rc = se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_UHW_OUT, &out, sizeof(out));
	if (rc)
		se_ah_destroy(ah);
	return rc;
}

int se_verbs_destroy_ah(struct se_cmd *c)
{
	struct se_obj *o;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_DESTROY_AH_HANDLE, SE_AH, &o);

	return rc ? rc : se_ah_destroy(OBJ(se_ah, o));
}

/* ---- channels, CQ ---- */

int se_verbs_create_channel(struct se_cmd *c)
{
	struct ib_uverbs_create_comp_channel_resp r = {0};
	int fd = se_channel_create(c->ctx, SE_CHANNEL_COMPLETIONS), rc;

	if (fd < 0)
		return fd;
	r.fd = (uint32_t)fd;
	rc = se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	if (rc)
		se_real.close(fd);
	return rc;
}

int se_verbs_alloc_async_fd(struct se_cmd *c)
{
	int fd = se_channel_create(c->ctx, SE_CHANNEL_ASYNC), rc;

	if (fd < 0)
		return fd;
	if (!c->ctx->async) {
		c->ctx->async = se_channel_find(c->ctx, SE_CHANNEL_ASYNC, fd);
		c->ctx->async->users++; /* for as long as the context lives */
	}
	rc = se_cmd_out_handle(c, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, (uint64_t)fd);
	if (rc)
		se_real.close(fd);
	return rc;
}

/* The channel in an optional attribute; NULL without. */
static int channel_arg(struct se_cmd *c, uint16_t id, enum se_channel_kind kind,
		       struct se_channel **out)
{
	struct se_cmd_attr *a = se_cmd_find(c, id);

	*out = a ? se_channel_find(c->ctx, kind, (int)a->data) : NULL;
	return a && !*out ? -EBADF : 0;
}

/* No device of ours writes completions into memory of the application's own. */
static int own_memory(struct se_cmd *c)
{
	bool va = se_cmd_find(c, SE_ATTR_CREATE_CQ_VA), fd = se_cmd_find(c, SE_ATTR_CREATE_CQ_FD);
	bool len = se_cmd_find(c, SE_ATTR_CREATE_CQ_LENGTH);
	bool off = se_cmd_find(c, SE_ATTR_CREATE_CQ_OFFSET);

	if (!va && !fd && !len && !off)
		return 0;
	return (va && (fd || off || !len)) || (fd && (!off || !len)) || (!va && !fd) ? -EINVAL
										     : -EOPNOTSUPP;
}

static int cq_args(struct se_cmd *c, struct se_cq_attr *a)
{
	struct se_abi_cq_in in;
	uint32_t flags;
	int rc;

	memset(a, 0, sizeof(*a));
	rc = se_cmd_in(c, UVERBS_ATTR_CREATE_CQ_CQE, &a->cqe, sizeof(a->cqe));
	if (!rc)
		rc = channel_arg(c, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, SE_CHANNEL_COMPLETIONS,
				 &a->channel);
	if (!rc)
		rc = channel_arg(c, UVERBS_ATTR_CREATE_CQ_EVENT_FD, SE_CHANNEL_ASYNC, &a->async);
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &a->user, sizeof(a->user));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &a->comp_vector,
			       sizeof(a->comp_vector));
	if (!rc)
		rc = se_cmd_in_optional(c, UVERBS_ATTR_CREATE_CQ_FLAGS, &flags, sizeof(flags));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_UHW_IN, &in, sizeof(in));
	if (rc)
		return rc;
	rc = own_memory(c);
	if (rc)
		return rc;
	if (flags)
		return -EOPNOTSUPP;
	if (in.comp_mask || in.num_sub_cqs != 1 ||
	    in.flags & ~(SE_CQ_WITH_CHANNEL | SE_CQ_WITH_SGID | SE_CQ_REQ_ID_64))
		return -EINVAL;
	a->entry_size = in.entry_size;
	a->sgid = in.flags & SE_CQ_WITH_SGID;
	a->req_id_64 = in.flags & SE_CQ_REQ_ID_64;
	return 0;
}

int se_verbs_create_cq(struct se_cmd *c)
{
	struct se_cq_attr attr;
	struct se_cq *cq;
	struct se_abi_cq_out out;
	int rc = se_engine_start();

	if (!rc)
		rc = cq_args(c, &attr);
	if (!rc)
		rc = se_cq_create(c->ctx, &attr, &cq);
	if (rc)
		return rc;
	out = (struct se_abi_cq_out){
		.comp_mask = SE_CQ_DB_OFF,
		.q_mmap_key = cq->ring.off,
		.q_mmap_size = cq->ring.len,
		.cq_idx = (uint16_t)cq->obj.handle,
		.db_off = cq->db.in_page,
		.db_mmap_key = cq->db.page_off,
	};
	rc = se_cmd_out(c, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cq->depth, sizeof(cq->depth));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_UHW_OUT, &out, sizeof(out));
	if (!rc)
		rc = se_cmd_out_handle(c, UVERBS_ATTR_CREATE_CQ_HANDLE, cq->obj.handle);
	if (rc)
		se_cq_destroy(cq, &(struct se_cq_read){0});
	return rc;
}

int se_verbs_destroy_cq(struct se_cmd *c)
{
	struct ib_uverbs_destroy_cq_resp r = {0};
	struct se_cq_read read;
	struct se_obj *o;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_DESTROY_CQ_HANDLE, SE_CQ, &o);

	if (!rc)
		rc = se_cq_destroy(OBJ(se_cq, o), &read);
	if (rc)
		return rc;
	r.comp_events_reported = read.completions;
	r.async_events_reported = read.async;
	return se_cmd_out(c, UVERBS_ATTR_DESTROY_CQ_RESP, &r, sizeof(r));
}

/* ---- QP ---- */

#define QPT_UD     4
#define QPT_DRIVER 0xff
#define SIGNAL_ALL (1u << 12) /* every request is signaled anyway */

static int qp_objects(struct se_cmd *c, struct se_qp_attr *a)
{
	struct se_obj *pd, *scq, *rcq;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_CREATE_QP_PD_HANDLE, SE_PD, &pd);

	if (!rc)
		rc = se_cmd_in_object(c, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, SE_CQ, &scq);
	if (!rc)
		rc = se_cmd_in_object(c, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, SE_CQ, &rcq);
	if (rc)
		return rc;
	a->pd = OBJ(se_pd, pd);
	a->send_cq = OBJ(se_cq, scq);
	a->recv_cq = OBJ(se_cq, rcq);
	return 0;
}

static int qp_type(uint64_t type, const struct se_abi_qp_in *in, enum se_qp_type *out)
{
	if (type == QPT_UD)
		*out = SE_QPT_UD;
	else if (type == QPT_DRIVER && in->driver_qp_type == 0)
		*out = SE_QPT_SRD;
	else
		return -EOPNOTSUPP;
	return 0;
}

static int qp_args(struct se_cmd *c, struct se_qp_attr *a)
{
	struct se_abi_qp_in in;
	uint32_t flags;
	uint64_t type;
	int rc;

	memset(a, 0, sizeof(*a));
	rc = qp_objects(c, a);
	if (!rc)
		rc = channel_arg(c, UVERBS_ATTR_CREATE_QP_EVENT_FD, SE_CHANNEL_ASYNC, &a->async);
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_CREATE_QP_USER_HANDLE, &a->user, sizeof(a->user));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_CREATE_QP_CAP, &a->cap, sizeof(a->cap));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_CREATE_QP_TYPE, &type, sizeof(type));
	if (!rc)
		rc = se_cmd_in_optional(c, UVERBS_ATTR_CREATE_QP_FLAGS, &flags, sizeof(flags));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_UHW_IN, &in, sizeof(in));
	if (rc)
		return rc;
	if (flags & ~SIGNAL_ALL)
		return -EOPNOTSUPP;
	if (in.comp_mask || in.flags & ~(SE_QP_UNSOLICITED | SE_QP_REQ_ID_64))
		return -EINVAL;
	a->sq_bytes = in.sq_ring_size;
	a->rq_bytes = in.rq_ring_size;
	a->unsolicited = in.flags & SE_QP_UNSOLICITED;
	a->req_id_64 = in.flags & SE_QP_REQ_ID_64;
	a->sl = in.sl;
	return qp_type(type, &in, &a->type);
}

static int qp_answer(struct se_cmd *c, const struct se_qp *qp)
{
	uint32_t qpn = qp->qpn;
	struct se_abi_qp_out out = {
		.rq_db_offset = qp->db.in_page + SE_RQ_DB,
		.sq_db_offset = qp->db.in_page,
		.llq_desc_offset = (uint32_t)(qp->sq.ring - (uint8_t *)qp->sq.mem.va),
		.rq_mmap_key = qp->rq.mem.off,
		.rq_mmap_size = qp->rq.mem.len,
		.rq_db_mmap_key = qp->db.page_off,
		.sq_db_mmap_key = qp->db.page_off,
		.llq_desc_mmap_key = qp->sq.mem.off,
	};
	int rc = se_cmd_out(c, UVERBS_ATTR_CREATE_QP_RESP_CAP, &qp->cap, sizeof(qp->cap));

	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qpn, sizeof(qpn));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_UHW_OUT, &out, sizeof(out));
	if (!rc)
		rc = se_cmd_out_handle(c, UVERBS_ATTR_CREATE_QP_HANDLE, qp->obj.handle);
	return rc;
}

int se_verbs_create_qp(struct se_cmd *c)
{
	struct se_qp_attr attr;
	struct se_qp *qp;
	int rc = qp_args(c, &attr);

	if (!rc)
		rc = se_qp_create(c->ctx, &attr, &qp);
	if (rc)
		return rc;
	rc = qp_answer(c, qp);
	if (rc)
		se_qp_destroy(qp, &(uint32_t){0});
	se_engine_kick();
	return rc;
}

int se_verbs_destroy_qp(struct se_cmd *c)
{
	struct ib_uverbs_destroy_qp_resp r = {0};
	struct se_obj *o;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_DESTROY_QP_HANDLE, SE_QP, &o);

	if (!rc)
		se_qp_destroy(OBJ(se_qp, o), &r.events_reported);
	/* Requests of others that lost their QP are to be answered. */
	se_engine_kick();
	return rc ? rc : se_cmd_out(c, UVERBS_ATTR_DESTROY_QP_RESP, &r, sizeof(r));
}

int se_verbs_modify_qp(struct se_cmd *c)
{
	struct ib_uverbs_modify_qp in;
	struct se_qp_modify m;
	struct se_obj *o;
	int rc = se_cmd_in(c, UVERBS_ATTR_CORE_IN, &in, sizeof(in));

	if (rc)
		return rc;
	o = se_ctx_get(c->ctx, in.qp_handle, SE_QP);
	if (!o)
		return -EINVAL;
	m = (struct se_qp_modify){
		.mask = in.attr_mask,
		.state = in.qp_state,
		.cur_state = in.cur_qp_state,
		.qkey = in.qkey,
		.sq_psn = in.sq_psn,
		.pkey_index = in.pkey_index,
		.port = in.port_num,
		.rnr_retry = in.rnr_retry,
	};
	rc = se_qp_modify(OBJ(se_qp, o), &m);
	se_engine_kick();
	return rc;
}

int se_verbs_query_qp(struct se_cmd *c)
{
	const uint32_t known = SE_QP_STATE | SE_QP_PKEY | SE_QP_PORT | SE_QP_QKEY | SE_QP_SQ_PSN |
			       SE_QP_CAP | SE_QP_RNR_RETRY;
	struct ib_uverbs_query_qp in;
	struct ib_uverbs_query_qp_resp r = {0};
	struct se_obj *o;
	struct se_qp *qp;
	int rc = se_cmd_in(c, UVERBS_ATTR_CORE_IN, &in, sizeof(in));

	if (rc)
		return rc;
	o = se_ctx_get(c->ctx, in.qp_handle, SE_QP);
	if (!o)
		return -EINVAL;
	if (in.attr_mask & ~known)
		return -EOPNOTSUPP;
	qp = OBJ(se_qp, o);
	r.qkey = qp->qkey;
	r.sq_psn = qp->sq_psn;
	r.qp_state = (uint8_t)qp->state;
	r.cur_qp_state = (uint8_t)qp->state;
	r.port_num = 1;
	r.rnr_retry = qp->rnr_retry;
	r.max_send_wr = qp->cap.send_wr;
	r.max_recv_wr = qp->cap.recv_wr;
	r.max_send_sge = qp->cap.send_sge;
	r.max_recv_sge = qp->cap.recv_sge;
	r.max_inline_data = qp->cap.inline_data;
	return se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
}
