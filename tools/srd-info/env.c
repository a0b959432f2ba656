/* SPDX-License-Identifier: BSD-3-Clause */
/* Environment variables, from the tables that read them. */
#include <stdio.h>
#include <stdlib.h>

#include "common/json.h"
#include "info.h"
#include "srd_env.h"

static const char *type_name(enum srd_env_type type)
{
	switch (type) {
	case SRD_ENV_INT:
		return "integer";
	case SRD_ENV_CHOICE:
		return "choice";
	case SRD_ENV_STRING:
		return "string";
	}
	return "unknown";
}

static void row(const struct srd_env *e)
{
	char limits[256];

	srd_env_limits(e, limits, sizeof(limits));
	printf("%-26s %-8s %-8s %s (%s)\n", e->name, type_name(e->type),
	       e->def[0] ? e->def : "\"\"", e->text, limits);
	if (getenv(e->name))
		printf("%-26s is set to \"%s\"\n", "", getenv(e->name));
}

static void object(const struct srd_env *e)
{
	char limits[256];

	srd_env_limits(e, limits, sizeof(limits));
	printf("  {");
	json_string(stdout, "name", e->name);
	printf(", ");
	json_string(stdout, "type", type_name(e->type));
	printf(", ");
	json_string(stdout, "default", e->def);
	printf(", ");
	json_string(stdout, "limits", limits);
	printf(", ");
	json_string(stdout, "text", e->text);
	printf(", ");
	if (getenv(e->name))
		json_string(stdout, "set", getenv(e->name));
	else
		printf("\"set\": null");
	printf("}");
}

void info_print_env(bool json)
{
	size_t ncore, nplugin;
	const struct srd_env *core = srd_env_core(&ncore), *plugin = srd_env_plugin(&nplugin);

	if (json)
		printf("{\"environment\": [\n");
	else
		printf("%-26s %-8s %-8s\n", "VARIABLE", "TYPE", "DEFAULT");
	for (size_t i = 0; i < ncore + nplugin; i++) {
		const struct srd_env *e = i < ncore ? &core[i] : &plugin[i - ncore];

		if (!json) {
			row(e);
			continue;
		}
		object(e);
		printf("%s", i + 1 < ncore + nplugin ? ",\n" : "\n");
	}
	if (json)
		printf("]}\n");
	else
		printf("\nlibibverbs has some of its own, of which SYSFS_PATH counts here as well. "
		       "Those of softefa: softefa(1).\n");
}
