/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and what they say of themselves. */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { MAX_DEVICES = 128, CALLERS = 8 };

static void props_get(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p)
{
	memset(p, 0, sizeof(*p));
	host_entering(ctx->self, HOST_MAIN, "getProperties");
	check_ok(ctx, ctx->net->get_properties(ctx->net, dev, p), "getProperties");
	host_entering(ctx->self, HOST_MAIN, NULL);
}

/* Calls @each with the properties of each device. */
static void props_each(struct check_ctx *ctx,
		       void (*each)(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p))
{
	struct nccl_net_props_v12 p;

	for (int dev = 0; dev < ctx->ndev; dev++) {
		props_get(ctx, dev, &p);
		each(ctx, dev, &p);
	}
}

/* C10 */
static void out_of_range(struct check_ctx *ctx)
{
	const int wrong[] = {-1, ctx->ndev, ctx->ndev + 1000, INT_MAX, INT_MIN};
	struct nccl_net_props_v12 p;

	check_expect(ctx, ctx->ndev <= MAX_DEVICES, "expected at most %d devices, saw %d",
		     MAX_DEVICES, ctx->ndev);
	for (int dev = 0; dev < ctx->ndev; dev++)
		props_get(ctx, dev, &p);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		check_expect(ctx, ctx->net->get_properties(ctx->net, wrong[i], &p),
			     "expected an error for device %d of %d, saw success", wrong[i],
			     ctx->ndev);
}

/* ---- C11 ---- */

static void name_unique(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p)
{
	struct nccl_net_props_v12 other;

	check_need(ctx, p->name && *p->name, "expected a name of device %d, saw none", dev);
	for (int i = 0; i < dev; i++) {
		props_get(ctx, i, &other);
		check_expect(ctx, strcmp(p->name, other.name),
			     "expected names that differ, saw %s for devices %d and %d", p->name, i,
			     dev);
		check_expect(ctx, p->guid != other.guid,
			     "expected GUIDs that differ, saw %#llx for devices %d and %d",
			     (unsigned long long)p->guid, i, dev);
	}
}

static void path_is_pci(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p)
{
	char link[PATH_MAX], to[PATH_MAX];
	ssize_t n;
	DIR *dir;

	if (!p->pci_path)
		return;
	dir = opendir(p->pci_path);
	check_need(ctx, dir, "expected a directory or NULL as path of device %d, saw %s", dev,
		   p->pci_path);
	closedir(dir);
	snprintf(link, sizeof(link), "%s/subsystem", p->pci_path);
	n = readlink(link, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	check_expect(ctx, n >= 4 && !strcmp(to + n - 4, "/pci"),
		     "expected a PCI device at %s, saw that its subsystem is \"%s\"", p->pci_path,
		     to);
}

static void identities(struct check_ctx *ctx)
{
	props_each(ctx, name_unique);
	props_each(ctx, path_is_pci);
}

/* ---- C12, C13, C14 ---- */

static void pointers_of(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p)
{
	int all = NCCL_NET_PTR_HOST | NCCL_NET_PTR_CUDA | NCCL_NET_PTR_DMABUF;

	check_expect(ctx, p->ptr_support & NCCL_NET_PTR_HOST,
		     "expected HOST in ptrSupport of device %d, saw %#x", dev, p->ptr_support);
	check_expect(ctx, !(p->ptr_support & ~all), "expected no bits but %#x, saw %#x", all,
		     p->ptr_support);
	check_expect(ctx, !(p->ptr_support & NCCL_NET_PTR_DMABUF) || ctx->net->reg_mr_dma_buf,
		     "expected regMrDmaBuf, as ptrSupport has DMABUF, saw NULL");
}

static void pointers(struct check_ctx *ctx)
{
	props_each(ctx, pointers_of);
}

static void limits_of(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p)
{
	check_expect(ctx, p->speed > 0, "expected a speed of device %d above 0, saw %d", dev,
		     p->speed);
	check_expect(ctx, p->latency >= 0, "expected a latency of 0 or more, saw %g",
		     (double)p->latency);
	check_expect(ctx, p->max_comms >= 1024, "expected maxComms of 1024 or more, saw %d",
		     p->max_comms);
	check_expect(ctx, p->max_recvs >= 1 && p->max_recvs <= NCCL_NET_TEST_SIZES,
		     "expected maxRecvs of 1 to %d, saw %d", NCCL_NET_TEST_SIZES, p->max_recvs);
	check_expect(ctx, p->device_type == NCCL_NET_DEV_HOST && !p->device_version,
		     "expected netDeviceType 0 of version 0, saw %d of %d", p->device_type,
		     p->device_version);
}

static void limits(struct check_ctx *ctx)
{
	props_each(ctx, limits_of);
}

static void sizes_of(struct check_ctx *ctx, int dev, struct nccl_net_props_v12 *p)
{
	check_expect(ctx, p->max_p2p_bytes && p->max_p2p_bytes <= NCCL_NET_MAX_BYTES_LIMIT,
		     "expected maxP2pBytes of 1 to 2^40, saw %zu", p->max_p2p_bytes);
	check_expect(ctx, p->max_coll_bytes && p->max_coll_bytes <= NCCL_NET_MAX_BYTES_LIMIT,
		     "expected maxCollBytes of 1 to 2^40, saw %zu", p->max_coll_bytes);
	check_expect(ctx, p->vdev.ndevs == 1 && p->vdev.devs[0] == dev,
		     "expected device %d to consist of itself alone, saw %d devices, %d first", dev,
		     p->vdev.ndevs, p->vdev.devs[0]);
	check_expect(ctx, ctx->abi < 11 || p->max_multi_request >= 1,
		     "expected maxMultiRequestSize of 1 or more, saw %d", p->max_multi_request);
}

static void sizes(struct check_ctx *ctx)
{
	props_each(ctx, sizes_of);
}

/* ---- C15 ---- */

static void compare(struct check_ctx *ctx, const struct nccl_net_props_v12 *a,
		    const struct nccl_net_props_v12 *b, int abi)
{
	bool paths = a->pci_path && b->pci_path ? !strcmp(a->pci_path, b->pci_path)
						: a->pci_path == b->pci_path;

	check_expect(ctx, a->name && b->name && !strcmp(a->name, b->name),
		     "expected name %s in v%d as well, saw %s", a->name, abi, b->name);
	check_expect(ctx, paths, "expected pciPath %s in v%d as well, saw %s", a->pci_path, abi,
		     b->pci_path);
	check_expect(ctx, a->guid == b->guid, "expected guid %#llx in v%d as well, saw %#llx",
		     (unsigned long long)a->guid, abi, (unsigned long long)b->guid);
	check_expect(ctx, a->ptr_support == b->ptr_support,
		     "expected ptrSupport %#x in v%d as well, saw %#x", a->ptr_support, abi,
		     b->ptr_support);
	check_expect(ctx, a->speed == b->speed && a->port == b->port && a->latency == b->latency,
		     "expected speed %d, port %d, latency %g in v%d as well, saw %d, %d, %g",
		     a->speed, a->port, (double)a->latency, abi, b->speed, b->port,
		     (double)b->latency);
	check_expect(ctx, a->max_comms == b->max_comms,
		     "expected maxComms %d in v%d as well, saw %d", a->max_comms, abi,
		     b->max_comms);
}

static void compare_version(struct check_ctx *ctx, int abi)
{
	struct nccl_net_props_v12 mine, theirs;
	struct host_net other;

	if (host_net_open(&other, ctx->opt->plugin, abi))
		check_fail(ctx, "expected a usable table of v%d, saw none", abi);
	for (int dev = 0; dev < ctx->ndev; dev++) {
		props_get(ctx, dev, &mine);
		check_ok(ctx, other.get_properties(&other, dev, &theirs), "getProperties");
		compare(ctx, &mine, &theirs, abi);
	}
	host_net_close(&other);
}

struct caller {
	struct check_ctx *ctx;
	pthread_t thread;
	const struct nccl_net_props_v12 *want; /* [ndev] */
	uint64_t calls;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;
	struct check_ctx *ctx = c->ctx;

	for (uint64_t i = 0; i < c->calls; i++) {
		struct nccl_net_props_v12 p;
		int dev = (int)(i % (uint64_t)ctx->ndev);

		check_ok(ctx, ctx->net->get_properties(ctx->net, dev, &p), "getProperties");
		compare(ctx, &c->want[dev], &p, ctx->abi);
	}
	return NULL;
}

static void same_everywhere(struct check_ctx *ctx)
{
	static struct nccl_net_props_v12 want[MAX_DEVICES];
	unsigned versions = host_net_versions(ctx->opt->plugin);
	struct caller caller[CALLERS];

	for (int dev = 0; dev < ctx->ndev && dev < MAX_DEVICES; dev++)
		props_get(ctx, dev, &want[dev]);
	for (int i = 0; i < CALLERS; i++) {
		caller[i] = (struct caller){
			.ctx = ctx, .want = want, .calls = check_scale(ctx, 1000, 10000)};
		if (pthread_create(&caller[i].thread, NULL, caller_main, &caller[i]))
			check_skip(ctx, "no thread can be started");
	}
	for (int i = 0; i < CALLERS; i++)
		pthread_join(caller[i].thread, NULL);
	for (int v = HOST_ABI_OLDEST; v <= HOST_ABI_NEWEST; v++) {
		if (versions & 1u << v && v != ctx->abi)
			compare_version(ctx, v);
	}
}

/* ---- C16 ---- */

static enum nccl_net_result raw_get(struct check_ctx *ctx, int dev, void *at)
{
	const struct host_net_raw *raw = &ctx->net->raw;

	switch (ctx->abi) {
	case 6:
		return raw->get_properties_v6(dev, at);
	case 7:
		return raw->get_properties_v7(dev, at);
	case 8:
		return raw->get_properties_v8(dev, at);
	case 9:
	case 10:
		return raw->get_properties_v9(dev, at);
	case 11:
		return raw->get_properties_v11(dev, at);
	default:
		return raw->get_properties_v12(dev, at);
	}
}

static size_t props_bytes(int abi)
{
	static const size_t bytes[] = {
		[6] = sizeof(struct nccl_net_props_v6),   [7] = sizeof(struct nccl_net_props_v7),
		[8] = sizeof(struct nccl_net_props_v8),   [9] = sizeof(struct nccl_net_props_v9),
		[10] = sizeof(struct nccl_net_props_v9),  [11] = sizeof(struct nccl_net_props_v11),
		[12] = sizeof(struct nccl_net_props_v12),
	};

	return bytes[abi];
}

static void no_byte_beyond(struct check_ctx *ctx)
{
	struct host_guard props;

	for (int dev = 0; dev < ctx->ndev; dev++) {
		check_buf_init(ctx, &props, props_bytes(ctx->abi));
		check_ok(ctx, raw_get(ctx, dev, props.addr), "getProperties");
		check_buf_fini(ctx, &props, "the properties");
	}
}

/* ---- C17 ---- */

static void vdevice_check(struct check_ctx *ctx, int made, int members)
{
	struct nccl_net_props_v12 p, part;
	int speed = 0, ndev = 0;

	check_ok(ctx, ctx->net->devices(&ndev), "devices");
	check_need(ctx, made == ctx->ndev && ndev == ctx->ndev + 1,
		   "expected device %d, the last of %d, saw device %d of %d", ctx->ndev,
		   ctx->ndev + 1, made, ndev);
	props_get(ctx, made, &p);
	check_need(ctx, p.name, "expected a name of the new device, saw NULL");
	for (int i = 0; i < ctx->ndev; i++) {
		props_get(ctx, i, &part);
		speed += i < members ? part.speed : 0;
		check_expect(ctx, strcmp(p.name, part.name),
			     "expected a name of its own, saw %s, as device %d", p.name, i);
	}
	check_expect(ctx, p.speed == speed, "expected the sum of %d speeds, %d, saw %d", members,
		     speed, p.speed);
	check_expect(ctx, p.vdev.ndevs == members, "expected %d members, saw %d", members,
		     p.vdev.ndevs);
}

static void virtual_device(struct check_ctx *ctx)
{
	int most = ctx->abi < 12 ? NCCL_NET_VDEVS_V9 : NCCL_NET_VDEVS_V12, made = -1;
	struct nccl_net_vdev_v12 vdev = {.ndevs = ctx->ndev < 2 ? 1 : 2, .devs = {0, 1}};

	if (!ctx->net->make_vdevice)
		check_skip(ctx, "the table has no makeVDevice, which it need not have");
	host_entering(ctx->self, HOST_MAIN, "makeVDevice");
	check_ok(ctx, ctx->net->make_vdevice(ctx->net, &made, &vdev), "makeVDevice");
	host_entering(ctx->self, HOST_MAIN, NULL);
	vdevice_check(ctx, made, vdev.ndevs);
	vdev.ndevs = most + 1;
	check_expect(ctx, ctx->net->make_vdevice(ctx->net, &made, &vdev),
		     "expected an error for %d members, saw success", vdev.ndevs);
}

#define NET_PROPS "plugins/net/README.md, ncclNetProperties_t"

const struct check props_checks[] = {
	{
		.id = "C10",
		.group = "props",
		.title = "each device has properties, and no other number has",
		.rule = "src/graph/topo.cc: ncclTopoGetSystem asks for each of devices(); 128 fit",
		.run = out_of_range,
	},
	{
		.id = "C11",
		.group = "props",
		.title = "names and GUIDs are unique, paths are of PCI devices",
		.rule = "src/graph/topo.cc: NET nodes are matched by name; equal GUIDs share a "
			"NIC; "
			"the path decides where it hangs",
		.run = identities,
	},
	{
		.id = "C12",
		.group = "props",
		.title = "ptrSupport has HOST, and DMABUF only with regMrDmaBuf",
		.rule = "src/graph/topo.cc: regMrDmaBuf and the bit make DMA-BUF usable; "
			"src/transport/net.cc: host buffers wherever GPUDirect is off",
		.run = pointers,
	},
	{
		.id = "C13",
		.group = "props",
		.title = "speed, latency, maxComms, maxRecvs and netDeviceType are sensible",
		.rule = NET_PROPS "; src/plugin/net.cc: device types other than HOST are refused",
		.run = limits,
	},
	{
		.id = "C14",
		.group = "props",
		.title = "maxP2pBytes and maxCollBytes are in range, each device is its own vProps",
		.rule = "src/transport/net.cc: proxy setup fails where maxP2pBytes is 0 or above "
			"NCCL_MAX_NET_SIZE_BYTES",
		.run = sizes,
		.min_abi = 9,
	},
	{
		.id = "C15",
		.group = "props",
		.title = "properties are the same in all versions and for 8 threads at once",
		.rule = NET_PROPS "; called by application and service threads, without a lock",
		.run = same_everywhere,
	},
	{
		.id = "C16",
		.group = "props",
		.title = "getProperties writes no byte beyond the struct of its version",
		.rule = "src/plugin/net/net_vN.cc: the adapter has a struct of that version on its "
			"stack",
		.run = no_byte_beyond,
	},
	{
		.id = "C17",
		.group = "props",
		.title = "makeVDevice adds a device of its own, and refuses too many members",
		.rule = "src/graph/topo.cc: ncclTopoMakeVNics asks for devices() and properties "
			"again",
		.run = virtual_device,
		.min_abi = 9,
	},
	{0},
};
