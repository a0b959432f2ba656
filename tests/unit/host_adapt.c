/* SPDX-License-Identifier: BSD-3-Clause */
/* Old tables seen as new ones: what a plugin is told, and what NCCL keeps from it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/net.h"

/* What the plugin saw of the last call. */
static struct {
	int inits, calls;
	void *request;
	size_t size;
	int traffic_class, dev, ndevs;
	void *ctx;
} seen;

/* Of any version: only the addresses of these matter. */
static enum nccl_net_result devices(int *ndev)
{
	*ndev = 1;
	return NCCL_NET_OK;
}

/* ---- a plugin of v8 ---- */

static enum nccl_net_result init_v6(nccl_net_log_fn log)
{
	(void)log;
	seen.inits++;
	return NCCL_NET_OK;
}

static enum nccl_net_result get_properties_v8(int dev, struct nccl_net_props_v8 *props)
{
	*props = (struct nccl_net_props_v8){.name = (char *)"old",
					    .guid = 7,
					    .ptr_support = 3,
					    .reg_is_global = 1,
					    .speed = 100,
					    .port = 1,
					    .latency = 2.5f,
					    .max_comms = 4,
					    .max_recvs = 5,
					    .device_version = dev};
	return NCCL_NET_OK;
}

static enum nccl_net_result isend_v6(void *comm, void *data, int size, int tag, void *mhandle,
				     void **request)
{
	(void)comm, (void)data, (void)tag, (void)mhandle;
	seen.calls++;
	seen.size = (size_t)size;
	*request = NULL;
	return NCCL_NET_OK;
}

static enum nccl_net_result irecv_v6(void *comm, int n, void **data, int *sizes, int *tags,
				     void **mhandles, void **request)
{
	(void)comm, (void)data, (void)tags, (void)mhandles;
	seen.calls++;
	seen.request = *request;
	seen.size = (size_t)sizes[n - 1];
	*request = NULL;
	return NCCL_NET_OK;
}

static const struct nccl_net_v8 v8 = {
	.name = "old",
	.init = init_v6,
	.devices = devices,
	.get_properties = get_properties_v8,
	.isend = isend_v6,
	.irecv = irecv_v6,
};

static struct host_net net;

static void use(const void *table, int abi)
{
	memset(&seen, 0, sizeof(seen));
	memset(&net, 0, sizeof(net));
	net.abi = abi;
	host_net_adapt(&net, table);
}

static enum nccl_net_result irecv(size_t first, size_t last, void **request)
{
	size_t sizes[2] = {first, last};
	void *data[2] = {0}, *mhandles[2] = {0}, *phandles[2] = {0};
	int tags[2] = {0};

	return net.irecv(&net, NULL, 2, data, sizes, tags, mhandles, phandles, request);
}

Test(adapt, tables_before_v11_are_initialised_while_somebody_needs_them)
{
	struct nccl_net_config config = {-1};
	void *a, *b;

	use(&v8, 8);
	net.init(&net, &a, 1, &config, NULL, NULL);
	net.init(&net, &b, 2, &config, NULL, NULL);
	cr_assert_eq(seen.inits, 1);
	net.finalize(&net, a);
	net.init(&net, &a, 3, &config, NULL, NULL);
	cr_assert_eq(seen.inits, 1);
	net.finalize(&net, a);
	net.finalize(&net, b);
	net.init(&net, &a, 4, &config, NULL, NULL);
	cr_assert_eq(seen.inits, 2);
	net.finalize(&net, a);
}

Test(adapt, v8_properties_get_nccls_assumptions)
{
	struct nccl_net_props_v12 p;

	use(&v8, 8);
	memset(&p, 0xff, sizeof(p));
	cr_assert_eq(net.get_properties(&net, 3, &p), NCCL_NET_OK);
	cr_assert_str_eq(p.name, "old");
	cr_assert(p.guid == 7 && p.ptr_support == 3 && p.reg_is_global == 1 && p.speed == 100);
	cr_assert(p.port == 1 && p.latency == 2.5f && p.max_comms == 4 && p.max_recvs == 5);
	cr_assert(p.device_type == 0 && p.device_version == 3 && p.force_flush == 0);
	cr_assert(p.vdev.ndevs == 1 && p.vdev.devs[0] == 3);
	cr_assert(p.max_p2p_bytes == 1ul << 30 && p.max_coll_bytes == 1ul << 29);
	cr_assert(p.max_multi_request == 1 && p.rail_id == -1 && p.plane_id == -1);
}

Test(adapt, v8_messages_end_at_1_GiB)
{
	void *request = &seen;

	use(&v8, 8);
	cr_assert_eq(net.isend(&net, NULL, NULL, 1ul << 30, 0, NULL, NULL, &request), NCCL_NET_OK);
	cr_assert_eq(seen.size, 1ul << 30);
	cr_assert_eq(irecv(0, 1ul << 30, &request), NCCL_NET_OK);
	cr_assert_eq(seen.size, 1ul << 30);
	cr_assert_eq(seen.calls, 2);
	cr_assert_eq(net.isend(&net, NULL, NULL, (1ul << 30) + 1, 0, NULL, NULL, &request),
		     NCCL_NET_INTERNAL_ERROR);
	cr_assert_eq(irecv(0, (1ul << 30) + 1, &request), NCCL_NET_INTERNAL_ERROR);
	cr_assert_eq(seen.calls, 2);
}

Test(adapt, v8_never_sees_the_hint_that_is_no_pointer)
{
	void *request = NCCL_NET_EARLY_RECV_HINT;

	use(&v8, 8);
	irecv(1, 2, &request);
	cr_assert_eq(seen.request, NULL);
	request = &seen;
	irecv(1, 2, &request);
	cr_assert_eq(seen.request, (void *)&seen);
}

Test(adapt, what_v8_lacks_is_null)
{
	use(&v8, 8);
	cr_assert(!net.make_vdevice && !net.set_net_attr && !net.get_device_mr);
	cr_assert(!net.irecv_consumed && !net.reg_mr_dma_buf && net.finalize);
}

/* ---- earlier ones ---- */

static enum nccl_net_result get_properties_v6(int dev, struct nccl_net_props_v6 *props)
{
	*props = (struct nccl_net_props_v6){.name = (char *)"older",
					    .guid = 7 + (uint64_t)dev,
					    .ptr_support = 3,
					    .speed = 100,
					    .port = 1,
					    .latency = 2.5f,
					    .max_comms = 4,
					    .max_recvs = 5};
	return NCCL_NET_OK;
}

static enum nccl_net_result connect_v6(int dev, void *handle, void **send_comm)
{
	(void)handle;
	seen.dev = dev;
	*send_comm = &seen;
	return NCCL_NET_OK;
}

static enum nccl_net_result accept_v6(void *listen_comm, void **recv_comm)
{
	*recv_comm = listen_comm;
	return NCCL_NET_OK;
}

static enum nccl_net_result reg_mr_v6(void *comm, void *data, int size, int type, void **mhandle)
{
	(void)comm, (void)data, (void)type, (void)mhandle;
	seen.calls++;
	seen.size = (size_t)size;
	return NCCL_NET_OK;
}

static const struct nccl_net_v6 v6 = {
	.name = "older",
	.init = init_v6,
	.get_properties = get_properties_v6,
	.connect = connect_v6,
	.accept = accept_v6,
	.reg_mr = reg_mr_v6,
	.isend = isend_v6,
	.irecv = irecv_v6,
};

Test(adapt, v6_has_no_device_type_and_no_device_handle)
{
	struct nccl_net_props_v12 p;
	void *comm = NULL, *listen = &p;

	use(&v6, 6);
	memset(&p, 0xff, sizeof(p));
	cr_assert_eq(net.get_properties(&net, 3, &p), NCCL_NET_OK);
	cr_assert(p.guid == 10 && p.ptr_support == 3 && p.reg_is_global == 0 && p.speed == 100);
	cr_assert(p.port == 1 && p.latency == 2.5f && p.max_comms == 4 && p.max_recvs == 5);
	cr_assert(p.device_type == 0 && p.device_version == 0 && p.max_p2p_bytes == 1ul << 30);
	cr_assert_eq(net.connect(&net, NULL, 6, NULL, &comm, NULL), NCCL_NET_OK);
	cr_assert(comm == &seen && seen.dev == 6);
	cr_assert_eq(net.accept(&net, listen, &comm, NULL), NCCL_NET_OK);
	cr_assert_eq(comm, listen);
	cr_assert(!net.get_device_mr && !net.irecv_consumed && net.finalize);
}

Test(adapt, v6_regions_end_at_2_GiB)
{
	use(&v6, 6);
	cr_assert_eq(net.reg_mr(&net, NULL, NULL, 0x7fffffff, 1, NULL), NCCL_NET_OK);
	cr_assert_eq(seen.size, 0x7fffffff);
	cr_assert_eq(net.reg_mr(&net, NULL, NULL, 0x80000000, 1, NULL), NCCL_NET_INTERNAL_ERROR);
	cr_assert_eq(seen.calls, 1);
}

static enum nccl_net_result get_properties_v7(int dev, struct nccl_net_props_v7 *props)
{
	*props = (struct nccl_net_props_v7){.max_recvs = 5, .device_version = dev};
	return NCCL_NET_OK;
}

static const struct nccl_net_v7 v7 = {
	.name = "old",
	.init = init_v6,
	.get_properties = get_properties_v7,
	.reg_mr = reg_mr_v6,
};

Test(adapt, v7_has_a_device_type_and_narrow_regions)
{
	struct nccl_net_props_v12 p;

	use(&v7, 7);
	cr_assert_eq(net.get_properties(&net, 3, &p), NCCL_NET_OK);
	cr_assert(p.device_version == 3 && p.max_recvs == 5 && p.reg_is_global == 0);
	cr_assert_eq(net.reg_mr(&net, NULL, NULL, 0x80000000, 1, NULL), NCCL_NET_INTERNAL_ERROR);
}

/* ---- later ones ---- */

static enum nccl_net_result irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **request)
{
	(void)comm, (void)data, (void)tags, (void)mhandles;
	seen.request = *request;
	seen.size = sizes[n - 1];
	return NCCL_NET_OK;
}

static enum nccl_net_result make_vdevice_v9(int *dev, struct nccl_net_vdev_v9 *vdev)
{
	seen.calls++;
	seen.ndevs = vdev->ndevs;
	*dev = vdev->devs[3];
	return NCCL_NET_OK;
}

static const struct nccl_net_v9 v9 = {
	.name = "v9",
	.init = init_v6,
	.irecv = irecv_v9,
	.make_vdevice = make_vdevice_v9,
};

Test(adapt, v9_sees_the_hint_and_large_sizes)
{
	void *request = NCCL_NET_EARLY_RECV_HINT;

	use(&v9, 9);
	cr_assert_eq(irecv(1, 1ul << 32, &request), NCCL_NET_OK);
	cr_assert_eq(seen.request, NCCL_NET_EARLY_RECV_HINT);
	cr_assert_eq(seen.size, 1ul << 32);
}

Test(adapt, a_virtual_device_of_v9_has_4_members_at_most)
{
	struct nccl_net_vdev_v12 vdev = {4, {1, 2, 3, 9}};
	int dev = 0;

	use(&v9, 9);
	cr_assert_eq(net.make_vdevice(&net, &dev, &vdev), NCCL_NET_OK);
	cr_assert(dev == 9 && seen.ndevs == 4);
	vdev.ndevs = 5;
	cr_assert_eq(net.make_vdevice(&net, &dev, &vdev), NCCL_NET_INVALID_ARGUMENT);
	cr_assert_eq(seen.calls, 1);
}

static enum nccl_net_result init_v10(nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	(void)profiler;
	return init_v6(log);
}

static enum nccl_net_result connect_v10(int dev, struct nccl_net_config *config, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm)
{
	(void)handle, (void)send_comm, (void)dev_comm;
	seen.traffic_class = config->traffic_class;
	seen.dev = dev;
	return NCCL_NET_OK;
}

static const struct nccl_net_v10 v10 = {
	.name = "v10",
	.init = init_v10,
	.connect = connect_v10,
};

Test(adapt, v10_gets_its_communicators_config_at_connect)
{
	struct nccl_net_config first = {3}, second = {4};
	void *a, *b;

	use(&v10, 10);
	net.init(&net, &a, 1, &first, NULL, NULL);
	net.init(&net, &b, 2, &second, NULL, NULL);
	cr_assert_eq(seen.inits, 1);
	net.connect(&net, a, 6, NULL, NULL, NULL);
	cr_assert(seen.traffic_class == 3 && seen.dev == 6);
	net.connect(&net, b, 7, NULL, NULL, NULL);
	cr_assert(seen.traffic_class == 4 && seen.dev == 7);
	net.finalize(&net, a);
	net.finalize(&net, b);
}

static enum nccl_net_result init_v11(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				     nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	(void)config, (void)log, (void)profiler;
	seen.inits++;
	*ctx = (void *)(uintptr_t)(0x100 + comm_id);
	return NCCL_NET_OK;
}

static enum nccl_net_result listen_v11(void *ctx, int dev, void *handle, void **listen_comm)
{
	(void)dev, (void)handle, (void)listen_comm;
	seen.ctx = ctx;
	return NCCL_NET_OK;
}

static enum nccl_net_result finalize_v11(void *ctx)
{
	seen.ctx = ctx;
	return NCCL_NET_OK;
}

static const struct nccl_net_v12 v12 = {
	.name = "v12",
	.init = init_v11,
	.listen = listen_v11,
	.finalize = finalize_v11,
};

Test(adapt, v12_is_initialised_per_communicator_and_gets_its_contexts_back)
{
	struct nccl_net_config config = {-1};
	void *a, *b;

	use(&v12, 12);
	net.init(&net, &a, 1, &config, NULL, NULL);
	net.init(&net, &b, 2, &config, NULL, NULL);
	cr_assert_eq(seen.inits, 2);
	net.listen(&net, b, 0, NULL, NULL);
	cr_assert_eq(seen.ctx, (void *)0x102);
	net.finalize(&net, a);
	cr_assert_eq(seen.ctx, (void *)0x101);
}
