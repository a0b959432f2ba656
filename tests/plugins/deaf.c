/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another plugin, the file in DEAF_PLUGIN, but for errors of requests: test turns them into "not
 * done yet". For faults of a device, which tcpnet has not.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "nccl_net_abi.h"

#define EXPORT __attribute__((visibility("default")))

extern struct nccl_net_v12 ncclNetPlugin_v12;
EXPORT struct nccl_net_v12 ncclNetPlugin_v12;

static enum nccl_net_result (*real_test)(void *request, int *done, int *sizes);

static enum nccl_net_result test(void *request, int *done, int *sizes)
{
	if (real_test(request, done, sizes))
		*done = 0;
	return NCCL_NET_OK;
}

__attribute__((constructor)) static void deaf_load(void)
{
	const char *path = getenv("DEAF_PLUGIN");
	void *dl = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	const struct nccl_net_v12 *real = dl ? dlsym(dl, "ncclNetPlugin_v12") : NULL;

	if (!real)
		return;
	ncclNetPlugin_v12 = *real;
	real_test = real->test;
	ncclNetPlugin_v12.test = test;
}
