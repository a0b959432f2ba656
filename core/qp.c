/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: create, bring up. */
#include "srd.h"

#include <inttypes.h>
#include <string.h>

#include "efadv_compat.h"
#include "libs.h"
#include "log.h"
#include "direct.h"

enum { DEPTH_DEFAULT = 128, PORT = 1 };

static uint64_t capable_ops(const struct srd_dev *dev, enum srd_qp_type type)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (type == SRD_QP_UD)
		return ops;
	if (dev->attr.caps & SRD_CAP_RDMA_READ)
		ops |= IBV_QP_EX_WITH_RDMA_READ;
	if (dev->attr.caps & SRD_CAP_RDMA_WRITE)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	return ops;
}

static int lacks_ops(const struct srd_dev *dev, const struct srd_qp_attr *attr, uint64_t lacking)
{
	const uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

	if (attr->type == SRD_QP_SRD && !(lacking & ~writes))
		return srd_lacks(dev->ibv, "QP refused: RDMA write", 46);
	if (attr->type == SRD_QP_SRD && lacking == IBV_QP_EX_WITH_RDMA_READ)
		return srd_lacks(dev->ibv, "QP refused: RDMA read", 0);
	srd_err("%s: QP refused: operations %#" PRIx64 " of %#" PRIx64 " are not there",
		dev->ibv->device->name, lacking, attr->ops);
	return -EOPNOTSUPP;
}

static int check(const struct srd_dev *dev, const struct srd_qp_attr *attr, uint64_t capable)
{
	const char *name = dev->ibv->device->name;

	if (attr->type != SRD_QP_SRD && attr->type != SRD_QP_UD) {
		srd_err("%s: QP refused: type %d; an EFA has SRD (%d) and UD (%d)", name,
			(int)attr->type, SRD_QP_SRD, SRD_QP_UD);
		return -EINVAL;
	}
	if (!attr->send_cq || !attr->recv_cq) {
		srd_err("%s: QP refused: it needs a send CQ and a receive CQ", name);
		return -EINVAL;
	}
	if (!attr->send_cq->direct != !attr->recv_cq->direct) {
		srd_err("%s: QP refused: one of its CQs is direct, the other is not", name);
		return -EINVAL;
	}
	if (attr->ops & ~capable)
		return lacks_ops(dev, attr, attr->ops & ~capable);
	if (attr->unsolicited && attr->type != SRD_QP_SRD) {
		srd_err("%s: QP refused: UD has no writes, and none unsolicited", name);
		return -EOPNOTSUPP;
	}
	if (attr->unsolicited && !(dev->attr.caps & SRD_CAP_UNSOLICITED_WRITE_RECV))
		return srd_lacks(dev->ibv, "QP refused: unsolicited write receive", 52);
	if (attr->unsolicited && !attr->recv_cq->dv) {
		srd_err("%s: QP refused: a classic CQ cannot tell unsolicited writes", name);
		return -EINVAL;
	}
	return 0;
}

static uint32_t or_default(uint32_t v, uint32_t def)
{
	return v ? v : def;
}

/* ibv_create_qp_ex() through the context: the inline would refer to ibv_create_qp() as well. */
static struct ibv_qp *create_ud(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *init)
{
	struct verbs_context *verbs = verbs_get_ctx_op(ctx, create_qp_ex);

	if (!verbs) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return verbs->create_qp_ex(ctx, init);
}

static int create(struct srd_qp *qp, struct ibv_context *ctx, const struct srd_qp_attr *attr,
		  struct ibv_qp_init_attr_ex *init)
{
	const struct ibv_qp_cap asked = init->cap;
	uint16_t flags = attr->unsolicited ? SRD_DV_QP_UNSOLICITED_WRITE_RECV : 0;

	errno = 0;
	if (attr->type == SRD_QP_UD)
		qp->ibv = create_ud(ctx, init);
	else
		qp->ibv = srd_dv_create_srd(ctx, init, flags, attr->sl);
	if (qp->ibv)
		return 0;
	return srd_failed(ctx, attr->type == SRD_QP_UD ? "ibv_create_qp_ex" : "efadv_create_qp_ex",
			  errno,
			  ": send %u x %u (max %u x %u), receive %u x %u (max %u x %u), inline %u"
			  " (max %u), max %u QPs",
			  asked.max_send_wr, asked.max_send_sge, qp->dev->attr.max_sq_wr,
			  qp->dev->attr.max_sq_sge, asked.max_recv_wr, asked.max_recv_sge,
			  qp->dev->attr.max_rq_wr, qp->dev->attr.max_rq_sge, asked.max_inline_data,
			  qp->dev->attr.inline_size, qp->dev->attr.max_qp);
}

static int take_from(struct srd_cq *cq, uint32_t entries)
{
	if (entries > cq->room) {
		srd_err("%s: QP refused: %u requests do not fit into a CQ of %d with %u free",
			cq->ibv->context->device->name, entries, cq->cqe, cq->room);
		return -ENOSPC;
	}
	cq->room -= entries;
	return 0;
}

/* So that no completion can be without an entry. Direct CQs count requests, not queues. */
static int take_room(struct srd_qp *qp, struct srd_cq *send_cq, struct srd_cq *recv_cq)
{
	int rc = send_cq->direct ? 0 : take_from(send_cq, qp->sq_depth);

	if (rc)
		return rc;
	rc = recv_cq->direct ? 0 : take_from(recv_cq, qp->rq_depth);
	if (rc) {
		send_cq->room += qp->sq_depth;
		return rc;
	}
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	return 0;
}

static void give_room(struct srd_qp *qp)
{
	if (!qp->send_cq || qp->send_cq->direct)
		return;
	qp->send_cq->room += qp->sq_depth;
	qp->recv_cq->room += qp->rq_depth;
}

int srd_qp_init(struct srd_qp *qp, struct srd_pd *pd, const struct srd_qp_attr *attr)
{
	uint64_t capable = capable_ops(pd->dev, attr->type);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = attr->type == SRD_QP_UD ? IBV_QPT_UD : IBV_QPT_DRIVER,
		.cap.max_send_wr = or_default(attr->max_send_wr, DEPTH_DEFAULT),
		.cap.max_recv_wr = or_default(attr->max_recv_wr, DEPTH_DEFAULT),
		.cap.max_send_sge = or_default(attr->max_send_sge, 1),
		.cap.max_recv_sge = or_default(attr->max_recv_sge, 1),
		.cap.max_inline_data = attr->max_inline,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = attr->td ? attr->td->ibv : pd->ibv,
		.send_ops_flags = attr->ops ? attr->ops : capable,
	};
	int rc;

	memset(qp, 0, sizeof(*qp));
	rc = check(pd->dev, attr, capable);
	if (rc)
		return rc;
	qp->dev = pd->dev;
	init.send_cq = ibv_cq_ex_to_cq(attr->send_cq->ibv);
	init.recv_cq = ibv_cq_ex_to_cq(attr->recv_cq->ibv);
	rc = create(qp, pd->ibv->context, attr, &init);
	if (rc) {
		srd_qp_fini(qp);
		return rc;
	}
	/* libefa has put the depths of its rings into cap. */
	qp->ex = srd_ibv.qp_to_qp_ex(qp->ibv);
	qp->ops = init.send_ops_flags;
	qp->sq_depth = init.cap.max_send_wr;
	qp->rq_depth = init.cap.max_recv_wr;
	qp->max_inline = init.cap.max_inline_data;
	qp->max_send_sge = init.cap.max_send_sge;
	qp->max_recv_sge = init.cap.max_recv_sge;
	qp->type = attr->type;
	rc = take_room(qp, attr->send_cq, attr->recv_cq);
	if (rc == 0 && attr->send_cq->direct)
		rc = srd_qp_direct_init(qp, attr->send_cq, attr->recv_cq);
	if (rc)
		srd_qp_fini(qp);
	return rc;
}

void srd_qp_fini(struct srd_qp *qp)
{
	uint32_t qpn = qp->ibv ? qp->ibv->qp_num : 0;
	int rc = qp->ibv ? srd_ibv.destroy_qp(qp->ibv) : 0;

	if (rc)
		srd_warn("ibv_destroy_qp: %s (%d)", strerror(rc), rc);
	srd_qp_direct_fini(qp, qpn);
	give_room(qp);
	memset(qp, 0, sizeof(*qp));
}

static int modify(struct srd_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int rc = srd_ibv.modify_qp(qp->ibv, attr, mask | IBV_QP_STATE);

	if (rc)
		return srd_failed(qp->ibv->context, "ibv_modify_qp", rc, ": qp %u to state %d",
				  qp->ibv->qp_num, attr->qp_state);
	return 0;
}

int srd_qp_to_init(struct srd_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = qkey};
	int rc = modify(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	if (rc == 0)
		qp->qkey = qkey;
	return rc;
}

int srd_qp_to_rtr(struct srd_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int rc = modify(qp, &attr, 0);

	if (rc == 0 && qp->direct)
		qp->direct->receives = true;
	return rc;
}

static int check_rnr_retry(const struct srd_qp *qp, int rnr_retry)
{
	const char *name = qp->dev->ibv->device->name;

	if (rnr_retry < 0 || rnr_retry > 7) {
		srd_err("%s: qp %u: rnr_retry %d is not 0 ... 7", name, qp->ibv->qp_num, rnr_retry);
		return -EINVAL;
	}
	if (qp->type == SRD_QP_SRD && qp->dev->attr.caps & SRD_CAP_RNR_RETRY)
		return 0;
	srd_err("%s: qp %u: rnr_retry cannot be set here", name, qp->ibv->qp_num);
	return -EOPNOTSUPP;
}

int srd_qp_to_rts(struct srd_qp *qp, uint32_t psn, int rnr_retry)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = psn};
	int mask = IBV_QP_SQ_PSN, rc = 0;

	if (rnr_retry != SRD_RNR_DEFAULT) {
		rc = check_rnr_retry(qp, rnr_retry);
		attr.rnr_retry = (uint8_t)rnr_retry;
		mask |= IBV_QP_RNR_RETRY;
	}
	if (rc == 0)
		rc = modify(qp, &attr, mask);
	if (rc == 0 && qp->direct && !qp->direct->sends) {
		qp->direct->sends = true;
		qp->direct->sq_left = qp->sq_depth;
	}
	return rc;
}

/* Nothing was posted yet, so that the rings are still as the device finds them after RESET. */
static void back_to_reset(struct srd_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	modify(qp, &attr, 0);
	qp->qkey = qkey;
	if (qp->direct)
		qp->direct->receives = false;
}

int srd_qp_prepare(struct srd_qp *qp, uint32_t qkey, int rnr_retry)
{
	int rc = rnr_retry == SRD_RNR_DEFAULT ? 0 : check_rnr_retry(qp, rnr_retry);
	uint32_t before = qp->qkey;

	if (rc == 0)
		rc = srd_qp_to_init(qp, qkey);
	if (rc)
		return rc;
	rc = srd_qp_to_rtr(qp);
	if (rc == 0)
		rc = srd_qp_to_rts(qp, 0, rnr_retry);
	if (rc)
		back_to_reset(qp, before);
	return rc;
}

static void show(const struct srd_dv_wq *wq, struct srd_ring *ring)
{
	if (ring)
		*ring = (struct srd_ring){
			.buffer = wq->buffer,
			.doorbell = wq->doorbell,
			.entry_bytes = wq->entry_size,
			.entries = wq->num_entries,
			.max_batch = wq->max_batch,
		};
}

int srd_qp_rings(const struct srd_qp *qp, struct srd_ring *sq, struct srd_ring *rq)
{
	struct srd_dv_wq dv[2] = {0};
	int rc;

	if (!srd_efadv.query_qp_wqs)
		return -EOPNOTSUPP;
	rc = srd_efadv.query_qp_wqs(qp->ibv, &dv[0], &dv[1], sizeof(dv[0]));
	if (rc)
		return srd_failed(qp->ibv->context, "efadv_query_qp_wqs", rc, ": qp %u",
				  qp->ibv->qp_num);
	show(&dv[0], sq);
	show(&dv[1], rq);
	return 0;
}

bool srd_qp_in_order_128(const struct srd_qp *qp, enum ibv_wr_opcode op)
{
	int caps;

	if (!srd_ibv.query_qp_data_in_order)
		return false;
	caps = srd_ibv.query_qp_data_in_order(qp->ibv, op, IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS);
	return caps & IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES;
}
