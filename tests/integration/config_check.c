/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl-tests-config/check.py: what it calls right, and that what it does not know is wrong. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "../lib/cmd.h"

static struct cmd cmd;

#define says(text) cr_assert(cmd_says(&cmd, text), "no \"%s\" in:\n%s", text, cmd.out)
#define ends(rc)   cr_assert(eq(int, cmd.code, rc), "%s", cmd.out)

/* What nccl-tests writes on two hosts, as text and as JSON. */
#define TEXT \
	"# nccl-tests version 2.17.1 nccl-headers=22809 nccl-library=22809\n" \
	"# Collective test starting: all_reduce_perf\n" \
	"# Using devices\n" \
	"#  Rank  0 Group  0 Pid    100 on     node-a device  0 [0000:53:00] NVIDIA H100 80GB " \
	"HBM3\n" \
	"#  Rank  1 Group  0 Pid    200 on     node-b device  0 [0000:53:00] NVIDIA H100 80GB " \
	"HBM3\n" \
	"#\n" \
	"#                                                              out-of-place             " \
	"          in-place          \n" \
	"#       size         count      type   redop    root     time   algbw   busbw  #wrong   " \
	"  time   algbw   busbw  #wrong\n" \
	"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)           " \
	"  (us)  (GB/s)  (GB/s)        \n" \
	"           8             2     float     sum      -1    22.33    0.00    0.00       0   " \
	" 21.54    0.00    0.00       0\n" \
	"  1073741824     268435456     float     sum      -1   4500.1  238.61  440.00       0   " \
	"4600.2  233.42  437.60       0\n" \
	"# Out of bounds values : 0 OK\n" \
	"# Avg bus bandwidth    : 219.4\n" \
	"#\n" \
	"# Collective test concluded: all_reduce_perf\n"
#define JSON \
	"{\"version\":2,\"args\":[\"/opt/" \
	"all_reduce_perf\",\"-b\"],\"config\":{\"devices\":[{\"hostname\":\"node-a\"}," \
	"{\"hostname\":\"node-b\"}]},\"results\":[{\"size\":1073741824,\"count\":268435456," \
	"\"type\":\"float\"," \
	"\"out_of_place\":{\"time\":4500.1,\"alg_bw\":238.61,\"bus_bw\":440.0,\"nwrong\":0." \
	"000000}," \
	"\"in_place\":{\"time\":4600.2,\"alg_bw\":233.42,\"bus_bw\":437.6,\"nwrong\":0.000000}}]," \
	"\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"}}"

/* check.py with @args on @text, changed by @sed. */
static void check(const char *args, const char *text, const char *sed)
{
	cmd_run(&cmd, 60, "cat <<'E' | sed -E '%s' | python3 -B " CONFIG "/check.py %s -\n%s\nE",
		sed, args, text);
}

struct sample {
	char sed[100];  /* what is changed in what nccl-tests wrote */
	char args[40];  /* of check.py */
	char said[100]; /* by it */
};

/* ---- right ---- */

Test(config_check, right_data_is_right)
{
	check("", TEXT, "");
	ends(0);
	says("-: right: all_reduce_perf, 4 results, best 440 GB/s");
	check("", JSON, "");
	ends(0);
	says("-: right: all_reduce_perf, 2 results, best 440 GB/s");
}

Test(config_check, bandwidth_at_the_floor_is_right)
{
	check("--floor 1G=437.6", TEXT, "");
	ends(0);
	check("--floor 1G=437.6", JSON, "");
	ends(0);
}

Test(config_check, one_file_that_is_wrong_fails_all)
{
	cmd_run(&cmd, 60,
		"f=$(mktemp); cat >$f <<'E'\n" TEXT "E\n"
		"python3 -B " CONFIG "/check.py $f /nowhere $f; c=$?; rm $f; exit $c");
	ends(1);
	says("/nowhere: No such file");
	says(": right: all_reduce_perf");
}

/* ---- wrong, and not known ---- */

ParameterizedTestParameters(config_check, text_that_is_wrong_or_says_too_little_is_an_error)
{
	static struct sample samples[] = {
		{"s/0.00       0$/0.00       7/", "", "size 8, in place: 7 wrong elements"},
		{"s/ : 0 OK/ : 5 FAILED/", "", "5 values out of bounds"},
		{"s/ : 0 OK/ : 0 FAILED/", "", "1 values out of bounds"},
		{"s/0.00       0$/0.00     N\\/A/", "",
		 "unknown: size 8, in place: #wrong is 'N/A'"},
		{"s/440.00/nan/", "", "unknown: size 1073741824, out of place: busbw is 'nan'"},
		{"s/440.00/-1/", "", "unknown: size 1073741824, out of place: busbw is '-1'"},
		{"/Out of bounds/,$d", "", "the run did not end"},
		{"s/233.42.*//", "", "a row is cut off: 1073741824"},
		{"/float/d", "", "there is no row of results"},
		{"/size/d", "", "there is no row of results"},
		{"s/busbw/speed/g", "", "unknown: columns are"},
		{"d", "", "the run did not end"},
		{"", "--floor 1G=438",
		 "size 1073741824, in place: 437.6 GB/s, must be 438 at least"},
		{"", "--floor 2G=1", "size 2147483648: not run, so it is not known"},
		{"", "--type p5.48xlarge", "has no floor for all_reduce_perf on 2 hosts"},
		{"", "--type p9", "FileNotFoundError"},
	};

	return cr_make_param_array(struct sample, samples, sizeof(samples) / sizeof(samples[0]));
}

ParameterizedTest(struct sample *s, config_check, text_that_is_wrong_or_says_too_little_is_an_error)
{
	check(s->args, TEXT, s->sed);
	ends(1);
	says(s->said);
}

ParameterizedTestParameters(config_check, json_that_is_wrong_or_says_too_little_is_an_error)
{
	static struct sample samples[] = {
		{"s/0.000000/2.000000/", "", "size 1073741824, out of place: 2 wrong elements"},
		{"s/\"nwrong\":0.000000/\"nwrong\":null/", "", "nwrong is None"},
		{"s/\"bus_bw\":440.0/\"bus_bw\":\"nan\"/", "", "bus_bw is 'nan'"},
		{"s/\"okay\":\"true\"/\"okay\":\"false\"/", "", "1 values out of bounds"},
		{"s/,\"out_of_bounds.*/}/", "", "not all of it: KeyError 'out_of_bounds'"},
		{"s/.{20}$//", "", "not all of it"},
		{"s/\\[\\{\"size.*\\}\\],/[],/", "", "there is no row of results"},
		{"", "--floor 1G=440", "in place: 437.6 GB/s, must be 440 at least"},
	};

	return cr_make_param_array(struct sample, samples, sizeof(samples) / sizeof(samples[0]));
}

ParameterizedTest(struct sample *s, config_check, json_that_is_wrong_or_says_too_little_is_an_error)
{
	check(s->args, JSON, s->sed);
	ends(1);
	says(s->said);
}

Test(config_check, bad_usage_names_the_value)
{
	check("--floor 1X=3", TEXT, "");
	ends(2);
	says("1X=3: must be SIZE=GBPS");
}

/* ---- of netbench ---- */

Test(config_check, what_netbench_measures_is_judged_as_well)
{
	cmd_run(&cmd, 60,
		"$B/netbench --plugin $B/plugins/tcpnet.so --max 64 | python3 -B " CONFIG
		"/check.py -");
	ends(0);
	says("-: right: a test, 4 results");
}
