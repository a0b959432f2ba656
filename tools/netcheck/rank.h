/* SPDX-License-Identifier: BSD-3-Clause */
/* The process of a check: one rank of it, or all of them as threads. */
#ifndef NETCHECK_RANK_H
#define NETCHECK_RANK_H

#include "check.h"

struct nk_ranks {
	const struct check *check;
	const struct nk_options *opt;
	int abi;
	int nranks; /* of the check */
	struct host_boot *boot;
	struct check_note *notes; /* [nranks] */
};

/* Plays rank @rank, or all of them if ranks are threads; ends the process. */
_Noreturn void nk_ranks_play(const struct nk_ranks *ranks, int rank);

#endif
