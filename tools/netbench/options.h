/* SPDX-License-Identifier: BSD-3-Clause */
/* What netbench is asked to do. */
#ifndef NETBENCH_OPTIONS_H
#define NETBENCH_OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nb_options {
	const char *plugin;
	const char *pattern;
	const char *json;    /* NULL: none */
	const char *plot;    /* likewise */
	const char *compare; /* another plugin; likewise */
	uint64_t rounds;
	bool instructions;
	bool progress;
	uint64_t ranks;
	uint64_t min, max; /* bytes */
	uint64_t factor;
	uint64_t iters, warmup;
	uint64_t window;   /* messages outstanding per connection */
	uint64_t chunk;    /* bytes; 0: the pattern's default */
	uint64_t channels; /* connections per ordered pair of ranks */
	uint64_t abi;      /* 0: newest */
	uint64_t dev;      /* NB_DEV_BY_RANK, or the device of all ranks */
	uint64_t timeout;  /* s */
	bool check;
	const char *where;       /* root as text; NULL: none */
	struct sockaddr_in root; /* port 0: all ranks are started here */
	uint64_t rank;           /* with root: the one to start */
};

enum { NB_DEV_BY_RANK = 9999, NB_RANK_UNKNOWN = 9999 };

/*
 * 0: go on. 1: nothing to do, --help was printed. -EINVAL: said on stderr what is wrong. Strings
 * point into @argv.
 */
int nb_options_parse(struct nb_options *opt, int argc, char **argv);

/* What ranks that are started apart must agree on, as "--name value ..."; fits HOST_TERMS_BYTES. */
void nb_options_terms(const struct nb_options *opt, char *text, size_t size);

#endif
