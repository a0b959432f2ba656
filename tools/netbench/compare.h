/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two plugins by turns. What else the machine does changes from minute to minute: only runs that
 * follow on each other are compared, and the first of them is a different one each time.
 */
#ifndef NETBENCH_COMPARE_H
#define NETBENCH_COMPARE_H

#include "session.h"

enum { NB_MAX_ROUNDS = 100 };

/* All of it, on stdout and into @json unless it is NULL; closes that. As nb_session(). */
int nb_compare(const struct nb_options *opt, const struct nb_pattern *pattern, FILE *json);

#endif
