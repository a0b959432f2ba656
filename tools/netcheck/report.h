/* SPDX-License-Identifier: BSD-3-Clause */
/* What netcheck says of a run: on stdout, in JSON, in the XML of JUnit. */
#ifndef NETCHECK_REPORT_H
#define NETCHECK_REPORT_H

#include <stdio.h>

#include "runner.h"

void nk_report_result(const struct nk_result *result);
/* A line per version. */
void nk_report_summary(const struct nk_result *results, int n);

/* 0 or -EIO, said on stderr. They close @f. */
int nk_report_json(FILE *f, const struct nk_options *opt, const struct nk_result *results, int n);
int nk_report_junit(FILE *f, const struct nk_options *opt, const struct nk_result *results, int n);

#endif
