/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs checks, each in processes of its own, and judges how they end. */
#ifndef NETCHECK_RUNNER_H
#define NETCHECK_RUNNER_H

#include "check.h"

enum nk_verdict { NK_PENDING, NK_PASS, NK_FAIL, NK_SKIP, NK_REPORT, NK_VERDICTS };

struct nk_result {
	const struct check *check;
	int abi;
	enum nk_verdict verdict;
	char text[800]; /* of all verdicts but PASS */
	char log[2048]; /* the end of what it said on stderr */
	double seconds;
};

/* @done is called for each of the @n results, in order. 0, or 128 + N: interrupted by signal N. */
int nk_run(const struct nk_options *opt, struct nk_result *results, int n,
	   void (*done)(const struct nk_result *result));

/*
 * The versions that the plugin exports, as a mask of 1 << version. 0: it has none, or cannot be
 * loaded, or the run was interrupted while the verdict is pending; @result says so.
 */
unsigned nk_versions(const struct nk_options *opt, struct nk_result *result);

#endif
