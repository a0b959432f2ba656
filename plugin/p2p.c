/* SPDX-License-Identifier: BSD-3-Clause */
/* What sends and receives have in common: their end, and what is done while there is none. */
#include "p2p.h"

#include <errno.h>

#include "complete.h"
#include "doubt.h"
#include "event.h"
#include "message.h"
#include "profile.h"
#include "stall.h"
#include "todo.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

__attribute__((cold)) void net_look_around(struct net_engine *e)
{
	if (net_stall_look(e))
		net_event_look(e);
	if (e->doubtful && net_engine_idle(e))
		net_doubt_resolve(e);
	e->patience = e->todo || e->doubtful ? 1 : NET_STALL_CALLS;
}

int net_later(struct net_comm *c)
{
	if (c->engine->counting)
		net_count(&c->engine->counts.refused, 1);
	net_complete(c->engine);
	return c->err;
}

/* ---- test ---- */

static void finish(struct net_req *req, int *sizes)
{
	req->in_use = false;
	if (unlikely(req->comm->events))
		net_profile_stop(req);
	if (req->comm->kind == NET_SEND) {
		struct net_send *s = (struct net_send *)req->comm;

		s->free |= 1ull << (req - s->req);
		if (unlikely(s->eager))
			s->eager &= ~(1ull << (req - s->req));
		if (sizes)
			sizes[0] = (int)req->bytes;
	} else if (sizes) {
		struct net_recv *r = (struct net_recv *)req->comm;

		for (uint32_t i = 0; i < req->n; i++)
			sizes[i] = (int)net_slot_of(r, req, i)->bytes;
	}
}

/* Entered, and left. */
static __attribute__((noinline)) int not_done(struct net_comm *c)
{
	struct net_engine *e = c->engine;
	bool look = e->patience <= 1 || e->todo;
	int rc;

	if (look)
		net_look_around(e);
	else
		e->patience--;
	rc = c->err;
	net_owner_leave(&e->owner);
	/* It takes locks: not in the engine. */
	if (look)
		net_stats_refresh();
	return rc;
}

int net_test_entered(struct net_req *req, int *done, int *sizes)
{
	struct net_engine *e = req->comm->engine;

	if (req->to_come)
		net_complete(e);
	else if (unlikely(e->todo))
		net_todo_run(e);
	if (unlikely(req->to_come))
		return not_done(req->comm);
	*done = 1;
	finish(req, sizes);
	net_owner_leave(&e->owner);
	return 0;
}

int net_test_taking(struct net_req *req, int *done, int *sizes)
{
	net_owner_take(&req->comm->engine->owner);
	return net_test_entered(req, done, sizes);
}

/* ---- memory that goes ---- */

void net_forget(struct net_comm *c, const struct net_mr *mr)
{
	net_owner_enter(&c->engine->owner);
	if (c->kind == NET_SEND)
		net_send_forget((struct net_send *)c, mr);
	else
		net_recv_forget((struct net_recv *)c, mr);
	net_owner_leave(&c->engine->owner);
}

void net_forgotten(struct net_comm *c)
{
	net_comm_fail(c, -ECANCELED, "a request for memory that is no longer registered", 0, NULL);
	net_message_over(c);
}
