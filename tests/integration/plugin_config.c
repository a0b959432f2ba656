/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters from the environment, and the lines that say what is in effect. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cuda/fake.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/tree.h"
#include "srd_env.h"

/* ---- parameters ---- */

Test(config, table_is_sorted_and_says_what_each_is_for)
{
	size_t n;
	const struct srd_env *env = srd_env_plugin(&n);

	cr_assert(gt(sz, n, 0));
	for (size_t i = 0; i < n; i++) {
		need(!strncmp(env[i].name, "NCCL_EFA_", 9), "%s", env[i].name);
		need(!i || strcmp(env[i - 1].name, env[i].name) < 0, "%s", env[i].name);
		need(env[i].text && strlen(env[i].text) > 10, "%s", env[i].name);
		need(env[i].type != SRD_ENV_INT || env[i].min < env[i].max, "%s", env[i].name);
	}
}

enum { PARAMS = 64 };

struct param {
	char name[48], limits[128], def[64];
};

/* Of each that has limits. */
ParameterizedTestParameters(config, senseless_value_is_one_warning_and_the_default)
{
	static struct param params[PARAMS];
	size_t n, used = 0;
	const struct srd_env *env = srd_env_plugin(&n);

	for (size_t i = 0; i < n && used < PARAMS; i++) {
		struct param *p = &params[used];

		if (env[i].type == SRD_ENV_STRING)
			continue;
		snprintf(p->name, sizeof(p->name), "%s", env[i].name);
		snprintf(p->def, sizeof(p->def), "using %s", env[i].def);
		srd_env_limits(&env[i], p->limits, sizeof(p->limits));
		used++;
	}
	return cr_make_param_array(struct param, params, used);
}

ParameterizedTest(struct param *param, config, senseless_value_is_one_warning_and_the_default)
{
	struct plug p;
	struct link l;

	setenv(param->name, "-7x", 1);
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	link_message(&l, 100000, 1);
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	for (const char *const *s =
		     (const char *[]){param->name, "-7x", param->limits, param->def, NULL};
	     *s; s++)
		need(strstr(plug_warning(), *s), "no \"%s\" in: %s", *s, plug_warning());
	plug_forget();
	link_close(&l);
	plug_close(&p);
}

Test(config, what_the_environment_sets_is_listed)
{
	struct plug p;

	setenv("NCCL_EFA_CONNECT_TIMEOUT", "77", 1);
	setenv("NCCL_EFA_MR_CACHE", "0", 1);
	unsetenv("NCCL_EFA_FLUSH");
	plug_open(&p, 0);
	cr_assert(plug_said("NCCL_EFA_CONNECT_TIMEOUT=77"));
	cr_assert(plug_said("NCCL_EFA_MR_CACHE=0"));
	cr_assert(not(plug_said("NCCL_EFA_FLUSH")));
	plug_close(&p);
}

Test(config, names_that_are_no_parameter_are_one_warning)
{
	struct plug p;

	setenv("NCCL_EFA_STATSS", "/tmp/x", 1);
	setenv("NCCL_EFA_RAIL", "4", 1);
	setenv("NCCL_EFA_RAILS", "2", 1);
	plug_open(&p, 0);
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	need(strstr(plug_warning(), " NCCL_EFA_STATSS"), "%s", plug_warning());
	need(strstr(plug_warning(), " NCCL_EFA_RAIL") && !strstr(plug_warning(), "RAILS"), "%s",
	     plug_warning());
	plug_forget();
	plug_close(&p);
}

/* ---- what is in effect ---- */

Test(config, libraries_in_use_are_named_with_their_files)
{
	struct plug p;

	plug_open(&p, 0);
	need(plug_said_once((const char *[]){"rdma-core ", "/libibverbs.so", "/libefa.so", NULL}),
	     "no line has release and files");
	plug_close(&p);
}

struct found {
	char rails[2], says[64];
};

ParameterizedTestParameters(config, devices_that_were_found_are_counted_in_one_line)
{
	static struct found found[] = {
		{"1", "4 devices of 1 EFA, efa_0 to efa_3, "},
		{"2", "2 devices of 2 EFAs, efa_0+1 to efa_2+1, "},
		{"3", "2 devices of up to 3 EFAs, efa_0+2 to efa_3, "},
		{"4", "1 device of 4 EFAs, efa_0+3, "},
	};

	return cr_make_param_array(struct found, found, sizeof(found) / sizeof(found[0]));
}

ParameterizedTest(struct found *f, config, devices_that_were_found_are_counted_in_one_line)
{
	struct plug p;

	plug_softefa("devices=4");
	setenv("NCCL_EFA_RAILS", f->rails, 1);
	plug_open(&p, 0);
	need(plug_said(f->says), "no \"%s\"", f->says);
	plug_close(&p);
}

/* What changes the line of a device, and what is in it then. */
struct effect {
	char env[40], softefa[16];
	bool cuda, dmabuf;
	char says[5][64];
};

ParameterizedTestParameters(config, device_that_is_opened_says_what_is_in_effect)
{
	static struct effect effects[] = {
		{"",
		 "",
		 false,
		 false,
		 {"efa_0 is efa_0,", "Gb/s; RDMA write", "memory of host, registrations shared",
		  "LL and LL128 forbidden"}},
		{"", "caps=0x7f", false, false, {"LL and LL128 allowed"}},
		{"NCCL_EFA_IN_ORDER=yes", "", false, false, {"LL and LL128 allowed"}},
		{"", "caps=0x0f", false, false, {"Gb/s; RDMA read: no RDMA write"}},
		{"NCCL_EFA_PROTOCOL=read", "", false, false, {"Gb/s; RDMA read; memory"}},
		{"NCCL_EFA_PROTOCOL=send", "", true, true, {"Gb/s; messages; memory of host,"}},
		{"", "caps=0x0e", true, true, {"messages: no RDMA; memory of host,"}},
		{"NCCL_EFA_MR_CACHE=0", "", false, false, {"registrations not shared"}},
		{"NCCL_EFA_RAILS=2",
		 "",
		 false,
		 false,
		 {"efa_0+1 is efa_0, efa_1,", "stripes from 131072 bytes"}},
		{"", "", true, true, {"memory of host and GPU (dma-buf), flushed by read"}},
		{"", "", true, false, {"host and GPU (peer-memory module), flushed by read"}},
		{"NCCL_EFA_DMABUF=0", "", true, true, {"host and GPU (peer-memory module)"}},
		{"NCCL_EFA_FLUSH=cuda", "", true, true, {"flushed by CUDA"}},
		{"NCCL_EFA_FLUSH=off", "", true, true, {"flushed off"}},
		{"", "caps=0x6e", true, true, {"flushed by CUDA"}},
	};

	return cr_make_param_array(struct effect, effects, sizeof(effects) / sizeof(effects[0]));
}

ParameterizedTest(struct effect *e, config, device_that_is_opened_says_what_is_in_effect)
{
	struct plug p;
	struct link l;

	unsetenv("NCCL_EFA_RAILS");
	if (e->env[0])
		putenv(e->env);
	if (e->softefa[0])
		plug_softefa(e->softefa);
	if (e->cuda)
		fake_cuda_load()->dmabuf = e->dmabuf;
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	for (int i = 0; i < 5; i++)
		if (e->says[i][0])
			need(plug_said(e->says[i]), "no \"%s\", the last: %s", e->says[i],
			     plug_info());
	link_close(&l);
	plug_close(&p);
}

/* Data that take the long way are slow, and nothing else shows it. */
Test(config, device_says_how_far_the_nearest_gpus_are)
{
	const char *softefa = getenv("SYSFS_PATH");
	struct tree tree;
	struct plug p;
	struct link l;

	if (!softefa)
		cr_skip("needs softefa");
	tree_copy(&tree, softefa);
	tree_add(&tree, "under pci0000:10 0 32.0x16\n"
			"gpu - 0000:10:01.0 2330 32.0x16\n"
			"gpu - 0000:10:02.0 2330 32.0x16\n"
			"under pci0000:ca/0000:ca:01.0 1 32.0x16\n"
			"gpu - 0000:cb:00.0 2330 -\n");
	setenv("SYSFS_PATH", tree.root, 1);
	setenv("NCCL_EFA_RAILS", "1", 1);
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	need(plug_said("Gb/s; PHB to GPU 0000:10:01.0 0000:10:02.0; RDMA"), "the last: %s",
	     plug_info());
	link_close(&l);
	plug_close(&p);
	tree_fini(&tree);
}

struct machine {
	char env[40];
	bool told;
};

/* On machines whose sysfs misleads NCCL, unless the user knows better, or wants nothing set. */
ParameterizedTestParameters(config, topology_file_is_set_where_it_helps)
{
	static struct machine machines[] = {
		{"", true}, {"NCCL_TOPO_FILE=/mine", false}, {"NCCL_EFA_SET_NCCL_ENV=0", false}};

	return cr_make_param_array(struct machine, machines, 3);
}

ParameterizedTest(struct machine *m, config, topology_file_is_set_where_it_helps)
{
	const char *softefa = getenv("SYSFS_PATH"), *was, *set;
	struct tree tree;
	struct plug p;

	if (!softefa)
		cr_skip("needs softefa");
	tree_copy(&tree, softefa);
	tree_add(&tree, "product p4d.24xlarge\nunder pci0000:10 0 32.0x16\n"
			"gpu - 0000:10:01.0 20b0 32.0x16\n");
	setenv("SYSFS_PATH", tree.root, 1);
	unsetenv("NCCL_TOPO_FILE");
	if (m->env[0])
		putenv(m->env);
	was = getenv("NCCL_TOPO_FILE");
	plug_open(&p, 0);
	set = getenv("NCCL_TOPO_FILE");
	cr_assert(eq(int, plug_said("NCCL_TOPO_FILE="), m->told));
	if (m->told)
		need(set && access(set, R_OK) == 0, "%s", set ? set : "not set");
	else
		cr_assert(eq(ptr, (void *)(uintptr_t)set, (void *)(uintptr_t)was));
	plug_close(&p);
	tree_fini(&tree);
}

/* ---- NCCL's settings for instance types ---- */

enum { SETTINGS = 6 };

static const char *const setting[SETTINGS] = {
	"NCCL_BUFFSIZE",       "NCCL_P2P_NET_CHUNKSIZE", "NCCL_NVLSTREE_MAX_CHUNKSIZE",
	"NCCL_NVLS_CHUNKSIZE", "NCCL_NET_FORCE_FLUSH",   "NCCL_NETDEVS_POLICY",
};

/* @value: what is set then. */
struct type {
	char product[32], env[40];
	char value[SETTINGS][8];
};

#define PIECES "8388608", "524288"
#define NVLS   "524288", "524288", "0"

ParameterizedTestParameters(config, instance_type_has_settings_that_the_user_has_not_set)
{
	static struct type types[] = {
		{"p4d.24xlarge", "", {PIECES}},
		{"p4de.24xlarge", "", {PIECES}},
		{"p5.48xlarge", "", {PIECES, NVLS}},
		{"p5e.48xlarge", "", {PIECES, NVLS}},
		{"p5en.48xlarge", "", {PIECES, NVLS}},
		{"p6-b200.48xlarge", "", {PIECES, NVLS}},
		{"p6-b300.48xlarge", "", {PIECES, NVLS}},
		{"p5.48xlarge", "NCCL_BUFFSIZE=4194304", {"4194304", "524288", NVLS}},
		{"p5.48xlarge", "NCCL_EFA_SET_NCCL_ENV=0", {""}},
		{"p5.4xlarge", "", {""}},
		{"g5.48xlarge", "", {""}},
		{"g6e.48xlarge", "", {""}},
		{"p5", "", {""}},
		{"HVM domU", "", {""}},
		{"", "", {""}},
	};

	return cr_make_param_array(struct type, types, sizeof(types) / sizeof(types[0]));
}

ParameterizedTest(struct type *t, config, instance_type_has_settings_that_the_user_has_not_set)
{
	const char *softefa = getenv("SYSFS_PATH");
	struct tree tree;
	struct plug p;

	if (!softefa)
		cr_skip("needs softefa");
	tree_copy(&tree, softefa);
	if (t->product[0])
		tree_write(&tree, "devices/virtual/dmi/id/product_name", t->product);
	setenv("SYSFS_PATH", tree.root, 1);
	for (int i = 0; i < SETTINGS; i++)
		unsetenv(setting[i]);
	if (t->env[0])
		putenv(t->env);
	plug_open(&p, 0);
	for (int i = 0; i < SETTINGS; i++) {
		const char *value = getenv(setting[i]);
		bool ours = t->value[i][0] && strncmp(t->env, setting[i], strlen(setting[i])) != 0;
		char line[64];

		need(strcmp(value ? value : "", t->value[i]) == 0, "%s=%s, not \"%s\"", setting[i],
		     value ? value : "", t->value[i]);
		snprintf(line, sizeof(line), " %s=", setting[i]);
		need(plug_said(line) == ours, "%s in the log: %d", setting[i], !ours);
	}
	plug_close(&p);
	tree_fini(&tree);
}

Test(config, device_says_it_once)
{
	struct plug p;
	struct link a, b;

	plug_open(&p, 0);
	link_open(&a, &p, 0, 0);
	cr_assert(plug_said("registrations shared"));
	plug_forget();
	link_open(&b, &p, 0, 0);
	cr_assert(zero(int, plug_informed()), "%s", plug_info());
	link_close(&a);
	link_close(&b);
	plug_close(&p);
}
