/* SPDX-License-Identifier: BSD-3-Clause */
/* What netbench tells beside the table; on tcpnet, which has no queue pairs and no threads, or on
 * softefa. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/cmd.h"

static struct cmd cmd;

#define NETBENCH "$B/netbench --plugin $B/plugins/tcpnet.so --timeout 10 "

#define says(text) cr_assert(cmd_says(&cmd, text), "no \"%s\" in:\n%s", text, cmd.out)
#define ends(rc)   cr_assert(eq(int, cmd.code, rc), "%s", cmd.out)

/* The number behind @text. */
static double number(const char *text)
{
	const char *at = strstr(cmd.out, text);

	cr_assert(ne(ptr, (void *)at, NULL), "no \"%s\" in:\n%s", text, cmd.out);
	return strtod(at + strlen(text), NULL);
}

/* ---- latency, CPU ---- */

Test(netbench_figures, percentiles_rise)
{
	double p50, p99, p999;

	cmd_run(&cmd, 20, NETBENCH "--pattern pingpong --min 8 --max 8 --iters 1001");
	ends(0);
	says("      p50       p99     p99.9 ");
	cr_assert(eq(int,
		     sscanf(strstr(cmd.out, " none "), " none %*f %lf %lf %lf", &p50, &p99, &p999),
		     3));
	cr_assert(0 < p50 && p50 <= p99 && p99 <= p999, "%s", cmd.out);
}

Test(netbench_figures, cpu_of_the_busiest_rank_is_told)
{
	double cpu;

	cmd_run(&cmd, 20, NETBENCH "--pattern stream --min 64K --max 64K --iters 2000");
	ends(0);
	cpu = number("# CPU, busiest rank    : ");
	/* one thread polls, and may have to share the core */
	cr_assert(cpu > 0 && cpu < 150, "%s", cmd.out);
}

/* ---- what connections take ---- */

#define ON_SOFTEFA "$B/softefa --devices 1 --domain figures-$$ "
#define EFA        "-- $B/netbench --plugin $B/libnccl-net-efa.so --pattern stream --max 8 "

Test(netbench_figures, comms_are_told_with_what_each_takes)
{
	cmd_run(&cmd, 60, NETBENCH "--pattern stream --max 8 --channels 64");
	ends(0);
	says("\n# comms 64: for each ");
	/* two descriptors, two allocations */
	cr_assert(number("# comms 64: for each ") > 0, "%s", cmd.out);
	says("; queue pairs 0 in all\n");
}

Test(netbench_figures, queue_pairs_of_the_plugin_do_not_grow_with_its_comms)
{
	double few;

	cmd_run(&cmd, 60, ON_SOFTEFA EFA);
	ends(0);
	few = number("; queue pairs ");
	cr_assert(few >= 1 && few <= 8, "%s", cmd.out);
	cmd_run(&cmd, 60, ON_SOFTEFA EFA "--channels 64");
	ends(0);
	says("\n# comms 64: for each ");
	cr_assert(number("; queue pairs ") <= few, "%s", cmd.out);
}

Test(netbench_figures, json_has_what_connections_take)
{
	cmd_run(&cmd, 60,
		"f=$(mktemp) && " ON_SOFTEFA EFA "--json $f >&2 && python3 -c \"\n"
		"import json, sys\n"
		"j = json.load(open(sys.argv[1]))\n"
		"assert j['comms'] == 1 and j['connect_ms'] > 0, j\n"
		"assert j['memory_bytes'] > 0 and 1 <= j['queue_pairs'] <= 8, j\n"
		"assert all(r['cpu'] > 0 for r in j['rows']), j\" $f; c=$?; rm $f; exit $c");
	ends(0);
}

/* ---- instructions ---- */

/* Of 2 + 3 messages each call is made once, but that which finds nothing, 20 times. */
Test(netbench_figures, calls_are_made_as_planned)
{
	cmd_run(&cmd, 60, NETBENCH "--instructions --max 64 --factor 8 --warmup 2 --iters 3");
	ends(0);
	says("# calls: calls one by one");
	says(" counted_idle_test 100; unplanned ");
	/* more where the machine gave the peer no time */
	cr_assert(number("counted_irecv ") >= 5 && number("counted_isend ") >= 5, "%s", cmd.out);
}

Test(netbench_figures, calls_of_the_plugin_are_made_as_planned)
{
	cmd_run(&cmd, 60,
		ON_SOFTEFA "-- $B/netbench --plugin $B/libnccl-net-efa.so --instructions --min 64K "
			   "--max 64K --warmup 2 --iters 3");
	ends(0);
	says(" counted_idle_test 100; unplanned ");
}

Test(netbench_figures, calls_with_wrong_data_fail)
{
	cmd_run(&cmd, 60,
		"$B/netbench --plugin $B/plugins/nullnet.so --instructions --max 8 --warmup 1 "
		"--iters 1");
	cr_assert(cmd.code == 1 || cmd.code == 2, "%s", cmd.out);
}

Test(netbench_figures, callgrind_tells_the_calls_apart)
{
#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("valgrind does not run what AddressSanitizer was built into");
#endif
	cmd_run(&cmd, 100,
		"command -v valgrind >/dev/null || exit 77; t=$(mktemp -d); trap 'rm -r $t' EXIT; "
		"valgrind -q --tool=callgrind --trace-children=yes --toggle-collect='counted_*' "
		"--callgrind-out-file=$t/calls.%%p " NETBENCH
		"--instructions --max 8 --warmup 0 --iters 3 || exit; "
		"grep -ohE 'counted_[a-z_]+' $t/calls.* | sort -u | tr "
		"'\\n' ' '");
	if (cmd.code == 77)
		cr_skip_test("no valgrind");
	ends(0);
	says("counted_idle_test counted_irecv counted_isend counted_test_recv counted_test_send ");
}

/* ---- two plugins by turns ---- */

#define BOTH NETBENCH "--compare $B/plugins/tcpnet-v9.so --rounds 3 --max 64 --factor 8 "

Test(netbench_figures, compared_plugins_have_medians_and_ratios)
{
	double a, b, ratio, least, most;

	cmd_run(&cmd, 60, BOTH);
	ends(0);
	says("# netbench: A is tcpnet, net ABI v12, ");
	says("# netbench: B is tcpnet, net ABI v9, ");
	says("; 3 rounds of both, by turns\n");
	cr_assert(eq(int,
		     sscanf(strstr(cmd.out, "\n            64 "), "%*d %lf %lf %lf %lf %lf", &a, &b,
			    &ratio, &least, &most),
		     5),
		  "%s", cmd.out);
	cr_assert(a > 0 && b > 0, "%s", cmd.out);
	cr_assert(0 < least && least <= ratio && ratio <= most, "%s", cmd.out);
	says("# Out of bounds values : 0 OK");
	says("# Geometric mean of B/A: ");
}

/* Each ratio is that of a round; they alternate, so which is first does not matter. */
Test(netbench_figures, compared_plugins_are_in_the_file_round_by_round)
{
	cmd_run(&cmd, 60,
		"f=$(mktemp) && " BOTH "--json $f >&2 && python3 -c \"\n"
		"import json, statistics, sys\n"
		"j = json.load(open(sys.argv[1]))\n"
		"assert (j['A']['abi'], j['B']['abi'], j['rounds'], j['exit'], j['wrong']) == (12, "
		"9, 3, 0, 0), j\n"
		"assert [r['size'] for r in j['rows']] == [8, 64], j\n"
		"for r in j['rows']:\n"
		"    x = [b / a for a, b in zip(r['A_us'], r['B_us'], strict=True)]\n"
		"    assert len(x) == 3 and abs(statistics.median(x) - r['ratio']) < 1e-3, r\n"
		"    assert abs(min(x) - r['ratio_min']) < 1e-3 and abs(max(x) - r['ratio_max']) < "
		"1e-3, r\" $f; c=$?; rm $f; exit $c");
	ends(0);
}

/* One that is 50 ms slower shows so, whichever it is. */
Test(netbench_figures, slower_plugin_is_seen_to_be_slower)
{
	cmd_run(&cmd, 60,
		"$B/softefa --devices 1 --domain figures-$$ --set 'fault=delay 50000' -- "
		"$B/netbench --plugin "
		"$B/plugins/tcpnet.so --compare $B/libnccl-net-efa.so --rounds 2 --pattern "
		"pingpong --max 8 --iters 2 --warmup 0");
	ends(0);
	cr_assert(number("# Geometric mean of B/A: ") > 1, "%s", cmd.out);
	says(": B takes more time");
}

Test(netbench_figures, compared_plugin_with_wrong_data_fails)
{
	cmd_run(&cmd, 60, NETBENCH "--compare $B/plugins/nullnet.so --rounds 2 --max 8");
	ends(1);
	says(" FAILED\n");
}

Test(netbench_figures, compared_plugin_that_cannot_run_ends_the_comparison)
{
	cmd_run(&cmd, 60, NETBENCH "--compare /nowhere.so --max 8");
	ends(2);
	says("netbench: B, /nowhere.so, failed in round 1 of 5: nothing to compare");
	cr_assert(not(cmd_says(&cmd, "B/A")), "%s", cmd.out);
}

/* Each rank is started by itself, as on two hosts. */
Test(netbench_figures, comparison_works_with_ranks_that_are_started_apart)
{
	cmd_run(&cmd, 100,
		"p=$((20000 + $$ %% 10000)); r() { $B/netbench --plugin $B/plugins/tcpnet.so "
		"--compare $B/plugins/tcpnet-v9.so "
		"--rounds 3 --max 8 --root 127.0.0.1:$p --ranks 2 --rank $1; }; r 1 & r 0; a=$?; "
		"wait $!; b=$?; "
		"echo codes $a $b");
	says("codes 0 0\n");
	says("# netbench: B is tcpnet, net ABI v9, ");
	says("; 3 rounds of both, by turns\n");
}

/* ---- long runs: of messages that take 50 ms each ---- */

#define SLOW \
	"$B/softefa --devices 1 --domain figures-$$ --set 'fault=delay 50000' -- $B/netbench " \
	"--plugin " \
	"$B/libnccl-net-efa.so --pattern pingpong --min 8 --max 8 --warmup 0 --iters 20 "

Test(netbench_figures, progress_is_a_line_a_second_when_asked_for)
{
	cmd_run(&cmd, 60, SLOW "--progress");
	ends(0);
	says("netbench: size 8 (1 of 1), ");
	says(" s\nnetbench: size");
	cmd_run(&cmd, 60, SLOW);
	ends(0);
	cr_assert(not(cmd_says(&cmd, "netbench: size")), "%s", cmd.out);
}

Test(netbench_figures, progress_on_a_terminal_is_one_line_that_goes_away)
{
	cmd_run(&cmd, 60, "script -qec \"" SLOW "\" /dev/null");
	ends(0);
	says("\rnetbench: size 8 (1 of 1), ");
	says(" s\033[K\r");
	says("\r\033[K");
}

/* ---- pictures ---- */

#define GNUPLOT(lines) \
	"t=$(mktemp -d); trap 'rm -r $t' EXIT; printf '#!/bin/sh\\n" lines \
	"' >$t/gnuplot; chmod +x $t/gnuplot; PATH=$t:$PATH "

Test(netbench_figures, plot_is_drawn_from_all_sizes)
{
	cmd_run(&cmd, 20,
		GNUPLOT("test x$1 = x--version || cat >$PLOT_FILE\\n") NETBENCH
		"--min 8 --max 32 --plot $t/a.png && cat $t/a.png");
	ends(0);
	says("$data << END\n8 ");
	says("\n32 ");
	says("set terminal png");
}

Test(netbench_figures, plotter_that_fails_is_told)
{
	cmd_run(&cmd, 20, GNUPLOT("test x$1 = x--version\\n") NETBENCH "--max 8 --plot $t/a.png");
	ends(3);
	says("a.png: gnuplot did not draw it");
	says("# Out of bounds values : 0 OK");
}

Test(netbench_figures, without_a_plotter_nothing_is_measured)
{
	cmd_run(&cmd, 20, "PATH=/nonexistent " NETBENCH "--plot x.png");
	ends(3);
	says("needs gnuplot, or python3 with matplotlib: neither is installed");
	cr_assert(not(cmd_says(&cmd, "# netbench")), "%s", cmd.out);
}
