/* SPDX-License-Identifier: BSD-3-Clause */
/* Do words that failed matter? */
#include "doubt.h"

#include "clock.h"
#include "cut.h"
#include "message.h"
#include "mover.h"
#include "stall.h"

/*
 * What a peer sent before it was over has arrived by then, and its completions, which nothing
 * orders behind the peer's, are there.
 */
enum { GRACE_MS = 1000 };

static bool may_be_over(const struct net_req *req)
{
	const struct net_recv *r = (const struct net_recv *)req->comm;

	return req->comm->kind == NET_SEND || ((r->eager || r->ready) && !req->quiet);
}

/* By another rail: without failover this one is taken again. */
static void say_again(struct net_recv *r, struct net_req *req, int rail)
{
	if (!r->ready || r->c.told)
		return;
	r->next_rail = (uint8_t)net_next_rail(&r->c, rail);
	net_read_tell(req);
}

static void begin(struct net_engine *e)
{
	e->doubt_ms = net_now_ms() + GRACE_MS;
	e->doubtful = true;
	e->patience = 1;
}

void net_doubt_again(struct net_engine *e)
{
	if (!e->doubtful)
		begin(e);
}

bool net_doubt(struct net_req *req, int rail, const struct srd_wc *wc)
{
	struct net_comm *c = req->comm;
	bool recv = c->kind == NET_RECV;

	if (!may_be_over(req))
		return false;
	if (!c->doubtful) {
		c->doubt = *wc;
		c->doubt_rail = rail;
		if (recv)
			say_again((struct net_recv *)c, req, rail);
	}
	c->doubtful = true;
	begin(c->engine);
	if (recv && c->closed && c->under_way == 1)
		net_message_over(c);
	return true;
}

/* For the peer, whatever its words. */
static bool waits(struct net_comm *c)
{
	const struct net_recv *r = (const struct net_recv *)c;

	if (c->kind == NET_SEND)
		return net_stall_waits(c);
	for (uint32_t i = 0; i < r->nslots; i++)
		if (r->slot[i].open)
			return true;
	return false;
}

void net_doubt_resolve(struct net_engine *e)
{
	if (net_now_ms() < e->doubt_ms)
		return;
	e->doubtful = false;
	for (struct net_comm *c = e->comms; c; c = c->next) {
		if (!c->doubtful)
			continue;
		if (waits(c)) {
			net_comm_fail(c, srd_wc_err(&c->doubt),
				      c->kind == NET_RECV && e->mode != PROTO_READ
					      ? "a clear-to-send"
					      : "a message",
				      c->doubt_rail, &c->doubt);
			net_message_over(c);
		}
		/* A receive that comes later needs it, and sends nothing that would fail. */
		c->doubtful = c->kind == NET_RECV;
	}
}
