/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported tables of the test plugins. They hold the caller to what is particular to a version:
 * the context of init and its config, untouched device handles. Faults of the tables and of what
 * all versions answer alike are here.
 *
 * TABLES_NEWEST, a macro, is the newest version exported.
 */
#include "tables.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

#ifndef TABLES_NEWEST
#define TABLES_NEWEST 12
#endif

#define EXPORT __attribute__((visibility("default")))

static nccl_net_log_fn logger;
static _Atomic int forks; /* fault fork-breaks: in this process */

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

static void forked(void)
{
	forks++;
}

static enum nccl_net_result init_v6(nccl_net_log_fn log)
{
	logger = log;
	if (log || fault_is("log-needed"))
		log(NCCL_NET_LOG_INFO, NCCL_NET_SUBSYS_INIT | NCCL_NET_SUBSYS_NET, __func__, 0,
		    fault_is("log-newline") ? "NET/%s: %d devices\n" : "NET/%s: %d devices",
		    test_plugin_name, test_plugin.ndev);
	if (log && fault_is("log-level"))
		log((enum nccl_net_log_level)9, NCCL_NET_SUBSYS_ALL, __func__, 0, "nine");
	if (fault_is("fork-breaks"))
		pthread_atfork(NULL, forked, NULL);
	return test_plugin.init();
}

static enum nccl_net_result devices(int *ndev)
{
	return test_plugin.devices(ndev);
}

static enum nccl_net_result get_properties_v12(int dev, struct nccl_net_props_v12 *props)
{
	*props = (struct nccl_net_props_v12){
		.guid = 1 + (uint64_t)dev,
		.ptr_support =
			NCCL_NET_PTR_HOST | (test_plugin.reg_mr_dma_buf ? NCCL_NET_PTR_DMABUF : 0),
		.speed = 10000,
		.max_comms = 65536,
		.max_recvs = test_plugin.parts ? test_plugin.parts : 1,
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

/* Behind what a version's caller has room for. */
static void props_spoil(void *end)
{
	if (fault_is("props-past"))
		memset(end, 0, 8);
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
			.max_recvs = 1,
		};
	props_spoil(props + 1);
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

static enum nccl_net_result reg_mr_dma_buf(void *comm, void *data, size_t size, int type,
					   uint64_t offset, int fd, void **mhandle)
{
	return test_plugin.reg_mr_dma_buf(comm, data, size, type, offset, fd, mhandle);
}

static enum nccl_net_result dereg_mr(void *comm, void *mhandle)
{
	return test_plugin.dereg_mr(comm, mhandle);
}

static enum nccl_net_result isend_v9(void *send_comm, void *data, size_t size, int tag,
				     void *mhandle, void **request)
{
	if (forks)
		return NCCL_NET_SYSTEM_ERROR;
	return test_plugin.isend(send_comm, data, size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **request)
{
	return test_plugin.irecv(recv_comm, n, data, sizes, tags, mhandles, request);
}

static enum nccl_net_result isend_v6(void *send_comm, void *data, int size, int tag, void *mhandle,
				     void **request)
{
	return isend_v9(send_comm, data, (size_t)size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v6(void *recv_comm, int n, void **data, int *sizes, int *tags,
				     void **mhandles, void **request)
{
	size_t wide = (size_t)sizes[0];

	if (n != 1)
		return test_plugin_usage("irecv of several parts");
	return irecv_v9(recv_comm, n, data, &wide, tags, mhandles, request);
}

static enum nccl_net_result iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **request)
{
	if (test_plugin.iflush)
		return test_plugin.iflush(recv_comm, n, data, sizes, mhandles, request);
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
	.name = test_plugin_name, .devices = devices, .reg_mr_dma_buf = reg_mr_dma_buf, \
	.dereg_mr = dereg_mr, .iflush = iflush, .test = test, .close_send = close_send, \
	.close_recv = close_recv, .close_listen = close_listen

extern struct nccl_net_v6 ncclNetPlugin_v6;
EXPORT struct nccl_net_v6 ncclNetPlugin_v6 = {
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
			.max_recvs = 1,
			.device_type = p.device_type,
		};
	props_spoil(props + 1);
	return rc;
}

static enum nccl_net_result connect_v7(int dev, void *handle, void **send_comm,
				       struct nccl_net_device_handle **dev_comm)
{
	if (fault_is("dev-comm"))
		*dev_comm = (void *)&logger;
	else if (*dev_comm)
		return test_plugin_usage("device handle preset in connect");
	return test_plugin.connect(dev, handle, send_comm);
}

static enum nccl_net_result accept_v7(void *listen_comm, void **recv_comm,
				      struct nccl_net_device_handle **dev_comm)
{
	if (fault_is("dev-comm"))
		*dev_comm = (void *)&logger;
	else if (*dev_comm)
		return test_plugin_usage("device handle preset in accept");
	return test_plugin.accept(listen_comm, recv_comm);
}

extern struct nccl_net_v7 ncclNetPlugin_v7;
EXPORT struct nccl_net_v7 ncclNetPlugin_v7 = {
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
			.speed = fault_is("props-differ") ? 1 : p.speed,
			.max_comms = p.max_comms,
			.max_recvs = 1,
			.device_type = p.device_type,
		};
	props_spoil(props + 1);
	return rc;
}

static enum nccl_net_result reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	return test_plugin.reg_mr(comm, data, size, type, mhandle);
}

#define TABLE_V8 TABLE_COMMON, .accept = accept_v7, .reg_mr = reg_mr

extern struct nccl_net_v8 ncclNetPlugin_v8;
EXPORT struct nccl_net_v8 ncclNetPlugin_v8 = {
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
			.vdev.ndevs = p.vdev.ndevs,
			.max_p2p_bytes = p.max_p2p_bytes,
			.max_coll_bytes = p.max_coll_bytes,
		};
	if (!rc)
		memcpy(props->vdev.devs, p.vdev.devs, sizeof(props->vdev.devs));
	props_spoil(props + 1);
	return rc;
}

static enum nccl_net_result make_vdevice(int *dev, struct nccl_net_vdev_v12 *vdev)
{
	return test_plugin.make_vdevice(dev, vdev);
}

static enum nccl_net_result make_vdevice_v9(int *dev, struct nccl_net_vdev_v9 *vdev)
{
	struct nccl_net_vdev_v12 wide = {.ndevs = vdev->ndevs};

	if (vdev->ndevs < 1 || vdev->ndevs > NCCL_NET_VDEVS_V9)
		return NCCL_NET_INVALID_ARGUMENT;
	memcpy(wide.devs, vdev->devs, sizeof(vdev->devs));
	return make_vdevice(dev, &wide);
}

extern struct nccl_net_v9 ncclNetPlugin_v9;
EXPORT struct nccl_net_v9 ncclNetPlugin_v9 = {
	TABLE_V8,
	.make_vdevice = make_vdevice_v9,
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
	if (fault_is("profiler-needed"))
		profiler(NULL, 0, NULL, 0, NULL);
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
	if (fault_is("phandle-needed"))
		*(volatile char *)phandle = 0;
	return isend_v9(send_comm, data, size, tag, mhandle, request);
}

static enum nccl_net_result irecv_v10(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **phandles, void **request)
{
	(void)phandles;
	return irecv_v9(recv_comm, n, data, sizes, tags, mhandles, request);
}

extern struct nccl_net_v10 ncclNetPlugin_v10;
EXPORT struct nccl_net_v10 ncclNetPlugin_v10 = {
	TABLE_V8,
	.make_vdevice = make_vdevice_v9,
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

/* Of one communicator. */
struct context {
	uint64_t magic;
};

static const uint64_t magic = 0x7e57ab1e;
static _Atomic int contexts;
static bool ended; /* all of it, by finalize(NULL) */

static bool context_is(const void *ctx)
{
	return ctx && ((const struct context *)ctx)->magic == magic;
}

static enum nccl_net_result init_v11(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				     nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	struct context *c;
	enum nccl_net_result rc;

	(void)comm_id;
	if (!config || config->traffic_class != NCCL_NET_TRAFFIC_CLASS_NONE)
		return test_plugin_usage("init without a config");
	if (fault_is("one-context") && contexts)
		return NCCL_NET_INTERNAL_ERROR;
	rc = init_v10(log, profiler);
	c = rc ? NULL : calloc(1, sizeof(*c));
	if (!c)
		return rc ? rc : NCCL_NET_SYSTEM_ERROR;
	c->magic = magic;
	*ctx = c;
	contexts++;
	return NCCL_NET_OK;
}

static enum nccl_net_result finalize_v11(void *ctx)
{
	if (!ctx && fault_is("finalize-null"))
		*(volatile char *)ctx = 0;
	if (!ctx) {
		ended = fault_is("finalize-ends");
		return NCCL_NET_OK;
	}
	if (!context_is(ctx))
		return test_plugin_usage("finalize, strange context");
	((struct context *)ctx)->magic = 0;
	free(ctx);
	contexts--;
	return NCCL_NET_OK;
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
			.vdev.ndevs = p.vdev.ndevs,
			.max_p2p_bytes = p.max_p2p_bytes,
			.max_coll_bytes = p.max_coll_bytes,
			.max_multi_request = p.max_multi_request,
		};
	if (!rc)
		memcpy(props->vdev.devs, p.vdev.devs, sizeof(props->vdev.devs));
	props_spoil(props + 1);
	return rc;
}

static enum nccl_net_result listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
	if (!context_is(ctx))
		return test_plugin_usage("listen, strange context");
	if (ended)
		return NCCL_NET_INVALID_ARGUMENT;
	return listen_v6(dev, handle, listen_comm);
}

static enum nccl_net_result connect_v11(void *ctx, int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm)
{
	if (!context_is(ctx))
		return test_plugin_usage("connect, strange context");
	return connect_v7(dev, handle, send_comm, dev_comm);
}

static enum nccl_net_result set_net_attr(void *ctx, struct nccl_net_attr *attr)
{
	if (!context_is(ctx) || attr->send.max_concurrent_peers < 1)
		return test_plugin_usage("setNetAttr, strange context or no peers");
	return NCCL_NET_OK;
}

/* v11 and v12 differ in the type of the properties alone. */
#define TABLE_V11 \
	TABLE_V8, .init = init_v11, .listen = listen_v11, .connect = connect_v11, \
		  .isend = isend_v10, .irecv = irecv_v10, .finalize = finalize_v11, \
		  .set_net_attr = set_net_attr

extern struct nccl_net_v11 ncclNetPlugin_v11;
EXPORT struct nccl_net_v11 ncclNetPlugin_v11 = {
	TABLE_V11,
	.make_vdevice = make_vdevice_v9,
	.get_properties = get_properties_v11,
};

#endif
#if TABLES_NEWEST >= 12

extern struct nccl_net_v12 ncclNetPlugin_v12;
EXPORT struct nccl_net_v12 ncclNetPlugin_v12 = {
	TABLE_V11,
	.make_vdevice = make_vdevice,
	.get_properties = get_properties_v12,
};

#endif

#if TABLES_NEWEST >= 12

/* What this plugin cannot do no table has; and what is wrong with the tables themselves. */
#define TABLE_FIX(table) \
	do { \
		if (!test_plugin.reg_mr_dma_buf || fault_is("no-dma-buf")) \
			(table).reg_mr_dma_buf = NULL; \
		if (fault_is("no-iflush")) \
			(table).iflush = NULL; \
		if (fault_is("name-ib")) \
			(table).name = "IB"; \
	} while (0)

#define TABLE_FIX_V9(table) \
	do { \
		TABLE_FIX(table); \
		if (!test_plugin.make_vdevice) \
			(table).make_vdevice = NULL; \
	} while (0)

__attribute__((constructor(102))) static void tables_fix(void)
{
	TABLE_FIX(ncclNetPlugin_v6);
	TABLE_FIX(ncclNetPlugin_v7);
	TABLE_FIX(ncclNetPlugin_v8);
	TABLE_FIX_V9(ncclNetPlugin_v9);
	TABLE_FIX_V9(ncclNetPlugin_v10);
	TABLE_FIX_V9(ncclNetPlugin_v11);
	TABLE_FIX_V9(ncclNetPlugin_v12);
	if (fault_is("names-differ"))
		ncclNetPlugin_v8.name = "tcpnet8";
}

#endif
