/* SPDX-License-Identifier: BSD-3-Clause */
/* netcheck: drive an NCCL net plugin as NCCL does, and say which of NCCL's rules it breaks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/log.h"
#include "report.h"
#include "table.h"

enum { MAX_RESULTS = (HOST_ABI_NEWEST - HOST_ABI_OLDEST + 1) * NK_MAX_CHECKS };

/* The plugin's versions that were asked for; 0: the run ends here, with *@code. */
static unsigned versions(const struct nk_options *opt, int *code)
{
	struct nk_result probe;
	unsigned mask = nk_versions(opt, &probe);

	if (probe.verdict == NK_PENDING) {
		*code = HOST_USAGE;
		return 0;
	}
	if (!mask) {
		nk_report_result(&probe);
		*code = HOST_WRONG;
		return 0;
	}
	if (!opt->abi)
		return mask;
	if (!(mask & 1u << opt->abi)) {
		host_err("--abi %d: plugin %s does not export ncclNetPlugin_v%d", opt->abi,
			 opt->plugin, opt->abi);
		*code = HOST_USAGE;
	}
	return mask & 1u << opt->abi;
}

/* Each check once per version; those that a version is too old for are settled here. */
static int plan(unsigned mask, const struct check *const chosen[], int nchosen,
		struct nk_result *results)
{
	int n = 0;

	for (int v = HOST_ABI_OLDEST; v <= HOST_ABI_NEWEST; v++) {
		for (int i = 0; mask & 1u << v && i < nchosen; i++) {
			struct nk_result *r = &results[n++];

			*r = (struct nk_result){.check = chosen[i], .abi = v};
			if (v >= chosen[i]->min_abi)
				continue;
			r->verdict = NK_SKIP;
			snprintf(r->text, sizeof(r->text), "came with v%d", chosen[i]->min_abi);
		}
	}
	return n;
}

static bool any_fail(const struct nk_result *results, int n)
{
	for (int i = 0; i < n; i++) {
		if (results[i].verdict == NK_FAIL)
			return true;
	}
	return false;
}

/* Before the run: a long one must not end with a file that cannot be written. */
static int file_open(const char *option, const char *path, FILE **f)
{
	*f = path ? fopen(path, "w") : NULL;
	if (!path || *f)
		return 0;
	host_err("%s %s: %s", option, path, strerror(errno));
	return -errno;
}

static int run(const struct nk_options *opt, const struct check *const chosen[], int nchosen,
	       FILE *json, FILE *junit)
{
	static struct nk_result results[MAX_RESULTS];
	int code = HOST_PASS;
	unsigned mask = versions(opt, &code);
	int n = plan(mask, chosen, nchosen, results);
	int signal = mask ? nk_run(opt, results, n, nk_report_result) : 0;

	if (mask)
		nk_report_summary(results, n);
	if (any_fail(results, n))
		code = HOST_WRONG;
	if (json && nk_report_json(json, opt, results, n))
		code = HOST_USAGE;
	if (junit && nk_report_junit(junit, opt, results, n))
		code = HOST_USAGE;
	return signal ? signal : code;
}

int main(int argc, char **argv)
{
	const struct check *chosen[NK_MAX_CHECKS];
	FILE *json = NULL, *junit = NULL;
	struct nk_options opt;
	int n, rc;

	host_log_init("netcheck", -1);
	rc = nk_options_parse(&opt, argc, argv);
	if (rc)
		return rc > 0 ? HOST_PASS : HOST_USAGE;
	n = nk_table_select(opt.checks, chosen);
	if (n < 0)
		return HOST_USAGE;
	if (opt.list) {
		nk_table_print(chosen, n);
		return HOST_PASS;
	}
	if (file_open("--json", opt.json, &json) || file_open("--junit", opt.junit, &junit))
		return HOST_USAGE;
	return run(&opt, chosen, n, json, junit);
}
