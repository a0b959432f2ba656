/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench on a correct plugin: every pattern, table and kind of size passes. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "../lib/cmd.h"

static struct cmd cmd;

/* Quiet runs end with 0 and say nothing but the table. */
static void expect_pass(void)
{
	cr_assert(cmd.code == 0, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "# Out of bounds values : 0 OK"), "%s", cmd.out);
	cr_assert_not(cmd_says(&cmd, "netbench: rank"), "%s", cmd.out);
}

#define NETBENCH "$B/netbench --plugin $B/plugins/tcpnet.so --timeout 10 "

struct run {
	char args[120];
};

ParameterizedTestParameters(netbench_pass, abis)
{
	static struct run runs[28];
	static const char *const patterns[] = {"pingpong", "stream", "ring", "alltoall"};
	size_t n = 0;

	for (int abi = 6; abi <= 12; abi++) {
		for (size_t p = 0; p < 4; p++)
			snprintf(runs[n++].args, sizeof(runs[0].args), "--abi %d --pattern %s", abi,
				 patterns[p]);
	}
	return cr_make_param_array(struct run, runs, n);
}

ParameterizedTest(struct run *r, netbench_pass, abis)
{
	char want[32];

	cmd_run(&cmd, 20, NETBENCH "%s --min 0 --max 1M --factor 32 --iters 10", r->args);
	expect_pass();
	snprintf(want, sizeof(want), "net ABI v%d,", atoi(r->args + 6));
	cr_assert(cmd_says(&cmd, want), "%s", cmd.out);
}

ParameterizedTestParameters(netbench_pass, sizes)
{
	static struct run runs[] = {
		/* fewer elements than ranks, and counts that do not divide */
		{"--pattern ring --ranks 5 --min 4 --max 36 --factor 3"},
		{"--pattern ring --ranks 3 --min 1048588 --max 1048588 --iters 5"},
		{"--pattern ring --ranks 4 --min 8 --max 4M --factor 64 --channels 3 --iters 5"},
		/* many short slices, so that windows turn over */
		{"--pattern ring --min 3M --max 3M --chunk 4K --window 3 --iters 5"},
		{"--pattern ring --min 1M --max 1M --chunk 64K --window 1 --iters 5"},
		{"--pattern ring --min 1M --max 1M --chunk 64K --window 32 --iters 5"},
		{"--pattern alltoall --ranks 3 --min 1 --max 1000003 --factor 10 --channels 2"},
		{"--pattern alltoall --ranks 4 --min 3 --max 3"},
		{"--pattern stream --min 1 --max 65 --factor 2 --window 1"},
		{"--pattern stream --min 131071 --max 131071 --window 32 --iters 100"},
		{"--pattern stream --ranks 6 --min 4097 --max 4097 --channels 4 --window 5"},
		{"--pattern pingpong --min 1 --max 30 --factor 3"},
		{"--pattern pingpong --min 1000001 --max 1000001 --dev 1"},
		/* neither warm-up nor the timed part is needed by the other */
		{"--pattern stream --min 64 --max 64 --warmup 0 --iters 1"},
		{"--pattern ring --min 64K --max 64K --warmup 40 --iters 1"},
	};

	return cr_make_param_array(struct run, runs, sizeof(runs) / sizeof(runs[0]));
}

ParameterizedTest(struct run *r, netbench_pass, sizes)
{
	cmd_run(&cmd, 20, NETBENCH "%s", r->args);
	expect_pass();
}

Test(netbench_pass, takes_the_newest_table_there_is)
{
	cmd_run(&cmd, 20, NETBENCH "--max 8");
	cr_assert(cmd_says(&cmd, "net ABI v12,"), "%s", cmd.out);
	cmd_run(&cmd, 20, "$B/netbench --plugin $B/plugins/tcpnet-v9.so --max 8");
	cr_assert(cmd_says(&cmd, "net ABI v9,"), "%s", cmd.out);
}

Test(netbench_pass, finds_a_plugin_by_its_short_name)
{
	cmd_run(&cmd, 20,
		"d=$(mktemp -d) && ln -s $B/plugins/tcpnet.so $d/libnccl-net-tiny.so && "
		"LD_LIBRARY_PATH=$d $B/netbench --plugin tiny --max 8; c=$?; rm -r $d; exit $c");
	expect_pass();
	cr_assert(cmd_says(&cmd, "/libnccl-net-tiny.so"), "%s", cmd.out);
}

Test(netbench_pass, without_check_verifies_nothing)
{
	cmd_run(&cmd, 20, "$B/netbench --plugin $B/plugins/nullnet.so --no-check --max 1M");
	cr_assert_eq(cmd.code, 0, "code %d\n%s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "N/A"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "not checked"), "%s", cmd.out);
}

Test(netbench_pass, shows_infos_when_asked)
{
	cmd_run(&cmd, 20, NETBENCH "--max 8");
	cr_assert_not(cmd_says(&cmd, "NET/tcpnet"), "%s", cmd.out);
	cmd_run(&cmd, 20, "NCCL_DEBUG=INFO " NETBENCH "--max 8");
	cr_assert(cmd_says(&cmd, " [1] NCCL INFO NET/tcpnet: 2 devices"), "%s", cmd.out);
	cmd_run(&cmd, 20, "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=^INIT,NET " NETBENCH "--max 8");
	cr_assert_not(cmd_says(&cmd, "NET/tcpnet"), "%s", cmd.out);
}

/* Every figure of the table is in the file, as a number. */
Test(netbench_pass, writes_json)
{
	static const char script[] =
		"import json, sys\n"
		"j = json.load(open(sys.argv[1]))\n"
		"assert j['plugin']['name'] == 'tcpnet' and j['plugin']['abi'] == 12, j\n"
		"assert j['plugin']['path'].endswith('plugins/tcpnet.so'), j\n"
		"assert j['pattern'] == 'pingpong' and j['ranks'] == 2 and j['exit'] == 0, j\n"
		"assert [r['size'] for r in j['rows']] == [0, 8, 64, 512], j\n"
		"for r in j['rows']:\n"
		"    assert r['wrong'] == 0 and 0 < r['p50_us'] <= r['p99_us'] <= r['p999_us'], r\n"
		"    assert r['cpu'] > 0, r\n"
		"    assert abs(r['algbw_GBps'] - r['size'] / r['time_us'] / 1e3) < 1e-4, r\n";

	cmd_run(&cmd, 20,
		"f=$(mktemp) && " NETBENCH "--pattern pingpong --min 0 --max 512 --factor 8 "
		"--json $f >&2 && python3 -c \"%s\" $f; c=$?; rm $f; exit $c",
		script);
	cr_assert(cmd.code == 0, "%s", cmd.out);
}
