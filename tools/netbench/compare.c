/* SPDX-License-Identifier: BSD-3-Clause */
/* Two plugins by turns. */
#include "compare.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "host/log.h"

enum { A, B, SIDES };

struct side {
	char plugin[64], path[512];
	int abi;
	double us[NB_MAX_ROWS][NB_MAX_ROUNDS];
};

struct compare {
	const struct nb_options *opt;
	const struct nb_pattern *pattern;
	struct side side[SIDES];
	uint64_t size[NB_MAX_ROWS];
	uint64_t wrong;
	int nrows;
	int rounds; /* that are whole */
};

/* Of the times of B and A in one round, over all rounds. */
struct ratio {
	double median, min, max;
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts @v. */
static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), ascending);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double median_us(const struct compare *c, int side, int row)
{
	double v[NB_MAX_ROUNDS];

	memcpy(v, c->side[side].us[row], sizeof(v));
	return median(v, c->rounds);
}

static struct ratio ratio_of(const struct compare *c, int row)
{
	double v[NB_MAX_ROUNDS];
	struct ratio r;

	for (int i = 0; i < c->rounds; i++)
		v[i] = c->side[B].us[row][i] / c->side[A].us[row][i];
	r.median = median(v, c->rounds);
	r.min = v[0];
	r.max = v[c->rounds - 1];
	return r;
}

/* ---- running ---- */

static void note(struct compare *c, int s, int round, const struct nb_report *report)
{
	struct side *side = &c->side[s];

	memcpy(side->plugin, report->plugin, sizeof(side->plugin));
	memcpy(side->path, report->path, sizeof(side->path));
	side->abi = report->abi;
	c->nrows = report->nrows;
	for (int i = 0; i < report->nrows; i++) {
		c->size[i] = report->rows[i].size;
		side->us[i][round] = report->rows[i].time_us;
		c->wrong += report->rows[i].wrong;
	}
}

static int run_side(struct compare *c, int s, int round, struct nb_report *report)
{
	struct nb_options opt = *c->opt;
	char stage[48];
	struct nb_run run = {
		.opt = &opt,
		.pattern = c->pattern,
		.report = report,
		.stage = stage,
		.quiet = true,
	};
	int code;

	if (s == B)
		opt.plugin = opt.compare;
	snprintf(stage, sizeof(stage), "%c, round %d of %d: ", 'A' + s, round + 1, (int)opt.rounds);
	memset(report, 0, sizeof(*report));
	code = nb_session(&run);
	if (code > HOST_WRONG)
		host_err("%c, %s, failed in round %d of %d: nothing to compare", 'A' + s,
			 opt.plugin, round + 1, (int)opt.rounds);
	else
		note(c, s, round, report);
	return code;
}

static int run_rounds(struct compare *c, struct nb_report *report)
{
	int worst = HOST_PASS;

	while (c->rounds < (int)c->opt->rounds) {
		for (int k = 0; k < SIDES; k++) {
			int code = run_side(c, (c->rounds + k) % SIDES, c->rounds, report);

			worst = code > worst ? code : worst;
			if (code > HOST_WRONG)
				return code;
		}
		c->rounds++;
	}
	return worst;
}

/* ---- telling ---- */

static double mean_ratio(const struct compare *c)
{
	double sum = 0;

	for (int i = 0; i < c->nrows; i++)
		sum += log(ratio_of(c, i).median);
	return c->nrows ? exp(sum / c->nrows) : 0;
}

static void print(const struct compare *c)
{
	const struct nb_options *opt = c->opt;

	for (int s = 0; s < SIDES; s++)
		printf("# netbench: %c is %s, net ABI v%d, %s\n", 'A' + s, c->side[s].plugin,
		       c->side[s].abi, c->side[s].path);
	printf("# %s: %s\n", c->pattern->name, c->pattern->title);
	printf("# ranks %" PRIu64 ", channels %" PRIu64 ", window %" PRIu64 ", iters %" PRIu64
	       ", warmup %" PRIu64 ", check %s; %d rounds of both, by turns\n#\n",
	       opt->ranks, opt->channels, opt->window, opt->iters, opt->warmup,
	       opt->check ? "on" : "off", c->rounds);
	printf("#%11s %10s %10s %8s %8s %8s\n", "size", "A", "B", "B/A", "least", "most");
	printf("#%11s %10s %10s %8s\n", "(B)", "(us)", "(us)", "(median)");
	for (int i = 0; i < c->nrows; i++) {
		struct ratio r = ratio_of(c, i);

		printf("  %12" PRIu64 " %10.2f %10.2f %8.3f %8.3f %8.3f\n", c->size[i],
		       median_us(c, A, i), median_us(c, B, i), r.median, r.min, r.max);
	}
	if (opt->check)
		printf("# Out of bounds values : %" PRIu64 " %s\n", c->wrong,
		       c->wrong ? "FAILED" : "OK");
	else
		printf("# Out of bounds values : not checked\n");
	printf("# Geometric mean of B/A: %.3f: B takes %s time\n", mean_ratio(c),
	       mean_ratio(c) > 1 ? "more" : "less");
	fflush(stdout);
}

static void json_side(FILE *f, const struct compare *c, int s)
{
	fprintf(f, "  \"%c\": {", 'A' + s);
	json_string(f, "name", c->side[s].plugin);
	fputs(", ", f);
	json_string(f, "path", c->side[s].path);
	fprintf(f, ", \"abi\": %d},\n", c->side[s].abi);
}

static void json_times(FILE *f, const struct compare *c, int s, int row)
{
	fprintf(f, ", \"%c_us\": [", 'A' + s);
	for (int i = 0; i < c->rounds; i++)
		fprintf(f, "%s%.4f", i ? ", " : "", c->side[s].us[row][i]);
	fputc(']', f);
}

static int write_json(FILE *f, const struct compare *c, int code)
{
	bool failed;

	fputs("{\n  \"tool\": \"netbench\",\n", f);
	for (int s = 0; s < SIDES; s++)
		json_side(f, c, s);
	fputs("  ", f);
	json_string(f, "pattern", c->pattern->name);
	fprintf(f, ", \"ranks\": %" PRIu64 ", \"rounds\": %d,\n  \"rows\": [", c->opt->ranks,
		c->rounds);
	for (int i = 0; i < c->nrows && c->rounds; i++) {
		struct ratio r = ratio_of(c, i);

		fprintf(f,
			"%s\n    {\"size\": %" PRIu64 ", \"ratio\": %.4f, \"ratio_min\": %.4f"
			", \"ratio_max\": %.4f",
			i ? "," : "", c->size[i], r.median, r.min, r.max);
		json_times(f, c, A, i);
		json_times(f, c, B, i);
		fputc('}', f);
	}
	fputs("\n  ],\n  \"wrong\": ", f);
	if (c->opt->check)
		fprintf(f, "%" PRIu64, c->wrong);
	else
		fputs("null", f);
	fprintf(f, ", \"exit\": %d\n}\n", code);
	failed = ferror(f);
	return fclose(f) || failed ? -EIO : 0;
}

int nb_compare(const struct nb_options *opt, const struct nb_pattern *pattern, FILE *json)
{
	struct compare *c = calloc(1, sizeof(*c));
	struct nb_report *report = nb_report_new();
	int code = HOST_USAGE;

	if (c && report) {
		c->opt = opt;
		c->pattern = pattern;
		code = run_rounds(c, report);
		if (code <= HOST_WRONG && nb_prints(opt))
			print(c);
	}
	if (json && c && write_json(json, c, code) && code < HOST_USAGE) {
		host_err("--json %s: %s", opt->json, strerror(EIO));
		code = HOST_USAGE;
	}
	free(c);
	return code;
}
