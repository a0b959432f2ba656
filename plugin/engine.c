/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: made, shared. */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "comm.h"
#include "complete.h"
#include "flush.h"
#include "log.h"
#include "message.h"
#include "numbers.h"
#include "stall.h"

enum { DRAIN_MS = 5 }; /* at the end, for what is still under way */

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
		net_rail_fini(&e->rail[i]);
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
		if (dev->nic[i].dev.attr.max_msg_size < mtu)
			mtu = dev->nic[i].dev.attr.max_msg_size;
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

/* All but the rails; @e is to be destroyed if it fails. */
static int engine_init(struct net_engine *e)
{
	int rc;

	e->todo_end = &e->todo;
	e->patience = NET_STALL_CALLS;
	e->segment = segment_bytes(e->dev);
	if (getrandom(&e->qkey, sizeof(e->qkey), 0) != sizeof(e->qkey))
		return -EIO;
	if (e->segment < PROTO_SEGMENT_MIN) {
		net_warn("NET/EFA: %s: messages of %u bytes are too small", e->dev->name,
			 e->segment);
		return -EOPNOTSUPP;
	}
	rc = net_rails_plan(e);
	return rc ? rc : memory_init(e);
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
		rc = net_rail_init(e, i);
	if (!rc)
		rc = meet_self(e);
	if (rc) {
		engine_destroy(e);
		return rc;
	}
	e->nrails = dev->nrails;
	for (int i = 0; i < e->nrails; i++)
		net_rail_refill(e, i);
	/* A quarter of the promises is for whoever is busy. */
	e->max_recvs = e->imm_free / NET_RECV_RESERVE;
	if (e->segments_free / NET_SEGMENT_RESERVE < e->max_recvs)
		e->max_recvs = e->segments_free / NET_SEGMENT_RESERVE;
	e->max_recvs = e->max_recvs * 3 / 4;
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
