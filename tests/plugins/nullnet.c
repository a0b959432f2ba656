/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A net plugin that moves nothing and is done at once: what a tool takes with it (and --no-check)
 * is the tool's own time.
 */
#include <stdlib.h>
#include <string.h>

#include "tables.h"

enum { SLOTS = NCCL_NET_OUTSTANDING };

struct request {
	int size; /* of a receive, -1 for a send */
};

struct comm {
	unsigned next;
	struct request slot[SLOTS];
};

static enum nccl_net_result init(void)
{
	return NCCL_NET_OK;
}

static enum nccl_net_result devices(int *ndev)
{
	*ndev = test_plugin.ndev;
	return NCCL_NET_OK;
}

static enum nccl_net_result properties(int dev, struct nccl_net_props_v12 *props)
{
	static char name[] = "null0";

	props->name = name;
	return dev ? NCCL_NET_INVALID_ARGUMENT : NCCL_NET_OK;
}

static enum nccl_net_result comm_new(void **comm)
{
	*comm = calloc(1, sizeof(struct comm));
	return *comm ? NCCL_NET_OK : NCCL_NET_SYSTEM_ERROR;
}

static enum nccl_net_result listen_on(int dev, void *handle, void **listen_comm)
{
	(void)dev;
	memset(handle, 0, NCCL_NET_HANDLE_BYTES);
	return comm_new(listen_comm);
}

static enum nccl_net_result connect_to(int dev, void *handle, void **send_comm)
{
	(void)dev, (void)handle;
	return comm_new(send_comm);
}

static enum nccl_net_result accept_from(void *listen_comm, void **recv_comm)
{
	(void)listen_comm;
	return comm_new(recv_comm);
}

static enum nccl_net_result close_any(void *comm)
{
	free(comm);
	return NCCL_NET_OK;
}

static enum nccl_net_result reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	(void)data, (void)size, (void)type;
	*mhandle = comm;
	return NCCL_NET_OK;
}

static enum nccl_net_result dereg_mr(void *comm, void *mhandle)
{
	(void)comm, (void)mhandle;
	return NCCL_NET_OK;
}

static enum nccl_net_result isend(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				  void **request)
{
	struct comm *c = send_comm;
	struct request *q = &c->slot[c->next++ % SLOTS];

	(void)data, (void)size, (void)tag, (void)mhandle;
	q->size = -1;
	*request = q;
	return NCCL_NET_OK;
}

static enum nccl_net_result irecv(void *recv_comm, int n, void **data, const size_t *sizes,
				  const int *tags, void **mhandles, void **request)
{
	struct comm *c = recv_comm;
	struct request *q = &c->slot[c->next++ % SLOTS];

	(void)n, (void)data, (void)tags, (void)mhandles;
	q->size = (int)sizes[0];
	*request = q;
	return NCCL_NET_OK;
}

static enum nccl_net_result test(void *request, int *done, int *sizes)
{
	struct request *q = request;

	*done = 1;
	if (q->size >= 0)
		sizes[0] = q->size;
	return NCCL_NET_OK;
}

const char test_plugin_name[] = "nullnet";

const struct test_plugin test_plugin = {
	.ndev = 1,
	.init = init,
	.devices = devices,
	.properties = properties,
	.listen = listen_on,
	.connect = connect_to,
	.accept = accept_from,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.isend = isend,
	.irecv = irecv,
	.test = test,
	.close_send = close_any,
	.close_recv = close_any,
	.close_listen = close_any,
};
