/* SPDX-License-Identifier: BSD-3-Clause */
/* What netbench tells beside the table, on tcpnet, which has no QPs and no threads. */
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
