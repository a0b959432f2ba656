/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench: drive an NCCL net plugin as NCCL does, check the data, time it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "conn.h"
#include "host/log.h"
#include "report.h"

static const struct nb_pattern *const patterns[] = {&nb_pingpong, &nb_stream, &nb_ring,
						    &nb_alltoall};

static const struct nb_pattern *pattern_find(const char *name)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (!strcmp(name, patterns[i]->name))
			return patterns[i];
	}
	host_err("--pattern %s: must be pingpong, stream, ring or alltoall", name);
	return NULL;
}

/* Rules that depend on the pattern; fills in the pattern's defaults. */
static int pattern_check(const struct nb_pattern *pattern, struct nb_options *opt)
{
	if (pattern->pairs && opt->ranks % 2) {
		host_err("--ranks %" PRIu64 ": must be even for %s", opt->ranks, pattern->name);
		return -EINVAL;
	}
	if (pattern->max_message && opt->max > pattern->max_message) {
		host_err("--max %" PRIu64 ": must be at most %" PRIu64 " for %s", opt->max,
			 pattern->max_message, pattern->name);
		return -EINVAL;
	}
	if (pattern->one_channel && opt->channels != 1) {
		host_err("--channels %" PRIu64 ": must be 1 for %s", opt->channels, pattern->name);
		return -EINVAL;
	}
	if (!opt->chunk)
		opt->chunk = pattern->chunk;
	return 0;
}

static size_t largest_share(const struct nb_options *opt)
{
	size_t handles = nb_conns_share(opt);

	return handles > sizeof(struct nb_sample) ? handles : sizeof(struct nb_sample);
}

static int run_ranks(const struct nb_options *opt, const struct nb_pattern *pattern,
		     struct nb_report *report)
{
	struct nb_run run = {.opt = opt, .pattern = pattern, .report = report};
	char terms[HOST_TERMS_BYTES];
	struct host_run host = {
		.program = "netbench",
		.nranks = (int)opt->ranks,
		.timeout_s = (int)opt->timeout,
		.share = largest_share(opt),
		.main = nb_rank_main,
		.arg = &run,
		.root = opt->root,
		.rank = (int)opt->rank,
		.terms = terms,
	};
	int code;

	nb_options_terms(opt, terms, sizeof(terms));
	code = host_run(&host);
	nb_report_summary(opt, report, code);
	return code;
}

/* Ranks that are started apart often have one command line, and one file system. */
static bool prints(const struct nb_options *opt)
{
	return !opt->root.sin_port || !opt->rank;
}

int main(int argc, char **argv)
{
	const struct nb_pattern *pattern;
	struct nb_report *report;
	struct nb_options opt;
	const struct plotter *plotter = NULL;
	FILE *json = NULL;
	int code, rc;

	host_log_init("netbench", -1);
	rc = nb_options_parse(&opt, argc, argv);
	if (rc)
		return rc > 0 ? HOST_PASS : HOST_USAGE;
	pattern = pattern_find(opt.pattern);
	if (!pattern || pattern_check(pattern, &opt))
		return HOST_USAGE;
	/* Before the run: a long one must not end with a file that cannot be written. */
	if (opt.json && prints(&opt) && !(json = fopen(opt.json, "w"))) {
		host_err("--json %s: %s", opt.json, strerror(errno));
		return HOST_USAGE;
	}
	if (opt.plot && prints(&opt) && !(plotter = plotter_find()))
		return HOST_USAGE;
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (report == MAP_FAILED) {
		host_err("mmap: %s", strerror(errno));
		return HOST_USAGE;
	}
	code = run_ranks(&opt, pattern, report);
	if (json && nb_report_json(json, pattern, &opt, report, code) && code < HOST_USAGE)
		code = HOST_USAGE;
	/* A plotter that ends early is no reason to die silently; ranks had the default. */
	signal(SIGPIPE, SIG_IGN);
	if (plotter && report->nrows && nb_report_plot(plotter, &opt, report) && code < HOST_USAGE)
		code = HOST_USAGE;
	return code;
}
