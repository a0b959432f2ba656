/* SPDX-License-Identifier: BSD-3-Clause */
/* How netcheck judges a check by what becomes of its processes; the checks here need no plugin. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netcheck/runner.h"

static void ignore(const struct nk_result *result)
{
	(void)result;
}

static const struct nk_options options = {
	.plugin = "none", .mode = "processes", .ranks = 2, .timeout = 60, .jobs = 4};

static struct nk_result run_by(const struct nk_options *opt, void (*body)(struct check_ctx *ctx),
			       unsigned flags)
{
	struct check check = {.id = "C00",
			      .group = "load",
			      .title = "t",
			      .rule = "r",
			      .run = body,
			      .flags = CHECK_BARE | flags};
	struct nk_result result = {.check = &check, .abi = 12};

	cr_assert_eq(nk_run(opt, &result, 1, ignore), 0);
	return result;
}

static struct nk_result run(void (*body)(struct check_ctx *ctx), unsigned flags)
{
	return run_by(&options, body, flags);
}

static void expect_verdict(const struct nk_result *r, enum nk_verdict want, const char *words)
{
	cr_assert(r->verdict == want, "verdict %d: %s", (int)r->verdict, r->text);
	cr_assert(strstr(r->text, words), "no \"%s\" in %s", words, r->text);
}

static void sees(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
}

Test(netcheck_runner, passes_what_saw_all_that_it_expected)
{
	struct nk_result r = run(sees, 0);

	expect_verdict(&r, NK_PASS, "");
}

static void nothing(struct check_ctx *ctx)
{
	(void)ctx;
}

Test(netcheck_runner, fails_what_expected_nothing)
{
	struct nk_result r = run(nothing, CHECK_RANKS);

	expect_verdict(&r, NK_FAIL, "expected something to be checked, saw nothing");
}

static void expects_in_vain(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	check_expect(ctx, ctx->self->rank == 0, "expected %d, saw %d", 7, 8);
	check_expect(ctx, ctx->self->rank == 0, "expected more");
}

Test(netcheck_runner, fails_by_the_first_words_of_any_rank)
{
	struct nk_result r = run(expects_in_vain, CHECK_RANKS);

	expect_verdict(&r, NK_FAIL, "expected 7, saw 8");
}

static void leaves(struct check_ctx *ctx)
{
	if (ctx->self->rank)
		check_fail(ctx, "expected the end");
	check_barrier(ctx);
	abort();
}

Test(netcheck_runner, ends_the_ranks_that_wait_for_one_that_failed)
{
	struct nk_result r = run(leaves, CHECK_RANKS);

	expect_verdict(&r, NK_FAIL, "expected the end");
	cr_assert_lt(r.seconds, 50);
}

static void skips(struct check_ctx *ctx)
{
	check_skip(ctx, "no %s", "moon");
}

static void reports(struct check_ctx *ctx)
{
	check_report(ctx, "it is %s", "blue");
}

static void reports_and_fails(struct check_ctx *ctx)
{
	check_report(ctx, "it is blue");
	check_expect(ctx, false, "expected red");
}

Test(netcheck_runner, skips_and_reports_with_a_reason_and_fails_all_the_same)
{
	struct nk_result r = run(skips, CHECK_RANKS);

	expect_verdict(&r, NK_SKIP, "no moon");
	r = run(reports, 0);
	expect_verdict(&r, NK_REPORT, "it is blue");
	r = run(reports_and_fails, 0);
	expect_verdict(&r, NK_FAIL, "expected red");
}

static void dies(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	host_entering(ctx->self, HOST_PROGRESS, "isend");
	raise(SIGKILL);
}

static void exits(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	exit(0);
}

static void dies_later(void)
{
	raise(SIGABRT);
}

static void dies_in_exit_handler(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	atexit(dies_later);
}

Test(netcheck_runner, fails_a_death_with_signal_and_last_call)
{
	struct nk_result r = run(dies, 0);

	expect_verdict(&r, NK_FAIL, "killed by signal 9");
	expect_verdict(&r, NK_FAIL, "last calls: progress isend");
	r = run(exits, CHECK_RANKS);
	expect_verdict(&r, NK_FAIL, "exit with status 0");
	r = run(dies_in_exit_handler, 0);
	expect_verdict(&r, NK_FAIL, "exit handlers");
}

static void hangs(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	host_entering(ctx->self, HOST_SERVICE, "connect");
	for (;;)
		pause();
}

static void waits_in_vain(struct check_ctx *ctx)
{
	check_tick(ctx, host_now_ns(), "nothing yet");
	check_tick(ctx, host_now_ns() - 2000000000, "a sign");
}

Test(netcheck_runner, fails_a_hang_in_time)
{
	struct nk_options opt = options;
	struct nk_result r;

	opt.timeout = 1;
	r = run_by(&opt, hangs, CHECK_RANKS);
	expect_verdict(&r, NK_FAIL, "hang; last calls: service connect");
	r = run_by(&opt, waits_in_vain, 0);
	expect_verdict(&r, NK_FAIL, "expected a sign, saw nothing of it");
}

static void kills_itself(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	if (ctx->self->rank)
		check_die(ctx);
}

Test(netcheck_runner, takes_no_offence_at_a_death_that_the_check_wants)
{
	struct nk_result r = run(kills_itself, CHECK_RANKS);

	expect_verdict(&r, NK_PASS, "");
}

/* A descendant that holds the write end of a pipe for as long as it lives. */
static void has_child(struct check_ctx *ctx)
{
	check_expect(ctx, true, "expected a, saw b");
	if (fork())
		return;
	for (;;)
		pause();
}

Test(netcheck_runner, leaves_no_descendant_behind)
{
	int fds[2];
	char byte;

	cr_assert_eq(pipe(fds), 0);
	run(has_child, 0);
	close(fds[1]);
	/* Ends when nobody has the other end: bounded by the test's limit. */
	cr_assert_eq(read(fds[0], &byte, 1), 0);
}

static void same_process(struct check_ctx *ctx)
{
	pid_t mine = getpid(), all[HOST_MAX_RANKS];

	check_allgather(ctx, &mine, all, sizeof(mine));
	for (int r = 0; r < ctx->self->nranks; r++)
		check_expect(ctx, all[r] == mine, "expected one process, saw more");
}

Test(netcheck_runner, ranks_are_threads_of_one_process_on_demand)
{
	struct nk_options opt = options;
	struct nk_result r;

	opt.ranks = 3;
	r = run_by(&opt, same_process, CHECK_RANKS);
	expect_verdict(&r, NK_FAIL, "saw more");
	opt.threads = true;
	r = run_by(&opt, same_process, CHECK_RANKS);
	expect_verdict(&r, NK_PASS, "");
}

static void says(struct check_ctx *ctx)
{
	fputs("a word on stderr\n", stderr);
	check_expect(ctx, false, "expected a, saw b");
}

Test(netcheck_runner, keeps_what_a_check_says)
{
	struct nk_result r = run(says, 0);

	cr_assert(strstr(r.log, "a word on stderr\n"), "%s", r.log);
}

Test(netcheck_runner, goes_on_after_any_of_them_and_keeps_the_order)
{
	static void (*const bodies[])(struct check_ctx * ctx) = {dies, sees, hangs, nothing, sees};
	static const enum nk_verdict want[] = {NK_FAIL, NK_PASS, NK_FAIL, NK_FAIL, NK_PASS};
	struct nk_options opt = options;
	struct nk_result result[5];
	struct check check[5];

	opt.timeout = 1;
	for (int i = 0; i < 5; i++) {
		check[i] = (struct check){.id = "C00", .run = bodies[i], .flags = CHECK_BARE};
		result[i] = (struct nk_result){.check = &check[i]};
	}
	nk_run(&opt, result, 5, ignore);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(result[i].verdict, want[i], "%d", i);
}
