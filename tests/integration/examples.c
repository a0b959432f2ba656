/* SPDX-License-Identifier: BSD-3-Clause */
/* The examples do what they say, on software devices, and say what went wrong. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cmd.h"

enum { LIMIT_S = 40 }; /* more than the examples ever wait */

static struct cmd cmd;

/* An address of this machine that no other test has: by the process. */
static const char *root(void)
{
	static char at[32];
	unsigned pid = (unsigned)getpid();

	snprintf(at, sizeof(at), "127.%u.%u.%u:7000", pid >> 16 & 0xff, pid >> 8 & 0xff,
		 pid & 0xff);
	return at;
}

/* What goes wrong in one process alone: a fault of softefa. */
static const char *fault = "";
static int faulty;

/* Run @lines at once, on the devices that @softefa says; codes[i] is what the i-th ended with. */
static void run_all(const char *softefa, const char *const *lines, int n, int *codes)
{
	char script[3000], *p = script, *end = script + sizeof(script);

	p += snprintf(p, (size_t)(end - p),
		      "run() { $B/softefa --domain ex-%d %s ${f:+--set \"fault=$f\"} -- "
		      "$B/examples/\"$@\" & }; ",
		      (int)getpid(), softefa);
	for (int i = 0; i < n; i++)
		p += snprintf(p, (size_t)(end - p), "f='%s'; run %s; p%d=$!; ",
			      i == faulty ? fault : "", lines[i], i);
	for (int i = 0; i < n; i++)
		p += snprintf(p, (size_t)(end - p), "wait $p%d; echo code %d: $?; ", i, i);
	cr_assert(p < end);
	cmd_run(&cmd, LIMIT_S, "%s", script);
	for (int i = 0; i < n; i++) {
		char mark[24], *at;

		snprintf(mark, sizeof(mark), "code %d: ", i);
		at = strstr(cmd.out, mark);
		cr_assert(at, "not in time:\n%s", cmd.out);
		codes[i] = atoi(at + strlen(mark));
	}
}

static void expect_codes(const int *codes, int n, int want)
{
	for (int i = 0; i < n; i++)
		cr_assert(codes[i] == want, "process %d ended with %d, not %d:\n%s", i, codes[i],
			  want, cmd.out);
}

/* ---- ring_allreduce ---- */

enum { RING_RANKS = 8 };

struct ring {
	int ranks, rails;
	unsigned long bytes;
	char softefa[64];
};

static int codes[RING_RANKS];

static void ring(const struct ring *r, const char *front)
{
	char text[RING_RANKS][96];
	const char *lines[RING_RANKS];

	for (int i = 0; i < r->ranks; i++) {
		snprintf(text[i], sizeof(text[i]), "ring_allreduce %d %d %s %lu %d", i, r->ranks,
			 root(), r->bytes, r->rails);
		lines[i] = text[i];
	}
	run_all(front, lines, r->ranks, codes);
}

ParameterizedTestParameters(examples, ring_allreduce_sums)
{
	static struct ring runs[] = {
		{2, 1, 8192, "--devices 1"},
		{2, 4, 4 << 20, "--devices 4"},
		{3, 2, 1000000, "--devices 3"},
		{8, 2, 500000, "--devices 2"},
		{4, 2, 1 << 20, "--devices 2 --set reorder=64"},
		{4, 2, 1 << 20, "--devices 2 --set reorder=0"},
		{3, 3, 300000, "--devices 3 --profile efa3"},
		{3, 2, 300000, "--devices 2 --set 'fault=delay 100 jitter=2000 dev=1'"},
	};

	return cr_make_param_array(struct ring, runs, sizeof(runs) / sizeof(runs[0]));
}

ParameterizedTest(struct ring *r, examples, ring_allreduce_sums)
{
	const char *line = cmd.out;
	char want[64];

	ring(r, r->softefa);
	expect_codes(codes, r->ranks, 0);
	snprintf(want, sizeof(want), " bytes, %d ranks, %d rails: ", r->ranks, r->rails);
	for (int i = 0; i < 5; i++) {
		line = strstr(line, want);
		cr_assert(line, "run %d:\n%s", i, cmd.out);
		line += strlen(want);
		/* Nothing is so slow that a MiB rounds to nothing. */
		cr_assert(r->bytes < 1 << 20 || atof(line) > 0, "%s", cmd.out);
	}
}

Test(examples, ring_allreduce_ends_everywhere_when_a_write_fails)
{
	ring(&(struct ring){3, 2, 1 << 20, ""},
	     "--devices 2 --set 'fault=status 7 op=write dev=1 nth=9'");
	expect_codes(codes, 3, 1);
	cr_assert(cmd_says(&cmd, "remote key or range invalid: Permission denied"), "%s", cmd.out);
}

Test(examples, ring_allreduce_ends_everywhere_when_a_rank_dies)
{
	fault = "die_sending 0 op=write nth=7";
	ring(&(struct ring){4, 2, 1 << 20, ""}, "--devices 2");
	cr_assert(codes[0] == 128 + SIGKILL, "%s", cmd.out);
	expect_codes(codes + 1, 3, 1);
}

Test(examples, ring_allreduce_says_what_the_device_lacks)
{
	ring(&(struct ring){2, 1, 1 << 20, ""}, "--profile efa0");
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "srd_mr_init: Operation not supported"), "%s", cmd.out);
	ring(&(struct ring){2, 3, 1 << 20, ""}, "--devices 2");
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "RAILS: that many EFAs: No such device"), "%s", cmd.out);
	ring(&(struct ring){2, 1, 1 << 20, ""}, "--set max_rdma_size=65536");
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "a stripe above max_rdma_size: Message too long"), "%s", cmd.out);
}

Test(examples, ring_allreduce_refuses_a_neighbour_with_other_arguments)
{
	char text[2][96];
	const char *lines[] = {text[0], text[1]};

	for (int i = 0; i < 2; i++)
		snprintf(text[i], sizeof(text[i]), "ring_allreduce %d 2 %s %d 1", i, root(),
			 100000 + i * 8192);
	run_all("", lines, 2, codes);
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "BYTES or RAILS of a neighbour: Invalid argument"), "%s", cmd.out);
}

/* ---- kv_pull ---- */

static void kv(const char *softefa, int blocks, int bytes, int count, int window)
{
	char hold[96], pull[96];
	const char *lines[] = {hold, pull};

	snprintf(hold, sizeof(hold), "kv_pull hold %s %d %d", root(), blocks, bytes);
	snprintf(pull, sizeof(pull), "kv_pull pull %s %d %d", root(), count, window);
	run_all(softefa, lines, 2, codes);
}

/* How many overtook another, after all came exactly once. */
static int kv_late(int count)
{
	const char *late = strstr(cmd.out, " GB/s, "), *p = strstr(cmd.out, "order:");
	static bool came[4096];

	expect_codes(codes, 2, 0);
	cr_assert(late && p, "%s", cmd.out);
	memset(came, 0, sizeof(came));
	p += strlen("order:");
	for (int i = 0; i < count; i++) {
		char *next;
		long block = strtol(p, &next, 10);

		cr_assert(next > p && block >= 0 && block < count && !came[block], "%s", cmd.out);
		came[block] = true;
		p = next;
	}
	cr_assert(*p == '\n', "%s", cmd.out);
	return atoi(late + strlen(" GB/s, "));
}

Test(examples, kv_pull_uses_blocks_in_the_order_in_which_they_come)
{
	kv("", 256, 65536, 200, 32);
	cr_assert(kv_late(200) > 0, "%s", cmd.out);
	kv("--profile efa2", 64, 4096, 64, 64);
	cr_assert(kv_late(64) > 0, "%s", cmd.out);
}

Test(examples, kv_pull_gets_blocks_in_order_where_the_device_keeps_it)
{
	kv("--set reorder=0", 128, 8192, 128, 16);
	cr_assert(kv_late(128) == 0, "%s", cmd.out);
}

Test(examples, kv_pull_has_no_more_reads_under_way_than_its_window)
{
	kv("", 64, 4096, 64, 1);
	cr_assert(kv_late(64) == 0, "%s", cmd.out);
	kv("", 512, 8, 512, 4096);
	cr_assert(kv_late(512) > 0, "%s", cmd.out);
}

Test(examples, kv_pull_says_why_a_read_failed)
{
	kv("--set 'fault=status 7 op=read nth=5'", 64, 4096, 64, 4);
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "remote key or range invalid: Permission denied"), "%s", cmd.out);
}

Test(examples, kv_pull_holder_ends_when_the_puller_dies)
{
	fault = "die_placing 100 op=read nth=5";
	faulty = 1;
	kv("", 64, 4096, 64, 4);
	expect_codes(codes, 1, 1);
	cr_assert(codes[1] == 128 + SIGKILL, "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "another process: Connection reset by peer"), "%s", cmd.out);
}

Test(examples, kv_pull_says_what_cannot_be)
{
	kv("--profile efa0", 64, 4096, 64, 4);
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "RDMA read: Operation not supported"), "%s", cmd.out);
	kv("", 8, 4096, 9, 4);
	expect_codes(codes, 2, 1);
	cr_assert(cmd_says(&cmd, "COUNT: more blocks than there are"), "%s", cmd.out);
}

Test(examples, arguments_out_of_range_are_named_with_their_limits)
{
	const char *lines[] = {"kv_pull hold 127.0.0.1:1 5000 4096", "kv_pull pull 127.0.0.1:1 5 0",
			       "ring_allreduce 2 2 127.0.0.1:1 8192 1",
			       "ring_allreduce 0 2 127.0.0.1:1 8191x 1"};

	run_all("", lines, 4, codes);
	expect_codes(codes, 4, 2);
	cr_assert(cmd_says(&cmd, "BLOCKS 5000: not 1 to 4096"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "WINDOW 0: not 1 to 4096"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "RANK 2: not 0 to 1"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "BYTES 8191x: not 8192 to 1099511627776"), "%s", cmd.out);
}

/* ---- quickstart ---- */

Test(examples, quickstart_writes_to_itself)
{
	const char *line = "quickstart";

	run_all("", &line, 1, codes);
	expect_codes(codes, 1, 0);
	cr_assert(cmd_says(&cmd, "hello, EFA\n"), "%s", cmd.out);
	run_all("--set 'fault=status 7'", &line, 1, codes);
	expect_codes(codes, 1, 1);
	cr_assert(cmd_says(&cmd, "Permission denied\n"), "%s", cmd.out);
}

Test(examples, quickstart_says_what_the_device_lacks)
{
	const char *line = "quickstart";

	run_all("--profile efa0", &line, 1, codes);
	expect_codes(codes, 1, 1);
	cr_assert(cmd_says(&cmd, "srd ERROR efa_0: QP refused: RDMA write"), "%s", cmd.out);
}

Test(examples, quickstart_without_an_efa_says_so)
{
	cmd_run(&cmd, LIMIT_S, "SYSFS_PATH=/nowhere $B/examples/quickstart");
	cr_assert(cmd.code == 1, "%d: %s", cmd.code, cmd.out);
	cr_assert(cmd_says(&cmd, "no EFA here"), "%s", cmd.out);
}
