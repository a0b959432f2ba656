/* SPDX-License-Identifier: BSD-3-Clause */
/* Older versions of NCCL's net ABI: the same calls with the arguments of their time. */
#include <string.h>

#include "net.h"

/* ---- version 10: no context; the profiler is given to init, the config to connect ---- */

static enum nccl_net_result init_v10(nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	(void)profiler;
	return net_init(log);
}

/* Properties up to max_coll_bytes are those of version 11. */
static enum nccl_net_result properties_v9(int dev, struct nccl_net_props_v9 *props)
{
	struct nccl_net_props_v11 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc == NCCL_NET_OK)
		memcpy(props, &p, sizeof(*props));
	return rc;
}

_Static_assert(offsetof(struct nccl_net_props_v11, max_multi_request) ==
		       sizeof(struct nccl_net_props_v9),
	       "version 11 adds at the end");

static enum nccl_net_result connect_v10(int dev, struct nccl_net_config *config, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	(void)config;
	(void)dev_comm;
	return net_connect_to(dev, handle, send_comm);
}

static enum nccl_net_result accept_v8(void *listen_comm, void **recv_comm,
				      struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return net_accept_on(listen_comm, recv_comm);
}

static enum nccl_net_result isend_v10(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void *phandle, void **request)
{
	(void)phandle;
	return net_send_to(send_comm, data, size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v10(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **phandles, void **request)
{
	(void)phandles;
	return net_recv_from(recv_comm, n, data, sizes, tags, mhandles, request);
}

NET_EXPORT const struct nccl_net_v10 ncclNetPlugin_v10 = {
	.name = NET_NAME,
	.init = init_v10,
	.devices = net_devices,
	.get_properties = properties_v9,
	.listen = net_listen_on,
	.connect = connect_v10,
	.accept = accept_v8,
	.reg_mr = net_reg_mr,
	.dereg_mr = net_dereg_mr,
	.isend = isend_v10,
	.irecv = irecv_v10,
	.iflush = net_flush,
	.test = net_test_request,
	.close_send = net_close_send,
	.close_recv = net_close_recv,
	.close_listen = net_close_listen,
};

/* ---- version 9: no profiler ---- */

static enum nccl_net_result connect_v8(int dev, void *handle, void **send_comm,
				       struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return net_connect_to(dev, handle, send_comm);
}

static enum nccl_net_result irecv_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **request)
{
	return net_recv_from(recv_comm, n, data, sizes, tags, mhandles, request);
}

NET_EXPORT const struct nccl_net_v9 ncclNetPlugin_v9 = {
	.name = NET_NAME,
	.init = net_init,
	.devices = net_devices,
	.get_properties = properties_v9,
	.listen = net_listen_on,
	.connect = connect_v8,
	.accept = accept_v8,
	.reg_mr = net_reg_mr,
	.dereg_mr = net_dereg_mr,
	.isend = net_send_to,
	.irecv = irecv_v9,
	.iflush = net_flush,
	.test = net_test_request,
	.close_send = net_close_send,
	.close_recv = net_close_recv,
	.close_listen = net_close_listen,
};

/* ---- version 8: sizes are int, properties shorter ---- */

static enum nccl_net_result properties_v8(int dev, struct nccl_net_props_v8 *props)
{
	struct nccl_net_props_v11 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc != NCCL_NET_OK)
		return rc;
	*props = (struct nccl_net_props_v8){
		.name = p.name,
		.pci_path = p.pci_path,
		.guid = p.guid,
		.ptr_support = p.ptr_support,
		.speed = p.speed,
		.port = p.port,
		.latency = p.latency,
		.max_comms = p.max_comms,
		.max_recvs = 1, /* what is known to work with NCCL of that time */
		.device_type = p.device_type,
		.device_version = p.device_version,
	};
	return NCCL_NET_OK;
}

static enum nccl_net_result isend_v8(void *send_comm, void *data, int size, int tag, void *mhandle,
				     void **request)
{
	*request = NULL;
	if (size < 0)
		return NCCL_NET_INVALID_ARGUMENT;
	return net_send_to(send_comm, data, (size_t)size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v8(void *recv_comm, int n, void **data, int *sizes, int *tags,
				     void **mhandles, void **request)
{
	size_t size;

	*request = NULL;
	if (n != 1 || sizes[0] < 0)
		return NCCL_NET_INVALID_ARGUMENT;
	size = (size_t)sizes[0];
	return net_recv_from(recv_comm, n, data, &size, tags, mhandles, request);
}

NET_EXPORT const struct nccl_net_v8 ncclNetPlugin_v8 = {
	.name = NET_NAME,
	.init = net_init,
	.devices = net_devices,
	.get_properties = properties_v8,
	.listen = net_listen_on,
	.connect = connect_v8,
	.accept = accept_v8,
	.reg_mr = net_reg_mr,
	.dereg_mr = net_dereg_mr,
	.isend = isend_v8,
	.irecv = irecv_v8,
	.iflush = net_flush,
	.test = net_test_request,
	.close_send = net_close_send,
	.close_recv = net_close_recv,
	.close_listen = net_close_listen,
};
