/* SPDX-License-Identifier: BSD-3-Clause */
/* The library itself, and hosts without EFA or without rdma-core. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/need.h"
#include "../lib/plug.h"

/* ---- the library ---- */

/* What a sanitizer adds is not ours; the tools run without what is preloaded here. */
Test(library, exports_the_tables_of_its_versions_and_nothing_else)
{
	struct cmd c;

	cmd_run(&c, 20,
		"unset LD_PRELOAD; nm -D --defined-only $B/libnccl-net-efa.so |"
		" awk '{print $3}' | grep -vE '^__(odr_)?(asan|ubsan|tsan)' | sort | tr '\\n' ' '");
	cr_assert(zero(int, c.code), "%s", c.out);
	need(!strcmp(c.out, "ncclNetPlugin_v10 ncclNetPlugin_v11 ncclNetPlugin_v12 "
			    "ncclNetPlugin_v6 ncclNetPlugin_v7 ncclNetPlugin_v8 ncclNetPlugin_v9 "
			    "ncclTunerPlugin_v3 ncclTunerPlugin_v4 ncclTunerPlugin_v5 "
			    "ncclTunerPlugin_v6 "),
	     "%s", c.out);
}

Test(library, links_to_no_verbs_and_no_cuda)
{
	struct cmd c;

	cmd_run(&c, 20, "unset LD_PRELOAD; readelf -d $B/libnccl-net-efa.so | grep NEEDED");
	cr_assert(zero(int, c.code), "%s", c.out);
	cr_assert(cmd_says(&c, "libc.so"), "%s", c.out);
	for (const char *const *no = (const char *[]){"verbs", "libefa", "cuda", "nccl", NULL}; *no;
	     no++)
		cr_assert(not(cmd_says(&c, *no)), "%s", c.out);
}

Test(library, has_the_name_nccl_looks_for)
{
	struct cmd c;

	cmd_run(&c, 20, "unset LD_PRELOAD; cd $B && cmp libnccl-net.so libnccl-net-efa.so");
	cr_assert(zero(int, c.code), "%s", c.out);
}

/* ---- without EFA ---- */

/* Below softefa only the tree of the adapter makes devices; without it there are the machine's. */
static void go_without_efa(void)
{
	unsetenv("SYSFS_PATH");
	if (access("/sys/class/infiniband", F_OK) == 0)
		cr_skip("this machine may have an EFA of its own");
}

Test(absent, host_without_efa_has_no_devices_and_one_line_says_why)
{
	struct plug p;

	go_without_efa();
	plug_load(&p, 0);
	plug_init(&p);
	cr_assert(zero(int, p.ndev));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	cr_assert(eq(int, plug_informed(), 1), "the last: %s", plug_info());
	need(strstr(plug_info(), "no EFA device"), "%s", plug_info());
	plug_close(&p);
}

Test(absent, host_without_efa_is_left_as_it_was)
{
	struct plug p;
	int fds, threads;

	go_without_efa();
	plug_load(&p, 0);
	fds = entries("/proc/self/fd");
	threads = entries("/proc/self/task");
	plug_init(&p);
	cr_assert(eq(int, entries("/proc/self/fd"), fds));
	cr_assert(eq(int, entries("/proc/self/task"), threads));
	plug_close(&p);
}

Test(absent, call_for_a_device_that_is_not_there_is_an_error)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES] = {0};
	struct nccl_net_props_v12 props;
	void *listen = &props;
	struct plug p;

	go_without_efa();
	plug_load(&p, 0);
	plug_init(&p);
	cr_assert(ne(int, p.net.get_properties(&p.net, 0, &props), NCCL_NET_OK));
	cr_assert(ne(int, p.net.listen(&p.net, p.ctx, 0, handle, &listen), NCCL_NET_OK));
	cr_assert(eq(ptr, listen, NULL));
	plug_close(&p);
}

/* ---- without rdma-core ---- */

static const char *hidden; /* a library that cannot be found */

/* In the place of libc's: the plugin's calls come here, too. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int flags)
{
	static void *(*real)(const char *file, int flags);

	if (!real) {
		void *fn = dlsym(RTLD_NEXT, "dlopen");

		memcpy(&real, &fn, sizeof(fn));
	}
	if (hidden && file && strstr(file, hidden))
		return real("no such library", flags); /* for dlerror() */
	return real(file, flags);
}

static void hide(const char *library)
{
	hidden = library;
	unsetenv("SRD_RDMA_CORE"); /* a directory without it is one more line */
}

Test(absent, host_without_libibverbs_has_no_devices_and_one_line_names_it)
{
	struct plug p;

	hide("libibverbs.so.1");
	plug_load(&p, 0);
	plug_init(&p);
	cr_assert(zero(int, p.ndev));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	cr_assert(eq(int, plug_informed(), 1), "the last: %s", plug_info());
	need(strstr(plug_info(), "libibverbs.so.1"), "%s", plug_info());
	plug_close(&p);
}

Test(absent, host_without_libefa_has_no_devices_and_one_line_names_it)
{
	struct plug p;

	hide("libefa.so.1");
	plug_load(&p, 0);
	plug_init(&p);
	cr_assert(zero(int, p.ndev));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	cr_assert(eq(int, plug_informed(), 1), "the last: %s", plug_info());
	need(strstr(plug_info(), "libefa.so.1"), "%s", plug_info());
	plug_close(&p);
}
