/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's settings for instance types. */
#include "platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/*
 * Which settings a type has. Not NCCL_NETDEVS_POLICY=max:1, which that plugin sets for p5en and
 * p6-b200: where two GPUs share two devices NCCL takes one for each by itself, and where fewer GPUs
 * are visible, the others would be idle.
 */
enum {
	PIECES = 1 << 0,
	HOPPER = 1 << 1, /* GPUs from that generation on */
};

static const struct {
	const char *name, *value;
	int what;
} settings[] = {
	/* An eighth of it is the largest piece: 1 MiB, where the default gives 512 KiB. */
	{"NCCL_BUFFSIZE", "8388608", PIECES},
	/* The default of 128 KiB is too little for a message of send and recv over 100 Gb/s. */
	{"NCCL_P2P_NET_CHUNKSIZE", "524288", PIECES},
	/* nccl issue 1112: by default, pieces of 64 KiB of these algorithms reach the network. */
	{"NCCL_NVLSTREE_MAX_CHUNKSIZE", "524288", HOPPER},
	{"NCCL_NVLS_CHUNKSIZE", "524288", HOPPER},
	/* Before 2.19 the default is to flush, which these GPUs do not need. */
	{"NCCL_NET_FORCE_FLUSH", "0", HOPPER},
};

/* By the beginning of the name. p5.4xlarge, g5 and g6e are well served by NCCL's defaults. */
static const struct {
	const char *prefix;
	int what;
} types[] = {
	{"p4d.", PIECES},
	{"p4de.", PIECES},
	{"p5.48xlarge", PIECES | HOPPER},
	{"p5e.", PIECES | HOPPER},
	{"p5en.", PIECES | HOPPER},
	{"p6-b200.", PIECES | HOPPER},
	{"p6-b300.", PIECES | HOPPER},
};

static int needs(const char *product)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(product, types[i].prefix, strlen(types[i].prefix)) == 0)
			return types[i].what;
	return 0;
}

void net_platform_set(const char *product)
{
	int what = needs(product);
	char set[256] = "", *end = set;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const char *name = settings[i].name, *value = settings[i].value;

		if (!(what & settings[i].what) || getenv(name) || setenv(name, value, 0))
			continue;
		end += snprintf(end, (size_t)(set + sizeof(set) - end), " %s=%s", name, value);
	}
	if (set[0])
		net_info("NET/EFA: for %s, unless NCCL_EFA_SET_NCCL_ENV=0:%s", product, set);
}
