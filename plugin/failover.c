/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking rails out. */
#include "failover.h"

#include <stdatomic.h>
#include <stdio.h>

#include "clock.h"
#include "cut.h"
#include "eager.h"
#include "log.h"
#include "mover.h"
#include "p2p.h"
#include "param.h"
#include "segment.h"
#include "stall.h"
#include "todo.h"

/*
 * The device's words for a queue pair of ours that is in error, as all of a device that failed, and
 * for a way that leads nowhere. Others are about memory or the peer's end.
 */
enum { FLUSHED = 1, QP_ERROR = 2, UNRESPONSIVE = 13, UNREACHABLE = 15 };

/*
 * What is flushed may be on its way still. If it landed after what replaces it, the buffer might
 * hold a later message already: longer than any packet lives.
 */
enum { FENCE_MS = 1000 };

static bool is_ours(uint32_t efa_status)
{
	return efa_status == FLUSHED || efa_status == QP_ERROR;
}

bool net_failover_is_of_the_rail(uint32_t efa_status)
{
	return is_ours(efa_status) || efa_status == UNRESPONSIVE || efa_status == UNREACHABLE;
}

static void warn(const struct net_comm *c, int rail, const char *why, const char *hint)
{
	struct net_rail *r = &c->engine->rail[rail];
	char here[NET_SIDE_TEXT], there[NET_SIDE_TEXT];

	/* Other connections will find out as well. */
	if (r->reported)
		return;
	r->reported = true;
	net_comm_sides(c, rail, here, there);
	net_warn("NET/EFA: rail %d is out: %s; %s, %s. %d rails go on. %s", rail, why, here, there,
		 c->nalive, hint);
}

/* False: it was the last one. */
static bool take_out(struct net_comm *c, int rail)
{
	if (c->nalive == 1)
		return false;
	c->dead |= (uint8_t)(1u << rail);
	c->nalive--;
	if (c->kind == NET_RECV && ((struct net_recv *)c)->next_rail == rail)
		((struct net_recv *)c)->next_rail = (uint8_t)net_next_rail(c, rail);
	return true;
}

/* That data were read is said last of all: the sender waits for it, closed or not. */
static bool may_fail_over(const struct net_comm *c)
{
	bool reads = c->kind == NET_RECV && c->engine->mode == PROTO_READ;

	return c->failover && (!c->closed || reads) && !c->err;
}

void net_failover_allow(struct net_comm *c)
{
	c->failover = net_param()->failover && c->nrails > 1;
	for (int i = 0; i < c->nrails && c->failover; i++)
		if (atomic_load(&c->engine->dev->nic[i].state) != NET_NIC_UP)
			take_out(c, i);
}

bool net_failover_device(struct net_comm *c, int rail, const char *why)
{
	if (!may_fail_over(c))
		return false;
	if (c->dead & 1u << rail)
		return true;
	if (!take_out(c, rail))
		return false;
	warn(c, rail, why, "");
	return true;
}

/* @which: the piece, the buffer, or what is known of a segment's number. */
static void again(struct net_req *req, int kind, uint32_t which)
{
	switch (kind) {
	case WR_SEGMENT:
		net_segment_lost(req, which);
		break;
	case WR_READ:
		net_read_lost(req, which);
		break;
	case WR_LINES:
		req->busy--;
		/* fall through */
	case WR_DATA:
		req->lost |= (uint8_t)(1u << which);
		net_todo_add(req);
		break;
	default: /* a question whether the peer lives, what was read, or a grant of segments */
		if (req->comm->kind == NET_SEND)
			net_stall_ask_again(req->comm);
		else if (req->comm->engine->mode == PROTO_READ)
			net_read_tell(req);
		else if (req->comm->engine->mode == PROTO_SEND)
			net_grant_lost((struct net_recv *)req->comm);
		break;
	}
}

bool net_failover_rail(struct net_comm *c, int rail, const struct srd_wc *wc)
{
	char why[128];

	if (!may_fail_over(c))
		return false;
	if (c->dead & 1u << rail)
		return true;
	if (!net_failover_is_of_the_rail(wc->efa_status) || !take_out(c, rail))
		return false;
	snprintf(why, sizeof(why), "%s (status %u)", srd_status_str(wc->efa_status),
		 wc->efa_status);
	warn(c, rail, why, srd_status_hint(wc->efa_status));
	return true;
}

bool net_failover(struct net_req *req, int kind, uint32_t piece, int rail, const struct srd_wc *wc)
{
	struct net_comm *c = req->comm;

	/*
	 * Of a receive comm, data requests are flushes, and copies are to itself as well. A flush
	 * makes the writes of its NIC visible, by a read that the same NIC makes after them. One of
	 * another NIC would be ordered behind nothing of this one, so that a GPU might read what
	 * was there before: the comm fails, and says so. The buffer that a copy reads is known to
	 * that NIC alone.
	 */
	if (c->kind == NET_RECV &&
	    (kind == WR_DATA || (kind == WR_READ && net_eager_copies(req, piece))))
		return false;
	if (!net_failover_rail(c, rail, wc))
		return false;
	if (c->engine->counting)
		net_count(&c->engine->counts.again, 1);
	if (is_ours(wc->efa_status))
		c->engine->todo_after_ms = net_now_ms() + FENCE_MS;
	again(req, kind, piece);
	return true;
}
