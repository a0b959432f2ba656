/* SPDX-License-Identifier: BSD-3-Clause */
/* What nccl-tests-config/ tells NCCL, told to NCCL: topology files and environments. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/kids.h"
#include "lib/coll.h"
#include "topology.h"

/* ---- files ---- */

enum { FILES = 16, TEXT = 1 << 14 };

struct file {
	char path[256];
};

/* Where there is none the pattern itself, which the test then cannot open. */
static size_t find(const char *pattern, struct file files[FILES])
{
	glob_t g;
	size_t n;

	if (glob(pattern, GLOB_NOCHECK, NULL, &g) || g.gl_pathc > FILES)
		abort();
	n = g.gl_pathc;
	for (size_t i = 0; i < n; i++)
		snprintf(files[i].path, sizeof(files[i].path), "%s", g.gl_pathv[i]);
	globfree(&g);
	return n;
}

static void read_text(const char *path, char text[TEXT])
{
	FILE *f = fopen(path, "re");
	size_t n;

	MUST(f, "%s: %s", path, strerror(errno));
	n = fread(text, 1, TEXT - 1, f);
	MUST(n > 0 && feof(f), "%s: empty, or too long", path);
	text[n] = '\0';
	fclose(f);
}

/* One in memory that children have, too. */
static struct file make(const char *text)
{
	struct file file;
	int fd = memfd_create("file", 0);
	size_t len = strlen(text);

	MUST(fd >= 0 && write(fd, text, len) == (ssize_t)len, "a file: %s", strerror(errno));
	snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", fd);
	return file;
}

/* ---- topology files ---- */

#define NIC_CLASS "class=\"0x02"

enum { GPUS = 8 }; /* of each type that has a file */

ParameterizedTestParameters(settings, topology_is_all_understood)
{
	static struct file files[FILES];

	return cr_make_param_array(struct file, files, find(CONFIG "/topo/*.xml", files));
}

/* The files are in the form that NCCL writes. */
ParameterizedTest(struct file *f, settings, topology_is_all_understood, .timeout = 60)
{
	char text[TEXT], again[TEXT];
	struct file copy = make("");

	read_text(f->path, text);
	cr_assert(eq(int, ncclTopologyCopy(f->path, copy.path), ncclSuccess), "%s", f->path);
	read_text(copy.path, again);
	cr_assert(eq(str, again, text), "%s", f->path);
}

struct topology {
	char text[TEXT];
	char count[32], gpus[256], path[300], dump[300]; /* NAME=VALUE */
	struct file written;
};

/* Where GPUs are in @t->text the fake ones shall be. */
static void settle(struct topology *t)
{
	char gpu[16];
	int n = 0;

	strcpy(t->gpus, "FAKE_CUDA_PCI=");
	for (const char *at = t->text; (at = strstr(at, "<pci ")); at++) {
		int matched = 0;

		sscanf(at, "<pci busid=\"%12[^\"]\" class=\"0x0302%n", gpu, &matched);
		if (!matched)
			continue;
		MUST(n < GPUS, "more than %d GPUs", GPUS);
		sprintf(t->gpus + strlen(t->gpus), "%s%s", n++ ? "," : "", gpu);
	}
	MUST(n == GPUS, "%d GPUs", n);
	sprintf(t->count, "FAKE_CUDA_DEVICES=%d", n);
	snprintf(t->path, sizeof(t->path), "NCCL_TOPO_FILE=%s", make(t->text).path);
	t->written = make("");
	snprintf(t->dump, sizeof(t->dump), "NCCL_TOPO_DUMP_FILE=%s", t->written.path);
}

/* All GPUs of a host, in one process. */
static void use(struct topology *t, rank_fn *fn)
{
	settle(t);
	world_start(&(struct world){.nranks = 1,
				    .env = {t->count, t->gpus, t->path, t->dump,
					    "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH"}},
		    fn);
	world_join_all();
	MUST(world_said(0, "Loading topology file /proc/self/fd/"), "not read");
}

static void bring_up(struct rank *self)
{
	ncclComm_t comms[GPUS];

	(void)self;
	NCCL(ncclCommInitAll(comms, GPUS, NULL));
	for (int i = 0; i < GPUS; i++)
		NCCL(ncclCommDestroy(comms[i]));
}

/*
 * What NCCL has after it put its GPUs into it: each line of the file, in the same order, with what
 * it adds at their ends. It drops NICs that no device of the network is at: softefa's EFAs are on
 * buses of their own.
 */
static void compare(const char *file, const char *nccl)
{
	for (const char *line = file, *end; *line; line = end + 1) {
		char head[512];

		end = strchr(line, '\n');
		MUST(end, "no end: %s", line);
		line += strspn(line, " ");
		snprintf(head, sizeof(head), "%.*s", (int)(end - line), line);
		if (strstr(head, NIC_CLASS))
			continue;
		if (head[1] != '/')
			head[strcspn(head, "/>")] = '\0';
		nccl = strstr(nccl, head);
		MUST(nccl, "not there, or elsewhere: %s", head);
		nccl += strlen(head);
	}
}

ParameterizedTestParameters(settings, topology_is_what_a_communicator_comes_up_with)
{
	static struct file files[FILES];

	return cr_make_param_array(struct file, files, find(CONFIG "/topo/*.xml", files));
}

ParameterizedTest(struct file *f, settings, topology_is_what_a_communicator_comes_up_with,
		  .timeout = 280)
{
	static struct topology t;
	char nccl[TEXT];

	read_text(f->path, t.text);
	use(&t, bring_up);
	cr_assert(not(world_said(0, "XML ")), "%s", f->path);
	cr_assert(not(world_said(0, "Attribute ")), "%s", f->path);
	read_text(t.written.path, nccl);
	compare(t.text, nccl);
}

/* ---- topology files that are wrong ---- */

struct damage {
	char without[32], said[64];
};

static void fail_to(struct rank *self)
{
	ncclComm_t comms[GPUS];

	MUST(ncclCommInitAll(comms, GPUS, NULL) != ncclSuccess, "rank %d: came up", self->rank);
}

ParameterizedTestParameters(settings, topology_that_is_wrong_is_refused)
{
	static struct damage damages[] = {
		{"</system>", "XML Parse : unterminated system"},
		{" numaid=\"1\"", "Attribute numaid of node cpu not found"},
		{" class=\"0x060400\"", "Attribute class of node pci not found"},
	};

	return cr_make_param_array(struct damage, damages, sizeof(damages) / sizeof(damages[0]));
}

/* So it would be seen if one of the configuration's were. */
ParameterizedTest(struct damage *d, settings, topology_that_is_wrong_is_refused, .timeout = 280)
{
	static struct topology t;
	size_t len = strlen(d->without);
	char *at;

	read_text(CONFIG "/topo/p5.48xlarge.xml", t.text);
	at = strstr(t.text, d->without);
	cr_assert(at != NULL);
	memmove(at, at + len, strlen(at + len) + 1);
	use(&t, fail_to);
	cr_assert(world_said(0, d->said), "%s", d->said);
}

/* ---- environments ---- */

struct env {
	char text[WORLD_ENV][128];
	int n;
};

/*
 * What cannot be here: with NCCL_SOCKET_IFNAME=^lo,docker,veth ranks would have no interface to
 * meet on where a machine for tests has none but these.
 */
static const char *possible(const char *setting)
{
	return strncmp(setting, "NCCL_SOCKET_IFNAME=", 19) ? setting : "NCCL_SOCKET_IFNAME=lo";
}

static void add(struct env *env, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[128];

	MUST(f, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		line[strcspn(line, "\n")] = '\0';
		MUST(strchr(line, '=') && env->n < WORLD_ENV - 1, "%s: %s", path, line);
		strcpy(env->text[env->n++], possible(line));
	}
	fclose(f);
}

/* NCCL's library has it for a string: no part of another. */
static bool is_known(const char *name, size_t len)
{
	static char *image;
	static struct stat st;
	char text[128] = "";
	Dl_info lib;
	int fd;

	if (!image) {
		MUST(dladdr((void *)(uintptr_t)ncclGetVersion, &lib), "NCCL's file");
		fd = open(lib.dli_fname, O_RDONLY | O_CLOEXEC);
		MUST(fd >= 0 && fstat(fd, &st) == 0, "%s", lib.dli_fname);
		image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		MUST(image != MAP_FAILED, "%s", lib.dli_fname);
		close(fd);
	}
	memcpy(text + 1, name, len);
	return memmem(image, (size_t)st.st_size, text, len + 2);
}

/* NCCL reads them without a word, or only where GPUs have NVLink SHARP. */
static bool is_told(const char *name, size_t len)
{
	static const char *const untold[] = {"NCCL_NET", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
					     "NCCL_NVLS_CHUNKSIZE", "NCCL_NVLSTREE_MAX_CHUNKSIZE"};

	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		if (strlen(untold[i]) == len && memcmp(untold[i], name, len) == 0)
			return false;
	return true;
}

/* The first one that NCCL does not know, or did not take in each rank, or NULL. */
static const char *not_taken(const struct env *env, int nranks)
{
	for (int i = 0; i < env->n; i++) {
		const char *setting = env->text[i];
		size_t len = strcspn(setting, "=");
		char said[256];

		if (!is_known(setting, len))
			return setting;
		snprintf(said, sizeof(said), "%.*s set by environment to %s", (int)len, setting,
			 setting + len + 1);
		for (int r = 0; is_told(setting, len) && r < nranks; r++)
			if (!world_said(r, said))
				return setting;
	}
	return NULL;
}

static void reduce(struct rank *self)
{
	struct coll_call call = {ALL_REDUCE, ncclFloat32, ncclSum, 70001, 0, false, false};

	coll_check(self, self->comm, &call);
}

static void run(const struct env *env)
{
	struct world w = {.nranks = 2};

	for (int i = 0; i < env->n; i++)
		w.env[i] = env->text[i];
	world_run(&w, reduce);
	world_check_net(2, "via NET/EFA");
}

ParameterizedTestParameters(settings, environment_is_taken)
{
	static struct file files[FILES];

	return cr_make_param_array(struct file, files, find(CONFIG "/env/*.env", files));
}

/* As run.sh does, that for all types, and that of the type. */
ParameterizedTest(struct file *f, settings, environment_is_taken, .timeout = 280)
{
	static struct env env;
	const char *bad;

	add(&env, CONFIG "/env/common.env");
	if (!strstr(f->path, "/common.env"))
		add(&env, f->path);
	run(&env);
	bad = not_taken(&env, 2);
	cr_assert(bad == NULL, "%s: %s", f->path, bad);
}

/* The same does not pass for what NCCL has not, or does not take. */
struct mistake {
	char setting[64];
};

ParameterizedTestParameters(settings, environment_that_is_wrong_is_noticed)
{
	static struct mistake mistakes[] = {
		{"NCCL_BUFSIZE=8388608"},       /* misspelt */
		{"NCCL_NET_FORCE_FLUSH=never"}, /* taken for another number */
	};

	return cr_make_param_array(struct mistake, mistakes,
				   sizeof(mistakes) / sizeof(mistakes[0]));
}

ParameterizedTest(struct mistake *m, settings, environment_that_is_wrong_is_noticed, .timeout = 280)
{
	static struct env env;
	const char *bad;

	add(&env, CONFIG "/env/common.env");
	strcpy(env.text[env.n++], m->setting);
	run(&env);
	bad = not_taken(&env, 2);
	cr_assert(bad != NULL, "%s", m->setting);
	cr_assert(eq(str, (char *)(uintptr_t)bad, m->setting));
}
