/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench on a plugin with one defect: each is found, named, and ends the run in time. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "../lib/cmd.h"

/* Long enough for a run of a fraction of a second on a busy machine, --timeout 2 included. */
enum { BOUND_S = 12 };

struct defect {
	char fault[24];
	char args[96];
	int code;
	char text[64]; /* part of what is said about it */
};

static struct cmd cmd;

static void expect(const struct defect *d)
{
	cmd_run(&cmd, BOUND_S,
		"TCPNET_FAULT=%s $B/netbench --plugin $B/plugins/tcpnet.so --timeout 2 %s",
		d->fault, d->args);
	cr_assert(cmd.code == d->code, "%s: code %d, not %d\n%s", d->fault, cmd.code, d->code,
		  cmd.out);
	cr_assert(cmd_says(&cmd, d->text), "%s: no \"%s\" in\n%s", d->fault, d->text, cmd.out);
}

#define STREAM   "--pattern stream --min 4K --max 4K"
#define RING     "--pattern ring --min 1M --max 1M --chunk 64K"
#define ALLTOALL "--pattern alltoall --ranks 3 --min 1M --max 1M"
#define PINGPONG "--pattern pingpong --min 100 --max 100"
/* No warm-up: only stamps and the look at the end can tell. */
#define STAMPS   "--warmup 0 --iters 50 "

ParameterizedTestParameters(netbench_faults, wrong_data)
{
	static struct defect defects[] = {
		{"flip:3", STREAM, 1, "message 2 of 4096 bytes: 1 wrong, first at 2048"},
		{"flip:3", RING, 1, "1 wrong"},
		{"flip:20", ALLTOALL, 1, "1 wrong, first at"},
		{"flip:4", PINGPONG, 1, "1 wrong, first at 50"},
		{"swap:3", STREAM, 1, "wrong data at size 4096 from rank 0"},
		{"swap:2", RING, 1, "wrong data"},
		{"swap:9", "--pattern alltoall --min 2M --max 2M", 1, "wrong data"},
		{"stale:2", STREAM, 1, "message 1 of 4096 bytes: "},
		{"tear:2", STREAM, 1, "first at 2048"},
		{"tear:5", RING, 1, "wrong data"},
		{"size:3", STREAM, 1, "message 2 of 4096 bytes: test reports 4095"},
		{"size:3", RING, 1, "bytes: test reports"},
		/* The same where only stamps are looked at. */
		{"swap:9", STAMPS STREAM, 1, "wrong data"},
		{"swap:40", STAMPS RING, 1, "wrong data"},
		{"stale:10", STAMPS PINGPONG, 1, "wrong data"},
		{"tear:10", STAMPS STREAM, 1, "wrong, first at 4088"},
		{"tear:90", STAMPS RING, 1, "wrong data"},
		{"flip:10", STAMPS "--pattern pingpong --min 8 --max 8", 1, "first at 4"},
		{"size:10", STAMPS ALLTOALL, 1, "test reports"},
		/* The last message is verified in full, warmed up or not. */
		{"flip:50", STAMPS STREAM, 1, "message 49 of 4096 bytes: 1 wrong"},
	};

	return cr_make_param_array(struct defect, defects, sizeof(defects) / sizeof(defects[0]));
}

ParameterizedTest(struct defect *d, netbench_faults, wrong_data)
{
	expect(d);
	cr_assert(cmd_says(&cmd, "FAILED"), "%s", cmd.out);
}

ParameterizedTestParameters(netbench_faults, broken_calls)
{
	static struct defect defects[] = {
		{"no-done:5", STREAM, 2, "returned success but left *done unset at size 4096"},
		{"no-request:3", STREAM, 2,
		 "isend to rank 1 channel 0 returned success but left *req"},
		{"test-error:7", RING, 2, "returned 6 (remote error) at size 1048576"},
		{"isend-error:7", RING, 2, "isend to rank"},
		{"init-error", STREAM, 2, "init returned 2 (system error)"},
		{"no-device", STREAM, 2, "plugin tcpnet has no device here"},
		{"no-host", STREAM, 2, "does not take host memory (ptrSupport 0x2)"},
		{"connect-error:2", ALLTOALL, 2, "connect to rank"},
		{"reg-error:2", RING, 2, "regMr to rank"},
		{"no-mhandle", STREAM, 2, "returned success but gave no mhandle"},
		{"close-error", STREAM, 2, "returned 2 (system error)"},
	};

	return cr_make_param_array(struct defect, defects, sizeof(defects) / sizeof(defects[0]));
}

ParameterizedTest(struct defect *d, netbench_faults, broken_calls)
{
	expect(d);
}

ParameterizedTestParameters(netbench_faults, no_end)
{
	static struct defect defects[] = {
		{"lose-zero:2", "--pattern stream --min 0 --max 0", 2, "no progress for 2 s"},
		{"lose-zero:1", "--pattern ring --ranks 3 --min 4 --max 4", 2, "no progress for 2"},
		{"stall:9", RING, 2, "no progress for 2 s at size 1048576: of "},
		{"stall:9", ALLTOALL, 2, "no progress for 2 s at size"},
		{"no-connect", STREAM, 2, "1 of 1 connections pending, first"},
		/* Rank 0 and rank 1 both get stuck: whoever is seen first is named. */
		{"hang:9", RING, 2, "hangs: no sign of life for 2 s; last calls: "},
	};

	return cr_make_param_array(struct defect, defects, sizeof(defects) / sizeof(defects[0]));
}

ParameterizedTest(struct defect *d, netbench_faults, no_end)
{
	expect(d);
}

ParameterizedTestParameters(netbench_faults, dead_ranks)
{
	static struct defect defects[] = {
		{"die:6", STREAM, 2, "netbench: rank 0 (pid "},
		{"die:6", STREAM, 2, ") was killed by signal 9 (Killed); last calls: "},
		{"exit:6", STREAM, 2, ") exited with status 0 on its own; last calls: "},
	};

	return cr_make_param_array(struct defect, defects, sizeof(defects) / sizeof(defects[0]));
}

ParameterizedTest(struct defect *d, netbench_faults, dead_ranks)
{
	expect(d);
}

/* Whoever reads only the file learns of it too. */
Test(netbench_faults, json_holds_the_errors_and_the_exit_code)
{
	cmd_run(&cmd, BOUND_S,
		"f=$(mktemp) && TCPNET_FAULT=flip:3 $B/netbench --plugin $B/plugins/tcpnet.so "
		"--pattern stream --min 64 --max 128 --json $f; c=$?; "
		"python3 -c \"import json; j = json.load(open('$f')); print('seen', j['exit'], "
		"j['wrong'], [r['wrong'] for r in j['rows']])\"; rm $f; exit $c");
	cr_assert_eq(cmd.code, 1);
	cr_assert(cmd_says(&cmd, "seen 1 1 [1, 0]"), "%s", cmd.out);
}

Test(netbench_faults, json_is_valid_where_nothing_ran)
{
	cmd_run(&cmd, BOUND_S,
		"f=$(mktemp) && $B/netbench --plugin /nonexistent.so --json $f; c=$?; "
		"python3 -c \"import json; j = json.load(open('$f')); print('seen', j['exit'], "
		"j['rows'])\"; rm $f; exit $c");
	cr_assert_eq(cmd.code, 2);
	cr_assert(cmd_says(&cmd, "seen 2 []"), "%s", cmd.out);
}
