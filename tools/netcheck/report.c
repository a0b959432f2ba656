/* SPDX-License-Identifier: BSD-3-Clause */
/* Verdicts as text, JSON and XML. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/json.h"
#include "host/log.h"

static const char *const names[NK_VERDICTS] = {
	[NK_PENDING] = "PENDING", [NK_PASS] = "PASS",     [NK_FAIL] = "FAIL",
	[NK_SKIP] = "SKIP",       [NK_REPORT] = "REPORT",
};

/* ---- text ---- */

/* The last lines of what the check said, indented. */
static void print_log(const char *log)
{
	enum { LINES = 12 };
	const char *at = log + strlen(log);

	for (int lines = 0; at > log; at--) {
		if (at[-1] == '\n' && at[0] && ++lines == LINES)
			break;
	}
	while (*at) {
		size_t len = strcspn(at, "\n");

		printf("        | %.*s\n", (int)len, at);
		at += len + (at[len] == '\n');
	}
}

void nk_report_result(const struct nk_result *r)
{
	char version[16] = "-";

	if (r->abi)
		snprintf(version, sizeof(version), "v%d", r->abi);
	printf("%-6s  %-3s  %s  %s\n", names[r->verdict], version, r->check->id, r->check->title);
	if (*r->text)
		printf("        %s\n", r->text);
	if (r->verdict == NK_FAIL) {
		printf("        rule: %s\n", r->check->rule);
		print_log(r->log);
	}
	fflush(stdout);
}

struct tally {
	int of[NK_VERDICTS];
	double seconds;
};

static struct tally count(const struct nk_result *results, int n, int abi)
{
	struct tally t = {0};

	for (int i = 0; i < n; i++) {
		if (results[i].abi != abi)
			continue;
		t.of[results[i].verdict]++;
		t.seconds += results[i].seconds;
	}
	return t;
}

void nk_report_summary(const struct nk_result *results, int n)
{
	for (int i = 0; i < n; i++) {
		struct tally t = count(results, n, results[i].abi);

		if (i && results[i].abi == results[i - 1].abi)
			continue;
		printf("v%-3d %3d passed, %d failed, %d skipped, %d reported\n", results[i].abi,
		       t.of[NK_PASS], t.of[NK_FAIL], t.of[NK_SKIP], t.of[NK_REPORT]);
	}
}

static int finish(FILE *f, const char *option, const char *path)
{
	bool bad = ferror(f);

	if (!fclose(f) && !bad)
		return 0;
	host_err("%s %s: %s", option, path, strerror(errno));
	return -EIO;
}

/* ---- JSON ---- */

static void json_result(FILE *f, const struct nk_result *r)
{
	fprintf(f, "{\"abi\": %d, ", r->abi);
	json_string(f, "check", r->check->id);
	fputs(", ", f);
	json_string(f, "group", r->check->group);
	fputs(", ", f);
	json_string(f, "title", r->check->title);
	fputs(", ", f);
	json_string(f, "verdict", names[r->verdict]);
	fputs(", ", f);
	json_string(f, "text", r->text);
	fputs(", ", f);
	json_string(f, "rule", r->check->rule);
	fprintf(f, ", \"seconds\": %.3f}", r->seconds);
}

int nk_report_json(FILE *f, const struct nk_options *opt, const struct nk_result *results, int n)
{
	fputs("{", f);
	json_string(f, "plugin", opt->plugin);
	fputs(", ", f);
	json_string(f, "mode", opt->mode);
	fprintf(f,
		", \"ranks\": %" PRIu64 ", \"seed\": %" PRIu64 ", \"full\": %s,\n\"results\": [\n",
		opt->ranks, opt->seed, opt->full ? "true" : "false");
	for (int i = 0; i < n; i++) {
		json_result(f, &results[i]);
		fputs(i + 1 < n ? ",\n" : "\n", f);
	}
	fputs("]}\n", f);
	return finish(f, "--json", opt->json);
}

/* ---- XML ---- */

/* As an attribute's value or as text; what XML cannot hold becomes '?'. */
static void xml_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '<')
			fputs("&lt;", f);
		else if (c == '&')
			fputs("&amp;", f);
		else if (c == '"')
			fputs("&quot;", f);
		else if ((c < 0x20 && c != '\n' && c != '\t') || c > 0x7e)
			fputc('?', f);
		else
			fputc(c, f);
	}
}

static void xml_case(FILE *f, const struct nk_result *r)
{
	fprintf(f, "  <testcase classname=\"v%d.%s\" name=\"%s ", r->abi, r->check->group,
		r->check->id);
	xml_text(f, r->check->title);
	fprintf(f, "\" time=\"%.3f\">", r->seconds);
	if (r->verdict == NK_FAIL || r->verdict == NK_PENDING || r->verdict == NK_SKIP) {
		const char *tag = r->verdict == NK_SKIP ? "skipped" : "failure";

		fprintf(f, "<%s message=\"", tag);
		xml_text(f, r->verdict == NK_PENDING ? "the run was interrupted" : r->text);
		fputs("\">", f);
		xml_text(f, r->check->rule);
		fprintf(f, "</%s>", tag);
	}
	if (r->verdict == NK_REPORT || *r->log) {
		fputs("<system-out>", f);
		xml_text(f, r->verdict == NK_REPORT ? r->text : r->log);
		fputs("</system-out>", f);
	}
	fputs("</testcase>\n", f);
}

int nk_report_junit(FILE *f, const struct nk_options *opt, const struct nk_result *results, int n)
{
	fputs("<?xml version=\"1.0\"?>\n<testsuites>\n", f);
	for (int i = 0; i < n;) {
		struct tally t = count(results, n, results[i].abi);
		int abi = results[i].abi, first = i;

		while (i < n && results[i].abi == abi)
			i++;
		fprintf(f,
			" <testsuite name=\"netcheck v%d\" tests=\"%d\" failures=\"%d\" "
			"skipped=\"%d\" time=\"%.3f\">\n",
			abi, i - first, t.of[NK_FAIL] + t.of[NK_PENDING], t.of[NK_SKIP], t.seconds);
		for (int k = first; k < i; k++)
			xml_case(f, &results[k]);
		fputs(" </testsuite>\n", f);
	}
	fputs("</testsuites>\n", f);
	return finish(f, "--junit", opt->junit);
}
