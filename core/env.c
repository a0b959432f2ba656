/* SPDX-License-Identifier: BSD-3-Clause */
/* Environment parameters: strict parsing of one table entry, and of a table. */
#include "srd_env.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"

static int parse_int(const struct srd_env *env, const char *text, int64_t *out)
{
	char *end;
	long long v;

	/* strtoll() would skip white space, and take an octal 010 for 8. */
	if (!isdigit((unsigned char)text[text[0] == '-']))
		return -EINVAL;
	errno = 0;
	v = strtoll(text, &end, strncasecmp(text + (text[0] == '-'), "0x", 2) ? 10 : 16);
	if (*end)
		return -EINVAL;
	if (errno || v < env->min || v > env->max)
		return -ERANGE;
	*out = v;
	return 0;
}

static int parse_choice(const struct srd_env *env, const char *text, int64_t *out)
{
	size_t len = strlen(text);
	const char *word = env->choices;

	for (int64_t i = 0; word; i++) {
		const char *bar = strchr(word, '|');
		size_t n = bar ? (size_t)(bar - word) : strlen(word);

		if (n == len && memcmp(word, text, n) == 0) {
			*out = i;
			return 0;
		}
		word = bar ? bar + 1 : NULL;
	}
	return -EINVAL;
}

static int parse(const struct srd_env *env, const char *text, void *settings)
{
	void *field = (char *)settings + env->field;

	switch (env->type) {
	case SRD_ENV_INT:
		return parse_int(env, text, field);
	case SRD_ENV_CHOICE:
		return parse_choice(env, text, field);
	case SRD_ENV_STRING:
		if (strlen(text) >= (size_t)env->max)
			return -ERANGE;
		strcpy(field, text);
		return 0;
	}
	return -EINVAL;
}

void srd_env_limits(const struct srd_env *env, char *out, size_t size)
{
	switch (env->type) {
	case SRD_ENV_INT:
		snprintf(out, size, "an integer %" PRId64 " ... %" PRId64, env->min, env->max);
		break;
	case SRD_ENV_CHOICE:
		snprintf(out, size, "one of %s", env->choices);
		break;
	case SRD_ENV_STRING:
		snprintf(out, size, "at most %" PRId64 " bytes", env->max - 1);
		break;
	}
}

void srd_env_load_warn(void *settings, const struct srd_env *table, size_t n, srd_env_warn_fn warn)
{
	for (const struct srd_env *env = table; env < table + n; env++) {
		const char *text = getenv(env->name);
		char limits[256];
		int rc = parse(env, env->def, settings);

		assert(rc == 0);
		(void)rc;
		if (!text || parse(env, text, settings) == 0)
			continue;
		srd_env_limits(env, limits, sizeof(limits));
		warn(SRD_LOG_WARN, "%s=%.64s is not %s: using %s", env->name, text, limits,
		     env->def);
	}
}

void srd_env_load(void *settings, const struct srd_env *table, size_t n)
{
	srd_env_load_warn(settings, table, n, srd_log);
}
