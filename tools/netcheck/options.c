/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, from one table. */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/options.h"
#include "common/parse.h"
#include "host/boot.h"
#include "host/log.h"
#include "host/net.h"

#define AT(field) offsetof(struct nk_options, field)

static const struct option_row rows[] = {
	{"plugin", 0, OPTION_STRING, "PATH", AT(plugin), 0, 0, NULL,
	 "net plugin to check, or NAME for libnccl-net-NAME.so (required)"},
	{"abi", 0, OPTION_STRING, "N", AT(abi_text), 0, 0, "all",
	 "version of its tables, 6 to 12, or all that it exports"},
	{"check", 0, OPTION_STRING, "LIST", AT(checks), 0, 0, NULL,
	 "checks and groups of them, with commas between (default: all)"},
	{"list", 0, OPTION_ON, NULL, AT(list), 0, 0, NULL, "say which checks there are"},
	{"ranks", 0, OPTION_NUMBER, "R", AT(ranks), 1, HOST_MAX_RANKS, "2",
	 "ranks of the checks that talk over the network"},
	{"mode", 0, OPTION_STRING, "MODE", AT(mode), 0, 0, "processes",
	 "ranks are processes, or threads of one process"},
	{"quick", 0, OPTION_OFF, NULL, AT(full), 0, 0, NULL, "a second each, at most (default)"},
	{"full", 0, OPTION_ON, NULL, AT(full), 0, 0, NULL,
	 "as many messages and as long waits as the rules speak of"},
	{"seed", 0, OPTION_NUMBER, "N", AT(seed), 0, UINT32_MAX, "1", "of sizes and orders"},
	{"timeout", 0, OPTION_NUMBER, "S", AT(timeout), 1, 3600, NULL,
	 "seconds for one check (default: 30, with --full 600)"},
	{"jobs", 0, OPTION_NUMBER, "N", AT(jobs), 1, 64, "4", "checks at a time"},
	{"json", 0, OPTION_STRING, "FILE", AT(json), 0, 0, NULL,
	 "write the verdicts there as well"},
	{"junit", 0, OPTION_STRING, "FILE", AT(junit), 0, 0, NULL, "the same as XML that CI reads"},
	{"help", 0, OPTION_HELP, NULL, 0, 0, 0, NULL, "this text"},
};

static const char intro[] =
	"netcheck - drive an NCCL net plugin as NCCL does, without NCCL or a GPU, and say what\n"
	"           breaks NCCL's rules\n"
	"\n"
	"usage: netcheck --plugin PATH [options]\n"
	"       netcheck --list\n"
	"\n";

static const char notes[] =
	"\n"
	"verdicts\n"
	"  PASS    all that the check expected was seen\n"
	"  FAIL    what was expected, what was seen, and where in NCCL the rule comes from; a\n"
	"          crash, a hang or an exit of the plugin as well\n"
	"  SKIP    the reason why nothing was checked\n"
	"  REPORT  what the plugin chose where the rules leave a choice\n"
	"  Each check runs once per version, in processes of its own.\n"
	"\n"
	"exit code\n"
	"  0  no FAIL\n"
	"  1  a FAIL\n"
	"  3  bad usage, or netcheck itself could not do its work\n"
	"  128+N  interrupted by signal N\n";

static int mode_parse(struct nk_options *opt)
{
	opt->threads = !strcmp(opt->mode, "threads");
	if (opt->threads || !strcmp(opt->mode, "processes"))
		return 0;
	host_err("--mode %s: must be processes or threads", opt->mode);
	return -EINVAL;
}

static int abi_parse(struct nk_options *opt)
{
	uint64_t abi;

	if (!strcmp(opt->abi_text, "all"))
		return 0;
	if (parse_number(opt->abi_text, &abi) || abi < HOST_ABI_OLDEST || abi > HOST_ABI_NEWEST) {
		host_err("--abi %s: must be %d to %d, or all", opt->abi_text, HOST_ABI_OLDEST,
			 HOST_ABI_NEWEST);
		return -EINVAL;
	}
	opt->abi = (int)abi;
	return 0;
}

int nk_options_parse(struct nk_options *opt, int argc, char **argv)
{
	static const struct options options = {
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.intro = intro,
		.notes = notes,
	};
	int rc;

	*opt = (struct nk_options){0};
	rc = options_parse(&options, opt, argc, argv);
	if (!rc)
		rc = mode_parse(opt);
	if (!rc)
		rc = abi_parse(opt);
	if (rc)
		return rc;
	if (!opt->plugin && !opt->list) {
		host_err("--plugin PATH is required; --help lists the options");
		return -EINVAL;
	}
	if (!opt->timeout)
		opt->timeout = opt->full ? 600 : 30;
	return 0;
}
