/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and registrations, by the service thread and in NCCL's order. */
#include <string.h>

#include "check.h"

/* One of these at a time; the body waits for it. */
struct link_job {
	struct check_ctx *ctx;
	struct check_link *link;
	const struct check_end *end;
	_Alignas(8) char handle[NCCL_NET_HANDLE_BYTES];
	void *listen_comm;
	void *addr, *mhandle;
	size_t size;
};

static void enter(struct check_ctx *ctx, const char *call)
{
	host_entering(ctx->self, HOST_SERVICE, call);
}

static void hint(struct check_ctx *ctx)
{
	struct nccl_net_attr attr = host_net_attr(1);

	if (!ctx->net->set_net_attr)
		return;
	enter(ctx, "setNetAttr");
	check_ok(ctx, ctx->net->set_net_attr(ctx->net, ctx->net_ctx, &attr), "setNetAttr");
}

void *check_listen(struct check_ctx *ctx, void *handle)
{
	void *listen_comm = NULL;

	enter(ctx, "listen");
	check_ok(ctx, ctx->net->listen(ctx->net, ctx->net_ctx, ctx->dev, handle, &listen_comm),
		 "listen");
	check_need(ctx, listen_comm, "expected a listen comm, saw NULL");
	return listen_comm;
}

bool check_try_connect(struct check_ctx *ctx, void *handle, void **comm)
{
	struct nccl_net_device_handle *dev_comm = NULL;

	hint(ctx);
	enter(ctx, "connect");
	check_ok(ctx, ctx->net->connect(ctx->net, ctx->net_ctx, ctx->dev, handle, comm, &dev_comm),
		 "connect");
	return *comm;
}

bool check_try_accept(struct check_ctx *ctx, void *listen_comm, void **comm)
{
	struct nccl_net_device_handle *dev_comm = NULL;

	hint(ctx);
	enter(ctx, "accept");
	check_ok(ctx, ctx->net->accept(ctx->net, listen_comm, comm, &dev_comm), "accept");
	return *comm;
}

void check_close_listen(struct check_ctx *ctx, void *listen_comm)
{
	enter(ctx, "closeListen");
	check_ok(ctx, ctx->net->close_listen(listen_comm), "closeListen");
}

static int job_listen(void *arg)
{
	struct link_job *j = arg;

	j->listen_comm = check_listen(j->ctx, j->handle);
	return 0;
}

static int job_connect(void *arg)
{
	struct link_job *j = arg;
	uint64_t since = host_now_ns();

	while (!j->link->send.comm || !j->link->recv.comm) {
		if (!j->link->send.comm)
			check_try_connect(j->ctx, j->handle, &j->link->send.comm);
		if (!j->link->recv.comm &&
		    check_try_accept(j->ctx, j->listen_comm, &j->link->recv.comm))
			check_close_listen(j->ctx, j->listen_comm);
		check_tick(j->ctx, since, "both ends of a connection");
	}
	return 0;
}

void check_service(struct check_ctx *ctx, int (*job)(void *arg), void *arg)
{
	host_role_run(&ctx->service, job, arg);
}

void check_connect(struct check_ctx *ctx, struct check_link *link, int to, int from)
{
	int rank = ctx->self->rank;
	struct link_job j = {.ctx = ctx, .link = link};

	*link = (struct check_link){
		.send = {.sender = true, .peer = to},
		.recv = {.sender = false, .peer = from},
	};
	check_service(ctx, job_listen, &j);
	if (to != rank || from != rank) {
		char all[HOST_MAX_RANKS][NCCL_NET_HANDLE_BYTES];

		check_allgather(ctx, j.handle, all, sizeof(all[0]));
		memcpy(j.handle, all[to], sizeof(j.handle));
	}
	check_service(ctx, job_connect, &j);
}

void check_ring(struct check_ctx *ctx, struct check_link *link)
{
	int n = ctx->self->nranks;

	check_connect(ctx, link, (ctx->self->rank + 1) % n, (ctx->self->rank + n - 1) % n);
}

void check_self(struct check_ctx *ctx, struct check_link *link)
{
	check_connect(ctx, link, ctx->self->rank, ctx->self->rank);
}

static int job_close(void *arg)
{
	struct link_job *j = arg;
	const char *call = j->end->sender ? "closeSend" : "closeRecv";
	struct host_net *net = j->ctx->net;

	enter(j->ctx, call);
	check_ok(j->ctx,
		 j->end->sender ? net->close_send(j->end->comm) : net->close_recv(j->end->comm),
		 call);
	return 0;
}

void check_close(struct check_ctx *ctx, struct check_end *end)
{
	struct link_job j = {.ctx = ctx, .end = end};

	check_service(ctx, job_close, &j);
	end->comm = NULL;
}

void check_disconnect(struct check_ctx *ctx, struct check_link *link)
{
	check_close(ctx, &link->send);
	check_close(ctx, &link->recv);
}

static int job_reg(void *arg)
{
	struct link_job *j = arg;
	struct check_ctx *ctx = j->ctx;

	enter(ctx, "regMr");
	check_ok(ctx,
		 ctx->net->reg_mr(ctx->net, j->end->comm, j->addr, j->size, NCCL_NET_PTR_HOST,
				  &j->mhandle),
		 "regMr");
	check_need(ctx, j->mhandle, "expected an mhandle of %zu bytes, saw NULL", j->size);
	return 0;
}

void *check_reg(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size)
{
	struct link_job j = {.ctx = ctx, .end = end, .addr = addr, .size = size};

	check_service(ctx, job_reg, &j);
	return j.mhandle;
}

static int job_dereg(void *arg)
{
	struct link_job *j = arg;

	enter(j->ctx, "deregMr");
	check_ok(j->ctx, j->ctx->net->dereg_mr(j->end->comm, j->mhandle), "deregMr");
	return 0;
}

void check_dereg(struct check_ctx *ctx, const struct check_end *end, void *mhandle)
{
	struct link_job j = {.ctx = ctx, .end = end, .mhandle = mhandle};

	check_service(ctx, job_dereg, &j);
}
