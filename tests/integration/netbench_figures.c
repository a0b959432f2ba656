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
