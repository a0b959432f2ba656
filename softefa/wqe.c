/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests: what they must be, and the message that one becomes. */
#include "wqe.h"

#include <string.h>

#include "copy.h"
#include "fabric.h"
#include "mr.h"
#include "scratch.h"
#include "settings.h"

#define CAP_RDMA_READ  (1u << 0)
#define CAP_RDMA_WRITE (1u << 5)

static enum se_status check_op(const struct se_qp *qp, const struct se_meta *m)
{
	uint32_t caps = se_settings()->caps;
	const uint8_t ctrl2 = SE_META_FIRST | SE_META_LAST | SE_META_COMP;

	if (!(m->ctrl1 & SE_META_META) || m->ctrl1 & SE_META_EXT || (m->ctrl2 & ctrl2) != ctrl2)
		return SE_QP_INTERNAL;
	switch (SE_META_OP(m->ctrl1)) {
	case SE_OP_SEND:
		return SE_OK;
	case SE_OP_READ:
		if (m->ctrl1 & (SE_META_IMM | SE_META_INLINE))
			return SE_UNSUPPORTED_OP;
		return qp->type == SE_QPT_SRD && caps & CAP_RDMA_READ ? SE_OK : SE_UNSUPPORTED_OP;
	case SE_OP_WRITE:
		if (m->ctrl1 & SE_META_INLINE && qp->sq.stride != SE_WQE_128)
			return SE_UNSUPPORTED_OP;
		return qp->type == SE_QPT_SRD && caps & CAP_RDMA_WRITE ? SE_OK : SE_UNSUPPORTED_OP;
	default:
		return SE_UNSUPPORTED_OP;
	}
}

static enum se_status set_inline(struct se_msg *msg, const struct se_qp *qp, const struct se_wqe *w)
{
	uint32_t max = qp->sq.stride == SE_WQE_128 ? SE_INLINE_MAX : SE_INLINE_64;

	if (w->meta.length > max)
		return SE_BAD_LENGTH;
	msg->flags |= SE_MSG_INLINE;
	msg->len = w->meta.length;
	memcpy(msg->data, msg->op == SE_OP_WRITE ? w->rdma.write_inline : w->send_inline, msg->len);
	return SE_OK;
}

/* The local buffers, with the addresses they have in this process: the responder reads them. */
static enum se_status set_segments(struct se_msg *msg, const struct se_qp *qp,
				   const struct se_wqe *w)
{
	const struct se_buf *buf = msg->op == SE_OP_SEND ? w->sgl : &w->rdma.local;
	uint32_t access = msg->op == SE_OP_READ ? SE_LOCAL_WRITE : 0;
	uint64_t total = 0;

	if (w->meta.length > (msg->op == SE_OP_SEND ? se_settings()->max_sq_sge : 1))
		return SE_BAD_LENGTH;
	for (unsigned i = 0; i < w->meta.length; i++) {
		uint32_t key = buf[i].key & SE_LKEY_MASK;
		uint64_t here =
			se_mr_resolve(qp->pd, key, se_buf_addr(&buf[i]), buf[i].length, access);

		if (!here)
			return SE_INVALID_LKEY;
		/* A read writes here later: looked up by iova then. */
		msg->seg[i].addr = msg->op == SE_OP_READ ? se_buf_addr(&buf[i]) : here;
		msg->seg[i].len = buf[i].length;
		msg->seg[i].key = key;
		total += buf[i].length;
	}
	msg->nseg = (uint8_t)w->meta.length;
	if (total > UINT32_MAX)
		return SE_BAD_LENGTH;
	msg->len = (uint32_t)total;
	return SE_OK;
}

static enum se_status set_remote(struct se_msg *msg, const struct se_wqe *w)
{
	if (msg->op == SE_OP_SEND)
		return msg->len > se_settings()->max_msg_size ? SE_BAD_LENGTH : SE_OK;
	msg->raddr = se_buf_addr(&w->rdma.remote);
	msg->rkey = w->rdma.remote.key;
	if (w->rdma.remote.length != msg->len || msg->len > se_settings()->max_rdma_size)
		return SE_BAD_LENGTH;
	return SE_OK;
}

/*
 * Few bytes go in the message itself: that takes the kernel two copies, which together cost less
 * than one from process to process, because it pins no pages for them.
 */
static enum se_status take_along(struct se_msg *msg)
{
	uint8_t *to = msg->data;

	if (msg->op == SE_OP_READ || msg->flags & SE_MSG_INLINE || msg->len > SE_MSG_DATA ||
	    msg->len == 0 || !se_scratch_up())
		return SE_OK;
	for (unsigned i = 0; i < msg->nseg; i++) {
		if (se_copy_in(to, msg->seg[i].addr, msg->seg[i].len))
			return SE_INVALID_LKEY;
		to += msg->seg[i].len;
	}
	msg->flags |= SE_MSG_INLINE;
	return SE_OK;
}

enum se_status se_wqe_prepare(struct se_tx *tx, const struct se_wqe *w)
{
	struct se_qp *qp = tx->qp;
	struct se_msg *msg = &tx->msg;
	enum se_status st = check_op(qp, &w->meta);

	memset(msg, 0, offsetof(struct se_msg, data));
	msg->type = SE_MSG_REQUEST;
	msg->op = SE_META_OP(w->meta.ctrl1);
	msg->src_dev = (uint8_t)qp->obj.ctx->dev;
	tx->req_id = w->meta.req_id;
	tx->ahn = w->meta.ahn;
	if (qp->req_id_64)
		tx->req_id |= (uint64_t)w->meta.req_id_hi[0] << 16 |
			      (uint64_t)w->meta.req_id_hi[1] << 32 |
			      (uint64_t)w->meta.req_id_hi[2] << 48;
	if (st)
		return st;
	msg->flags = (uint8_t)((w->meta.ctrl1 & SE_META_IMM ? SE_MSG_IMM : 0) |
			       (qp->unsolicited ? SE_MSG_UNSOLICITED : 0) |
			       (qp->type == SE_QPT_UD ? SE_MSG_UD : 0));
	msg->rnr_retry = qp->rnr_retry;
	msg->src_qpn = qp->qpn;
	msg->dst_qpn = w->meta.dest_qpn;
	msg->qkey = w->meta.qkey;
	msg->imm = w->meta.imm;
	msg->token = se_tx_token(tx);
	msg->sgid = qp->gid;
	msg->life = se_fabric_qpn_life(msg->src_dev, msg->src_qpn);
	st = w->meta.ctrl1 & SE_META_INLINE ? set_inline(msg, qp, w) : set_segments(msg, qp, w);
	if (!st)
		st = set_remote(msg, w);
	return st ? st : take_along(msg);
}
