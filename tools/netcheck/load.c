/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading, tables, names, init and finalize, the logger. */
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "count.h"
#include "host/log.h"

/* ---- again, in another environment ---- */

enum { AGAIN_BYTES = 4096 };

/*
 * Run @id of this netcheck in a new program, without the environment variables in @unset, a list
 * that ends with NULL; what it says is in @said. Its exit code.
 */
static int again(struct check_ctx *ctx, const char *id, const char *const *unset, char *said)
{
	const char *path = ctx->net->path ? ctx->net->path : ctx->opt->plugin;
	char abi[8];
	int fds[2], status = -1;
	size_t at = 0;
	ssize_t n;
	pid_t pid;

	snprintf(abi, sizeof(abi), "%d", ctx->abi);
	if (pipe(fds))
		check_skip(ctx, "no pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		for (; *unset; unset++)
			unsetenv(*unset);
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		execl("/proc/self/exe", "netcheck", "--plugin", path, "--abi", abi, "--check", id,
		      NULL);
		_exit(HOST_USAGE);
	}
	close(fds[1]);
	while ((n = read(fds[0], said + at, AGAIN_BYTES - 1 - at)) > 0)
		at += (size_t)n;
	said[at] = 0;
	close(fds[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		check_skip(ctx, "netcheck cannot be run again");
	return WEXITSTATUS(status);
}

/* The second line of what it said, which is the reason. */
static const char *again_reason(char *said)
{
	char *line = strchr(said, '\n');

	line = line ? line + 1 + strspn(line + 1, " ") : said;
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* ---- C01 ---- */

static void needs_no_cuda(struct check_ctx *ctx)
{
	static const char *const strangers[] = {"libcuda.", "libcudart.", "libnccl.so"};
	struct link_map *map;

	check_need(ctx, !dlinfo(ctx->net->dl, RTLD_DI_LINKMAP, &map), "expected a map, saw none");
	for (; map; map = map->l_next) {
		const char *slash = strrchr(map->l_name, '/');
		const char *name = slash ? slash + 1 : map->l_name;

		for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
			check_expect(ctx, strncmp(name, strangers[i], strlen(strangers[i])),
				     "expected no library of CUDA or NCCL to be loaded, saw %s",
				     map->l_name);
	}
}

static void loads(struct check_ctx *ctx)
{
	static const char *const path[] = {"LD_LIBRARY_PATH", NULL};
	char said[AGAIN_BYTES];
	int code;

	check_load(ctx, ctx->abi);
	needs_no_cuda(ctx);
	if (getenv("LD_LIBRARY_PATH")) {
		code = again(ctx, "C04", path, said);
		check_expect(ctx, !code, "expected that it loads without LD_LIBRARY_PATH, saw: %s",
			     again_reason(said));
	}
	check_unload(ctx);
}

/* ---- C02 ---- */

static const void *table_of(struct check_ctx *ctx, char name[32])
{
	snprintf(name, 32, "ncclNetPlugin_v%d", ctx->abi);
	return dlsym(ctx->net->dl, name);
}

static const size_t table_bytes[] = {
	[6] = sizeof(struct nccl_net_v6),   [7] = sizeof(struct nccl_net_v7),
	[8] = sizeof(struct nccl_net_v8),   [9] = sizeof(struct nccl_net_v9),
	[10] = sizeof(struct nccl_net_v10), [11] = sizeof(struct nccl_net_v11),
	[12] = sizeof(struct nccl_net_v12),
};

/* How many entries the table of symbols has: the hash table knows. */
static uint32_t symbols_count(const uint32_t *gnu_hash)
{
	uint32_t buckets = gnu_hash[0], first = gnu_hash[1], bloom = gnu_hash[2], last = 0;
	const uint32_t *bucket = gnu_hash + 4 + bloom * sizeof(ElfW(Addr)) / sizeof(uint32_t);
	const uint32_t *chain = bucket + buckets;

	for (uint32_t i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

/* What NCCL looks for, and what sanitizers add. */
static bool symbol_meant(const char *name)
{
	return !strncmp(name, "nccl", 4) || !strncmp(name, "__odr_asan", 10) ||
	       !strcmp(name, "_init") || !strcmp(name, "_fini");
}

static void report_strangers(struct check_ctx *ctx)
{
	const uint32_t *hash = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL, *one = NULL;
	struct link_map *map;
	int strangers = 0;

	if (dlinfo(ctx->net->dl, RTLD_DI_LINKMAP, &map))
		return;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		hash = d->d_tag == DT_GNU_HASH ? (const void *)d->d_un.d_ptr : hash;
		symbols = d->d_tag == DT_SYMTAB ? (const void *)d->d_un.d_ptr : symbols;
		strings = d->d_tag == DT_STRTAB ? (const void *)d->d_un.d_ptr : strings;
	}
	for (uint32_t i = 0; hash && symbols && strings && i < symbols_count(hash); i++) {
		const char *name = strings + symbols[i].st_name;

		if (symbols[i].st_shndx == SHN_UNDEF || symbol_meant(name))
			continue;
		one = name;
		strangers++;
	}
	if (strangers)
		check_report(ctx, "it exports %d symbols beside its tables, %s one of them",
			     strangers, one);
}

static void tables_are_data(struct check_ctx *ctx)
{
	const ElfW(Sym) *symbol = NULL;
	char name[32];
	const void *table;
	Dl_info info;

	check_load(ctx, ctx->abi);
	table = table_of(ctx, name);
	check_need(ctx, dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol,
		   "expected %s to be a symbol of its own, saw none there", name);
	check_expect(ctx, ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT,
		     "expected %s to be a data object, saw symbol type %d", name,
		     ELF64_ST_TYPE(symbol->st_info));
	check_expect(ctx, symbol->st_size >= table_bytes[ctx->abi],
		     "expected %zu bytes of %s, saw %zu", table_bytes[ctx->abi], name,
		     (size_t)symbol->st_size);
	report_strangers(ctx);
	check_unload(ctx);
}

/* ---- C03, C04 ---- */

static void tables_agree(struct check_ctx *ctx)
{
	unsigned versions = host_net_versions(ctx->opt->plugin);
	struct host_net other;

	check_load(ctx, ctx->abi); /* it refuses what lacks a member */
	for (int v = HOST_ABI_OLDEST; v <= HOST_ABI_NEWEST; v++) {
		if (!(versions & 1u << v))
			continue;
		if (host_net_open(&other, ctx->opt->plugin, v))
			check_fail(ctx, "expected a usable table of v%d, saw none", v);
		check_expect(ctx, !strcmp(ctx->net->name, other.name),
			     "expected name %s in v%d as well, saw %s", ctx->net->name, v,
			     other.name);
		host_net_close(&other);
	}
	check_unload(ctx);
}

static void name_is_its_own(struct check_ctx *ctx)
{
	char before[256];

	check_load(ctx, ctx->abi);
	snprintf(before, sizeof(before), "%s", ctx->net->name);
	check_expect(ctx, strcasecmp(before, "IB") && strcasecmp(before, "Socket"),
		     "expected a name that is not built in, saw %s", before);
	check_expect(ctx, *before, "expected a name, saw none");
	for (const char *at = before; *at; at++)
		check_expect(ctx, isgraph((unsigned char)*at),
			     "expected printable bytes in the name, saw %#x", (unsigned char)*at);
	check_begin(ctx, host_nccl_log);
	check_expect(ctx, !strcmp(before, ctx->net->name),
		     "expected name %s after init as well, saw %s", before, ctx->net->name);
	check_over(ctx);
	check_unload(ctx);
}

/* ---- C05 ---- */

static int warnings;

static void count_warnings(enum nccl_net_log_level level, unsigned long subsys, const char *where,
			   int line, const char *fmt, ...) NCCL_NET_PRINTF(5, 6);
static void count_warnings(enum nccl_net_log_level level, unsigned long subsys, const char *where,
			   int line, const char *fmt, ...)
{
	(void)subsys, (void)where, (void)line, (void)fmt;
	warnings += level == NCCL_NET_LOG_WARN;
}

/* True if init has refused, which ends it. */
static bool no_device_life(struct check_ctx *ctx)
{
	void *net_ctx = NULL;

	if (check_init(ctx, count_warnings, &net_ctx))
		return true;
	ctx->ndev = -1;
	check_ok(ctx, ctx->net->devices(&ctx->ndev), "devices");
	if (ctx->ndev > 0)
		check_skip(ctx, "this host has devices for it, which cannot be hidden");
	check_need(ctx, !ctx->ndev, "expected 0 devices, saw %d", ctx->ndev);
	check_finalize(ctx, net_ctx);
	return false;
}

/* NCCL's documentation wants init to fail, and NCCL asks no more then; it takes 0 devices, too. */
static void no_device_here(struct check_ctx *ctx)
{
	struct count before, after;

	check_load(ctx, ctx->abi);
	if (no_device_life(ctx)) {
		check_report(ctx, "init fails without a device: of tables since v11 releases "
				  "2.28.3 to 2.29.3 call finalize(NULL) then");
		check_unload(ctx);
		return;
	}
	count_take(&before);
	for (int i = 0; i < 2; i++)
		check_need(ctx, !no_device_life(ctx),
			   "expected success of init as before, saw an error");
	count_take(&after);
	check_report(ctx, "init succeeds without a device, and there are 0");
	check_expect(ctx, warnings <= 3, "expected a warning per init at most, saw %d of 3 inits",
		     warnings);
	check_expect(ctx, after.fds == before.fds && after.threads == before.threads,
		     "expected %d descriptors and %d threads after more inits as well, saw %d, %d",
		     before.fds, before.threads, after.fds, after.threads);
	check_unload(ctx);
}

/* softefa's devices are away as soon as it is. */
static void no_device(struct check_ctx *ctx)
{
	static const char *const softefa[] = {"LD_PRELOAD", "SYSFS_PATH", NULL};
	const char *preload = getenv("LD_PRELOAD");
	char said[AGAIN_BYTES];
	int code;

	if (!preload || !strstr(preload, "libsoftefa")) {
		no_device_here(ctx);
		return;
	}
	code = again(ctx, "C05", softefa, said);
	if (!strncmp(said, "SKIP", 4))
		check_skip(ctx, "%s", again_reason(said));
	if (!strncmp(said, "REPORT", 6))
		check_report(ctx, "%s", again_reason(said));
	else
		check_expect(ctx, !code, "%s", again_reason(said));
}

/* ---- C06, C07 ---- */

/* A connection and a message say that it works. */
static void works(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_lane_open(ctx, &lane, 5000);
	check_lane_pass(ctx, &lane, 5000);
	check_lane_close(ctx, &lane);
}

static void life(struct check_ctx *ctx)
{
	check_begin(ctx, host_nccl_log);
	works(ctx);
	check_over(ctx);
}

/* Two releases of NCCL in one process. */
static void life_by_another(struct check_ctx *ctx, int abi)
{
	enum nccl_net_result rc;

	check_load(ctx, abi);
	rc = check_try_begin(ctx, host_nccl_log);
	if (rc) {
		check_report(ctx,
			     "where another release of NCCL in the process had it, init of "
			     "v%d returns %d (%s)",
			     abi, (int)rc, host_result_str(rc));
	} else {
		works(ctx);
		check_over(ctx);
	}
	check_unload(ctx);
}

/*
 * Tables before v11 have no finalize: releases of their time unload the library instead. Later
 * ones, which take the newest table, may keep it loaded (NCCL_NET_PLUGIN_REF_COUNT).
 */
static void lives_again(struct check_ctx *ctx)
{
	unsigned versions = host_net_versions(ctx->opt->plugin);
	bool newest = !(versions >> (ctx->abi + 1));

	check_load(ctx, ctx->abi);
	life(ctx);
	if (ctx->abi >= 11 || newest)
		life(ctx);
	check_unload(ctx);
	check_load(ctx, ctx->abi);
	life(ctx);
	check_unload(ctx);
	for (int v = HOST_ABI_OLDEST; v <= HOST_ABI_NEWEST; v++) {
		if (versions & 1u << v && v != ctx->abi)
			life_by_another(ctx, v);
	}
}

/* No release does so while a communicator has the plugin: what becomes of that is a choice. */
static void after_null(struct check_ctx *ctx)
{
	char handle[NCCL_NET_HANDLE_BYTES];
	enum nccl_net_result rc;
	void *comm = NULL;

	check_finalize(ctx, NULL);
	rc = ctx->net->listen(ctx->net, ctx->net_ctx, ctx->dev, handle, &comm);
	if (rc) {
		check_report(ctx,
			     "finalize(NULL) counts as the end of a context: listen in "
			     "another returns %d (%s)",
			     (int)rc, host_result_str(rc));
		return;
	}
	check_close_listen(ctx, comm);
	works(ctx);
}

static void two_contexts(struct check_ctx *ctx)
{
	for (int first = 0; first < 2; first++) {
		void *both[2] = {NULL, NULL};

		check_ok(ctx, check_init(ctx, host_nccl_log, &both[0]), "init");
		check_ok(ctx, check_init(ctx, host_nccl_log, &both[1]), "init of a second context");
		check_finalize(ctx, both[first]);
		works(ctx);
		check_finalize(ctx, both[!first]);
		works(ctx);
	}
	after_null(ctx);
}

/* ---- C08, C09 ---- */

static struct {
	struct check_ctx *ctx;
	_Atomic uint64_t lines, data_lines;
	_Atomic bool data; /* on the data path */
} strict;

/* Whatever it gets must be what NCCL can print in a line of 1 KiB. */
static void strict_log(enum nccl_net_log_level level, unsigned long subsys, const char *where,
		       int line, const char *fmt, ...) NCCL_NET_PRINTF(5, 6);
static void strict_log(enum nccl_net_log_level level, unsigned long subsys, const char *where,
		       int line, const char *fmt, ...)
{
	struct check_ctx *ctx = strict.ctx;
	char text[4096];
	va_list args;
	int n;

	strict.lines++;
	strict.data_lines += strict.data;
	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check_expect(ctx, level >= NCCL_NET_LOG_VERSION && level <= NCCL_NET_LOG_TRACE,
		     "expected a level of 1 to 5, saw %d: %s", (int)level, text);
	check_expect(ctx, subsys, "expected a subsystem, saw none: %s", text);
	check_expect(ctx, where && line >= 0, "expected a place, saw %s:%d: %s",
		     where ? where : "NULL", line, text);
	check_expect(ctx, n > 0, "expected a text, saw none, of format \"%s\"", fmt);
	check_expect(ctx, n <= 0 || !strchr(text, '\n'), "expected no newline, saw one: %s", text);
	check_expect(ctx, n < 1024, "expected a line below 1024 bytes, saw %d: %.80s...", n, text);
}

static void logger(struct check_ctx *ctx)
{
	struct check_lane lane;

	strict.ctx = ctx;
	check_load(ctx, ctx->abi);
	check_begin(ctx, strict_log);
	check_lane_open(ctx, &lane, 4096);
	check_lane_pass(ctx, &lane, 4096);
	strict.data = true;
	for (int i = 0; i < 200; i++)
		check_lane_pass(ctx, &lane, 4096);
	strict.data = false;
	check_lane_close(ctx, &lane);
	check_over(ctx);
	check_unload(ctx);
	check_expect(ctx, !strict.data_lines,
		     "expected no log line per message, saw %llu of 200 messages",
		     (unsigned long long)strict.data_lines);
}

static void without_callbacks(struct check_ctx *ctx)
{
	check_load(ctx, ctx->abi);
	check_begin(ctx, host_nccl_log); /* the callback is NULL always */
	works(ctx);                      /* phandles are NULL */
	check_over(ctx);
	check_unload(ctx);
}

const struct check load_checks[] = {
	{
		.id = "C01",
		.group = "load",
		.title = "it loads by itself: no LD_LIBRARY_PATH, no library of CUDA or NCCL",
		.rule = "src/plugin/plugin_open.cc: dlopen(RTLD_NOW | RTLD_LOCAL)",
		.run = loads,
		.flags = CHECK_BARE,
	},
	{
		.id = "C02",
		.group = "load",
		.title = "its table is a data object of full size",
		.rule = "src/plugin/net/net_vN.cc: dlsym gives the address of a struct",
		.run = tables_are_data,
		.flags = CHECK_BARE,
	},
	{
		.id = "C03",
		.group = "load",
		.title = "the table has all that is called unasked, and the name of the others",
		.rule = "src/plugin/net/net_vN.cc: only regMrDmaBuf, getDeviceMr, irecvConsumed, "
			"makeVDevice and setNetAttr are compared with NULL",
		.run = tables_agree,
		.flags = CHECK_BARE,
	},
	{
		.id = "C04",
		.group = "load",
		.title = "its name is printable, stays, and is not built in",
		.rule = "src/plugin/net.cc: NCCL_NET is compared with it; IB and Socket are NCCL's",
		.run = name_is_its_own,
		.flags = CHECK_BARE,
	},
	{
		.id = "C05",
		.group = "load",
		.title = "without a device init fails or there are 0, and nothing is left behind",
		.rule = "plugins/net/README.md, init and devices; src/plugin/net.cc: a plugin "
			"without devices is skipped",
		.run = no_device,
		.flags = CHECK_BARE,
	},
	{
		.id = "C06",
		.group = "load",
		.title = "it works after its end: init again, dlopen again, by another version",
		.rule = "src/plugin/net.cc: NCCL_NET_PLUGIN_REF_COUNT; unloaded with the last "
			"communicator, loaded with the next",
		.run = lives_again,
		.flags = CHECK_BARE,
	},
	{
		.id = "C07",
		.group = "load",
		.title = "two contexts live at once, and end in either order; NULL may end, too",
		.rule = "src/plugin/net.cc: init per communicator; finalize(NULL) where init "
			"failed, "
			"2.28.3 to 2.29.3",
		.run = two_contexts,
		.min_abi = 11,
	},
	{
		.id = "C08",
		.group = "load",
		.title = "it logs lines that NCCL can print, and none per message",
		.rule = "src/debug.cc: ncclDebugLog has a lock, a line of 1 KiB, its own newline",
		.run = logger,
		.flags = CHECK_BARE,
	},
	{
		.id = "C09",
		.group = "load",
		.title = "profiler callback and profiler handles may be NULL",
		.rule = "src/transport/net.cc: handles are those of a profiler, if one is loaded",
		.run = without_callbacks,
		.flags = CHECK_BARE,
	},
	{0},
};
