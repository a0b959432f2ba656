/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported tables of the test plugins. They hold the caller to what is particular to a version:
 * one init before v11, the context of init and its config, untouched device handles.
 *
 * TABLES_NEWEST, a macro, is the newest version exported.
 */
#include "tables.h"

#include <errno.h>
#include <string.h>

#ifndef TABLES_NEWEST
#define TABLES_NEWEST 12
#endif

#define EXPORT __attribute__((visibility("default")))

static nccl_net_log_fn logger;
static int inits; /* less finalizes */

enum nccl_net_result test_plugin_usage(const char *what)
{
	if (logger)
		logger(NCCL_NET_LOG_WARN, NCCL_NET_SUBSYS_ALL, __FILE__, __LINE__, "%s: caller: %s",
		       test_plugin_name, what);
	return NCCL_NET_INVALID_USAGE;
}

enum nccl_net_result test_plugin_errno(const char *call)
{
	if (logger)
		logger(NCCL_NET_LOG_WARN, NCCL_NET_SUBSYS_ALL, __FILE__, __LINE__, "%s: %s: %s",
		       test_plugin_name, call, strerror(errno));
	return NCCL_NET_SYSTEM_ERROR;
}

/* ---- v6 ---- */

static enum nccl_net_result init_v6(nccl_net_log_fn log)
{
	logger = log;
	if (log)
		log(NCCL_NET_LOG_INFO, NCCL_NET_SUBSYS_INIT | NCCL_NET_SUBSYS_NET, __func__, 0,
		    "NET/%s: %d devices", test_plugin_name, test_plugin.ndev);
	if (inits++)
		return test_plugin_usage("init while initialised");
	return test_plugin.init();
}

static enum nccl_net_result devices(int *ndev)
{
	return test_plugin.devices(ndev);
}

static enum nccl_net_result get_properties_v12(int dev, struct nccl_net_props_v12 *props)
{
	if (dev < 0 || dev >= test_plugin.ndev)
		return NCCL_NET_INVALID_ARGUMENT;
	*props = (struct nccl_net_props_v12){
		.guid = 1 + (uint64_t)dev,
		.ptr_support = NCCL_NET_PTR_HOST,
		.speed = 10000,
		.max_comms = 65536,
		.max_recvs = 1,
		.device_type = NCCL_NET_DEV_HOST,
		.vdev = {.ndevs = 1, .devs = {dev}},
		.max_p2p_bytes = NCCL_NET_MAX_MESSAGE_V8,
		.max_coll_bytes = NCCL_NET_MAX_COLL_V8,
		.max_multi_request = 1,
		.rail_id = NCCL_NET_ID_NONE,
		.plane_id = NCCL_NET_ID_NONE,
	};
	return test_plugin.properties(dev, props);
}

static enum nccl_net_result get_properties_v6(int dev, struct nccl_net_props_v6 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = get_properties_v12(dev, &p);

	if (!rc)
		*props = (struct nccl_net_props_v6){
			.name = p.name,
			.guid = p.guid,
			.ptr_support = p.ptr_support,
			.speed = p.speed,
			.max_comms = p.max_comms,
			.max_recvs = p.max_recvs,
		};
	return rc;
}

static enum nccl_net_result listen_v6(int dev, void *handle, void **listen_comm)
{
	return test_plugin.listen(dev, handle, listen_comm);
}

static enum nccl_net_result connect_v6(int dev, void *handle, void **send_comm)
{
	return test_plugin.connect(dev, handle, send_comm);
}

static enum nccl_net_result accept_v6(void *listen_comm, void **recv_comm)
{
	return test_plugin.accept(listen_comm, recv_comm);
}

static enum nccl_net_result reg_mr_v6(void *comm, void *data, int size, int type, void **mhandle)
{
	if (size < 0)
		return test_plugin_usage("regMr of a negative size");
	return test_plugin.reg_mr(comm, data, (size_t)size, type, mhandle);
}

static enum nccl_net_result dereg_mr(void *comm, void *mhandle)
{
	return test_plugin.dereg_mr(comm, mhandle);
}

static enum nccl_net_result isend_v6(void *send_comm, void *data, int size, int tag, void *mhandle,
				     void **request)
{
	(void)tag;
	return test_plugin.isend(send_comm, data, (size_t)size, mhandle, request);
}

static enum nccl_net_result irecv_v6(void *recv_comm, int n, void **data, int *sizes, int *tags,
				     void **mhandles, void **request)
{
	(void)tags;
	if (n != 1)
		return test_plugin_usage("irecv of several parts");
	return test_plugin.irecv(recv_comm, data[0], (size_t)sizes[0], mhandles[0], request);
}

/* Nothing to flush: memory of the host only. */
static enum nccl_net_result iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **request)
{
	(void)recv_comm, (void)n, (void)data, (void)sizes, (void)mhandles;
	*request = NULL;
	return NCCL_NET_OK;
}

static enum nccl_net_result test(void *request, int *done, int *sizes)
{
	return test_plugin.test(request, done, sizes);
}

static enum nccl_net_result close_send(void *send_comm)
{
	return test_plugin.close_send(send_comm);
}

static enum nccl_net_result close_recv(void *recv_comm)
{
	return test_plugin.close_recv(recv_comm);
}

static enum nccl_net_result close_listen(void *listen_comm)
{
	return test_plugin.close_listen(listen_comm);
}

#define TABLE_COMMON \
	.name = test_plugin_name, .devices = devices, .dereg_mr = dereg_mr, .iflush = iflush, \
	.test = test, .close_send = close_send, .close_recv = close_recv, \
	.close_listen = close_listen

extern const struct nccl_net_v6 ncclNetPlugin_v6;
EXPORT const struct nccl_net_v6 ncclNetPlugin_v6 = {
	TABLE_COMMON,        .init = init_v6,       .get_properties = get_properties_v6,
	.listen = listen_v6, .connect = connect_v6, .accept = accept_v6,
	.reg_mr = reg_mr_v6, .isend = isend_v6,     .irecv = irecv_v6,
};

/* ---- v7 ---- */

#if TABLES_NEWEST >= 7

static enum nccl_net_result get_properties_v7(int dev, struct nccl_net_props_v7 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = get_properties_v12(dev, &p);

	if (!rc)
		*props = (struct nccl_net_props_v7){
			.name = p.name,
			.guid = p.guid,
			.ptr_support = p.ptr_support,
			.speed = p.speed,
			.max_comms = p.max_comms,
			.max_recvs = p.max_recvs,
			.device_type = p.device_type,
		};
	return rc;
}

static enum nccl_net_result connect_v7(int dev, void *handle, void **send_comm,
				       struct nccl_net_device_handle **dev_comm)
{
	if (*dev_comm)
		return test_plugin_usage("device handle preset in connect");
	return test_plugin.connect(dev, handle, send_comm);
}

static enum nccl_net_result accept_v7(void *listen_comm, void **recv_comm,
				      struct nccl_net_device_handle **dev_comm)
{
	if (*dev_comm)
		return test_plugin_usage("device handle preset in accept");
	return test_plugin.accept(listen_comm, recv_comm);
}

extern const struct nccl_net_v7 ncclNetPlugin_v7;
EXPORT const struct nccl_net_v7 ncclNetPlugin_v7 = {
	TABLE_COMMON,        .init = init_v6,       .get_properties = get_properties_v7,
	.listen = listen_v6, .connect = connect_v7, .accept = accept_v7,
	.reg_mr = reg_mr_v6, .isend = isend_v6,     .irecv = irecv_v6,
};

#endif

/* ---- v8 ---- */

#if TABLES_NEWEST >= 8

static enum nccl_net_result get_properties_v8(int dev, struct nccl_net_props_v8 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = get_properties_v12(dev, &p);

	if (!rc)
		*props = (struct nccl_net_props_v8){
			.name = p.name,
			.guid = p.guid,
			.ptr_support = p.ptr_support,
			.speed = p.speed,
			.max_comms = p.max_comms,
			.max_recvs = p.max_recvs,
			.device_type = p.device_type,
		};
	return rc;
}

static enum nccl_net_result reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	return test_plugin.reg_mr(comm, data, size, type, mhandle);
}

#define TABLE_V8 TABLE_COMMON, .accept = accept_v7, .reg_mr = reg_mr

extern const struct nccl_net_v8 ncclNetPlugin_v8;
EXPORT const struct nccl_net_v8 ncclNetPlugin_v8 = {
	TABLE_V8,
	.init = init_v6,
	.get_properties = get_properties_v8,
	.listen = listen_v6,
	.connect = connect_v7,
	.isend = isend_v6,
	.irecv = irecv_v6,
};

#endif

/* ---- v9 ---- */

#if TABLES_NEWEST >= 9

static enum nccl_net_result get_properties_v9(int dev, struct nccl_net_props_v9 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = get_properties_v12(dev, &p);

	if (!rc)
		*props = (struct nccl_net_props_v9){
			.name = p.name,
			.guid = p.guid,
			.ptr_support = p.ptr_support,
			.speed = p.speed,
			.max_comms = p.max_comms,
			.max_recvs = p.max_recvs,
			.device_type = p.device_type,
			.vdev = {.ndevs = 1, .devs = {dev}},
			.max_p2p_bytes = p.max_p2p_bytes,
			.max_coll_bytes = p.max_coll_bytes,
		};
	return rc;
}

static enum nccl_net_result isend_v9(void *send_comm, void *data, size_t size, int tag,
				     void *mhandle, void **request)
{
	(void)tag;
	return test_plugin.isend(send_comm, data, size, mhandle, request);
}

static enum nccl_net_result irecv_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **request)
{
	(void)tags;
	if (n != 1)
		return test_plugin_usage("irecv of several parts");
	return test_plugin.irecv(recv_comm, data[0], sizes[0], mhandles[0], request);
}

extern const struct nccl_net_v9 ncclNetPlugin_v9;
EXPORT const struct nccl_net_v9 ncclNetPlugin_v9 = {
	TABLE_V8,
	.init = init_v6,
	.get_properties = get_properties_v9,
	.listen = listen_v6,
	.connect = connect_v7,
	.isend = isend_v9,
	.irecv = irecv_v9,
};

#endif

/* ---- v10 ---- */

#if TABLES_NEWEST >= 10

static enum nccl_net_result init_v10(nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	(void)profiler;
	return init_v6(log);
}

static enum nccl_net_result connect_v10(int dev, struct nccl_net_config *config, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	if (!config || config->traffic_class != NCCL_NET_TRAFFIC_CLASS_NONE)
		return test_plugin_usage("connect without the config of init");
	return connect_v7(dev, handle, send_comm, dev_comm);
}

static enum nccl_net_result isend_v10(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void *phandle, void **request)
{
	(void)phandle;
	return isend_v9(send_comm, data, size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v10(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **phandles, void **request)
{
	(void)phandles;
	return irecv_v9(recv_comm, n, data, sizes, tags, mhandles, request);
}

extern const struct nccl_net_v10 ncclNetPlugin_v10;
EXPORT const struct nccl_net_v10 ncclNetPlugin_v10 = {
	TABLE_V8,
	.init = init_v10,
	.get_properties = get_properties_v9,
	.listen = listen_v6,
	.connect = connect_v10,
	.isend = isend_v10,
	.irecv = irecv_v10,
};

#endif

/* ---- v11 and v12 ---- */

#if TABLES_NEWEST >= 11

/* A context is told from other pointers by its address. */
static char context;

static enum nccl_net_result init_v11(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				     nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	(void)comm_id, (void)profiler;
	if (!config || config->traffic_class != NCCL_NET_TRAFFIC_CLASS_NONE)
		return test_plugin_usage("init without a config");
	*ctx = &context;
	return init_v6(log);
}

static enum nccl_net_result finalize_v11(void *ctx)
{
	inits--;
	return ctx == &context ? NCCL_NET_OK : test_plugin_usage("finalize, strange context");
}

static enum nccl_net_result get_properties_v11(int dev, struct nccl_net_props_v11 *props)
{
	struct nccl_net_props_v12 p;
	enum nccl_net_result rc = get_properties_v12(dev, &p);

	if (!rc)
		*props = (struct nccl_net_props_v11){
			.name = p.name,
			.guid = p.guid,
			.ptr_support = p.ptr_support,
			.speed = p.speed,
			.max_comms = p.max_comms,
			.max_recvs = p.max_recvs,
			.device_type = p.device_type,
			.vdev = {.ndevs = 1, .devs = {dev}},
			.max_p2p_bytes = p.max_p2p_bytes,
			.max_coll_bytes = p.max_coll_bytes,
			.max_multi_request = p.max_multi_request,
		};
	return rc;
}

static enum nccl_net_result listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
	if (ctx != &context)
		return test_plugin_usage("listen, strange context");
	return listen_v6(dev, handle, listen_comm);
}

static enum nccl_net_result connect_v11(void *ctx, int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm)
{
	if (ctx != &context)
		return test_plugin_usage("connect, strange context");
	return connect_v7(dev, handle, send_comm, dev_comm);
}

static enum nccl_net_result set_net_attr(void *ctx, struct nccl_net_attr *attr)
{
	if (ctx != &context || attr->send.max_concurrent_peers < 1)
		return test_plugin_usage("setNetAttr, strange context or no peers");
	return NCCL_NET_OK;
}

/* v11 and v12 differ in the type of the properties alone. */
#define TABLE_V11 \
	TABLE_V8, .init = init_v11, .listen = listen_v11, .connect = connect_v11, \
		  .isend = isend_v10, .irecv = irecv_v10, .finalize = finalize_v11, \
		  .set_net_attr = set_net_attr

extern const struct nccl_net_v11 ncclNetPlugin_v11;
EXPORT const struct nccl_net_v11 ncclNetPlugin_v11 = {
	TABLE_V11,
	.get_properties = get_properties_v11,
};

#endif
#if TABLES_NEWEST >= 12

extern const struct nccl_net_v12 ncclNetPlugin_v12;
EXPORT const struct nccl_net_v12 ncclNetPlugin_v12 = {
	TABLE_V11,
	.get_properties = get_properties_v12,
};

#endif
