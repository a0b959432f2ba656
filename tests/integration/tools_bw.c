/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-bw between two processes on software devices. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "../lib/pair.h"

static struct cmd cmd;

static void run(struct pair p)
{
	p.tool = "srd-bw";
	pair_run(&cmd, &p);
}

/* Statements of Python about j, the JSON that the client printed. */
#define JSON(statements) \
	"python3 -c \"\nimport json, sys\nj = json.load(open(sys.argv[1]))\n" statements \
	"\" $t/out || echo untrue"

static void expect_true(void)
{
	cr_assert_not(cmd_says(&cmd, "untrue"), "%s", cmd.out);
}

/* ---- every way to move data ---- */

struct way {
	char softefa[40], client[80];
	int rails, qps, directions;
};

ParameterizedTestParameters(bw, ways)
{
	static struct way ways[] = {
		{"", "--op write", 1, 1, 1},
		{"", "--op write-imm", 1, 1, 1},
		{"", "--op read", 1, 1, 1},
		{"", "--op send", 1, 1, 1},
		{"", "--op write -b", 1, 1, 2},
		{"", "--op write-imm -b", 1, 1, 2},
		{"", "--op read -b", 1, 1, 2},
		{"", "--op send -b", 1, 1, 2},
		{"", "--op write -b -r 2 -q 3", 2, 3, 2},
		{"", "--op write-imm -b -r 3", 3, 1, 2},
		{"", "--op read -b -r efa_2,efa_0 -q 2", 2, 2, 2},
		{"", "--op send -b -r 2 -q 2", 2, 2, 2},
		{"", "--op write --no-direct", 1, 1, 1},
		{"", "--op write-imm -b --no-direct -q 2", 1, 2, 2},
		{"", "--op read --no-direct", 1, 1, 1},
		{"", "--op send --no-direct -b", 1, 1, 2},
		{"", "--op write -w 1", 1, 1, 1},
		{"", "--op send -w 1", 1, 1, 1},
		{"", "--op write -w 1000", 1, 1, 1},
		{"", "--op send -w 1000 -b", 1, 1, 2},
		{"--profile efa0", "--op send", 1, 1, 1},
		{"--profile efa1", "--op read", 1, 1, 1},
		{"--profile efa4", "--op write-imm", 1, 1, 1},
		/* a message is many requests */
		{"--set max_rdma_size=4096", "--op write", 1, 1, 1},
		{"--set max_rdma_size=4096", "--op write-imm -b -w 3", 1, 1, 2},
		{"--set max_rdma_size=4096", "--op read -b -q 2", 1, 2, 2},
	};

	return cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]));
}

/* Odd sizes, and more messages than have a place: every byte of each is looked at. */
ParameterizedTest(struct way *w, bw, ways)
{
	char client[128], truth[800];

	snprintf(client, sizeof(client), "%s -c -n 333 -s 1,3,64,4097,8001 --json", w->client);
	snprintf(truth, sizeof(truth),
		 JSON("assert j['exit'] == 0 and j['check'], j\n"
		      "assert [r['size_bytes'] for r in j['rows']] == [1, 3, 64, 4097, 8001], j\n"
		      "for r in j['rows']:\n"
		      "    assert r['messages'] == 333 * %d and r['wrong_bytes'] == 0, r\n"
		      "    s = r['messages'] / r['seconds']\n"
		      "    assert abs(r['messages_per_s'] / s - 1) < 0.01, r\n"
		      "    assert abs(r['GB_per_s'] / (s * r['size_bytes'] / 1e9) - 1) < 0.01, r\n"
		      "    assert len(r['rails']) == %d, r\n"
		      "    assert abs(sum(x['share_percent'] for x in r['rails']) - 100) < 1, r\n"),
		 w->rails * w->qps * w->directions, w->rails);
	run((struct pair){.softefa = w->softefa, .client = client, .after = truth});
	pair_expect(&cmd, 0, 0);
	expect_true();
}

Test(bw, a_message_longer_than_a_request_can_be_goes_in_several)
{
	run((struct pair){.softefa = "--set max_rdma_size=65536",
			  .client = "-s 1000003,5M -n 7 -c -b -w 5 -q 2 --csv"});
	pair_expect(&cmd, 0, 0);
	pair_expect_says(&cmd, "\n1000003,28,");
	pair_expect_says(&cmd, "\n5242880,28,");
}

struct preset {
	char op[16];
	unsigned long last;
};

ParameterizedTestParameters(bw, presets)
{
	static struct preset presets[] = {{"write", 8 << 20}, {"send", 8 << 10}};

	return cr_make_param_array(struct preset, presets, 2);
}

ParameterizedTest(struct preset *p, bw, presets)
{
	char client[48], truth[200];

	snprintf(client, sizeof(client), "--op %s -n 5 --json", p->op);
	snprintf(truth, sizeof(truth),
		 JSON("s = [r['size_bytes'] for r in j['rows']]\n"
		      "assert s == [2**i for i in range(3, len(s) + 3)] and s[-1] == %lu, s\n"),
		 p->last);
	run((struct pair){.client = client, .after = truth});
	pair_expect(&cmd, 0, 0);
	expect_true();
}

Test(bw, rails_are_those_that_are_named)
{
	run((struct pair){.server = "--rails efa_3,efa_1",
			  .client = "-r efa_2,efa_0 -n 10 -s 8 --json",
			  .after = JSON("assert [x['device'] for x in j['rows'][0]['rails']] == "
					"['efa_2', 'efa_0'], j\n")});
	pair_expect(&cmd, 0, 0);
	expect_true();
}

/* ---- figures ---- */

Test(bw, a_run_takes_the_time_that_was_asked_for)
{
	run((struct pair){.client = "-t 2 -s 4K -r 2 --json --progress",
			  .after = JSON("r, = j['rows']\n"
					"assert 1.9 < r['seconds'] < 10, r\n"
					"assert r['messages'] > 1000, r\n"
					"assert r['wrong_bytes'] is None, r\n")});
	pair_expect(&cmd, 0, 0);
	expect_true();
	pair_expect_says(&cmd, "srd-bw: size 4096, 1 s: ");
}

Test(bw, without_progress_it_is_silent)
{
	run((struct pair){.client = "-t 2 -s 4K", .after = "test -s $t/err && echo untrue"});
	pair_expect(&cmd, 0, 0);
	expect_true();
}

Test(bw, a_slow_rail_has_the_smaller_share)
{
	run((struct pair){.softefa = "--set 'fault=rate 5 dev=1'",
			  .client = "-t 1 -s 64K -w 4 -r 2 --json",
			  .after = JSON("a, b = j['rows'][0]['rails']\n"
					"assert a['share_percent'] > 2 * b['share_percent'], j\n"
					"assert a['GB_per_s'] > 2 * b['GB_per_s'], j\n"
					"assert b['GB_per_s'] < 0.02, j\n")});
	pair_expect(&cmd, 0, 0);
	expect_true();
}

Test(bw, csv_has_a_column_for_each_figure)
{
	run((struct pair){
		.client = "-n 50 -s 8:64 -c -r 2 --csv",
		.after = "python3 -c \"\nimport csv, sys\n"
			 "rows = list(csv.DictReader(open(sys.argv[1])))\n"
			 "assert [int(r['size_bytes']) for r in rows] == [8, 16, 32, 64], rows\n"
			 "for r in rows:\n"
			 "    assert None not in r and all(float(v) >= 0 for v in r.values()), r\n"
			 "    assert r['messages'] == '100' and r['wrong_bytes'] == '0', r\n"
			 "    assert r['efa_0_share_percent'] == '50.00', r\n"
			 "    assert float(r['efa_1_GB_per_s']) > 0, r\n"
			 "\" $t/out || echo untrue"});
	pair_expect(&cmd, 0, 0);
	expect_true();
}

Test(bw, the_table_tells_what_was_measured)
{
	run((struct pair){.client = "-n 50 -s 1K -c -r 2 -b --op send"});
	pair_expect(&cmd, 0, 0);
	pair_expect_says(&cmd, "# srd-bw: send in both directions, server 127.0.0.1:");
	pair_expect_says(&cmd, "# rails efa_0 efa_1; queue pairs per rail 1, window 64, the ");
	pair_expect_says(&cmd, "\n        1024          200 ");
}

/* ---- pictures ---- */

#define GNUPLOT(lines) \
	"mkdir $t/bin; printf '#!/bin/sh\\n" lines "' >$t/bin/gnuplot; chmod +x $t/bin/gnuplot; " \
	"PATH=$t/bin:$PATH"

Test(bw, a_plot_is_drawn_from_all_sizes)
{
	run((struct pair){.before = GNUPLOT("test x$1 = x--version || cat >$PLOT_FILE\\n"),
			  .client = "-n 50 -s 8:32 --plot $t/a.png",
			  .after = "cat $t/a.png"});
	pair_expect(&cmd, 0, 0);
	pair_expect_says(&cmd, "$data << END\n8 ");
	pair_expect_says(&cmd, "\n32 ");
	pair_expect_says(&cmd, "set terminal png");
}

Test(bw, a_plotter_that_fails_is_told)
{
	run((struct pair){.before = GNUPLOT("test x$1 = x--version\\n"),
			  .client = "-n 50 -s 8 --plot $t/a.png"});
	pair_expect(&cmd, 1, 0);
	pair_expect_says(&cmd, "a.png: gnuplot did not draw it");
}
