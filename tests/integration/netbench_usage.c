/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench's command line: what is refused, with which words, and interruption. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "../lib/cmd.h"

static struct cmd cmd;

/* The tests may run below one. */
#define NO_LAUNCHER "unset OMPI_COMM_WORLD_RANK PMI_RANK SLURM_PROCID; "

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
		{"--plugin x --abi 5", "--abi 5: must be 6 to 12"},
		{"--plugin x --chunk 63", "--chunk 63: must be 64 to 1073741824"},
		{"--plugin x --compare y --plot p", "--plot p: not with --compare"},
		{"--plugin x --compare y --rounds 0", "--rounds 0: must be 1 to 100"},
		{"--plugin x --compare y --instructions", "--compare y: not with --instructions"},
		{"--plugin x --channels 1025", "--channels 1025: must be 1 to 1024"},
		{"--plugin x --channels 2 --pattern pingpong",
		 "--channels 2: must be 1 for pingpong"},
		{"--plugin x --json /nonexistent/f", "--json /nonexistent/f: No such file"},
		{"--plugin x --nonsense", "--nonsense: unknown option"},
		{"--plugin", "unknown option or value missing"},
		{"--plugin x 12", "12: what is that?"},
		{"--plugin $B/plugins/tcpnet.so --dev 2", "--dev 2: must be below 2"},
		{"--plugin x --rank 1", "--rank 1: needs --root IPv4:PORT"},
		{"--plugin x --rank 64 --root 127.0.0.1:7", "--rank 64: must be 0 to 63"},
		{"--plugin x --rank 2 --root 127.0.0.1:7", "--rank 2: must be below 2, the number"},
		{"--plugin x --rank 1 --root 127.0.0.1", "--root 127.0.0.1: must be IPv4:PORT"},
		{"--plugin x --rank 1 --root 127.0.0.1:0", "port of 1 to 65535"},
		{"--plugin x --rank 1 --root 127.0.0.1:65536", "port of 1 to 65535"},
		{"--plugin x --rank 1 --root localhost:7777", "must be IPv4:PORT"},
		{"--plugin x --rank 1 --root 0.0.0.0:7777", "an address of rank 0's host"},
		{"--plugin x --rank 1 --root 1.2.3.4.5:7777", "must be IPv4:PORT"},
		{"--plugin x --root 127.0.0.1:7777", "which rank is this? Give --rank N"},
		/* An address that no host has: RFC 5737. */
		{"--plugin x --root 192.0.2.1:7777 --rank 0",
		 "rank 0 cannot listen at 192.0.2.1:7777: Cannot assign requested address"},
	};

	return cr_make_param_array(struct refusal, refusals,
				   sizeof(refusals) / sizeof(refusals[0]));
}

ParameterizedTest(struct refusal *r, netbench_usage, refusals)
{
	cmd_run(&cmd, 10, NO_LAUNCHER "$B/netbench %s", r->args);
	cr_assert(cmd.code == 3, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, r->text), "no \"%s\" in\n%s", r->text, cmd.out);
}

ParameterizedTestParameters(netbench_usage, launchers)
{
	static struct refusal launchers[] = {
		{"PMI_RANK=2 PMI_SIZE=2", "--rank 2: must be below 2"},
		{"PMI_RANK=x PMI_SIZE=2", "PMI_RANK=x: must be 0 to 63"},
		{"PMI_RANK=0 PMI_SIZE=65", "PMI_SIZE=65: must be 2 to 64"},
		{"SLURM_PROCID=1", "SLURM_NTASKS=: must be 2 to 64"},
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "_SIZE=1: must be 2 to 64"},
	};

	return cr_make_param_array(struct refusal, launchers,
				   sizeof(launchers) / sizeof(launchers[0]));
}

ParameterizedTest(struct refusal *r, netbench_usage, launchers)
{
	cmd_run(&cmd, 10, NO_LAUNCHER "%s $B/netbench --plugin x --root 127.0.0.1:7777", r->args);
	cr_assert(cmd.code == 3, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, r->text), "no \"%s\" in\n%s", r->text, cmd.out);
}

Test(netbench_usage, a_launcher_and_ranks_must_agree)
{
	cmd_run(&cmd, 10,
		NO_LAUNCHER "PMI_RANK=0 PMI_SIZE=4 $B/netbench --plugin x --root 127.0.0.1:7777 "
			    "--ranks 2");
	cr_assert(cmd.code == 3, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "--ranks 2: PMI_SIZE says 4"), "%s", cmd.out);
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
