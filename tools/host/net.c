/* SPDX-License-Identifier: BSD-3-Clause */
/* Find, load and check a net plugin. */
#include "net.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/* Slots of the tables; equal in all versions as far as a version has them. */
static const struct {
	const char *name;
	int since; /* mandatory from this version on; 0: never */
} slots[] = {
	{"name", 6},        {"init", 6},        {"devices", 6},       {"getProperties", 6},
	{"listen", 6},      {"connect", 6},     {"accept", 6},        {"regMr", 6},
	{"regMrDmaBuf", 0}, {"deregMr", 6},     {"isend", 6},         {"irecv", 6},
	{"iflush", 6},      {"test", 6},        {"closeSend", 6},     {"closeRecv", 6},
	{"closeListen", 6}, {"getDeviceMr", 0}, {"irecvConsumed", 0}, {"makeVDevice", 0},
	{"finalize", 11},   {"setNetAttr", 0},
};

/* NULL and a line on stderr if there is no such library. */
static void *net_dlopen(const char *path)
{
	char name[256], why[512];
	void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (dl)
		return dl;
	snprintf(why, sizeof(why), "%s", dlerror());
	if (!strchr(path, '/')) {
		snprintf(name, sizeof(name), "libnccl-net-%s.so", path);
		dl = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	}
	if (!dl)
		host_err("cannot load plugin %s: %s", path, why);
	return dl;
}

static const void *net_table(void *dl, int abi)
{
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", abi);
	return dlsym(dl, symbol);
}

unsigned host_net_versions(const char *path)
{
	void *dl = net_dlopen(path);
	unsigned mask = 0;

	for (int v = HOST_ABI_OLDEST; dl && v <= HOST_ABI_NEWEST; v++) {
		if (net_table(dl, v))
			mask |= 1u << v;
	}
	if (dl)
		dlclose(dl);
	return mask;
}

/* Sets net->abi and returns that table, or NULL with a line on stderr. */
static const void *net_find_table(struct host_net *net, const char *path, int abi)
{
	const void *table;

	for (int v = HOST_ABI_NEWEST; v >= HOST_ABI_OLDEST; v--) {
		if (abi && v != abi)
			continue;
		table = net_table(net->dl, v);
		if (table) {
			net->abi = v;
			return table;
		}
	}
	if (abi)
		host_err("plugin %s does not export ncclNetPlugin_v%d", path, abi);
	else
		host_err("plugin %s exports no ncclNetPlugin_v%d to v%d", path, HOST_ABI_OLDEST,
			 HOST_ABI_NEWEST);
	return NULL;
}

static int net_check_table(const struct host_net *net, const void *table, const char *path)
{
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		void *member;

		if (!slots[i].since || net->abi < slots[i].since)
			continue;
		memcpy(&member, (const char *)table + i * sizeof(member), sizeof(member));
		if (!member) {
			host_err("plugin %s: ncclNetPlugin_v%d has no %s", path, net->abi,
				 slots[i].name);
			return -EPROTO;
		}
	}
	return 0;
}

int host_net_open(struct host_net *net, const char *path, int abi)
{
	struct link_map *map;
	const void *table;
	int rc = -ENOENT;

	memset(net, 0, sizeof(*net));
	net->dl = net_dlopen(path);
	if (!net->dl)
		return rc;
	table = net_find_table(net, path, abi);
	if (table)
		rc = net_check_table(net, table, path);
	if (rc) {
		host_net_close(net);
		return rc;
	}
	host_net_adapt(net, table);
	net->path = strdup(dlinfo(net->dl, RTLD_DI_LINKMAP, &map) ? path : map->l_name);
	return 0;
}

void host_net_close(struct host_net *net)
{
	if (net->dl)
		dlclose(net->dl);
	free(net->path);
	memset(net, 0, sizeof(*net));
}

struct nccl_net_attr host_net_attr(int flows)
{
	const struct nccl_net_comm_attr one = {1, 1, flows, 1};

	return (struct nccl_net_attr){
		.send = one,
		.recv = one,
		.op = (uint32_t)NCCL_NET_ATTR_NONE,
		.algo = (uint32_t)NCCL_NET_ATTR_NONE,
		.proto = (uint32_t)NCCL_NET_ATTR_NONE,
	};
}
