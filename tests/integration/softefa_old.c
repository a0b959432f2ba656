/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter below the distribution's rdma-core, where that is another than the tests' own. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../lib/cmd.h"
#include "../lib/node.h"

TestSuite(softefa_old, .timeout = 120);

/* The folder of the system's libibverbs, as the dynamic linker knows it; empty: none. */
static void system_dir(char *dir, size_t len)
{
	static struct cmd cmd;

	cmd_run(&cmd, 10,
		"/sbin/ldconfig -p | sed -n 's,.*libibverbs\\.so\\.1 .*=> \\(.*\\)/.*,\\1,p'");
	snprintf(dir, len, "%.*s", (int)strcspn(cmd.out, "\n"), cmd.out);
}

/* The release of rdma-core there, which ends the name of libefa's file: libefa.so.1.1.44.0. */
static int release_of(const char *dir)
{
	static struct cmd cmd;
	int abi, release = 0;

	cmd_run(&cmd, 10, "basename $(readlink -f %s/libefa.so.1)", dir);
	cr_assert(eq(int, sscanf(cmd.out, "libefa.so.1.%d.%d", &abi, &release), 2), "%s", cmd.out);
	return release;
}

/* Is it what the tests use anyway? */
static bool is_ours(const char *dir)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW);
	void *fn = lib ? dlsym(lib, "ibv_open_device") : NULL;
	char path[PATH_MAX];
	struct stat a, b;
	Dl_info info;

	snprintf(path, sizeof(path), "%s/libibverbs.so.1", dir);
	return !fn || !dladdr(fn, &info) || stat(info.dli_fname, &a) || stat(path, &b) ||
	       a.st_ino == b.st_ino;
}

/* A test that is never skipped: a program without any counts as failed. */
Test(softefa_old, systems_rdma_core_is_found_or_there_is_none)
{
	char dir[PATH_MAX - 32];
	struct stat st;

	system_dir(dir, sizeof(dir));
	if (dir[0])
		cr_assert(zero(int, stat(dir, &st)), "%s", dir);
}

static struct program {
	char name[32];
} programs[] = {
	{"softefa_verbs"}, {"core_cq"},      {"core_data"}, {"core_dev"},     {"core_kth"},
	{"core_mr"},       {"core_post"},    {"core_peer"}, {"core_profile"}, {"core_qp"},
	{"core_release"},  {"core_status"},  {"core_ud"},   {"core_wait"},    {"core_xfer"},
	{"plugin_conn"},   {"plugin_group"},
};

ParameterizedTestParameters(softefa_old, tests_pass_with_the_systems_rdma_core)
{
	return cr_make_param_array(struct program, programs,
				   sizeof(programs) / sizeof(programs[0]));
}

ParameterizedTest(struct program *p, softefa_old, tests_pass_with_the_systems_rdma_core)
{
	static struct cmd cmd;
	char dir[PATH_MAX - 32];

	/* An EFA of which nobody expects writes: the plugin is not to warn that there are none. */
	node_settings(strncmp(p->name, "plugin", 6) ? NULL : "part_id=0xefa0");
	system_dir(dir, sizeof(dir));
	if (!dir[0] || is_ours(dir))
		cr_skip("the system has no other rdma-core");
	cmd_run(&cmd, 100, "unset BXFI_MAP; LD_LIBRARY_PATH=%s $B/integration/%s -j1 --verbose=0",
		dir, p->name);
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "Failing: 0 | Crashing: 0"), "%s", cmd.out);
}

/* Without writes, or whatever else that release lacks, the plugin moves data still. */
Test(softefa_old, plugin_moves_data_with_the_systems_rdma_core)
{
	static struct cmd cmd;
	char dir[PATH_MAX - 32];

	node_settings(NULL);
	system_dir(dir, sizeof(dir));
	if (!dir[0] || is_ours(dir))
		cr_skip("the system has no other rdma-core");
	cmd_run(&cmd, 100,
		"LD_LIBRARY_PATH=%s NCCL_DEBUG=INFO $B/netbench --plugin $B/libnccl-net-efa.so "
		"--ranks 4 --max 1M --iters 3 2>&1",
		dir);
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "# Out of bounds values : 0 OK"), "%s", cmd.out);
	/* Release 46 brought RDMA write: before it, one line says that data are read. */
	cr_assert(cmd_says(&cmd, release_of(dir) < 46 ? "data by RDMA read: no RDMA write"
						      : "data by RDMA write"),
		  "%s", cmd.out);
}

/* An EFA that can write, and is not let; of an older one nobody expects it. */
Test(softefa_old, plugin_warns_when_rdma_core_keeps_the_nic_from_writing)
{
	static struct cmd cmd;
	char dir[PATH_MAX - 32];

	node_settings(NULL);
	system_dir(dir, sizeof(dir));
	if (!dir[0] || is_ours(dir) || release_of(dir) >= 46)
		cr_skip("the system has no rdma-core without RDMA write");
	cmd_run(&cmd, 100,
		"export LD_LIBRARY_PATH=%s NCCL_DEBUG=WARN; "
		"run() { $B/netbench --plugin $B/libnccl-net-efa.so --ranks 2 --max 8; }; "
		"run && echo --- && SOFTEFA_DOMAIN=$SOFTEFA_DOMAIN-0 SOFTEFA_SET=part_id=0xefa0 "
		"run",
		dir);
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "Install 46 or newer"), "%s", cmd.out);
	cr_assert(not(strstr(strstr(cmd.out, "---\n"), "WARN") != NULL), "%s", cmd.out);
}
