/* SPDX-License-Identifier: BSD-3-Clause */
/* Events for NCCL's profiler. */
#include "profile.h"

#include <stdlib.h>

/* What the profiler calls those that run, by request and buffer. */
struct net_events {
	void *handle[NET_MAX_REQS][NET_MAX_RECVS];
};

static const struct net_req *requests(const struct net_comm *c)
{
	return c->kind == NET_SEND ? ((const struct net_send *)c)->req
				   : ((const struct net_recv *)c)->req;
}

static void stop(const struct net_comm *c, void **handle)
{
	if (*handle)
		c->profiler(handle, NCCL_NET_EVENT_STOP, NULL, 0, NULL);
	*handle = NULL;
}

/* False: no memory. They come with the first event that a profiler wants, and stay. */
static bool keep(struct net_comm *c, const struct net_req *req, int i, void *handle)
{
	if (!c->events)
		c->events = calloc(1, sizeof(*c->events));
	if (c->events)
		c->events->handle[req - requests(c)][i] = handle;
	return c->events != NULL;
}

/* The request that the message begins with; its queue pair is that of rail 0. */
static struct nccl_net_event_ib describe(const struct net_req *req, size_t bytes)
{
	static const int ops[2][PROTO_MODES] = {
		[NET_SEND] = {[PROTO_WRITE] = IBV_WR_RDMA_WRITE_WITH_IMM,
			      [PROTO_READ] = IBV_WR_SEND_WITH_IMM,
			      [PROTO_SEND] = IBV_WR_SEND_WITH_IMM},
		[NET_RECV] = {[PROTO_WRITE] = IBV_WR_RDMA_WRITE,
			      [PROTO_READ] = IBV_WR_SEND_WITH_IMM,
			      [PROTO_SEND] = IBV_WR_SEND_WITH_IMM},
	};
	const struct net_comm *c = req->comm;
	const struct net_engine *e = c->engine;
	const struct net_rail *rail = &e->rail[0];
	bool data = c->kind == NET_SEND && e->mode != PROTO_READ;

	return (struct nccl_net_event_ib){
		.type = NCCL_NET_EVENT_IB_QP,
		.qp = {.device = e->dev->index,
		       .wr_id = (uintptr_t)req,
		       .opcode = ops[c->kind][e->mode],
		       .qp_num = (int)(data ? rail->data : rail->ctrl).ibv->qp_num,
		       .length = bytes},
	};
}

/* A profiler that wants no such events leaves the handle as it is, and is not asked to stop it. */
void net_profile_start(struct net_req *req, int n, void *const *phandles, const size_t *sizes)
{
	struct net_comm *c = req->comm;

	for (int i = 0; i < n && c->profiler; i++) {
		struct nccl_net_event_ib event = describe(req, sizes[i]);
		void *handle = NULL;

		if (!phandles[i])
			continue;
		c->profiler(&handle, NCCL_NET_EVENT_START, phandles[i], NCCL_NET_EVENT_IB_V1,
			    &event);
		if (handle && !keep(c, req, i, handle))
			stop(c, &handle);
	}
}

void net_profile_stop(const struct net_req *req)
{
	const struct net_comm *c = req->comm;
	const struct net_req *first = requests(c);

	/* No flush. */
	if (req < first || req >= first + NET_MAX_REQS)
		return;
	for (int i = 0; i < NET_MAX_RECVS; i++)
		stop(c, &c->events->handle[req - first][i]);
}

void net_profile_end(struct net_comm *c)
{
	if (!c->events)
		return;
	for (int k = 0; k < NET_MAX_REQS; k++)
		net_profile_stop(&requests(c)[k]);
	free(c->events);
	c->events = NULL;
}
