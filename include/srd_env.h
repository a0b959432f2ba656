/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Environment parameters: each declared once in a table, read once, strictly.
 *
 *	struct settings { int64_t retries, mode; char path[64]; } settings;
 *
 *	static const struct srd_env table[] = {
 *		{ "FOO_RETRIES", SRD_ENV_INT, offsetof(struct settings, retries),
 *		  .def = "3", .min = 0, .max = 100, .text = "attempts before giving up" },
 *		{ "FOO_MODE", SRD_ENV_CHOICE, offsetof(struct settings, mode),
 *		  .def = "auto", .choices = "auto|on|off", .text = "whether to foo" },
 *		{ "FOO_PATH", SRD_ENV_STRING, offsetof(struct settings, path),
 *		  .def = "", .max = sizeof(settings.path), .text = "where to look for foo" },
 *	};
 *	srd_env_load(&settings, table, 3);
 *
 * For the programs and plugins of this project, which link libsrd.a: it is not installed, and
 * libsrd.so does not export it.
 */
#ifndef SRD_ENV_H
#define SRD_ENV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum srd_env_type {
	SRD_ENV_INT,    /* int64_t: decimal or 0x..., the whole string, min ... max */
	SRD_ENV_CHOICE, /* int64_t: index of the word in choices */
	SRD_ENV_STRING, /* char[max]: max counts the final NUL */
};

struct srd_env {
	const char *name;
	enum srd_env_type type;
	size_t field;    /* offset of the value in the settings */
	const char *def; /* spelled as a user would */
	int64_t min, max;
	const char *choices; /* words separated by | */
	const char *text;    /* one line for people */
};

/*
 * Fill every field of @settings that the table names, from the environment or the default. A bad
 * value is one warning in srd's log, which names value and limits, and the default.
 */
void srd_env_load(void *settings, const struct srd_env *table, size_t n);

/* What is accepted, for people: "an integer 0 ... 100", "one of auto|on|off". */
void srd_env_limits(const struct srd_env *env, char *out, size_t size);

/* The parameters that srd itself reads, for a tool that lists them; @n: how many. */
const struct srd_env *srd_env_core(size_t *n);
/* Those of the NCCL plugin; it is the plugin, and not srd, that has this function. */
const struct srd_env *srd_env_plugin(size_t *n);

#ifdef __cplusplus
}
#endif
#endif
