/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench: drive an NCCL net plugin as NCCL does, check the data, time it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "host/log.h"
#include "session.h"

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

static int run_one(const struct nb_options *opt, const struct nb_pattern *pattern,
		   const struct plotter *plotter, FILE *json)
{
	struct nb_run run = {
		.opt = opt, .pattern = pattern, .report = nb_report_new(), .stage = ""};
	int code;

	if (!run.report)
		return HOST_USAGE;
	code = nb_session(&run);
	nb_report_summary(opt, run.report, code);
	if (json && nb_report_json(json, pattern, opt, run.report, code) && code < HOST_USAGE)
		code = HOST_USAGE;
	/* A plotter that ends early is no reason to die silently; ranks had the default. */
	signal(SIGPIPE, SIG_IGN);
	if (plotter && run.report->nrows && nb_report_plot(plotter, opt, run.report) &&
	    code < HOST_USAGE)
		code = HOST_USAGE;
	return code;
}

int main(int argc, char **argv)
{
	const struct plotter *plotter = NULL;
	const struct nb_pattern *pattern;
	struct nb_options opt;
	FILE *json = NULL;
	int rc;

	host_log_init("netbench", -1);
	rc = nb_options_parse(&opt, argc, argv);
	if (rc)
		return rc > 0 ? HOST_PASS : HOST_USAGE;
	pattern = opt.instructions ? &nb_calls : pattern_find(opt.pattern);
	if (!pattern || pattern_check(pattern, &opt))
		return HOST_USAGE;
	/* Before the run: a long one must not end with a file that cannot be written. */
	if (opt.json && nb_prints(&opt) && !(json = fopen(opt.json, "w"))) {
		host_err("--json %s: %s", opt.json, strerror(errno));
		return HOST_USAGE;
	}
	if (opt.plot && nb_prints(&opt) && !(plotter = plotter_find()))
		return HOST_USAGE;
	if (opt.compare)
		return nb_compare(&opt, pattern, json);
	return run_one(&opt, pattern, plotter, json);
}
