/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading libibverbs and libefa by soname. */
#include "libs.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "settings.h"
#include "srd.h"

struct srd_ibv srd_ibv;
struct srd_efadv srd_efadv;

static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym() gives functions as void *");

#define IBV_SYM(name, needed, result, args)   {"ibv_" #name, &srd_ibv.name, needed},
#define EFADV_SYM(name, needed, result, args) {"efadv_" #name, &srd_efadv.name, needed},

static const struct srd_sym ibv_syms[] = {SRD_IBV_SYMS(IBV_SYM)};
static const struct srd_sym efadv_syms[] = {SRD_EFADV_SYMS(EFADV_SYM)};

/*
 * One process must not use two copies of a library: objects of one are poison to the other. So a
 * copy that is loaded already, by the program or by another plugin, goes before @dir.
 */
static void *open_somewhere(const char *soname, const char *dir)
{
	void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	char path[PATH_MAX];

	if (lib) {
		if (dir[0])
			srd_info("%s was loaded before: not taken from %s", soname, dir);
		return lib;
	}
	if (dir[0]) {
		snprintf(path, sizeof(path), "%s/%s", dir, soname);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (lib)
			return lib;
		srd_warn("SRD_RDMA_CORE: %s: looking elsewhere", dlerror());
	}
	return dlopen(soname, RTLD_NOW | RTLD_LOCAL);
}

int srd_lib_open(const char *soname, const char *dir, const struct srd_sym *syms, size_t n)
{
	void *lib = open_somewhere(soname, dir);

	if (!lib) {
		srd_err("%s cannot be loaded: %s", soname, dlerror());
		return -ENOENT;
	}
	for (const struct srd_sym *sym = syms; sym < syms + n; sym++) {
		void *fn = dlsym(lib, sym->name);

		if (!fn && sym->needed) {
			srd_err("%s lacks %s: it is too old", soname, sym->name);
			return -EOPNOTSUPP;
		}
		if (!fn)
			srd_info("%s lacks %s: going on without", soname, sym->name);
		memcpy(sym->slot, &fn, sizeof(fn));
	}
	return 0;
}

static int loaded;

static void load(void)
{
	const char *dir = srd_settings()->rdma_core;

	/*
	 * libefa before the first ibv_get_device_list(): its constructor makes it known to
	 * libibverbs as a provider, so that no configuration under /etc is needed.
	 */
	loaded = srd_lib_open("libibverbs.so.1", dir, ibv_syms,
			      sizeof(ibv_syms) / sizeof(ibv_syms[0]));
	if (loaded == 0)
		loaded = srd_lib_open("libefa.so.1", dir, efadv_syms,
				      sizeof(efadv_syms) / sizeof(efadv_syms[0]));
}

int srd_libs_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return loaded;
}

/* Where the file is that @symbol comes from. */
static void locate(const void *symbol, char *out, size_t size)
{
	char path[PATH_MAX];
	Dl_info info;

	if (dladdr(symbol, &info) && info.dli_fname && realpath(info.dli_fname, path) &&
	    strlen(path) < size)
		strcpy(out, path);
}

/* libefa.so.1.3.44.0: rdma-core's own release comes after the ABI's. */
static void release_of(const char *path, char *out, size_t size)
{
	const char *so = strstr(path, ".so.");
	int at = 0;

	if (so && sscanf(so, ".so.%*u.%*u.%n", &at) == 0 && at && strlen(so + at) < size)
		strcpy(out, so + at);
}

int srd_lib_query(struct srd_lib_info *info)
{
	int rc = srd_libs_load();

	if (rc)
		return rc;
	memset(info, 0, sizeof(*info));
	locate((void *)srd_ibv.open_device, info->ibverbs, sizeof(info->ibverbs));
	locate((void *)srd_efadv.query_device, info->efa, sizeof(info->efa));
	release_of(info->efa, info->rdma_core, sizeof(info->rdma_core));
	return 0;
}

int srd_lacks(const struct ibv_context *ctx, const char *what, unsigned since)
{
	struct srd_lib_info info = {0};
	unsigned release;

	srd_lib_query(&info);
	if (sscanf(info.rdma_core, "%u", &release) == 1 && release < since)
		srd_err("%s: %s: needs libefa >= %u, this is %s", ctx->device->name, what, since,
			info.rdma_core);
	else
		srd_err("%s: %s: this device does not have it", ctx->device->name, what);
	return -EOPNOTSUPP;
}
