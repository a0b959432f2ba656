/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and their properties, in every version of the tables. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

#define ABIS() cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS)

ParameterizedTestParameters(props, name_is_the_same_in_all_versions)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, props, name_is_the_same_in_all_versions)
{
	struct plug p;

	plug_load(&p, abi->v);
	need(!strcmp(p.net.name, "EFA"), "%s", p.net.name);
	host_net_close(&p.net);
}

/* NCCL's struct of a version ends where the next begins: what is behind it is not ours. */
static size_t props_size(int abi)
{
	static const size_t size[] = {
		[6] = sizeof(struct nccl_net_props_v6),   [7] = sizeof(struct nccl_net_props_v7),
		[8] = sizeof(struct nccl_net_props_v8),   [9] = sizeof(struct nccl_net_props_v9),
		[10] = sizeof(struct nccl_net_props_v9),  [11] = sizeof(struct nccl_net_props_v11),
		[12] = sizeof(struct nccl_net_props_v12),
	};

	return size[abi];
}

static enum nccl_net_result raw_properties(struct plug *p, int dev, void *props)
{
	const struct host_net_raw *raw = &p->net.raw;

	switch (p->net.abi) {
	case 6:
		return raw->get_properties_v6(dev, props);
	case 7:
		return raw->get_properties_v7(dev, props);
	case 8:
		return raw->get_properties_v8(dev, props);
	case 9:
	case 10:
		return raw->get_properties_v9(dev, props);
	case 11:
		return raw->get_properties_v11(dev, props);
	default:
		return raw->get_properties_v12(dev, props);
	}
}

ParameterizedTestParameters(props, properties_fill_their_struct_and_nothing_behind_it)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, props, properties_fill_their_struct_and_nothing_behind_it)
{
	_Alignas(8) uint8_t mem[256], zero[256] = {0};
	size_t size = props_size(abi->v);
	struct plug p;
	long bad;

	plug_open(&p, abi->v);
	memset(mem, MARK, sizeof(mem));
	cr_assert(eq(int, raw_properties(&p, 0, mem), NCCL_NET_OK));
	bad = bytes_differ_from(mem + size, sizeof(mem) - size, MARK);
	need(bad < 0, "%ld bytes behind the struct are written", bad + 1);
	cr_assert(eq(int, raw_properties(&p, 0, zero), NCCL_NET_OK));
	for (size_t i = 0; i < size; i++)
		need(mem[i] == zero[i], "byte %zu of %zu keeps what was there", i, size);
	plug_close(&p);
}

static struct nccl_net_props_v12 properties(struct plug *p, int dev)
{
	struct nccl_net_props_v12 props;

	memset(&props, MARK, sizeof(props));
	need(p->net.get_properties(&p->net, dev, &props) == NCCL_NET_OK, "device %d", dev);
	return props;
}

static void assert_sensible(const struct nccl_net_props_v12 *props, int dev, int abi)
{
	struct stat st;
	char path[512];

	need(props->name && props->name[0], "device %d has no name", dev);
	cr_assert(ne(ptr, props->pci_path, NULL));
	snprintf(path, sizeof(path), "%s/subsystem", props->pci_path);
	need(stat(path, &st) == 0 && S_ISDIR(st.st_mode), "%s", path);
	cr_assert(ne(u64, props->guid, 0));
	cr_assert(eq(int, props->ptr_support, NCCL_NET_PTR_HOST));
	cr_assert(eq(int, props->reg_is_global, 0));
	need(props->speed >= 1000 && props->speed <= 1000000, "%d Mbit/s", props->speed);
	need(isfinite(props->latency) && props->latency >= 0, "%f us", (double)props->latency);
	need(props->max_comms >= 1024, "%d comms", props->max_comms);
	/* NCCL asks for receives of several buffers only from v9 on. */
	cr_assert(eq(int, props->max_recvs, abi < 9 ? 1 : 8));
	cr_assert(eq(int, props->device_type, 0));
	cr_assert(eq(int, props->device_version, 0));
	cr_assert(eq(int, props->force_flush, 0));
	cr_assert(eq(int, props->vdev.ndevs, 1));
	cr_assert(eq(int, props->vdev.devs[0], dev));
	cr_assert(eq(int, props->max_multi_request, 1));
	need(props->max_p2p_bytes > 0 && props->max_p2p_bytes <= 1ull << 40, "%zu",
	     props->max_p2p_bytes);
	need(props->max_coll_bytes > 0 && props->max_coll_bytes <= 1ull << 40, "%zu",
	     props->max_coll_bytes);
}

ParameterizedTestParameters(props, properties_are_what_nccl_accepts)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, props, properties_are_what_nccl_accepts)
{
	struct plug p;

	plug_open(&p, abi->v);
	for (int dev = 0; dev < p.ndev; dev++) {
		struct nccl_net_props_v12 props = properties(&p, dev);

		assert_sensible(&props, dev, abi->v);
		for (int other = 0; other < dev; other++) {
			struct nccl_net_props_v12 o = properties(&p, other);

			cr_assert(ne(str, (char *)props.name, (char *)o.name));
			cr_assert(ne(u64, props.guid, o.guid));
		}
	}
	plug_close(&p);
}

ParameterizedTestParameters(props, properties_are_equal_in_all_versions)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, props, properties_are_equal_in_all_versions)
{
	struct nccl_net_props_v12 a, b;
	struct plug p, newest;

	plug_open(&newest, 12);
	plug_open(&p, abi->v);
	cr_assert(eq(int, p.ndev, newest.ndev));
	for (int dev = 0; dev < p.ndev; dev++) {
		a = properties(&newest, dev);
		b = properties(&p, dev);
		cr_assert(eq(str, (char *)a.name, (char *)b.name));
		cr_assert(eq(str, (char *)a.pci_path, (char *)b.pci_path));
		cr_assert(eq(u64, a.guid, b.guid));
		cr_assert(eq(int, a.ptr_support, b.ptr_support));
		cr_assert(eq(int, a.speed, b.speed));
		cr_assert(eq(int, a.port, b.port));
		cr_assert(eq(flt, a.latency, b.latency));
		cr_assert(eq(int, a.max_comms, b.max_comms));
		cr_assert(eq(int, b.max_recvs, abi->v >= 9 ? a.max_recvs : 1));
		cr_assert(eq(sz, a.max_p2p_bytes, b.max_p2p_bytes));
	}
	plug_close(&p);
	plug_close(&newest);
}

/*
 * Public report 16: processes that only ask take no queue pair from those that work, and an
 * adapter whose queue pairs are all taken is there all the same.
 */
Test(props, devices_are_told_without_a_queue_pair)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	struct plug p;
	void *listen;

	plug_softefa("fault=refuse qp,fault=refuse cq");
	plug_open(&p, 0);
	cr_assert(gt(int, p.ndev, 0));
	for (int dev = 0; dev < p.ndev; dev++) {
		struct nccl_net_props_v12 props = properties(&p, dev);

		assert_sensible(&props, dev, 12);
	}
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	cr_assert(ne(int, p.net.listen(&p.net, p.ctx, 0, handle, &listen), NCCL_NET_OK));
	plug_forget();
	plug_close(&p);
}

struct dev {
	int index;
};

static struct dev none[] = {{-1}, {64}, {1 << 20}, {-1 - 0x7fffffff}, {0x7fffffff}};

ParameterizedTestParameters(props, properties_of_no_device_are_an_error)
{
	return cr_make_param_array(struct dev, none, sizeof(none) / sizeof(none[0]));
}

ParameterizedTest(struct dev *dev, props, properties_of_no_device_are_an_error)
{
	struct nccl_net_props_v12 props;
	struct plug p;

	plug_open(&p, 0);
	cr_assert(ne(int, p.net.raw.get_properties_v12(dev->index, &props), NCCL_NET_OK));
	cr_assert(ne(int, p.net.raw.get_properties_v12(p.ndev, &props), NCCL_NET_OK));
	plug_close(&p);
}

static struct plug shared;
static struct nccl_net_props_v12 want;

static void *ask_often(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		struct nccl_net_props_v12 got = properties(&shared, 0);

		need(got.guid == want.guid && got.speed == want.speed && got.name == want.name &&
			     got.pci_path == want.pci_path && got.max_comms == want.max_comms,
		     "call %d of one thread: another answer", i);
	}
	return arg;
}

Test(props, properties_are_stable_whoever_else_asks)
{
	pthread_t thread[8];

	plug_open(&shared, 0);
	want = properties(&shared, 0);
	for (int i = 0; i < 8; i++)
		cr_assert(zero(int, pthread_create(&thread[i], NULL, ask_often, NULL)));
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	plug_close(&shared);
}

Test(props, devices_answers_the_same_at_each_call)
{
	struct plug p;
	int ndev = -1;

	plug_open(&p, 0);
	for (int i = 0; i < 100; i++) {
		cr_assert(eq(int, p.net.devices(&ndev), NCCL_NET_OK));
		cr_assert(eq(int, ndev, p.ndev));
	}
	plug_close(&p);
}
