/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench with each rank started by itself, as on hosts of their own. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/ranks.h"

enum { BOUND_S = 60, LINE_BYTES = 1024 };

static struct cmd cmd;

/* In $t: what each rank says, and its exit code, for the lines below. */
#define BEGIN "t=$(mktemp -d); "
#define END   "wait; tail -n +1 $t/*; rm -r $t"
/* rank R ARGS...: start it; $RANK is R for what is in front of netbench. */
#define RANK \
	"rank() { RANK=$1; shift; " \
	"(eval \"$FRONT\" $B/netbench --rank $RANK --root 127.0.0.1:%d --timeout 20 \"$@\" " \
	">$t/$RANK 2>&1; echo \"rank $RANK: code $?\" >>$t/$RANK) & }; "

static void run(const char *front, const char *lines)
{
	char text[LINE_BYTES];

	snprintf(text, sizeof(text), "FRONT='%s'; " BEGIN RANK "%s" END, front, ranks_port(),
		 lines);
	cmd_run(&cmd, BOUND_S, "%s", text);
	cr_assert(cmd.code == 0, "code %d\n%s", cmd.code, cmd.out);
}

static void expect_says(const char *text)
{
	cr_expect(cmd_says(&cmd, text), "no \"%s\" in\n%s", text, cmd.out);
}

static int times(const char *text)
{
	int n = 0;

	for (const char *at = cmd.out; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void expect_codes(int ranks, int code)
{
	char text[32];

	for (int r = 0; r < ranks; r++) {
		snprintf(text, sizeof(text), "rank %d: code %d\n", r, code);
		expect_says(text);
	}
}

/* One table, all data right, no word of trouble. */
static void expect_pass(int ranks)
{
	expect_codes(ranks, 0);
	expect_says("# Out of bounds values : 0 OK");
	cr_expect_eq(times("# netbench: plugin "), 1, "%s", cmd.out);
	cr_expect_not(cmd_says(&cmd, "netbench: rank"), "%s", cmd.out);
}

#define TCPNET  "--plugin $B/plugins/tcpnet.so --max 1M --factor 64 "
#define SOFTEFA "$B/softefa --domain hosts-$PPID -- "
#define EFA     "--plugin $B/libnccl-net-efa.so --max 1M --factor 64 --iters 5 "

struct pattern {
	char name[12];
};

ParameterizedTestParameters(netbench_hosts, patterns)
{
	static struct pattern patterns[] = {{"pingpong"}, {"stream"}, {"ring"}, {"alltoall"}};

	return cr_make_param_array(struct pattern, patterns, 4);
}

ParameterizedTest(struct pattern *p, netbench_hosts, patterns)
{
	char lines[LINE_BYTES];

	snprintf(lines, sizeof(lines),
		 "a='" TCPNET "--ranks 4 --pattern %s'; rank 3 $a; rank 1 $a; "
		 "rank 0 $a; rank 2 $a; ",
		 p->name);
	run("", lines);
	expect_pass(4);
}

Test(netbench_hosts, two_ranks_with_many_channels)
{
	run("", "a='" TCPNET "--channels 32'; rank 0 $a; rank 1 $a; ");
	expect_pass(2);
}

Test(netbench_hosts, two_ranks_on_softefa)
{
	run(SOFTEFA, "a='" EFA "'; rank 0 $a; rank 1 $a; ");
	expect_pass(2);
	expect_says("# netbench: plugin EFA");
}

Test(netbench_hosts, four_ranks_on_softefa)
{
	run(SOFTEFA, "a='" EFA "--ranks 4'; for r in 0 1 2 3; do rank $r $a; done; ");
	expect_pass(4);
}

Test(netbench_hosts, a_late_rank_is_waited_for)
{
	run("", "a='" TCPNET "'; rank 0 $a; sleep 1; rank 1 $a; ");
	expect_pass(2);
}

struct launcher {
	char rank[24], ranks[24];
};

ParameterizedTestParameters(netbench_hosts, launchers)
{
	static struct launcher launchers[] = {
		{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"PMI_RANK", "PMI_SIZE"},
		{"SLURM_PROCID", "SLURM_NTASKS"},
	};

	return cr_make_param_array(struct launcher, launchers, 3);
}

ParameterizedTest(struct launcher *l, netbench_hosts, launchers)
{
	cmd_run(&cmd, BOUND_S,
		"unset OMPI_COMM_WORLD_RANK PMI_RANK SLURM_PROCID; "
		"for r in 1 0 2; do (%s=$r %s=3 $B/netbench " TCPNET "--root 127.0.0.1:%d; "
		"echo \"rank $r: code $?\") & done; wait",
		l->rank, l->ranks, ranks_port());
	expect_pass(3);
	expect_says("# ranks 3,");
}

/* All have one command line, and perhaps one file system. */
Test(netbench_hosts, rank_0_alone_writes_the_json)
{
	run("", "a='" TCPNET "--json '; rank 0 $a $t/json; rank 1 $a /nonexistent/f; ");
	expect_codes(2, 0);
	expect_says("\"exit\": 0");
}

Test(netbench_hosts, wrong_data_at_one_is_everybodys_code)
{
	run("TCPNET_FAULT=$(test $RANK = 1 && echo flip:3)",
	    "a='" TCPNET "--pattern stream --min 4K'; rank 0 $a; rank 1 $a; ");
	expect_codes(2, 1);
	expect_says("FAILED");
}

Test(netbench_hosts, a_dead_rank_ends_all_and_is_named)
{
	run("TCPNET_FAULT=$(test $RANK = 2 && echo die:40)",
	    "a='" TCPNET "--ranks 4'; for r in 0 1 2 3; do rank $r $a; done; ");
	expect_codes(4, 2);
	/* Once by each. */
	cr_expect_eq(times("netbench: rank 2 (pid "), 4, "%s", cmd.out);
	cr_expect_eq(times(") was killed by signal 9 (Killed); last calls: "), 4, "%s", cmd.out);
}

Test(netbench_hosts, a_hanging_rank_ends_all)
{
	run("TCPNET_FAULT=$(test $RANK = 1 && echo hang:9)",
	    "a='" TCPNET "--timeout 4'; rank 0 $a; rank 1 $a; ");
	expect_codes(2, 2);
	expect_says("netbench: rank 1 (pid ");
}

Test(netbench_hosts, a_missing_plugin_on_one_host_ends_all)
{
	run("", "rank 0 " TCPNET "; rank 1 " TCPNET "--plugin /nonexistent.so; ");
	expect_codes(2, 2);
	expect_says("rank 1: cannot load plugin /nonexistent.so");
	expect_says("netbench: rank 1 ended with code 2");
}

Test(netbench_hosts, a_rank_that_never_comes_is_named)
{
	run("", "a='" TCPNET "--ranks 3 --timeout 4'; rank 0 $a; rank 1 $a; ");
	expect_codes(2, 3);
	expect_says("netbench: rank 2 did not come to 127.0.0.1:");
}

Test(netbench_hosts, a_rank_with_another_number_of_ranks_is_turned_away)
{
	run("", "rank 0 " TCPNET "--timeout 4; rank 1 " TCPNET "--ranks 4; ");
	expect_codes(2, 3);
	expect_says("refuses rank 1: rank 1 is one of 4 ranks, this run has 2");
	expect_says("netbench: rank 1 did not come to ");
}

Test(netbench_hosts, a_rank_with_other_sizes_is_turned_away)
{
	run("", "rank 0 " TCPNET "--timeout 4; rank 1 " TCPNET "--min 1K; ");
	expect_codes(2, 3);
	expect_says("refuses rank 1: rank 1 runs with --min 1024, rank 0 with --min 8\n");
}

Test(netbench_hosts, a_stranger_does_not_disturb_a_run)
{
	char lines[LINE_BYTES];

	snprintf(lines, sizeof(lines),
		 "a='" TCPNET "'; rank 0 $a; python3 -c \"import socket, time\n"
		 "for i in range(400):\n"
		 "    try: s = socket.create_connection(('127.0.0.1', %d)); break\n"
		 "    except OSError: time.sleep(0.05)\n"
		 "s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\n"
		 "try: s.recv(1)\n"
		 "except OSError: pass\"; rank 1 $a; ",
		 ranks_port());
	run("", lines);
	expect_codes(2, 0);
	expect_says("# Out of bounds values : 0 OK");
	expect_says("what it sends is not understood");
}
