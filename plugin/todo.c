/* SPDX-License-Identifier: BSD-3-Clause */
/* What waits for credits. */
#include "todo.h"

#include <errno.h>

#include "clock.h"
#include "comm.h"
#include "eager.h"
#include "flush.h"
#include "mover.h"
#include "p2p.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* It counts as under way, so that the comm stays. */
void net_todo_add(struct net_req *req)
{
	struct net_engine *e = req->comm->engine;

	if (req->queued)
		return;
	req->queued = true;
	req->todo = NULL;
	req->comm->under_way++;
	*e->todo_end = req;
	e->todo_end = &req->todo;
}

/* Lines that were lost are the same whatever moves the data. False: no credits. */
static bool go_on(struct net_req *req)
{
	struct net_comm *c = req->comm;
	int rc;

	if (c->kind == NET_RECV && !req->n)
		return net_flush_run(req);
	if (c->kind == NET_RECV && req->lost && !c->closed) {
		rc = net_announce((struct net_recv *)c, req);
		if (rc == -EAGAIN)
			return false;
		req->lost = 0;
		if (rc)
			net_comm_fail(c, rc, "post on another rail", 0, NULL);
	}
	if (c->err)
		return true;
	if (c->kind == NET_SEND && net_went_ahead((struct net_send *)c, req))
		return net_eager_again((struct net_send *)c, req);
	if (c->kind == NET_RECV && !net_eager_copy((struct net_recv *)c, req))
		return false;
	return c->mover->run(req);
}

void net_todo_run(struct net_engine *e)
{
	struct net_req *req;

	if (unlikely(e->todo_after_ms)) {
		if (net_now_ms() < e->todo_after_ms)
			return;
		e->todo_after_ms = 0;
	}
	while ((req = e->todo)) {
		struct net_comm *c = req->comm;

		if (!c->err && !go_on(req))
			return;
		e->todo = req->todo;
		if (!e->todo)
			e->todo_end = &e->todo;
		req->queued = false;
		net_comm_completed(c);
	}
}
