/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same random program of verbs in several ways: in another order, with other faults, between
 * processes of one host and between hosts. Its outcome must be the same. DIFFER_SEED says where the
 * seeds begin, DIFFER_PHASES how long programs are.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#include "../lib/kids.h"
#include "../lib/node.h"
#include "../lib/program.h"

TestSuite(softefa_differ, .timeout = 250);

enum { PROGRAMS = 3 };

static unsigned number_of(const char *name, unsigned fallback)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 10) : fallback;
}

static void compare(unsigned program, const struct program_way *a, const struct program_way *b)
{
	uint64_t seed = number_of("DIFFER_SEED", 1) + program;
	unsigned phases = number_of("DIFFER_PHASES", 60);
	struct program_outcome *x, *y;

	node_settings(NULL);
	x = program_run(seed, phases, a);
	y = program_run(seed, phases, b);
	cr_assert(ge(u32, x->n[0], phases / 2), "next to nothing was done");
	program_same(x, y);
}

static unsigned programs[PROGRAMS] = {0, 1, 2};

ParameterizedTestParameters(softefa_differ, order_does_not_matter)
{
	return cr_make_param_array(unsigned, programs, PROGRAMS);
}

ParameterizedTest(unsigned *program, softefa_differ, order_does_not_matter)
{
	compare(*program, &(struct program_way){.settings = "seed=1,reorder=0"},
		&(struct program_way){.settings = "seed=77,reorder=64"});
}

ParameterizedTestParameters(softefa_differ, way_of_placing_does_not_matter)
{
	return cr_make_param_array(unsigned, programs, PROGRAMS);
}

ParameterizedTest(unsigned *program, softefa_differ, way_of_placing_does_not_matter)
{
	compare(*program, &(struct program_way){.settings = "seed=3"},
		&(struct program_way){
			.settings = "seed=4,fault=lines,fault=twice p=0.3,fault=delay 300 p=0.2"});
}

ParameterizedTestParameters(softefa_differ, other_hosts_are_like_this_one)
{
	return cr_make_param_array(unsigned, programs, PROGRAMS);
}

ParameterizedTest(unsigned *program, softefa_differ, other_hosts_are_like_this_one)
{
	struct program_way tcp = {.settings = "seed=6,reorder=32"};

	tcp.port[0] = program_port();
	tcp.port[1] = program_port();
	compare(*program, &(struct program_way){.settings = "seed=5"}, &tcp);
}
