/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench's command line: what is refused, with which words, and interruption. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "../lib/cmd.h"

static struct cmd cmd;

struct refusal {
	char args[64];
	char text[96];
};

ParameterizedTestParameters(netbench_usage, refusals)
{
	static struct refusal refusals[] = {
		{"--max 8", "--plugin PATH is required"},
		{"--plugin x --ranks 1", "--ranks 1: must be 2 to 64"},
		{"--plugin x --ranks 65", "--ranks 65: must be 2 to 64"},
		{"--plugin x --ranks 2x", "--ranks 2x: not a number"},
		{"--plugin x --ranks -2", "--ranks -2: not a number"},
		{"--plugin x --ranks 3 --pattern stream", "--ranks 3: must be even for stream"},
		{"--plugin x --window 33", "--window 33: must be 1 to 32"},
		{"--plugin x --window 0", "--window 0: must be 1 to 32"},
		{"--plugin x --factor 1", "--factor 1: must be 2 to 1024"},
		{"--plugin x --min 8Q", "--min 8Q: not a size like 8, 64K, 1M or 2G"},
		{"--plugin x --min 8KB", "--min 8KB: not a size"},
		{"--plugin x --min 16 --max 8", "--min 16: must not be above --max 8"},
		{"--plugin x --max 99999999999999999999", "must be 0 to 68719476736"},
		{"--plugin x --max 99999999999999G", "must be 0 to 68719476736"},
		{"--plugin x --max 2G --pattern pingpong",
		 "must be at most 1073741824 for pingpong"},
		{"--plugin x --pattern ringg",
		 "--pattern ringg: must be pingpong, stream, ring or"},
		{"--plugin x --abi 7", "--abi 7: must be 8 to 12"},
		{"--plugin x --chunk 63", "--chunk 63: must be 64 to 1073741824"},
		{"--plugin x --channels 2 --pattern pingpong",
		 "--channels 2: must be 1 for pingpong"},
		{"--plugin x --json /nonexistent/f", "--json /nonexistent/f: No such file"},
		{"--plugin x --nonsense", "--nonsense: unknown option"},
		{"--plugin", "unknown option or value missing"},
		{"--plugin x 12", "12: what is that?"},
		{"--plugin $B/plugins/tcpnet.so --dev 2", "--dev 2: must be below 2"},
	};

	return cr_make_param_array(struct refusal, refusals,
				   sizeof(refusals) / sizeof(refusals[0]));
}

ParameterizedTest(struct refusal *r, netbench_usage, refusals)
{
	cmd_run(&cmd, 10, "$B/netbench %s", r->args);
	cr_assert(cmd.code == 3, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, r->text), "no \"%s\" in\n%s", r->text, cmd.out);
}

Test(netbench_usage, a_missing_plugin_fails_with_the_linkers_words)
{
	cmd_run(&cmd, 10, "$B/netbench --plugin /nonexistent.so");
	cr_assert_eq(cmd.code, 2, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "cannot load plugin /nonexistent.so: "), "%s", cmd.out);
}

Test(netbench_usage, a_missing_table_is_named)
{
	cmd_run(&cmd, 10, "$B/netbench --plugin $B/plugins/tcpnet-v9.so --abi 11");
	cr_assert_eq(cmd.code, 2, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "does not export ncclNetPlugin_v11"), "%s", cmd.out);
}

Test(netbench_usage, help_lists_options_and_exit_codes)
{
	cmd_run(&cmd, 10, "$B/netbench --help");
	cr_assert_eq(cmd.code, 0, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "--window W"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "[1..32] (default 8)"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "  2  the plugin failed"), "%s", cmd.out);
}

/*
 * The ranks go with the tool, however it ends; nobody may be there to reap those of a killed one.
 */
#define RUNNING \
	"$B/netbench --plugin $B/plugins/tcpnet.so --iters 1000000 --max 1M & p=$!; sleep 0.5; "
#define RANKS_GONE \
	"sleep 0.3; for r in $ranks; do " \
	"grep -s '^State' /proc/$r/status | grep -v Z && exit 99; done; exit $c"

Test(netbench_usage, an_interrupt_ends_all_ranks)
{
	cmd_run(&cmd, 10,
		RUNNING "ranks=$(cat /proc/$p/task/$p/children); test -n \"$ranks\" || exit 98; "
			"kill -TERM $p; wait $p; c=$?; " RANKS_GONE);
	cr_assert(cmd.code == 128 + 15, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "interrupted by signal 15"), "%s", cmd.out);
}

Test(netbench_usage, a_killed_tool_leaves_no_ranks)
{
	cmd_run(&cmd, 10,
		RUNNING "ranks=$(cat /proc/$p/task/$p/children); test -n \"$ranks\" || exit 98; "
			"kill -KILL $p; wait $p; c=$?; " RANKS_GONE);
	cr_assert(cmd.code == 128 + 9, "code %d\n%s", cmd.code, cmd.out);
}

Test(netbench_usage, a_rank_killed_from_outside_is_named)
{
	cmd_run(&cmd, 10,
		RUNNING "set -- $(cat /proc/$p/task/$p/children); kill -KILL $2; wait $p");
	cr_assert(cmd.code == 2, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, ") was killed by signal 9 (Killed)"), "%s", cmd.out);
}
