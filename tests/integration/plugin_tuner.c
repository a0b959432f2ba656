/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LL and LL128, which need a NIC that keeps order: when NCCL may use them, when the tuner forbids
 * them, when NCCL_PROTO does.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/counters.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "nccl_tuner_abi.h"

/* softefa's bits of the kernel's answer: all that the default has, and in-order data. */
#define IN_ORDER "caps=0x7f"

enum { ALGOS = 7, PROTOS = 3 };

/* ---- the tuner as NCCL finds and calls it ---- */

struct tuner {
	void *lib;
	int version;
	void *ctx;
};

static const void *table(const struct tuner *t)
{
	char name[32];
	const void *sym;

	snprintf(name, sizeof(name), "ncclTunerPlugin_v%d", t->version);
	sym = dlsym(t->lib, name);
	need(sym, "%s", name);
	return sym;
}

static void tuner_load(struct tuner *t, int version)
{
	*t = (struct tuner){.version = version, .ctx = t};
	t->lib = dlopen(plug_path(), RTLD_NOW | RTLD_LOCAL);
	need(t->lib, "%s", dlerror());
}

static void tuner_init(struct tuner *t, size_t nnodes)
{
	const struct nccl_tuner_v3 *v3 = table(t);
	const struct nccl_tuner_v6 *v6 = table(t);
	int rc = t->version < 5 ? v3->init(16, nnodes, NULL, &t->ctx)
				: v6->init(&t->ctx, 1, 16, nnodes, NULL, NULL, NULL);

	need(rc == NCCL_NET_OK, "%d", rc);
	need(t->ctx != (void *)t, "the context was not written");
}

static void tuner_ask(struct tuner *t, float *costs)
{
	const struct nccl_tuner_v3 *v3 = table(t);
	const struct nccl_tuner_v6 *v6 = table(t);
	int channels = -7, rc;

	if (t->version == 3)
		rc = v3->get_coll_info(t->ctx, 4, 1 << 20, 1, (float **)costs, ALGOS, PROTOS,
				       &channels);
	else
		rc = v6->get_coll_info(t->ctx, 4, 1 << 20, 1, (float **)costs, ALGOS, PROTOS, 0,
				       &channels);
	need(rc == NCCL_NET_OK, "%d", rc);
	need(channels == -7, "the channels are none of ours");
}

static void tuner_end(struct tuner *t)
{
	const struct nccl_tuner_v6 *v6 = table(t);

	need(v6->finalize(t->ctx) == NCCL_NET_OK, "finalize");
	dlclose(t->lib);
}

/* Something may be chosen of each; what NCCL has excluded itself stays so. */
static void fill(float *costs)
{
	for (int i = 0; i < ALGOS * PROTOS; i++)
		costs[i] = i / PROTOS == 3 ? -1 : 10 + (float)i;
}

static bool all_of(const float *costs, int proto, bool forbidden)
{
	for (int a = 0; a < ALGOS; a++)
		if (a != 3 && (costs[a * PROTOS + proto] < 0) != forbidden)
			return false;
	return true;
}

static struct plug_abi tuners[] = {{3}, {4}, {5}, {6}};

#define TUNERS() cr_make_param_array(struct plug_abi, tuners, 4)

static void tuner_with_plugin(struct tuner *t, struct plug *p, int version, size_t nnodes)
{
	plug_open(p, 12);
	tuner_load(t, version);
	tuner_init(t, nnodes);
}

ParameterizedTestParameters(tuner, forbids_ll_between_nodes_and_nothing_else)
{
	return TUNERS();
}

ParameterizedTest(struct plug_abi *v, tuner, forbids_ll_between_nodes_and_nothing_else)
{
	float costs[ALGOS * PROTOS + 1], before[ALGOS * PROTOS + 1];
	struct tuner t;
	struct plug p;

	tuner_with_plugin(&t, &p, v->v, 2);
	fill(costs);
	costs[ALGOS * PROTOS] = 99;
	memcpy(before, costs, sizeof(costs));
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL, true));
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL128, true));
	for (int a = 0; a < ALGOS; a++) {
		int i = a * PROTOS + NCCL_TUNER_PROTO_SIMPLE;

		need(costs[i] >= before[i] && costs[i] <= before[i], "algorithm %d", a);
	}
	need(costs[ALGOS * PROTOS] > 98, "what is behind the table");
	tuner_end(&t);
	plug_close(&p);
}

ParameterizedTestParameters(tuner, leaves_one_node_alone)
{
	return TUNERS();
}

ParameterizedTest(struct plug_abi *v, tuner, leaves_one_node_alone)
{
	float costs[ALGOS * PROTOS];
	struct tuner t;
	struct plug p;

	tuner_with_plugin(&t, &p, v->v, 1);
	fill(costs);
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL, false));
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL128, false));
	tuner_end(&t);
	plug_close(&p);
}

struct env {
	char text[40];
};

static struct env without[] = {{"NCCL_P2P_DISABLE=1"}, {"NCCL_SHM_DISABLE=1"}};

ParameterizedTestParameters(tuner, forbids_ll_on_one_node_that_must_use_the_network)
{
	return cr_make_param_array(struct env, without, 2);
}

ParameterizedTest(struct env *e, tuner, forbids_ll_on_one_node_that_must_use_the_network)
{
	float costs[ALGOS * PROTOS];
	struct tuner t;
	struct plug p;

	putenv(e->text);
	tuner_with_plugin(&t, &p, 6, 1);
	fill(costs);
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL, true));
	tuner_end(&t);
	plug_close(&p);
}

/* NCCL_PROTO=LL: then there is nothing else, and an error is no help. */
Test(tuner, leaves_the_user_the_only_choice)
{
	float costs[ALGOS * PROTOS];
	struct tuner t;
	struct plug p;

	setenv("NCCL_PROTO", "LL", 1);
	tuner_with_plugin(&t, &p, 6, 2);
	for (int i = 0; i < ALGOS * PROTOS; i++)
		costs[i] = i % PROTOS == NCCL_TUNER_PROTO_LL ? 10 : -1;
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL, false));
	cr_assert(eq(int, plug_warned(), 1));
	need(strstr(plug_warning(), "NCCL_PROTO, LL,"), "%s", plug_warning());
	plug_forget();
	tuner_end(&t);
	plug_close(&p);
}

/* With NCCL_NET=Socket, or where there is no EFA. */
Test(tuner, minds_no_other_network)
{
	float costs[ALGOS * PROTOS];
	struct tuner t;

	tuner_load(&t, 6);
	tuner_init(&t, 2);
	fill(costs);
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL, false));
	tuner_end(&t);
}

/* ---- who decides ---- */

/* What is set before init, and what comes of it. */
struct decision {
	char softefa[16], env[2][40];
	int abi;
	bool tuner;     /* forbids */
	char proto[16]; /* NCCL_PROTO afterwards */
	int warnings;
};

#define NOT_SET "-"

static struct decision decisions[] = {
	/* the NIC keeps order */
	{IN_ORDER, {"", ""}, 12, false, NOT_SET, 0},
	{IN_ORDER, {"", ""}, 6, false, NOT_SET, 0},
	{IN_ORDER, {"NCCL_EFA_IN_ORDER=no", ""}, 12, true, NOT_SET, 0},
	/* but only within a write */
	{IN_ORDER, {"NCCL_EFA_PROTOCOL=read", ""}, 12, true, NOT_SET, 0},
	{IN_ORDER, {"NCCL_EFA_PROTOCOL=send", ""}, 12, true, NOT_SET, 0},
	{IN_ORDER, {"NCCL_EFA_PROTOCOL=write", ""}, 12, false, NOT_SET, 0},
	{"caps=0x1f", {"", ""}, 12, true, NOT_SET, 0},
	{IN_ORDER, {"NCCL_EFA_IN_ORDER=no", ""}, 8, true, "Simple", 0},
	/* it does not: NCCL takes our tuner from 2.26 on, which is v10 */
	{"", {"", ""}, 6, true, "Simple", 0},
	{"", {"", ""}, 7, true, "Simple", 0},
	{"", {"", ""}, 8, true, "Simple", 0},
	{"", {"", ""}, 9, true, "Simple", 0},
	{"", {"", ""}, 10, true, NOT_SET, 0},
	{"", {"", ""}, 11, true, NOT_SET, 0},
	{"", {"", ""}, 12, true, NOT_SET, 0},
	{"", {"NCCL_EFA_IN_ORDER=yes", ""}, 8, false, NOT_SET, 0},
	/* which no NIC does for messages */
	{"", {"NCCL_EFA_IN_ORDER=yes", "NCCL_EFA_PROTOCOL=read"}, 12, false, NOT_SET, 0},
	{"", {"NCCL_EFA_IN_ORDER=yes", "NCCL_EFA_PROTOCOL=send"}, 12, true, NOT_SET, 1},
	/* another tuner, which would not forbid anything */
	{"", {"NCCL_TUNER_PLUGIN=other", ""}, 12, true, "Simple", 0},
	{"", {"NCCL_TUNER_PLUGIN=none", ""}, 12, true, "Simple", 0},
	/* the user's word stands */
	{"", {"NCCL_PROTO=^LL,LL128", ""}, 8, true, "^LL,LL128", 0},
	{"", {"NCCL_PROTO=simple", ""}, 8, true, "simple", 0},
	{"", {"NCCL_PROTO=LL", ""}, 8, true, "LL", 1},
	{"", {"NCCL_PROTO=LL", ""}, 12, true, "LL", 1},
	{"", {"NCCL_PROTO=^LL128", ""}, 8, true, "^LL128", 1},
	{"", {"NCCL_PROTO=^LL128", ""}, 12, true, "^LL128", 0},
	{"", {"NCCL_PROTO=LL,Simple", "NCCL_TUNER_PLUGIN=other"}, 12, true, "LL,Simple", 1},
	{"", {"NCCL_PROTO=LL", "NCCL_EFA_IN_ORDER=yes"}, 8, false, "LL", 0},
	/* nothing may be set */
	{"", {"NCCL_EFA_SET_NCCL_ENV=0", ""}, 8, true, NOT_SET, 1},
	{"", {"NCCL_EFA_SET_NCCL_ENV=0", ""}, 12, true, NOT_SET, 0},
	/* neither covers send and receive */
	{"", {"NCCL_ALLOC_P2P_NET_LL_BUFFERS=1", ""}, 12, true, NOT_SET, 1},
	{"", {"NCCL_ALLOC_P2P_NET_LL_BUFFERS=0", ""}, 12, true, NOT_SET, 0},
	{IN_ORDER, {"NCCL_ALLOC_P2P_NET_LL_BUFFERS=1", ""}, 12, false, NOT_SET, 0},
};

ParameterizedTestParameters(tuner, ll_is_decided_upon_at_init)
{
	return cr_make_param_array(struct decision, decisions,
				   sizeof(decisions) / sizeof(decisions[0]));
}

ParameterizedTest(struct decision *d, tuner, ll_is_decided_upon_at_init)
{
	float costs[ALGOS * PROTOS];
	const char *proto;
	struct tuner t;
	struct plug p;

	if (d->softefa[0])
		plug_softefa(d->softefa);
	unsetenv("NCCL_PROTO");
	for (int i = 0; i < 2; i++)
		if (d->env[i][0])
			putenv(d->env[i]);
	plug_open(&p, d->abi);
	proto = getenv("NCCL_PROTO");
	cr_assert(eq(str, (char *)(proto ? proto : NOT_SET), d->proto));
	cr_assert(eq(int, plug_warned(), d->warnings), "%s", plug_warning());
	need(plug_said("LL and LL128 are") || d->warnings, "nothing is said");
	tuner_load(&t, 6);
	tuner_init(&t, 2);
	fill(costs);
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL128, d->tuner));
	tuner_end(&t);
	plug_forget();
	plug_close(&p);
}

/* Many communicators: each has its init. */
Test(tuner, repeated_init_says_it_once)
{
	struct plug p, again;

	setenv("NCCL_PROTO", "LL", 1);
	plug_open(&p, 12);
	cr_assert(eq(int, plug_warned(), 1));
	cr_assert(plug_said("LL and LL128 are"));
	plug_forget();
	for (int i = 0; i < 3; i++) {
		plug_open(&again, 12);
		plug_close(&again);
	}
	cr_assert(not(plug_said("LL")));
	plug_close(&p);
}

/* In the place of libc's: the plugin's calls come here, too. */
static bool tuner_installed;

__attribute__((visibility("default"))) void *dlopen(const char *file, int flags)
{
	static void *(*real)(const char *file, int flags);

	if (!real) {
		void *fn = dlsym(RTLD_NEXT, "dlopen");

		memcpy(&real, &fn, sizeof(fn));
	}
	if (file && !strcmp(file, "libnccl-tuner.so"))
		return tuner_installed ? real(NULL, flags) : NULL;
	return real(file, flags);
}

/* It lies where NCCL looks before it comes to us, as on some clouds. */
Test(tuner, tuner_that_is_installed_makes_the_variable_necessary)
{
	struct plug p;

	tuner_installed = true;
	unsetenv("NCCL_PROTO");
	plug_open(&p, 12);
	cr_assert(eq(str, getenv("NCCL_PROTO"), (char *)"Simple"));
	plug_close(&p);
}

/* A second copy of NCCL, an older one, in the same process. */
Test(tuner, older_nccl_beside_a_new_one_gets_the_variable)
{
	struct plug young, old;

	unsetenv("NCCL_PROTO");
	plug_open(&young, 12);
	cr_assert(eq(ptr, getenv("NCCL_PROTO"), NULL));
	plug_open(&old, 8);
	cr_assert(eq(str, getenv("NCCL_PROTO"), (char *)"Simple"));
	plug_close(&old);
	plug_open(&old, 12);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_close(&old);
	plug_close(&young);
}

/* ---- instances of different types ---- */

struct ranks {
	char here[8], there[8]; /* NCCL_EFA_IN_ORDER */
	char proto[16];         /* NCCL_PROTO of both */
	int warnings;
};

static void run_rank(struct twin *t, void *arg)
{
	const struct ranks *r = arg;
	bool child = t->pid == 0;
	struct plug p;
	struct link l;

	setenv("NCCL_EFA_IN_ORDER", child ? r->there : r->here, 1);
	if (r->proto[0])
		setenv("NCCL_PROTO", r->proto, 1);
	plug_open(&p, 12);
	plug_forget();
	for (int i = 0; i < 2; i++) {
		link_open_twin(&l, &p, t);
		twin_meet(t);
		link_close(&l);
	}
	need(plug_warned() == r->warnings, "%d warnings, the last: %s", plug_warned(),
	     plug_warning());
	need(!r->warnings || strstr(plug_warning(), "NCCL_EFA_IN_ORDER=no"), "%s", plug_warning());
	plug_forget();
	plug_close(&p);
}

ParameterizedTestParameters(tuner, ranks_that_disagree_are_told)
{
	static struct ranks ranks[] = {
		{"yes", "no", "", 1},       {"no", "yes", "", 1},
		{"yes", "yes", "", 0},      {"no", "no", "", 0},
		{"yes", "no", "Simple", 0}, {"yes", "no", "^LL,LL128", 0},
		{"no", "yes", "LL128", 1},
	};

	return cr_make_param_array(struct ranks, ranks, sizeof(ranks) / sizeof(ranks[0]));
}

ParameterizedTest(struct ranks *r, tuner, ranks_that_disagree_are_told)
{
	struct twin t;

	unsetenv("NCCL_PROTO");
	twin_start(&t, run_rank, r);
	run_rank(&t, r);
	twin_end(&t);
}

/* The NIC is asked with a queue pair, of which nothing may stay: here is room for no other. */
Test(tuner, asking_the_nic_leaves_nothing_behind)
{
	struct plug p;
	struct link l;
	int dev;

	plug_softefa("max_qp=3,max_cq=2,max_pd=1");
	counters_apart();
	plug_open(&p, 0);
	for (dev = 0; dev < p.ndev; dev++) {
		link_open(&l, &p, dev, dev);
		link_message(&l, 1000, 1);
		link_close(&l);
	}
	plug_close(&p);
}

/* All queue pairs of the NIC may be taken: then nobody knows. */
Test(tuner, nic_that_cannot_be_asked_is_taken_for_one_without_order)
{
	float costs[ALGOS * PROTOS];
	struct tuner t;
	struct plug p;

	plug_softefa(IN_ORDER ",fault=refuse qp error=12");
	tuner_with_plugin(&t, &p, 6, 2);
	fill(costs);
	tuner_ask(&t, costs);
	cr_assert(all_of(costs, NCCL_TUNER_PROTO_LL, true));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	tuner_end(&t);
	plug_close(&p);
}
