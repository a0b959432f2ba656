/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#ifndef SRD_BW_OPTIONS_H
#define SRD_BW_OPTIONS_H

#include "plan.h"

struct bw_options {
	/* As given. */
	const char *op, *size, *rails; /* rails NULL: as many as the other side has */
	const char *plot;              /* file; NULL: none */
	uint64_t window, qps, iters, seconds, port;
	bool bidirectional, check, direct, csv, json, progress;

	/* What follows. */
	char host[256]; /* "": this is the server */
	struct bw_plan plan;
	uint64_t sizes[BW_MAX_SIZES];
	int nsizes;
};

/* 0: go on. 1: nothing to do, --help was printed. -EINVAL: said on stderr what is wrong. */
int bw_options_parse(struct bw_options *opt, int argc, char **argv);

#endif
