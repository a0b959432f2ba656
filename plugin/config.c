/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines about what is in effect. */
#include "config.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eager.h"
#include "log.h"
#include "mem.h"
#include "order.h"
#include "param.h"
#include "proto.h"
#include "rails.h"
#include "srd_env.h"
#include "srd_topo.h"

/* From these on: EFAs by their PCI device id, that of p5, and rdma-core by its release. */
enum { PART_THAT_WRITES = 0xefa1, RELEASE_THAT_WRITES = 46 };

/* A line under construction; what does not fit is cut off. */
struct text {
	char buf[768];
	size_t len;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *fmt, ...)
{
	size_t room = sizeof(t->buf) - t->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, room, fmt, ap);
	va_end(ap);
	t->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void say_params(void)
{
	struct text t = {.len = 0};
	size_t n;
	const struct srd_env *env = srd_env_plugin(&n);

	for (const struct srd_env *end = env + n; env < end; env++)
		if (getenv(env->name))
			add(&t, " %s=%s", env->name, getenv(env->name));
	if (t.len)
		net_log(NCCL_NET_LOG_INFO, NCCL_NET_SUBSYS_INIT | NCCL_NET_SUBSYS_ENV, __func__,
			"NET/EFA: set by the environment:%s", t.buf);
}

static bool is_param(const char *name, size_t len)
{
	size_t n;
	const struct srd_env *env = srd_env_plugin(&n);

	for (const struct srd_env *end = env + n; env < end; env++)
		if (strlen(env->name) == len && memcmp(env->name, name, len) == 0)
			return true;
	return false;
}

/* A name with a slip in it sets nothing, and nothing else would show that. */
static void warn_of_unknown_params(void)
{
	static const char prefix[] = "NCCL_EFA_";
	struct text t = {.len = 0};

	for (char **var = environ; var && *var; var++) {
		size_t len = strcspn(*var, "=");

		if (strncmp(*var, prefix, strlen(prefix)) == 0 && !is_param(*var, len))
			add(&t, " %.*s", (int)len, *var);
	}
	if (t.len)
		net_warn("NET/EFA: no parameter has this name, srd-info --env lists them:%s",
			 t.buf);
}

void net_config_say(void)
{
	struct srd_lib_info lib;

	warn_of_unknown_params();
	say_params();
	if (srd_lib_query(&lib) == 0)
		net_info("NET/EFA: rdma-core %s, %s, %s", lib.rdma_core[0] ? lib.rdma_core : "?",
			 lib.ibverbs[0] ? lib.ibverbs : "libibverbs",
			 lib.efa[0] ? lib.efa : "libefa");
}

static const char *memory(int support)
{
	if (support & NCCL_NET_PTR_DMABUF)
		return "host and GPU (dma-buf)";
	return support & NCCL_NET_PTR_CUDA ? "host and GPU (peer-memory module)" : "host";
}

static const char *flush(const struct net_dev *dev)
{
	enum net_flush_mode mode = (enum net_flush_mode)net_param()->flush;

	if (mode == NET_FLUSH_OFF)
		return "off";
	if (mode == NET_FLUSH_CUDA)
		return "by CUDA";
	for (int i = 0; i < dev->nrails; i++)
		if (!(dev->nic[i].dev.attr.caps & SRD_CAP_RDMA_READ))
			return "by CUDA";
	return "by read";
}

/* How far the nearest GPUs are, and which: what is far is slow. */
static void add_gpus(struct text *t, const struct net_dev *dev)
{
	enum srd_dist nearest = SRD_DIST_UNKNOWN;
	struct srd_pci nic, *gpu = calloc(NET_MAX_GPUS, sizeof(*gpu));
	int n = gpu ? srd_pci_gpus(NULL, gpu, NET_MAX_GPUS) : 0;

	if (srd_pci_of_dev(NULL, dev->nic[0].name, &nic))
		n = 0;
	if (n > NET_MAX_GPUS)
		n = NET_MAX_GPUS;
	for (int i = 0; i < n; i++)
		if (srd_pci_dist(&nic, &gpu[i]) < nearest)
			nearest = srd_pci_dist(&nic, &gpu[i]);
	if (nearest < SRD_DIST_UNKNOWN)
		add(t, "; %s to GPU", srd_dist_str(nearest));
	for (int i = 0; i < n && nearest < SRD_DIST_UNKNOWN; i++)
		if (srd_pci_dist(&nic, &gpu[i]) == nearest)
			add(t, " %s", gpu[i].bus_id);
	free(gpu);
}

/* Below an old rdma-core a NIC that can write looks like one that cannot, and is only slower. */
static void warn_of_age(const struct net_dev *dev)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	struct srd_lib_info lib;
	unsigned release;

	if (dev->caps & PROTO_CAP_WRITE || dev->nic[0].dev.attr.part_id < PART_THAT_WRITES ||
	    srd_lib_query(&lib) || sscanf(lib.rdma_core, "%u", &release) != 1 ||
	    release >= RELEASE_THAT_WRITES || atomic_flag_test_and_set(&warned))
		return;
	net_warn("NET/EFA: rdma-core %s, %s, has no RDMA write, which EFAs like %s have: data go "
		 "slower than they could. Install %d or newer, or name its folder in SRD_RDMA_CORE",
		 lib.rdma_core, lib.efa, dev->nic[0].name, RELEASE_THAT_WRITES);
}

void net_config_say_dev(const struct net_dev *dev)
{
	const struct net_param *param = net_param();
	int support = net_dev_mode(dev) == PROTO_SEND ? NCCL_NET_PTR_HOST : net_mem_support();
	struct text t = {.len = 0};

	add(&t, "%s is", dev->name);
	for (int i = 0; i < dev->nrails; i++)
		add(&t, "%s %s", i ? "," : "", dev->nic[i].name);
	add(&t, ", %u Gb/s", dev->speed_mbps / 1000);
	add_gpus(&t, dev);
	add(&t, "; %s", net_dev_data_path(dev));
	add(&t, "; memory of %s", memory(support));
	if (support & NCCL_NET_PTR_CUDA)
		add(&t, ", flushed %s", flush(dev));
	add(&t, ", registrations %s", param->mr_cache ? "shared" : "not shared");
	if (net_eager_bytes(dev))
		add(&t, "; eager up to %u bytes, %d of a connection", net_eager_bytes(dev),
		    NET_EAGER_MOST);
	if (dev->nrails > 1)
		add(&t, "; stripes from %lld bytes", (long long)param->min_stripe);
	add(&t, "; LL and LL128 %s", net_order_kept() ? "allowed" : "forbidden");
	net_info("NET/EFA: %s", t.buf);
	warn_of_age(dev);
}
