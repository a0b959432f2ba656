/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all checks. */
#ifndef NETCHECK_TABLE_H
#define NETCHECK_TABLE_H

#include "check.h"

enum { NK_MAX_CHECKS = 128 };

/*
 * Those that @names lists ("C50,data"; NULL: all), in order of number; returns how many. -EINVAL:
 * said on stderr which of the names is none.
 */
int nk_table_select(const char *names, const struct check *chosen[NK_MAX_CHECKS]);
void nk_table_print(const struct check *const chosen[], int n);

#endif
