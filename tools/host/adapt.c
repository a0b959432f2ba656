/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Older tables seen as v12. What NCCL hides from an old plugin is hidden here too, so that a
 * plugin which passes under a tool has met the calls it will meet under NCCL.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

/* A receive of NCCL has at most this many parts. */
enum { MAX_PARTS = NCCL_NET_TEST_SIZES };

/* ---- init and finalize ---- */

/* v6 to v10 are initialised once for all communicators that live at the same time. */
static enum nccl_net_result init_v6(struct host_net *net, void **ctx, uint64_t comm_id,
				    struct nccl_net_config *config, nccl_net_log_fn log,
				    nccl_net_profiler_fn profiler)
{
	enum nccl_net_result rc = net->users ? NCCL_NET_OK : net->raw.init_v6(log);

	(void)comm_id, (void)config, (void)profiler;
	if (rc)
		return rc;
	*ctx = NULL;
	net->users++;
	return NCCL_NET_OK;
}

/* The context is a copy of the communicator's config, for connect. */
static enum nccl_net_result init_v10(struct host_net *net, void **ctx, uint64_t comm_id,
				     struct nccl_net_config *config, nccl_net_log_fn log,
				     nccl_net_profiler_fn profiler)
{
	struct nccl_net_config *kept = malloc(sizeof(*kept));
	enum nccl_net_result rc;

	(void)comm_id;
	if (!kept)
		return NCCL_NET_SYSTEM_ERROR;
	rc = net->users ? NCCL_NET_OK : net->raw.init_v10(log, profiler);
	if (rc) {
		free(kept);
		return rc;
	}
	*kept = *config;
	*ctx = kept;
	net->users++;
	return NCCL_NET_OK;
}

static enum nccl_net_result init_v11(struct host_net *net, void **ctx, uint64_t comm_id,
				     struct nccl_net_config *config, nccl_net_log_fn log,
				     nccl_net_profiler_fn profiler)
{
	return net->raw.init_v11(ctx, comm_id, config, log, profiler);
}

/* The plugin is not told: v6 to v10 have no such call. */
static enum nccl_net_result finalize_v6(struct host_net *net, void *ctx)
{
	net->users--;
	free(ctx);
	return NCCL_NET_OK;
}

static enum nccl_net_result finalize_v11(struct host_net *net, void *ctx)
{
	return net->raw.finalize_v11(ctx);
}

/* ---- properties ---- */

/* What NCCL assumes where an old version is silent. */
static void props_defaults(struct nccl_net_props_v12 *to, int dev)
{
	*to = (struct nccl_net_props_v12){
		.vdev = {.ndevs = 1, .devs = {dev}},
		.max_p2p_bytes = NCCL_NET_MAX_MESSAGE_V8,
		.max_coll_bytes = NCCL_NET_MAX_COLL_V8,
		.max_multi_request = 1,
		.rail_id = NCCL_NET_ID_NONE,
		.plane_id = NCCL_NET_ID_NONE,
	};
}

/* The fields that every version has. */
#define PROPS_COPY_V6(to, from) \
	do { \
		(to)->name = (from)->name; \
		(to)->pci_path = (from)->pci_path; \
		(to)->guid = (from)->guid; \
		(to)->ptr_support = (from)->ptr_support; \
		(to)->speed = (from)->speed; \
		(to)->port = (from)->port; \
		(to)->latency = (from)->latency; \
		(to)->max_comms = (from)->max_comms; \
		(to)->max_recvs = (from)->max_recvs; \
	} while (0)

/* And what v7 and v8 add to them. */
#define PROPS_COPY_V7(to, from) \
	do { \
		PROPS_COPY_V6(to, from); \
		(to)->device_type = (from)->device_type; \
		(to)->device_version = (from)->device_version; \
	} while (0)

#define PROPS_COPY_V8(to, from) \
	do { \
		PROPS_COPY_V7(to, from); \
		(to)->reg_is_global = (from)->reg_is_global; \
	} while (0)

/* And those that v9 to v11 add to them. */
#define PROPS_COPY_V9(to, from) \
	do { \
		PROPS_COPY_V8(to, from); \
		(to)->force_flush = (from)->force_flush; \
		(to)->vdev.ndevs = (from)->vdev.ndevs; \
		memcpy((to)->vdev.devs, (from)->vdev.devs, sizeof((from)->vdev.devs)); \
		(to)->max_p2p_bytes = (from)->max_p2p_bytes; \
		(to)->max_coll_bytes = (from)->max_coll_bytes; \
	} while (0)

static enum nccl_net_result get_properties_v6(struct host_net *net, int dev,
					      struct nccl_net_props_v12 *props)
{
	struct nccl_net_props_v6 old = {0};
	enum nccl_net_result rc = net->raw.get_properties_v6(dev, &old);

	if (rc)
		return rc;
	props_defaults(props, dev);
	PROPS_COPY_V6(props, &old);
	return NCCL_NET_OK;
}

static enum nccl_net_result get_properties_v7(struct host_net *net, int dev,
					      struct nccl_net_props_v12 *props)
{
	struct nccl_net_props_v7 old = {0};
	enum nccl_net_result rc = net->raw.get_properties_v7(dev, &old);

	if (rc)
		return rc;
	props_defaults(props, dev);
	PROPS_COPY_V7(props, &old);
	return NCCL_NET_OK;
}

static enum nccl_net_result get_properties_v8(struct host_net *net, int dev,
					      struct nccl_net_props_v12 *props)
{
	struct nccl_net_props_v8 old = {0};
	enum nccl_net_result rc = net->raw.get_properties_v8(dev, &old);

	if (rc)
		return rc;
	props_defaults(props, dev);
	PROPS_COPY_V8(props, &old);
	return NCCL_NET_OK;
}

static enum nccl_net_result get_properties_v9(struct host_net *net, int dev,
					      struct nccl_net_props_v12 *props)
{
	struct nccl_net_props_v9 old = {0};
	enum nccl_net_result rc = net->raw.get_properties_v9(dev, &old);

	if (rc)
		return rc;
	props_defaults(props, dev);
	PROPS_COPY_V9(props, &old);
	return NCCL_NET_OK;
}

static enum nccl_net_result get_properties_v11(struct host_net *net, int dev,
					       struct nccl_net_props_v12 *props)
{
	struct nccl_net_props_v11 old = {0};
	enum nccl_net_result rc = net->raw.get_properties_v11(dev, &old);

	if (rc)
		return rc;
	props_defaults(props, dev);
	PROPS_COPY_V9(props, &old);
	props->max_multi_request = old.max_multi_request;
	return NCCL_NET_OK;
}

static enum nccl_net_result get_properties_v12(struct host_net *net, int dev,
					       struct nccl_net_props_v12 *props)
{
	return net->raw.get_properties_v12(dev, props);
}

/* More members than the old struct holds cannot be asked for. */
static enum nccl_net_result make_vdevice_v9(struct host_net *net, int *dev,
					    struct nccl_net_vdev_v12 *vdev)
{
	struct nccl_net_vdev_v9 old = {.ndevs = vdev->ndevs};

	if (vdev->ndevs < 0 || vdev->ndevs > NCCL_NET_VDEVS_V9)
		return NCCL_NET_INVALID_ARGUMENT;
	memcpy(old.devs, vdev->devs, sizeof(old.devs));
	return net->raw.make_vdevice_v9(dev, &old);
}

static enum nccl_net_result make_vdevice_v12(struct host_net *net, int *dev,
					     struct nccl_net_vdev_v12 *vdev)
{
	return net->raw.make_vdevice_v12(dev, vdev);
}

static enum nccl_net_result set_net_attr_v11(struct host_net *net, void *ctx,
					     struct nccl_net_attr *attr)
{
	return net->raw.set_net_attr_v11(ctx, attr);
}

/* ---- connections ---- */

static enum nccl_net_result listen_v6(struct host_net *net, void *ctx, int dev, void *handle,
				      void **listen_comm)
{
	(void)ctx;
	return net->raw.listen_v6(dev, handle, listen_comm);
}

static enum nccl_net_result listen_v11(struct host_net *net, void *ctx, int dev, void *handle,
				       void **listen_comm)
{
	return net->raw.listen_v11(ctx, dev, handle, listen_comm);
}

static enum nccl_net_result connect_v6(struct host_net *net, void *ctx, int dev, void *handle,
				       void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	(void)ctx;
	(void)dev_comm;
	return net->raw.connect_v6(dev, handle, send_comm);
}

static enum nccl_net_result connect_v7(struct host_net *net, void *ctx, int dev, void *handle,
				       void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	(void)ctx;
	return net->raw.connect_v7(dev, handle, send_comm, dev_comm);
}

static enum nccl_net_result connect_v10(struct host_net *net, void *ctx, int dev, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	return net->raw.connect_v10(dev, ctx, handle, send_comm, dev_comm);
}

static enum nccl_net_result connect_v11(struct host_net *net, void *ctx, int dev, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	return net->raw.connect_v11(ctx, dev, handle, send_comm, dev_comm);
}

static enum nccl_net_result accept_v6(struct host_net *net, void *listen_comm, void **recv_comm,
				      struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return net->raw.accept_v6(listen_comm, recv_comm);
}

static enum nccl_net_result accept_v7(struct host_net *net, void *listen_comm, void **recv_comm,
				      struct nccl_net_device_handle **dev_comm)
{
	return net->raw.accept_v7(listen_comm, recv_comm, dev_comm);
}

/* ---- memory ---- */

static enum nccl_net_result reg_mr_v6(struct host_net *net, void *comm, void *data, size_t size,
				      int type, void **mhandle)
{
	if (size > INT_MAX)
		return NCCL_NET_INTERNAL_ERROR;
	return net->raw.reg_mr_v6(comm, data, (int)size, type, mhandle);
}

static enum nccl_net_result reg_mr_v8(struct host_net *net, void *comm, void *data, size_t size,
				      int type, void **mhandle)
{
	return net->raw.reg_mr_v8(comm, data, size, type, mhandle);
}

/* ---- data path ---- */

static enum nccl_net_result isend_v6(struct host_net *net, void *send_comm, void *data, size_t size,
				     int tag, void *mhandle, void *phandle, void **request)
{
	(void)phandle;
	if (size > NCCL_NET_MAX_MESSAGE_V8)
		return NCCL_NET_INTERNAL_ERROR;
	return net->raw.isend_v6(send_comm, data, (int)size, tag, mhandle, request);
}

static enum nccl_net_result isend_v9(struct host_net *net, void *send_comm, void *data, size_t size,
				     int tag, void *mhandle, void *phandle, void **request)
{
	(void)phandle;
	return net->raw.isend_v9(send_comm, data, size, tag, mhandle, request);
}

static enum nccl_net_result isend_v10(struct host_net *net, void *send_comm, void *data,
				      size_t size, int tag, void *mhandle, void *phandle,
				      void **request)
{
	return net->raw.isend_v10(send_comm, data, size, tag, mhandle, phandle, request);
}

/* Up to v8 a plugin does not know the early completion hint: it would take it for a request. */
static enum nccl_net_result irecv_v6(struct host_net *net, void *recv_comm, int n, void **data,
				     size_t *sizes, int *tags, void **mhandles, void **phandles,
				     void **request)
{
	int narrow[MAX_PARTS];

	(void)phandles;
	if (n > MAX_PARTS)
		return NCCL_NET_INTERNAL_ERROR;
	if (*request == NCCL_NET_EARLY_RECV_HINT)
		*request = NULL;
	for (int i = 0; i < n; i++) {
		if (sizes[i] > NCCL_NET_MAX_MESSAGE_V8)
			return NCCL_NET_INTERNAL_ERROR;
		narrow[i] = (int)sizes[i];
	}
	return net->raw.irecv_v6(recv_comm, n, data, narrow, tags, mhandles, request);
}

static enum nccl_net_result irecv_v9(struct host_net *net, void *recv_comm, int n, void **data,
				     size_t *sizes, int *tags, void **mhandles, void **phandles,
				     void **request)
{
	(void)phandles;
	return net->raw.irecv_v9(recv_comm, n, data, sizes, tags, mhandles, request);
}

static enum nccl_net_result irecv_v10(struct host_net *net, void *recv_comm, int n, void **data,
				      size_t *sizes, int *tags, void **mhandles, void **phandles,
				      void **request)
{
	return net->raw.irecv_v10(recv_comm, n, data, sizes, tags, mhandles, phandles, request);
}

/* ---- one loader per version ---- */

/* Members of one form from v6 to v12. */
#define LOAD_COMMON(net, t) \
	do { \
		(net)->name = (t)->name; \
		(net)->devices = (t)->devices; \
		(net)->reg_mr_dma_buf = (t)->reg_mr_dma_buf; \
		(net)->dereg_mr = (t)->dereg_mr; \
		(net)->iflush = (t)->iflush; \
		(net)->test = (t)->test; \
		(net)->close_send = (t)->close_send; \
		(net)->close_recv = (t)->close_recv; \
		(net)->close_listen = (t)->close_listen; \
	} while (0)

/* Take @call in the form that version @form brought. */
#define LOAD(net, t, call, form) \
	do { \
		(net)->raw.call##_##form = (t)->call; \
		(net)->call = (t)->call ? call##_##form : NULL; \
	} while (0)

static void load_v6(struct host_net *net, const struct nccl_net_v6 *t)
{
	LOAD_COMMON(net, t);
	LOAD(net, t, init, v6);
	LOAD(net, t, get_properties, v6);
	LOAD(net, t, listen, v6);
	LOAD(net, t, connect, v6);
	LOAD(net, t, accept, v6);
	LOAD(net, t, reg_mr, v6);
	LOAD(net, t, isend, v6);
	LOAD(net, t, irecv, v6);
	net->finalize = finalize_v6;
}

/* And what came with v7. */
#define LOAD_COMMON_V7(net, t) \
	do { \
		LOAD_COMMON(net, t); \
		LOAD(net, t, accept, v7); \
		(net)->get_device_mr = (t)->get_device_mr; \
		(net)->irecv_consumed = (t)->irecv_consumed; \
	} while (0)

static void load_v7(struct host_net *net, const struct nccl_net_v7 *t)
{
	LOAD_COMMON_V7(net, t);
	LOAD(net, t, init, v6);
	LOAD(net, t, get_properties, v7);
	LOAD(net, t, listen, v6);
	LOAD(net, t, connect, v7);
	LOAD(net, t, reg_mr, v6);
	LOAD(net, t, isend, v6);
	LOAD(net, t, irecv, v6);
	net->finalize = finalize_v6;
}

static void load_v8(struct host_net *net, const struct nccl_net_v8 *t)
{
	LOAD_COMMON_V7(net, t);
	LOAD(net, t, reg_mr, v8);
	LOAD(net, t, init, v6);
	LOAD(net, t, get_properties, v8);
	LOAD(net, t, listen, v6);
	LOAD(net, t, connect, v7);
	LOAD(net, t, isend, v6);
	LOAD(net, t, irecv, v6);
	net->finalize = finalize_v6;
}

static void load_v9(struct host_net *net, const struct nccl_net_v9 *t)
{
	LOAD_COMMON_V7(net, t);
	LOAD(net, t, reg_mr, v8);
	LOAD(net, t, init, v6);
	LOAD(net, t, get_properties, v9);
	LOAD(net, t, listen, v6);
	LOAD(net, t, connect, v7);
	LOAD(net, t, isend, v9);
	LOAD(net, t, irecv, v9);
	LOAD(net, t, make_vdevice, v9);
	net->finalize = finalize_v6;
}

static void load_v10(struct host_net *net, const struct nccl_net_v10 *t)
{
	LOAD_COMMON_V7(net, t);
	LOAD(net, t, reg_mr, v8);
	LOAD(net, t, init, v10);
	LOAD(net, t, get_properties, v9);
	LOAD(net, t, listen, v6);
	LOAD(net, t, connect, v10);
	LOAD(net, t, isend, v10);
	LOAD(net, t, irecv, v10);
	LOAD(net, t, make_vdevice, v9);
	net->finalize = finalize_v6;
}

static void load_v11(struct host_net *net, const struct nccl_net_v11 *t)
{
	LOAD_COMMON_V7(net, t);
	LOAD(net, t, reg_mr, v8);
	LOAD(net, t, init, v11);
	LOAD(net, t, get_properties, v11);
	LOAD(net, t, listen, v11);
	LOAD(net, t, connect, v11);
	LOAD(net, t, isend, v10);
	LOAD(net, t, irecv, v10);
	LOAD(net, t, make_vdevice, v9);
	LOAD(net, t, finalize, v11);
	LOAD(net, t, set_net_attr, v11);
}

static void load_v12(struct host_net *net, const struct nccl_net_v12 *t)
{
	LOAD_COMMON_V7(net, t);
	LOAD(net, t, reg_mr, v8);
	LOAD(net, t, init, v11);
	LOAD(net, t, get_properties, v12);
	LOAD(net, t, listen, v11);
	LOAD(net, t, connect, v11);
	LOAD(net, t, isend, v10);
	LOAD(net, t, irecv, v10);
	LOAD(net, t, make_vdevice, v12);
	LOAD(net, t, finalize, v11);
	LOAD(net, t, set_net_attr, v11);
}

void host_net_adapt(struct host_net *net, const void *table)
{
	switch (net->abi) {
	case 6:
		load_v6(net, table);
		break;
	case 7:
		load_v7(net, table);
		break;
	case 8:
		load_v8(net, table);
		break;
	case 9:
		load_v9(net, table);
		break;
	case 10:
		load_v10(net, table);
		break;
	case 11:
		load_v11(net, table);
		break;
	default:
		load_v12(net, table);
	}
}
