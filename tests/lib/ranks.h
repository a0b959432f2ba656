/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of ranks that are started each by itself, as on hosts of their own. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include <sys/types.h>

#include "../../tools/host/boot.h"

enum {
	RANKS = 4,
	RANKS_SHARE = 300000,
	RANKS_LIMIT_S = 20, /* no machine is so busy that a healthy rank is silent for so long */
	RANKS_SHORT_S = 4,  /* where the limit is to be met */
};

/* One process per rank; those of a second attempt lie from RANKS on. */
struct ranks_proc {
	pid_t pid;
	int err; /* holds what it said on stderr */
};

extern struct ranks_proc ranks_procs[2 * RANKS];
/* What all ranks of the test have in common. */
extern struct host_run ranks_shape;

/* Choose a free port for ranks_shape. */
uint16_t ranks_port(void);
/* A connection to it, once somebody listens there. */
int ranks_connect(void);

typedef int ranks_main_fn(struct host_rank *self, void *arg);

void ranks_start(int rank, ranks_main_fn *rank_main);
void ranks_start_all(ranks_main_fn *rank_main);
void ranks_start_run(int at, const struct host_run *run);

/* All-gathers, verified. */
int ranks_gather(struct host_rank *self, void *arg);

/* It ends in time with @code; with 128 + signal if killed. */
void ranks_expect(int at, int code);
void ranks_expect_all(int code);
const char *ranks_said(int at);
void ranks_expect_says(int at, const char *text);

#endif
