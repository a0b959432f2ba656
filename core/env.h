/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser behind srd_env_load(), with a choice of where warnings go. */
#ifndef SRD_CORE_ENV_H
#define SRD_CORE_ENV_H

#include "log.h"
#include "srd_env.h"

typedef void (*srd_env_warn_fn)(enum srd_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void srd_env_load_warn(void *settings, const struct srd_env *table, size_t n, srd_env_warn_fn warn);

#endif
