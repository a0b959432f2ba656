/* SPDX-License-Identifier: BSD-3-Clause */
/* netcheck's command line and files; a plugin that dies or hangs; interruption. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#include "../lib/cmd.h"

static struct cmd cmd;

#define NETCHECK "$B/netcheck --plugin $B/plugins/tcpnet.so "

static void expect(int code, const char *text)
{
	cr_assert(cmd.code == code, "code %d, not %d\n%s", cmd.code, code, cmd.out);
	cr_assert(cmd_says(&cmd, text), "no \"%s\" in\n%s", text, cmd.out);
}

struct refusal {
	char args[64];
	char text[96];
};

ParameterizedTestParameters(netcheck_usage, refusals)
{
	static struct refusal refusals[] = {
		{"--full", "--plugin PATH is required"},
		{"--plugin x --abi 5", "--abi 5: must be 6 to 12, or all"},
		{"--plugin x --abi newest", "--abi newest: must be 6 to 12, or all"},
		{"--plugin x --check C50,C99", "--check C99: no such check or group"},
		{"--plugin x --check speed", "--check speed: no such check or group"},
		{"--plugin x --check ''", "names no check"},
		{"--plugin x --ranks 0", "--ranks 0: must be 1 to 64"},
		{"--plugin x --ranks 65", "--ranks 65: must be 1 to 64"},
		{"--plugin x --mode fibers", "--mode fibers: must be processes or threads"},
		{"--plugin x --timeout 0", "--timeout 0: must be 1 to 3600"},
		{"--plugin x --jobs 65", "--jobs 65: must be 1 to 64"},
		{"--plugin x --seed 4294967296", "--seed 4294967296: must be 0 to 4294967295"},
		{"--plugin x --json /nonexistent/f", "--json /nonexistent/f: No such file"},
		{"--plugin x --junit /nonexistent/f", "--junit /nonexistent/f: No such file"},
		{"--plugin x --nonsense", "--nonsense: unknown option"},
		{"--plugin x 12", "12: what is that?"},
		{"--plugin $B/plugins/tcpnet-v9.so --abi 12", "does not export ncclNetPlugin_v12"},
	};

	return cr_make_param_array(struct refusal, refusals,
				   sizeof(refusals) / sizeof(refusals[0]));
}

ParameterizedTest(struct refusal *r, netcheck_usage, refusals)
{
	cmd_run(&cmd, 10, "$B/netcheck %s", r->args);
	expect(3, r->text);
}

Test(netcheck_usage, a_plugin_that_cannot_be_loaded_fails_with_the_linkers_words)
{
	cmd_run(&cmd, 10, "$B/netcheck --plugin /nonexistent.so");
	expect(1, "cannot load plugin /nonexistent.so: ");
	cr_assert(cmd_says(&cmd, "FAIL    -    C00"), "%s", cmd.out);
}

Test(netcheck_usage, a_library_without_a_table_fails)
{
	cmd_run(&cmd, 10, "$B/netcheck --plugin $B/cuda/libcuda.so.1");
	expect(1, "expected a table of v6 to v12, saw none");
}

Test(netcheck_usage, lists_checks_of_all_groups_in_order)
{
	cmd_run(&cmd, 10, "$B/netcheck --list");
	expect(0, "C01  load ");
	cr_assert(cmd_says(&cmd, "C81  fail "), "%s", cmd.out);
	cmd_run(&cmd, 10, "$B/netcheck --list | cut -c1-3 | sort -c && $B/netcheck --list | wc -l");
	cr_assert(cmd.code == 0 && atoi(cmd.out) >= 60, "%s", cmd.out);
	cmd_run(&cmd, 10, "$B/netcheck --list --check close,c20");
	expect(0, "C20  conn ");
	cr_assert_not(cmd_says(&cmd, "C21"), "%s", cmd.out);
}

Test(netcheck_usage, one_check_of_one_version_is_one_line_and_a_summary)
{
	cmd_run(&cmd, 10, NETCHECK "--check C28 --abi 9");
	expect(0, "PASS    v9   C28  ");
	cr_assert(cmd_says(&cmd, "v9     1 passed, 0 failed, 0 skipped, 0 reported"), "%s",
		  cmd.out);
}

Test(netcheck_usage, what_a_version_is_too_old_for_is_skipped)
{
	cmd_run(&cmd, 20, NETCHECK "--check C14");
	expect(0, "SKIP    v8   C14");
	cr_assert(cmd_says(&cmd, "PASS    v9   C14"), "%s", cmd.out);
}

/* ---- what other vendors' plugins do, and NCCL allows ---- */

struct allowed {
	char fault[24], check[8];
	char text[96]; /* of a REPORT; none: it passes */
};

ParameterizedTestParameters(netcheck_usage, what_nccl_allows_is_no_failure)
{
	static struct allowed allowed[] = {
		{"absent-refused", "C05", "init fails without a device"},
		{"none", "C05", "init succeeds without a device, and there are 0"},
		{"finalize-ends", "C07", "listen in another returns 4 (invalid argument)"},
		{"log-needed", "C09", ""},
		{"handle-tail", "C20", "of the handle's 128 bytes go to the peer as they were"},
	};

	return cr_make_param_array(struct allowed, allowed, sizeof(allowed) / sizeof(allowed[0]));
}

ParameterizedTest(struct allowed *a, netcheck_usage, what_nccl_allows_is_no_failure)
{
	cmd_run(&cmd, 20, "TCPNET_DEVICES=%d TCPNET_FAULT=%s " NETCHECK "--check %s --abi 12",
		strcmp(a->check, "C05") != 0, a->fault, a->check);
	expect(0, *a->text ? "REPORT  v12" : "PASS    v12");
	expect(0, a->text);
}

/* A version without finalize is initialised once for each time that it is loaded. */
Test(netcheck_usage, init_comes_once_for_each_load_before_v11)
{
	cmd_run(&cmd, 20, "TCPNET_FAULT=init-once " NETCHECK "--check C06 --abi 10");
	expect(0, "v10    1 passed");
	cmd_run(&cmd, 20, "TCPNET_FAULT=init-once " NETCHECK "--check C06 --abi 11");
	expect(1, "expected success of init, saw 3");
}

/* By a netcheck of its own, without the variable. */
Test(netcheck_usage, a_plugin_that_needs_a_library_path_is_told_why_it_fails)
{
	cmd_run(&cmd, 20,
		"LD_LIBRARY_PATH=$B TCPNET_FAULT=path-needed " NETCHECK "--check C01 --abi 12");
	expect(1, "without LD_LIBRARY_PATH, saw: expected success of init, saw 2");
}

/* C28 passes in every version but the one whose processes are made to die. */
Test(netcheck_usage, a_death_fails_one_check_and_the_run_goes_on)
{
	cmd_run(&cmd, 20, "TCPNET_FAULT=die:5 " NETCHECK "--check C28,C10 --abi 12");
	expect(1, "killed by signal 9 (Killed); last calls: service regMr, progress isend");
	cr_assert(cmd_says(&cmd, "PASS    v12  C10"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "rule: src/transport/net.cc"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "v12    1 passed, 1 failed"), "%s", cmd.out);
}

Test(netcheck_usage, a_hang_fails_in_time)
{
	cmd_run(&cmd, 20, "TCPNET_FAULT=hang:5 " NETCHECK "--check C28,C10 --abi 12 --timeout 2");
	expect(1, "hang; last calls: service regMr, progress test");
	cr_assert(cmd_says(&cmd, "PASS    v12  C10"), "%s", cmd.out);
}

/* Both files have each verdict, the text of a failure, and are well-formed. */
Test(netcheck_usage, writes_json_and_xml)
{
	static const char script[] =
		"import json, sys\n"
		"import xml.etree.ElementTree as x\n"
		"j = json.load(open(sys.argv[1]))\n"
		"v = {(r['abi'], r['check']): r for r in j['results']}\n"
		"assert len(v) == 6 * 2 + 2 and j['plugin'].endswith('tcpnet.so'), j\n"
		"assert v[12, 'C28']['verdict'] == 'FAIL', v\n"
		"assert 'bytes that were sent' in v[12, 'C28']['text'], v\n"
		"assert v[8, 'C14']['verdict'] == 'SKIP', v\n"
		"assert v[12, 'C14']['verdict'] == 'PASS' and v[12, 'C14']['seconds'] > 0, v\n"
		"s = x.parse(sys.argv[2]).getroot().findall('testsuite')\n"
		"assert [e.get('name') for e in s] == ['netcheck v%d' % n for n in range(6, 13)]\n"
		"assert s[6].get('failures') == '1' and s[6].get('tests') == '2', s\n"
		"assert s[2].get('skipped') == '1', s\n"
		"assert 'bytes that were sent' in s[6].find('.//failure').get('message'), s\n";

	cmd_run(&cmd, 30,
		"j=$(mktemp) x=$(mktemp); TCPNET_FAULT=flip:5 " NETCHECK
		"--check C28,C14 --json $j --junit $x >&2; test $? = 1 && python3 -c \"%s\" $j $x; "
		"c=$?; rm $j $x; exit $c",
		script);
	cr_assert(cmd.code == 0, "%s", cmd.out);
}

#define RUNNING \
	"TCPNET_FAULT=hang " NETCHECK "--check C28 --abi 12 --timeout 60 & p=$!; sleep 1; " \
	"ranks=$(cat /proc/$p/task/$p/children); test -n \"$ranks\" || exit 98; "
#define RANKS_GONE \
	"sleep 0.3; for r in $ranks; do " \
	"grep -s '^State' /proc/$r/status | grep -v Z && exit 99; done; exit $c"

Test(netcheck_usage, an_interrupt_ends_all_ranks)
{
	cmd_run(&cmd, 20, RUNNING "kill -TERM $p; wait $p; c=$?; " RANKS_GONE);
	expect(128 + 15, "interrupted by signal 15");
}

Test(netcheck_usage, a_killed_tool_leaves_no_ranks)
{
	cmd_run(&cmd, 20, RUNNING "kill -KILL $p; wait $p; c=$?; " RANKS_GONE);
	cr_assert(cmd.code == 128 + 9, "code %d\n%s", cmd.code, cmd.out);
}
