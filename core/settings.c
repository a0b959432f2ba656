/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's own environment parameters. */
#include "settings.h"

#include <pthread.h>

#include "env.h"

static struct srd_settings settings;

static const struct srd_env table[] = {
	{"SRD_LOG", SRD_ENV_CHOICE, offsetof(struct srd_settings, log), .def = "warn",
	 .choices = "error|warn|info", .text = "least severe log lines to write"},
	{"SRD_RDMA_CORE", SRD_ENV_STRING, offsetof(struct srd_settings, rdma_core), .def = "",
	 .max = sizeof(settings.rdma_core),
	 .text = "directory to look for libibverbs.so.1 and libefa.so.1 in first"},
};

static void load(void)
{
	srd_env_load_warn(&settings, table, sizeof(table) / sizeof(table[0]), srd_log_always);
}

const struct srd_settings *srd_settings(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return &settings;
}

const struct srd_env *srd_env_core(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}
