/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: made, shared, driven. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "comm.h"
#include "complete.h"
#include "eager.h"
#include "flush.h"
#include "log.h"
#include "loopback.h"
#include "message.h"
#include "numbers.h"
#include "p2p.h"
#include "stall.h"

enum {
	SQ_DEPTH = 1024,
	RQ_DEPTH = 4096, /* without unsolicited writes */
	DATA_RX = 1024,  /* messages */
	CQ_DEPTH = 16384,
	CQ_DEPTH_MESSAGES = 32768, /* where each comm is to take some */
	SL_LOW_LATENCY = 8,
	DRAIN_MS = 5, /* at the end, for what is still under way */
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- rails ---- */

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
		return DATA_RX + e->eager_rx;
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
	return rx_init(&rail->data_rx, nic, &rail->data, DATA_RX + e->eager_rx, e->segment + 64,
		       WR_RQ | WR_OF_DATA, 0);
}

static int rail_init(struct net_engine *e, struct net_rail *rail, struct net_nic *nic)
{
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

static void rail_fini(struct net_rail *rail)
{
	srd_qp_fini(&rail->ctrl);
	srd_qp_fini(&rail->data);
	net_rx_fini(&rail->ctrl_rx);
	net_rx_fini(&rail->data_rx);
	srd_cq_fini(&rail->cq);
	srd_td_fini(&rail->td);
}

/* Their buffer is never written. */
void net_engine_refill(struct net_engine *e, int r)
{
	struct ibv_sge sge = {(uintptr_t)e->scratch->mem, 64, e->scratch->lkey[r]};
	struct net_rail *rail = &e->rail[r];
	struct ibv_recv_wr wr[NET_RQ_BATCH];

	while (rail->rq_missing) {
		uint32_t n = min_u32(rail->rq_missing, NET_RQ_BATCH);

		for (uint32_t i = 0; i < n; i++)
			wr[i] = (struct ibv_recv_wr){.wr_id = WR_RQ,
						     .next = i + 1 < n ? &wr[i + 1] : NULL,
						     .sg_list = &sge,
						     .num_sge = 1};
		if (srd_post_recv(&rail->data, wr, NULL))
			return; /* tried again with the next refill */
		rail->rq_missing -= n;
	}
}

void net_engine_rails(const struct net_engine *e, struct proto_rail *rail)
{
	for (int i = 0; i < e->nrails; i++)
		rail[i] = (struct proto_rail){
			.gid = e->dev->nic[i].dev.attr.gid,
			.data_qpn = e->rail[i].data.ibv->qp_num,
			.ctrl_qpn = e->rail[i].ctrl.ibv->qp_num,
			.qkey = e->qkey,
		};
}

/* ---- create, destroy ---- */

static void drain(struct net_engine *e)
{
	const struct timespec ms = {0, 1000000};

	for (int i = 0; i < DRAIN_MS && e->comms; i++) {
		net_complete(e);
		if (e->comms)
			nanosleep(&ms, NULL);
	}
}

/* Device lock held, unless it never was the device's. */
static void engine_destroy(struct net_engine *e)
{
	net_counts_add(&e->dev->counts[e->mode], &e->counts);
	net_owner_enter(&e->owner);
	if (e->nrails == e->dev->nrails)
		drain(e);
	for (int i = 0; i < e->dev->nrails; i++)
		rail_fini(&e->rail[i]);
	for (int i = 0; i < e->dev->nrails; i++)
		srd_peer_fini(&e->self[i]);
	/* Nothing can complete any more. */
	while (e->comms)
		net_comm_free(e->comms);
	net_numbers_free(e->numbers);
	net_slab_fini(&e->notes);
	net_slab_fini(&e->mirrors);
	net_slab_fini(&e->rings);
	for (int i = 0; i < NET_MAX_COMMS / NET_ID_PAGE; i++)
		free(e->by_id[i]);
	net_owner_leave(&e->owner);
	net_owner_fini(&e->owner);
	free(e);
}

/* Data of a message: the smallest MTU, less its number, in whole units of what is kept in order. */
static uint32_t segment_bytes(const struct net_dev *dev)
{
	uint32_t mtu = PROTO_SEGMENT_MAX + 64;

	for (int i = 0; i < dev->nrails; i++)
		mtu = min_u32(mtu, dev->nic[i].dev.attr.max_msg_size);
	return (mtu - 4) & ~127u;
}

static int memory_init(struct net_engine *e)
{
	const uint32_t bytes = NET_RING_ENTRIES * sizeof(struct proto_cts);
	struct net_dev *dev = e->dev;
	struct srd_pd *pd[NET_MAX_RAILS];
	int access = IBV_ACCESS_LOCAL_WRITE;

	for (int i = 0; i < dev->nrails; i++)
		pd[i] = &dev->nic[i].pd;
	if (e->mode == PROTO_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (e->mode == PROTO_READ)
		access |= IBV_ACCESS_REMOTE_READ; /* for a sign of life */
	net_slab_init(&e->rings, bytes, access, pd, dev->nrails);
	net_slab_init(&e->mirrors, bytes, 0, pd, dev->nrails);
	net_slab_init(&e->notes, NET_MAX_REQS * sizeof(struct proto_cts), 0, pd, dev->nrails);
	if (e->mode == PROTO_SEND) {
		e->numbers = net_numbers_new(dev->max_bytes / e->segment + 1, pd, dev->nrails);
		if (!e->numbers)
			return -errno;
	}
	return net_block_get(&e->rings, &e->scratch);
}

/* Credits are the engine's, for whichever rail: each has all the buffers. */
static void set_eager_room(struct net_engine *e)
{
	uint32_t n = NET_EAGER_RX, segments = e->mode == PROTO_SEND ? DATA_RX : 0;

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
static int set_messages_room(struct net_engine *e)
{
	uint32_t n = NET_RX_MOST, data = e->eager_rx + (e->mode == PROTO_SEND ? DATA_RX : 0);
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

/* All but the rails; @e is to be destroyed if it fails. */
static int engine_init(struct net_engine *e)
{
	e->imm_free = UINT32_MAX;
	/* Those that wait to be posted again in a batch are not there for a peer. */
	e->segments_free = e->mode == PROTO_SEND ? DATA_RX - NET_RX_BATCH : UINT32_MAX;
	e->todo_end = &e->todo;
	e->patience = NET_STALL_CALLS;
	e->segment = segment_bytes(e->dev);
	set_eager_room(e);
	if (getrandom(&e->qkey, sizeof(e->qkey), 0) != sizeof(e->qkey))
		return -EIO;
	if (e->segment < PROTO_SEGMENT_MIN) {
		net_warn("NET/EFA: %s: messages of %u bytes are too small", e->dev->name,
			 e->segment);
		return -EOPNOTSUPP;
	}
	if (e->mode != PROTO_WRITE) {
		int rc = set_messages_room(e);

		if (rc)
			return rc;
	}
	return memory_init(e);
}

/* Flushes, and copies of what is for a GPU. */
static int meet_self(struct net_engine *e)
{
	int rc = 0;

	e->flush_reads = net_flush_reads(e);
	if (!e->flush_reads && !e->eager_max)
		return 0;
	for (int i = 0; i < e->dev->nrails && !rc; i++) {
		struct srd_ep ep;

		srd_ep_local(&e->rail[i].data, &ep);
		rc = srd_peer_init(&e->self[i], &e->dev->nic[i].pd, &ep);
	}
	return rc;
}

static int engine_create(struct net_dev *dev, enum proto_mode mode, bool unsolicited,
			 struct net_engine **out)
{
	struct net_engine *e = aligned_alloc(_Alignof(struct net_engine), sizeof(*e));
	int rc;

	if (!e)
		return -ENOMEM;
	memset(e, 0, sizeof(*e));
	e->dev = dev;
	e->mode = mode;
	e->counting = net_stats_wanted();
	e->unsolicited = unsolicited;
	net_owner_init(&e->owner);
	rc = engine_init(e);
	for (int i = 0; i < dev->nrails && !rc; i++)
		rc = rail_init(e, &e->rail[i], &dev->nic[i]);
	if (!rc)
		rc = meet_self(e);
	if (rc) {
		engine_destroy(e);
		return rc;
	}
	e->nrails = dev->nrails;
	for (int i = 0; i < e->nrails; i++)
		net_engine_refill(e, i);
	/* A quarter of the promises is for whoever is busy. */
	e->max_recvs =
		min_u32(e->imm_free / NET_RECV_RESERVE, e->segments_free / NET_SEGMENT_RESERVE) *
		3 / 4;
	if (e->max_recvs == 0)
		e->max_recvs = 1;
	*out = e;
	return 0;
}

/* ---- sharing ---- */

/* Receives for what the comms that there are have to take, and @n more. */
static int have_receives(struct net_engine *e, uint32_t n)
{
	int rc = 0;

	for (int i = 0; i < e->nrails && n && !rc; i++)
		rc = net_rx_grow(&e->rail[i].ctrl_rx, e->messages - e->messages_free + n);
	return rc;
}

static int reserve_entered(struct net_engine *e, bool recv)
{
	uint32_t n = net_message_share(e->mode, recv ? NET_RECV : NET_SEND);
	int rc;

	if (e->messages_free < n || e->rings_retired >= NET_RINGS_RETIRED)
		return -ENOSPC;
	if (recv && (e->imm_free < NET_RECV_RESERVE || e->segments_free < NET_SEGMENT_RESERVE))
		return -ENOSPC;
	rc = have_receives(e, n);
	if (rc)
		return rc;
	e->messages_free -= n;
	if (recv) {
		e->imm_free -= NET_RECV_RESERVE;
		e->segments_free -= NET_SEGMENT_RESERVE;
	}
	return 0;
}

/* Set aside what one more comm needs; -ENOSPC: too much of it is out. */
static int reserve(struct net_engine *e, bool recv)
{
	int rc;

	net_owner_enter(&e->owner);
	rc = reserve_entered(e, recv);
	net_owner_leave(&e->owner);
	return rc;
}

void net_engine_unreserve(struct net_engine *e, bool recv)
{
	e->messages_free += net_message_share(e->mode, recv ? NET_RECV : NET_SEND);
	if (recv) {
		e->imm_free += NET_RECV_RESERVE;
		e->segments_free += NET_SEGMENT_RESERVE;
	}
}

static bool takes(struct net_engine *e, enum proto_mode mode, bool unsolicited, bool recv)
{
	if (e->mode != mode || e->unsolicited != unsolicited)
		return false;
	return (!recv || e->nrecvs < e->max_recvs) && reserve(e, recv) == 0;
}

/* Of this thread, or of nobody now. Device lock held. */
static struct net_engine *find_locked(struct net_dev *dev, enum proto_mode mode, bool unsolicited,
				      bool recv)
{
	struct net_engine *e;

	for (e = dev->engines; e; e = e->next)
		if (pthread_equal(e->thread, pthread_self()) && takes(e, mode, unsolicited, recv))
			return e;
	for (e = dev->engines; e; e = e->next)
		if (e->users == 0 && takes(e, mode, unsolicited, recv))
			return e;
	return NULL;
}

int net_engine_get(struct net_dev *dev, enum proto_mode mode, bool unsolicited, bool recv,
		   struct net_engine **out)
{
	struct net_engine *e;
	int rc = 0;

	pthread_mutex_lock(&dev->lock);
	e = find_locked(dev, mode, unsolicited, recv);
	if (!e) {
		rc = engine_create(dev, mode, unsolicited, &e);
		if (!rc) {
			e->next = dev->engines;
			dev->engines = e;
			rc = reserve(e, recv);
		}
	}
	if (!rc) {
		e->thread = pthread_self();
		e->users++;
		dev->connections++;
		e->nrecvs += recv;
		*out = e;
	}
	pthread_mutex_unlock(&dev->lock);
	return rc;
}

static void unlink_locked(struct net_dev *dev, struct net_engine *e)
{
	struct net_engine **p = &dev->engines;

	while (*p != e)
		p = &(*p)->next;
	*p = e->next;
}

void net_engine_put(struct net_engine *e, bool recv)
{
	struct net_dev *dev = e->dev;
	bool last;

	pthread_mutex_lock(&dev->lock);
	e->users--;
	e->nrecvs -= recv;
	last = e->users == 0;
	if (last && e->worn) {
		unlink_locked(dev, e);
		engine_destroy(e);
	}
	pthread_mutex_unlock(&dev->lock);
	if (last)
		net_stats_write();
}

bool net_engines_close_locked(struct net_dev *dev)
{
	struct net_engine *e, *next;

	for (e = dev->engines; e; e = next) {
		next = e->next;
		if (e->users)
			continue;
		unlink_locked(dev, e);
		engine_destroy(e);
	}
	return dev->engines == NULL;
}

/* ---- comms by number ---- */

int net_engine_add(struct net_engine *e, struct net_comm *c)
{
	/* Numbers come round late: a write that was meant for a closed comm finds nobody. */
	for (uint32_t n = 0; n < NET_MAX_COMMS; n++) {
		uint32_t i = ++e->last_id % NET_MAX_COMMS;

		if (net_engine_comm(e, i))
			continue;
		if (!e->by_id[i / NET_ID_PAGE])
			e->by_id[i / NET_ID_PAGE] = calloc(NET_ID_PAGE, sizeof(struct net_comm *));
		if (!e->by_id[i / NET_ID_PAGE])
			return -ENOMEM;
		e->by_id[i / NET_ID_PAGE][i % NET_ID_PAGE] = c;
		c->id = i;
		return 0;
	}
	return -EUSERS;
}

void net_engine_del(struct net_engine *e, struct net_comm *c)
{
	if (c->id != NET_NO_ID)
		e->by_id[c->id / NET_ID_PAGE][c->id % NET_ID_PAGE] = NULL;
	c->id = NET_NO_ID;
}
