/* SPDX-License-Identifier: BSD-3-Clause */
/* The library itself, and hosts without EFA or without rdma-core. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/need.h"
#include "../lib/plug.h"
#include "../lib/tree.h"

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

/*
 * Public report 23: CUDA's switch for each pointer, which memory that is mapped piece by piece has
 * not. All that is asked of CUDA is by name.
 */
Test(library, sets_no_attribute_of_a_pointer)
{
	struct cmd c;

	cmd_run(&c, 20,
		"unset LD_PRELOAD; grep -ao 'cu[A-Z][A-Za-z]*[_a-z0-9]*' $B/libnccl-net-efa.so |"
		" sort -u");
	cr_assert(zero(int, c.code), "%s", c.out);
	cr_assert(cmd_says(&c, "cuMemGetHandleForAddressRange\n"), "%s", c.out);
	cr_assert(not(cmd_says(&c, "cuPointerSetAttribute")), "%s", c.out);
}

/* Public reports 3 and 68: there is no other way by which data could go. */
Test(library, has_no_calls_for_another_way)
{
	struct cmd c;

	cmd_run(&c, 20,
		"unset LD_PRELOAD; nm -D -u $B/libnccl-net-efa.so | awk '{print $2}' |"
		" sed 's/@.*//'");
	cr_assert(zero(int, c.code), "%s", c.out);
	cr_assert(cmd_says(&c, "memcpy\n"), "%s", c.out);
	for (const char *const *no =
		     (const char *[]){"socket", "connect\n", "accept", "send\n", "recv\n",
				      "shm_open", "shmget", "mq_open", "pipe", "process_vm", NULL};
	     *no; no++)
		cr_assert(not(cmd_says(&c, *no)), "%s: %s", *no, c.out);
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
	int64_t begin;

	go_without_efa();
	plug_load(&p, 0);
	begin = now_ms();
	plug_init(&p);
	cr_assert(lt(i64, now_ms() - begin, 5000), "NCCL waits");
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

/* ---- what cannot be loaded ---- */

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

/* ---- with EFAs that cannot be used ---- */

/* What the plugin says when it finds none must be all @words, in one warning. */
static void one_warning(const char *const *words)
{
	int64_t begin = now_ms();
	struct plug p;

	plug_load(&p, 0);
	plug_init(&p);
	cr_assert(zero(int, p.ndev));
	cr_assert(lt(i64, now_ms() - begin, 5000), "NCCL waits");
	cr_assert(eq(int, plug_warned(), 1));
	for (; *words; words++)
		need(strstr(plug_warning(), *words), "no \"%s\" in: %s", *words, plug_warning());
	plug_forget();
	plug_close(&p);
}

/* The instance has EFAs, the container does not: jobs must not go to sockets without a word. */
Test(absent, efas_without_rdma_devices_are_one_warning)
{
	struct tree t;

	tree_make(&t, "p5");
	tree_hide(&t, "class/infiniband");
	setenv("SYSFS_PATH", t.root, 1);
	one_warning((const char *[]){"32 EFAs on the PCI bus, 0000:4f:00.0 the first",
				     "no RDMA device", "kernel module", NULL});
	tree_fini(&t);
}

Test(absent, efas_without_rdma_core_are_one_warning)
{
	struct tree t;

	tree_make(&t, "p4d");
	setenv("SYSFS_PATH", t.root, 1);
	hide("libibverbs.so.1");
	one_warning((const char *[]){"4 EFAs on the PCI bus", "libibverbs.so.1", NULL});
	tree_fini(&t);
}

static int closed; /* errno of opening the devices */

/* In the place of libc's, as dlopen(): libibverbs' calls come here, too. */
static int open_or_fail(const char *name, const char *path, int flags, mode_t mode)
{
	int (*real)(const char *path, int flags, ...);
	void *fn = dlsym(RTLD_NEXT, name);

	if (closed && strncmp(path, "/dev/infiniband/", 16) == 0) {
		errno = closed;
		return -1;
	}
	memcpy(&real, &fn, sizeof(fn));
	return real(path, flags, mode);
}

static mode_t mode_of(int flags, va_list *ap)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(*ap, mode_t) : 0;
}

#define OPEN(name) \
	__attribute__((visibility("default"))) int name(const char *path, int flags, ...) \
	{ \
		va_list ap; \
		int fd; \
\
		va_start(ap, flags); \
		fd = open_or_fail(#name, path, flags, mode_of(flags, &ap)); \
		va_end(ap); \
		return fd; \
	}

OPEN(open)
OPEN(open64)

__attribute__((visibility("default"))) int access(const char *path, int mode)
{
	int (*real)(const char *path, int mode);
	void *fn = dlsym(RTLD_NEXT, "access");

	if (closed && strncmp(path, "/dev/infiniband/", 16) == 0) {
		errno = closed;
		return -1;
	}
	memcpy(&real, &fn, sizeof(fn));
	return real(path, mode);
}

struct refusal {
	int err;
	char says[32];
};

ParameterizedTestParameters(absent, efas_that_cannot_be_opened_are_one_warning)
{
	static struct refusal refusals[] = {{EACCES, "Permission denied (13)"},
					    {ENOENT, "No such file or directory (2)"},
					    {EPERM, "Operation not permitted (1)"}};

	return cr_make_param_array(struct refusal, refusals, 3);
}

ParameterizedTest(struct refusal *r, absent, efas_that_cannot_be_opened_are_one_warning)
{
	struct plug p;

	plug_load(&p, 0);
	plug_softefa("log=0");
	closed = r->err;
	one_warning(
		(const char *[]){"EFAs can be opened", r->says, "/dev/infiniband/uverbs", NULL});
	host_net_close(&p.net);
}

/* ---- without rdma-core ---- */

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
