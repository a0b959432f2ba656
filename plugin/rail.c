/* SPDX-License-Identifier: BSD-3-Clause */
/* The queues of an engine on its EFAs, and how deep they are. */
#include "rail.h"

#include <errno.h>

#include "comm.h"
#include "eager.h"
#include "engine.h"
#include "log.h"
#include "loopback.h"
#include "message.h"

enum {
	SQ_DEPTH = 1024,
	RQ_DEPTH = 4096, /* without unsolicited writes */
	CQ_DEPTH = 16384,
	CQ_DEPTH_MESSAGES = 32768, /* where each comm is to take some */
	SL_LOW_LATENCY = 8,
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- plan ---- */

/* Credits are the engine's, for whichever rail: each has all the buffers. */
static void plan_eager(struct net_engine *e)
{
	uint32_t n = NET_EAGER_RX, segments = e->mode == PROTO_SEND ? NET_SEGMENT_RX : 0;

	e->eager_max = net_eager_bytes(e->dev);
	for (int i = 0; i < e->dev->nrails; i++) {
		const struct srd_dev_attr *dev = &e->dev->nic[i].dev.attr;

		uint32_t rq = dev->max_rq_wr - min_u32(dev->max_rq_wr, segments);

		n = min_u32(n, min_u32(dev->max_cqe / 8, rq));
	}
	/* Those that wait to be posted again in a batch are not there for a peer. */
	if (n < 2 * NET_RX_BATCH || (e->eager_max && !net_loopback_works(e->dev, e->mode)))
		e->eager_max = 0;
	if (e->eager_max) {
		e->eager_rx = n;
		e->eager_free = n - NET_RX_BATCH;
	}
}

/* Receives for words between comms: as many as the CQ has entries for besides all else. */
static int plan_messages(struct net_engine *e)
{
	uint32_t n = NET_RX_MOST, data = e->eager_rx + (e->mode == PROTO_SEND ? NET_SEGMENT_RX : 0);
	uint32_t least = net_message_share(e->mode, NET_SEND) +
			 net_message_share(e->mode, NET_RECV) + NET_RX_BATCH;

	for (int i = 0; i < e->dev->nrails; i++) {
		const struct srd_dev_attr *dev = &e->dev->nic[i].dev.attr;
		uint32_t cq = min_u32(CQ_DEPTH_MESSAGES, dev->max_cqe);

		cq -= min_u32(cq, 2 * min_u32(SQ_DEPTH, dev->max_sq_wr) + data);
		n = min_u32(n, min_u32(dev->max_rq_wr, cq));
	}
	/* Rings are rounded up to powers of two, and a CQ must have room for them. */
	n = n ? 1u << (31 - __builtin_clz(n)) : 0;
	if (n < least) {
		net_warn("NET/EFA: %s: %u receives or completions are too few for a connection, "
			 "which takes %u",
			 e->dev->name, n, least);
		return -EOPNOTSUPP;
	}
	e->messages = n;
	e->messages_free = n - NET_RX_BATCH; /* that wait to be posted again */
	return 0;
}

int net_rails_plan(struct net_engine *e)
{
	/* Those that wait to be posted again in a batch are not there for a peer. */
	e->segments_free = e->mode == PROTO_SEND ? NET_SEGMENT_RX - NET_RX_BATCH : UINT32_MAX;
	e->imm_free = UINT32_MAX;
	plan_eager(e);
	return e->mode == PROTO_WRITE ? 0 : plan_messages(e);
}

/* ---- queues ---- */

static int qp_init(struct srd_qp *qp, struct net_engine *e, struct net_rail *rail,
		   struct net_nic *nic, uint8_t sl, uint32_t recv_wr)
{
	const struct srd_qp_attr attr = {
		.send_cq = &rail->cq,
		.recv_cq = &rail->cq,
		.td = &rail->td,
		.max_send_wr = min_u32(SQ_DEPTH, nic->dev.attr.max_sq_wr),
		.max_recv_wr = recv_wr,
		.max_send_sge = e->mode == PROTO_SEND || e->eager_max ? 2 : 1,
		.max_inline = e->mode == PROTO_READ ? sizeof(struct proto_fin) : 0,
		.sl = sl,
		.unsolicited = e->unsolicited,
	};
	int rc = srd_qp_init(qp, &nic->pd, &attr);

	return rc ? rc : srd_qp_prepare(qp, e->qkey, SRD_RNR_DEFAULT);
}

/* Receives of the data queue pair. */
static uint32_t data_depth(const struct net_engine *e, const struct srd_dev_attr *dev)
{
	if (e->mode == PROTO_SEND)
		return NET_SEGMENT_RX + e->eager_rx;
	if (e->mode == PROTO_READ)
		return e->eager_rx ? e->eager_rx : 1;
	return e->unsolicited ? 1 : min_u32(RQ_DEPTH, dev->max_rq_wr);
}

/* What peers may be promised: an entry of the CQ for each immediate, and a receive. */
static int set_promises(struct net_engine *e, struct net_rail *rail, const char *name)
{
	uint32_t cq = (uint32_t)rail->cq.cqe, rq = rail->data.rq_depth;

	cq -= min_u32(e->eager_rx + NET_TAKEN_MOST, cq);
	if (rail->data_free + rail->ctrl_free + NET_RECV_RESERVE > cq) {
		net_warn("NET/EFA: %s: %u completions are too few for 2 send queues of %u", name,
			 cq, rail->data_free);
		return -EOPNOTSUPP;
	}
	e->imm_free = min_u32(e->imm_free, cq - rail->data_free - rail->ctrl_free);
	if (!e->unsolicited) {
		/* Those that wait to be posted again in a batch are not there for a peer. */
		e->imm_free = min_u32(e->imm_free, rq > 2 * NET_RQ_BATCH ? rq - NET_RQ_BATCH : rq);
		rail->rq_missing = rq;
	}
	return 0;
}

/* All of them at once. */
static int rx_init(struct net_rx *rx, struct net_nic *nic, struct srd_qp *qp, uint32_t n,
		   uint32_t bytes, uint64_t tag, int access)
{
	int rc = net_rx_init(rx, &nic->pd, qp, n, bytes, tag, access);

	return rc ? rc : net_rx_grow(rx, n);
}

/* What is before the data has room in a cache line, with which buffers begin. */
static int set_eager(struct net_engine *e, struct net_rail *rail, struct net_nic *nic)
{
	uint32_t bytes = (e->eager_max + 127) & ~63u;

	if (!e->eager_rx)
		return 0;
	if (e->mode == PROTO_WRITE)
		return rx_init(&rail->ctrl_rx, nic, &rail->ctrl, e->eager_rx, bytes,
			       WR_RQ | WR_EAGER, 0);
	/* A GPU's are read from there. */
	return rx_init(&rail->data_rx, nic, &rail->data, e->eager_rx, bytes,
		       WR_RQ | WR_OF_DATA | WR_EAGER, IBV_ACCESS_REMOTE_READ);
}

static int set_messages(struct net_engine *e, struct net_rail *rail, struct net_nic *nic)
{
	uint32_t bytes = e->mode == PROTO_READ ? sizeof(struct proto_ready)
					       : NET_MAX_RECVS * sizeof(struct proto_cts);
	int rc = net_rx_init(&rail->ctrl_rx, &nic->pd, &rail->ctrl, e->messages, bytes, WR_RQ, 0);

	if (rc)
		return rc;
	if (e->mode == PROTO_READ)
		return set_eager(e, rail, nic);
	return rx_init(&rail->data_rx, nic, &rail->data, NET_SEGMENT_RX + e->eager_rx,
		       e->segment + 64, WR_RQ | WR_OF_DATA | WR_EAGER, 0);
}

int net_rail_init(struct net_engine *e, int i)
{
	struct net_nic *nic = &e->dev->nic[i];
	struct net_rail *rail = &e->rail[i];
	const struct srd_dev_attr *dev = &nic->dev.attr;
	struct srd_cq_attr cq = {
		.td = &rail->td,
		.cqe = (int)min_u32(e->mode == PROTO_WRITE ? CQ_DEPTH : CQ_DEPTH_MESSAGES,
				    dev->max_cqe),
		.direct = true,
	};
	uint32_t ctrl_depth = e->messages;
	int rc;

	if (e->mode == PROTO_WRITE)
		ctrl_depth = e->eager_rx ? e->eager_rx : 1;

	rc = srd_td_init(&rail->td, &nic->pd);
	if (!rc)
		rc = srd_cq_init(&rail->cq, &nic->dev, &cq);
	if (!rc)
		rc = qp_init(&rail->data, e, rail, nic, 0, data_depth(e, dev));
	if (!rc)
		rc = qp_init(&rail->ctrl, e, rail, nic, SL_LOW_LATENCY, ctrl_depth);
	if (rc)
		return rc;
	rail->data_free = rail->data.sq_depth;
	rail->ctrl_free = rail->ctrl.sq_depth;
	rail->tidy_after = e->mode == PROTO_WRITE ? NET_RQ_BATCH : 1;
	if (e->mode != PROTO_WRITE)
		return set_messages(e, rail, nic);
	rc = set_promises(e, rail, nic->name);
	return rc ? rc : set_eager(e, rail, nic);
}

void net_rail_fini(struct net_rail *rail)
{
	srd_qp_fini(&rail->ctrl);
	srd_qp_fini(&rail->data);
	net_rx_fini(&rail->ctrl_rx);
	net_rx_fini(&rail->data_rx);
	srd_cq_fini(&rail->cq);
	srd_td_fini(&rail->td);
}

/* Their buffer is never written. */
void net_rail_refill(struct net_engine *e, int i)
{
	struct ibv_sge sge = {(uintptr_t)e->scratch->mem, 64, e->scratch->lkey[i]};
	struct net_rail *rail = &e->rail[i];
	struct ibv_recv_wr wr[NET_RQ_BATCH];

	while (rail->rq_missing) {
		uint32_t n = min_u32(rail->rq_missing, NET_RQ_BATCH);

		for (uint32_t k = 0; k < n; k++)
			wr[k] = (struct ibv_recv_wr){.wr_id = WR_RQ,
						     .next = k + 1 < n ? &wr[k + 1] : NULL,
						     .sg_list = &sge,
						     .num_sge = 1};
		if (srd_post_recv(&rail->data, wr, NULL))
			return; /* tried again with the next refill */
		rail->rq_missing -= n;
	}
}
