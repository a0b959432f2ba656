/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of a device that softefa plays: see softefa(1), FAULTS. */
#ifndef NETCHECK_RULES_H
#define NETCHECK_RULES_H

#include "check.h"

/* A file of rules for softefa in this process and its children, before anything is loaded. */
void nk_rules_init(void);

/*
 * From the plugin's next command to a device on (memory registered, a queue made) these rules, a
 * line each, and no others. For checks with CHECK_SOFTEFA.
 */
void nk_rules_put(struct check_ctx *ctx, const char *rules);

/* softefa is preloaded, and the plugin has loaded libibverbs. */
bool nk_rules_apply(void);

#endif
