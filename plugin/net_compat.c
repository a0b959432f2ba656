/* SPDX-License-Identifier: BSD-3-Clause */
/* Older versions of NCCL's net ABI: the same calls with the arguments of their time. */
#include <string.h>

#include "net.h"

/* Properties that every version has; the others of @to are zero, its padding as well. */
#define PROPS_V6(to, from) \
	do { \
		memset(to, 0, sizeof(*(to))); \
		(to)->name = (from)->name; \
		(to)->pci_path = (from)->pci_path; \
		(to)->guid = (from)->guid; \
		(to)->ptr_support = (from)->ptr_support; \
		(to)->speed = (from)->speed; \
		(to)->port = (from)->port; \
		(to)->latency = (from)->latency; \
		(to)->max_comms = (from)->max_comms; \
		(to)->max_recvs = 1; /* NCCL wants several buffers only from version 9 on */ \
	} while (0)

/* From version 7 on. */
#define PROPS_V7(to, from) \
	do { \
		PROPS_V6(to, from); \
		(to)->device_type = (from)->device_type; \
		(to)->device_version = (from)->device_version; \
	} while (0)

/* From version 9 on. Our devices are none of NCCL's virtual ones: vdev has one member. */
#define PROPS_V9(to, from) \
	do { \
		PROPS_V7(to, from); \
		(to)->reg_is_global = (from)->reg_is_global; \
		(to)->force_flush = (from)->force_flush; \
		(to)->max_recvs = (from)->max_recvs; \
		(to)->vdev.ndevs = (from)->vdev.ndevs; \
		memcpy((to)->vdev.devs, (from)->vdev.devs, sizeof((to)->vdev.devs)); \
		(to)->max_p2p_bytes = (from)->max_p2p_bytes; \
		(to)->max_coll_bytes = (from)->max_coll_bytes; \
	} while (0)

/* ---- version 11: shorter properties ---- */

static enum nccl_net_result properties_v11(int dev, struct nccl_net_props_v11 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc)
		return rc;
	PROPS_V9(props, &p);
	props->max_multi_request = p.max_multi_request;
	return NCCL_NET_OK;
}

NET_EXPORT const struct nccl_net_v11 ncclNetPlugin_v11 = {
	NET_TABLE_V6,
	.reg_mr = net_reg_mr,
	.accept = net_accept_dev,
	.init = net_init_ctx,
	.get_properties = properties_v11,
	.listen = net_listen_ctx,
	.connect = net_connect_ctx,
	.isend = net_isend_prof,
	.irecv = net_irecv_prof,
	.finalize = net_finalize_ctx,
};

/* ---- version 10: no context; the profiler is given to init, the config to connect ---- */

static enum nccl_net_result properties_v9(int dev, struct nccl_net_props_v9 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc)
		return rc;
	PROPS_V9(props, &p);
	return NCCL_NET_OK;
}

static enum nccl_net_result connect_v10(int dev, struct nccl_net_config *config, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	(void)config;
	(void)dev_comm;
	return net_connect_to(dev, handle, send_comm);
}

NET_EXPORT const struct nccl_net_v10 ncclNetPlugin_v10 = {
	NET_TABLE_V6,
	.reg_mr = net_reg_mr,
	.accept = net_accept_dev,
	.init = net_init_prof,
	.get_properties = properties_v9,
	.listen = net_listen_on,
	.connect = connect_v10,
	.isend = net_isend_prof,
	.irecv = net_irecv_prof,
};

/* ---- version 9: no profiler ---- */

static enum nccl_net_result connect_v7(int dev, void *handle, void **send_comm,
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
	NET_TABLE_V6,
	.reg_mr = net_reg_mr,
	.accept = net_accept_dev,
	.init = net_init,
	.get_properties = properties_v9,
	.listen = net_listen_on,
	.connect = connect_v7,
	.isend = net_send_to,
	.irecv = irecv_v9,
};

/* ---- version 8: sizes are int, one buffer per receive ---- */

static enum nccl_net_result properties_v8(int dev, struct nccl_net_props_v8 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc)
		return rc;
	PROPS_V7(props, &p);
	props->reg_is_global = p.reg_is_global;
	return NCCL_NET_OK;
}

static enum nccl_net_result isend_v6(void *send_comm, void *data, int size, int tag, void *mhandle,
				     void **request)
{
	*request = NULL;
	if (size < 0)
		return NCCL_NET_INVALID_ARGUMENT;
	return net_send_to(send_comm, data, (size_t)size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v6(void *recv_comm, int n, void **data, int *sizes, int *tags,
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
	NET_TABLE_V6,
	.reg_mr = net_reg_mr,
	.accept = net_accept_dev,
	.init = net_init,
	.get_properties = properties_v8,
	.listen = net_listen_on,
	.connect = connect_v7,
	.isend = isend_v6,
	.irecv = irecv_v6,
};

/* ---- version 7: the size of a registration is int, too ---- */

static enum nccl_net_result properties_v7(int dev, struct nccl_net_props_v7 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc)
		return rc;
	PROPS_V7(props, &p);
	return NCCL_NET_OK;
}

/* What is negative becomes a range past the end of memory. */
static enum nccl_net_result reg_mr_v6(void *comm, void *data, int size, int type, void **mhandle)
{
	return net_reg_mr(comm, data, (size_t)size, type, mhandle);
}

NET_EXPORT const struct nccl_net_v7 ncclNetPlugin_v7 = {
	NET_TABLE_V6,
	.reg_mr = reg_mr_v6,
	.accept = net_accept_dev,
	.init = net_init,
	.get_properties = properties_v7,
	.listen = net_listen_on,
	.connect = connect_v7,
	.isend = isend_v6,
	.irecv = irecv_v6,
};

/* ---- version 6: nothing of handles for devices ---- */

static enum nccl_net_result properties_v6(int dev, struct nccl_net_props_v6 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = net_properties(dev, &p);

	if (rc)
		return rc;
	PROPS_V6(props, &p);
	return NCCL_NET_OK;
}

NET_EXPORT const struct nccl_net_v6 ncclNetPlugin_v6 = {
	NET_TABLE_V6,
	.reg_mr = reg_mr_v6,
	.accept = net_accept_on,
	.init = net_init,
	.get_properties = properties_v6,
	.listen = net_listen_on,
	.connect = net_connect_to,
	.isend = isend_v6,
	.irecv = irecv_v6,
};
