/* SPDX-License-Identifier: BSD-3-Clause */
/* What the plugin sets for an instance type is what nccl-tests-config/env/ says, and no more. */
#include "../../plugin/platform.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/need.h"

/* How many variables of NCCL there are. */
static int settings(void)
{
	int n = 0;

	for (char **e = environ; e && *e; e++)
		n += strncmp(*e, "NCCL_", 5) == 0;
	return n;
}

static void start(void)
{
	need(clearenv() == 0, "clearenv");
}

TestSuite(platform, .init = start);

/* The file of the type, or of its family, as run.sh looks for it. */
static FILE *env_file(const char *type)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), CONFIG "/env/%s.env", type);
	f = fopen(path, "r");
	if (f)
		return f;
	snprintf(path, sizeof(path), CONFIG "/env/%.*s.env", (int)strcspn(type, "."), type);
	f = fopen(path, "r");
	need(f, "%s: %s", path, strerror(errno));
	return f;
}

struct type {
	char name[24];
};

ParameterizedTestParameters(platform, sets_what_the_configuration_has_and_nothing_else)
{
	static struct type types[] = {
		{"p4d.24xlarge"}, {"p4de.24xlarge"}, {"p5.4xlarge"},       {"p5.48xlarge"},
		{"p5e.48xlarge"}, {"p5en.48xlarge"}, {"p6-b200.48xlarge"}, {"p6-b300.48xlarge"},
		{"g5.48xlarge"},  {"g6e.48xlarge"},
	};

	return cr_make_param_array(struct type, types, sizeof(types) / sizeof(types[0]));
}

ParameterizedTest(struct type *type, platform, sets_what_the_configuration_has_and_nothing_else)
{
	FILE *f = env_file(type->name);
	char line[256], *value;
	int n = 0;

	net_platform_set(type->name);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		line[strcspn(line, "\n")] = '\0';
		value = strchr(line, '=');
		need(value, "%s: no setting", line);
		*value++ = '\0';
		need(getenv(line), "%s is not set", line);
		cr_assert(eq(str, getenv(line), value), "%s", line);
		n++;
	}
	fclose(f);
	cr_assert(eq(int, settings(), n));
}

Test(platform, what_the_user_has_set_stays)
{
	setenv("NCCL_BUFFSIZE", "1", 1);
	net_platform_set("p5.48xlarge");
	cr_assert(eq(str, getenv("NCCL_BUFFSIZE"), (char *)"1"));
	cr_assert(eq(str, getenv("NCCL_P2P_NET_CHUNKSIZE"), (char *)"524288"));
}

Test(platform, unknown_machine_gets_nothing)
{
	net_platform_set("");
	net_platform_set("m5.large");
	cr_assert(zero(int, settings()));
}
