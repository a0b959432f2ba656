/* SPDX-License-Identifier: BSD-3-Clause */
/* The table on screen, laid out like that of nccl-tests, and its JSON form. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/json.h"
#include "host/log.h"

/* Of the rank that took most. What is shared by all is counted to each in part. */
static void print_taken(const struct nb_taken *t)
{
	double comms = (double)t->comms;

	printf("# comms %" PRId64 ": for each %.3f ms, ", t->comms, t->connect_ms / comms);
	if (t->memory < 0)
		printf("memory unknown");
	else
		printf("%.1f KiB", (double)t->memory / 1024 / comms);
	if (t->qps < 0)
		printf("; queue pairs unknown\n");
	else
		printf("; queue pairs %" PRId64 " in all\n", t->qps);
}

void nb_report_header(const struct nb *nb, const struct nb_report *report)
{
	const struct nb_options *opt = nb->opt;
	const char *percentiles = nb->pattern->percentiles ? "       p50       p99     p99.9" : "";
	const char *units = nb->pattern->percentiles ? "      (us)      (us)      (us)" : "";

	printf("# netbench: plugin %s, net ABI v%d, %s\n", report->plugin, report->abi,
	       report->path);
	printf("# %s: %s\n", nb->pattern->name, nb->pattern->title);
	printf("# ranks %" PRIu64 ", channels %" PRIu64 ", window %" PRIu64 ", iters %" PRIu64
	       ", warmup %" PRIu64 ", check %s",
	       opt->ranks, opt->channels, opt->window, opt->iters, opt->warmup,
	       opt->check ? "on" : "off");
	if (opt->chunk)
		printf(", chunk %" PRIu64, opt->chunk);
	printf("\n# devices %d, rank 0 uses %d (%s, %d Mbit/s); connected in %.1f ms\n",
	       report->ndev, nb->dev, report->device, nb->props.speed, report->taken.connect_ms);
	print_taken(&report->taken);
	printf("#\n");
	printf("#%11s %14s %8s %7s %10s%s %9s %9s %8s\n", "size", "count", "type", "redop", "time",
	       percentiles, "algbw", "busbw", "#wrong");
	printf("#%11s %14s %8s %7s %10s%s %9s %9s\n", "(B)", "(elements)", "", "", "(us)", units,
	       "(GB/s)", "(GB/s)");
	fflush(stdout);
}

/* Four significant digits, whatever the magnitude. */
static const char *us_str(char text[16], double us)
{
	snprintf(text, 16, us < 100 ? "%.2f" : us < 10000 ? "%.1f" : "%.0f", us);
	return text;
}

/* Also the names of their functions, behind "counted_". */
static const char *const call_names[NB_CALLS] = {
	[NB_IRECV] = "irecv",         [NB_ISEND] = "isend",         [NB_TEST_RECV] = "test_recv",
	[NB_TEST_SEND] = "test_send", [NB_IDLE_TEST] = "idle_test",
};

static void print_calls(const struct nb_row *row)
{
	for (int i = 0; i < NB_CALLS; i++)
		printf("%s counted_%s %" PRIu64, i ? "," : "#", call_names[i], row->calls[i]);
	printf("; unplanned %" PRIu64 "\n", row->unplanned);
}

void nb_report_row(const struct nb_pattern *pattern, const struct nb_options *opt,
		   const struct nb_row *row)
{
	char text[16];

	printf("  %12" PRIu64 " %14" PRIu64 " %8s %7s %10s", row->size, row->count, pattern->type,
	       pattern->redop, us_str(text, row->time_us));
	if (pattern->percentiles) {
		printf(" %9s", us_str(text, row->p50_us));
		printf(" %9s", us_str(text, row->p99_us));
		printf(" %9s", us_str(text, row->p999_us));
	}
	printf(" %9.3f %9.3f", row->algbw, row->busbw);
	if (opt->check)
		printf(" %8" PRIu64 "\n", row->wrong);
	else
		printf(" %8s\n", "N/A");
	if (pattern->calls)
		print_calls(row);
	fflush(stdout);
}

static uint64_t total_wrong(const struct nb_report *report)
{
	uint64_t wrong = 0;

	for (int i = 0; i < report->nrows; i++)
		wrong += report->rows[i].wrong;
	return wrong;
}

static double mean_busbw(const struct nb_report *report)
{
	double sum = 0;

	for (int i = 0; i < report->nrows; i++)
		sum += report->rows[i].busbw;
	return report->nrows ? sum / report->nrows : 0;
}

static double busiest(const struct nb_report *report)
{
	double cpu = 0;

	for (int i = 0; i < report->nrows; i++)
		cpu = report->rows[i].cpu > cpu ? report->rows[i].cpu : cpu;
	return cpu;
}

void nb_report_summary(const struct nb_options *opt, const struct nb_report *report, int code)
{
	uint64_t wrong = total_wrong(report);

	if (!report->nrows)
		return;
	if (code > HOST_WRONG)
		printf("# Incomplete: the run ended with code %d\n", code);
	if (opt->check)
		printf("# Out of bounds values : %" PRIu64 " %s\n", wrong, wrong ? "FAILED" : "OK");
	else
		printf("# Out of bounds values : not checked\n");
	printf("# Avg bus bandwidth    : %.6g\n", mean_busbw(report));
	printf("# CPU, busiest rank    : %.0f %% of a core\n", 100 * busiest(report));
	fflush(stdout);
}

/* ---- JSON ---- */

static void json_row(FILE *f, const struct nb_pattern *pattern, const struct nb_options *opt,
		     const struct nb_row *row)
{
	fprintf(f, "    {\"size\": %" PRIu64 ", \"count\": %" PRIu64 ", ", row->size, row->count);
	json_string(f, "type", pattern->type);
	fputs(", ", f);
	json_string(f, "redop", pattern->redop);
	fprintf(f, ", \"time_us\": %.4f", row->time_us);
	if (pattern->percentiles)
		fprintf(f, ", \"p50_us\": %.4f, \"p99_us\": %.4f, \"p999_us\": %.4f", row->p50_us,
			row->p99_us, row->p999_us);
	fprintf(f, ", \"algbw_GBps\": %.6g, \"busbw_GBps\": %.6g, \"cpu\": %.3f", row->algbw,
		row->busbw, row->cpu);
	if (pattern->calls) {
		for (int i = 0; i < NB_CALLS; i++)
			fprintf(f, ", \"%s\": %" PRIu64, call_names[i], row->calls[i]);
		fprintf(f, ", \"unplanned\": %" PRIu64, row->unplanned);
	}
	if (opt->check)
		fprintf(f, ", \"wrong\": %" PRIu64 "}", row->wrong);
	else
		fprintf(f, ", \"wrong\": null}");
}

static void json_known(FILE *f, const char *name, int64_t value)
{
	if (value < 0)
		fprintf(f, ", \"%s\": null", name);
	else
		fprintf(f, ", \"%s\": %" PRId64, name, value);
}

static void json_run(FILE *f, const struct nb_pattern *pattern, const struct nb_options *opt,
		     const struct nb_report *report)
{
	fputs("  \"plugin\": {", f);
	json_string(f, "name", report->plugin);
	fputs(", ", f);
	json_string(f, "path", report->path);
	fprintf(f, ", \"abi\": %d, \"devices\": %d, ", report->abi, report->ndev);
	json_string(f, "device", report->device);
	fprintf(f, "},\n  ");
	json_string(f, "pattern", pattern->name);
	fprintf(f,
		",\n  \"ranks\": %" PRIu64 ", \"channels\": %" PRIu64 ", \"window\": %" PRIu64
		", \"chunk\": %" PRIu64 ", \"iters\": %" PRIu64 ", \"warmup\": %" PRIu64
		", \"check\": %s,\n",
		opt->ranks, opt->channels, opt->window, opt->chunk, opt->iters, opt->warmup,
		opt->check ? "true" : "false");
	fprintf(f, "  \"connect_ms\": %.3f, \"comms\": %" PRId64, report->taken.connect_ms,
		report->taken.comms);
	json_known(f, "memory_bytes", report->taken.memory);
	json_known(f, "queue_pairs", report->taken.qps);
	fputs(",\n", f);
}

int nb_report_json(FILE *f, const struct nb_pattern *pattern, const struct nb_options *opt,
		   const struct nb_report *report, int code)
{
	bool failed;

	fputs("{\n  \"tool\": \"netbench\",\n", f);
	json_run(f, pattern, opt, report);
	fputs("  \"rows\": [", f);
	for (int i = 0; i < report->nrows; i++) {
		fputs(i ? ",\n" : "\n", f);
		json_row(f, pattern, opt, &report->rows[i]);
	}
	fprintf(f, "\n  ],\n  \"avg_busbw_GBps\": %.6g, \"wrong\": ", mean_busbw(report));
	if (opt->check)
		fprintf(f, "%" PRIu64, total_wrong(report));
	else
		fputs("null", f);
	fprintf(f, ", \"exit\": %d\n}\n", code);
	failed = ferror(f);
	if (fclose(f) || failed) {
		host_err("--json %s: %s", opt->json, strerror(errno));
		return -EIO;
	}
	return 0;
}

int nb_report_plot(const struct plotter *plotter, const struct nb_options *opt,
		   const struct nb_report *report)
{
	struct plot_point points[NB_MAX_ROWS];

	for (int i = 0; i < report->nrows; i++)
		points[i] = (struct plot_point){report->rows[i].size, report->rows[i].busbw};
	return plot_draw(plotter, points, report->nrows, opt->plot);
}
