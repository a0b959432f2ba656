/* SPDX-License-Identifier: BSD-3-Clause */
/* What netcheck is asked to do. */
#ifndef NETCHECK_OPTIONS_H
#define NETCHECK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct nk_options {
	const char *plugin;
	const char *abi_text;
	const char *checks; /* "C50,data"; NULL: all */
	const char *mode;
	const char *json, *junit; /* files; NULL: none */
	uint64_t ranks;
	uint64_t seed;
	uint64_t timeout; /* s for one check; 0: by quick or full */
	uint64_t jobs;    /* checks at a time */
	bool full;        /* else quick */
	bool list;
	int abi;      /* 0: all that are exported */
	bool threads; /* ranks are threads of one process */
};

/*
 * 0: go on. 1: nothing to do, --help was printed. -EINVAL: said on stderr what is wrong. Strings
 * point into @argv.
 */
int nk_options_parse(struct nk_options *opt, int argc, char **argv);

#endif
