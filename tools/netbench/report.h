/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run found, on screen and as JSON. */
#ifndef NETBENCH_REPORT_H
#define NETBENCH_REPORT_H

#include <stdio.h>

#include "bench.h"
#include "common/plot.h"

enum { NB_MAX_ROWS = 64 }; /* 64 GiB by a factor of 2 makes 37 */

struct nb_row {
	uint64_t size;  /* bytes */
	uint64_t count; /* elements */
	double time_us, p50_us, p99_us, p999_us;
	double algbw, busbw;                 /* 10^9 bytes per second */
	uint64_t calls[NB_CALLS], unplanned; /* of all ranks */
	double cpu;                          /* cores that the busiest rank kept busy */
	uint64_t wrong;
};

/* In memory that all ranks and their parent share; written by rank 0. */
struct nb_report {
	char plugin[64], path[512], device[64];
	int abi, ndev;
	struct nb_taken taken; /* of each the largest of all ranks */
	int nrows;
	struct nb_row rows[NB_MAX_ROWS];
};

/* Rank 0's, on stdout, as the run goes. */
void nb_report_header(const struct nb *nb, const struct nb_report *report);
void nb_report_row(const struct nb_pattern *pattern, const struct nb_options *opt,
		   const struct nb_row *row);

/* The parent's, when all ranks are gone. @code: how the run ended. */
void nb_report_summary(const struct nb_options *opt, const struct nb_report *report, int code);
/* 0 or -errno, said on stderr. Closes @file. */
int nb_report_json(FILE *file, const struct nb_pattern *pattern, const struct nb_options *opt,
		   const struct nb_report *report, int code);

/* 0 or -errno, said on stderr. */
int nb_report_plot(const struct plotter *plotter, const struct nb_options *opt,
		   const struct nb_report *report);

/* What rank 0 hands to nb_rank_main() of all. */
struct nb_run {
	const struct nb_options *opt;
	const struct nb_pattern *pattern;
	struct nb_report *report;
	const char *stage; /* begins the line of progress: which run of several this is, or "" */
	bool quiet;        /* no table */
};

#endif
