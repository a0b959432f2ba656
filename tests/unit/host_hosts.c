/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap over TCP, each rank started by itself: however one ends, all end in time, with one
 * code, and know why.
 */
#include "../lib/kids.h"
#include "../lib/ranks.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- it works ---- */

Test(hosts, allgather_gives_everybody_everything_in_order)
{
	ranks_start_all(ranks_gather);
	ranks_expect_all(HOST_PASS);
	cr_expect_null(strstr(ranks_said(0), "rank"), "%s", ranks_said(0));
}

/* Much more than a socket takes at once. */
static int gather_large(struct host_rank *self, void *arg)
{
	char *mine = malloc(RANKS_SHARE), *all = malloc(RANKS * RANKS_SHARE);
	int code = HOST_PASS;

	(void)arg;
	for (int round = 0; round < 20; round++) {
		memset(mine, self->rank * 50 + round, RANKS_SHARE);
		if (host_allgather(self, HOST_MAIN, mine, all, RANKS_SHARE))
			return HOST_USAGE;
		for (size_t i = 0; i < RANKS * RANKS_SHARE; i++)
			code |= all[i] != (char)(i / RANKS_SHARE * 50 + (size_t)round);
	}
	free(mine);
	free(all);
	return code;
}

Test(hosts, allgather_takes_large_shares)
{
	ranks_start_all(gather_large);
	ranks_expect_all(HOST_PASS);
}

static int late(struct host_rank *self, void *arg)
{
	(void)arg;
	if (self->rank == 2)
		usleep(200 * 1000);
	return host_barrier(self, HOST_MAIN);
}

Test(hosts, ranks_come_in_any_order)
{
	ranks_port();
	for (int r = RANKS - 1; r >= 0; r--) {
		ranks_start(r, late);
		usleep(100 * 1000);
	}
	ranks_expect_all(HOST_PASS);
}

/* ---- how ranks end ---- */

static int wrong_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	return host_barrier(self, HOST_MAIN) ? HOST_USAGE : self->rank == 2;
}

Test(hosts, one_rank_with_wrong_data_makes_a_wrong_run)
{
	ranks_start_all(wrong_at_2);
	ranks_expect_all(HOST_WRONG);
}

/* All others wait for rank 2 in a barrier, as they would in a real run. */
static int wait_for_2(struct host_rank *self)
{
	return host_barrier(self, HOST_MAIN) ? HOST_PASS : HOST_USAGE;
}

static int fail_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	return self->rank == 2 ? HOST_FAIL : wait_for_2(self);
}

Test(hosts, a_failing_rank_calls_off_the_others)
{
	ranks_start_all(fail_at_2);
	ranks_expect_all(HOST_FAIL);
	for (int r = 0; r < RANKS; r++) {
		if (r != 2)
			ranks_expect_says(r, "rank 2 ended with code 2");
	}
}

static int usage_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	return self->rank == 2 ? HOST_USAGE : wait_for_2(self);
}

Test(hosts, the_largest_code_is_everybodys)
{
	ranks_start_all(usage_at_2);
	ranks_expect_all(HOST_USAGE);
}

static int killed_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	if (self->rank == 2)
		raise(SIGKILL);
	return wait_for_2(self);
}

Test(hosts, a_killed_rank_is_named_everywhere)
{
	ranks_start_all(killed_at_2);
	ranks_expect_all(HOST_FAIL);
	for (int r = 0; r < RANKS; r++) {
		ranks_expect_says(r, "rank 2 (pid ");
		ranks_expect_says(r, "was killed by signal 9");
	}
}

static int hangs_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	while (self->rank == 2)
		pause();
	return wait_for_2(self);
}

Test(hosts, a_hanging_rank_is_named_everywhere)
{
	ranks_shape.timeout_s = RANKS_SHORT_S;
	ranks_start_all(hangs_at_2);
	ranks_expect_all(HOST_FAIL);
	for (int r = 0; r < RANKS; r++) {
		ranks_expect_says(r, "rank 2 (pid ");
		ranks_expect_says(r, "hangs: no sign of life for 4 s");
	}
}

static atomic_uint *running; /* ranks */

/* For ever, and noticed by all when it is over. */
static int wait_at_all(struct host_rank *self, void *arg)
{
	(void)arg;
	if (host_barrier(self, HOST_MAIN))
		return HOST_PASS;
	atomic_fetch_add(running, 1);
	while (!host_over(self)) {
		host_beat(self, HOST_MAIN);
		usleep(1000);
	}
	return HOST_PASS;
}

/* All ranks, until they have begun. */
static void start_running(void)
{
	running = kids_share(sizeof(*running));
	ranks_start_all(wait_at_all);
	kids_await(running, RANKS);
}

Test(hosts, a_killed_supervisor_is_named_everywhere)
{
	start_running();
	kill(ranks_procs[2].pid, SIGKILL);
	for (int r = 0; r < RANKS; r++) {
		ranks_expect(r, r == 2 ? 128 + SIGKILL : HOST_FAIL);
		if (r != 2)
			ranks_expect_says(r, "rank 2 is gone: ");
	}
}

Test(hosts, a_killed_root_is_named_everywhere)
{
	start_running();
	kill(ranks_procs[0].pid, SIGKILL);
	for (int r = 1; r < RANKS; r++) {
		ranks_expect(r, HOST_FAIL);
		ranks_expect_says(r, "rank 0 is gone: ");
	}
	ranks_expect(0, 128 + SIGKILL);
}

/* As a network that carries nothing looks. */
Test(hosts, a_silent_supervisor_is_named_everywhere)
{
	ranks_shape.timeout_s = RANKS_SHORT_S;
	start_running();
	kill(ranks_procs[2].pid, SIGSTOP);
	for (int r = 0; r < RANKS; r++) {
		if (r == 2)
			continue;
		ranks_expect(r, HOST_FAIL);
		ranks_expect_says(r, "rank 2 is gone: no sign of life for 4 s");
	}
	kill(ranks_procs[2].pid, SIGCONT);
	ranks_expect(2, HOST_FAIL);
	ranks_expect_says(2, "rank 0 is gone: ");
}

Test(hosts, an_interrupt_ends_all)
{
	start_running();
	kill(ranks_procs[3].pid, SIGTERM);
	ranks_expect_all(128 + SIGTERM);
	ranks_expect_says(1, "rank 3 was interrupted by signal 15");
}

/* ---- who does not come, who should not have come ---- */

Test(hosts, a_rank_that_does_not_come_ends_the_run_at_the_time_limit)
{
	ranks_shape.timeout_s = RANKS_SHORT_S;
	ranks_port();
	for (int r = 0; r < RANKS; r += 2)
		ranks_start(r, ranks_gather);
	ranks_expect(0, HOST_USAGE);
	ranks_expect(2, HOST_USAGE);
	ranks_expect_says(0, "rank 1, 3 did not come to 127.0.0.1:");
	ranks_expect_says(2, "rank 1, 3 did not come to 127.0.0.1:");
}

Test(hosts, without_rank_0_nobody_waits_longer_than_the_time_limit)
{
	ranks_shape.timeout_s = RANKS_SHORT_S;
	ranks_port();
	ranks_start(1, ranks_gather);
	ranks_expect(1, HOST_USAGE);
	ranks_expect_says(1, "rank 1 did not reach rank 0 at 127.0.0.1:");
	ranks_expect_says(1, "within 4 s: Connection refused");
}

Test(hosts, a_root_that_is_taken_is_refused)
{
	ranks_shape.timeout_s = RANKS_SHORT_S;
	ranks_port();
	ranks_start(0, ranks_gather);
	close(ranks_connect());
	ranks_procs[RANKS] = ranks_procs[0];
	ranks_start(0, ranks_gather);
	ranks_expect(0, HOST_USAGE);
	ranks_expect_says(0, "rank 0 cannot listen at 127.0.0.1:");
	ranks_expect(RANKS, HOST_USAGE); /* the others did not come */
}

/* Start all but rank 1 and, instead of it, one that differs; then the right one. */
static void instead_of_1(const struct host_run *other)
{
	ranks_port();
	for (int r = 0; r < RANKS; r += r ? 1 : 2)
		ranks_start(r, ranks_gather);
	ranks_start_run(RANKS, other);
	ranks_expect(RANKS, HOST_USAGE);
	ranks_start(1, ranks_gather);
	ranks_expect_all(HOST_PASS);
}

Test(hosts, a_rank_of_another_number_of_ranks_is_turned_away)
{
	struct host_run other;

	ranks_port();
	other = ranks_shape;
	other.rank = 1;
	other.nranks = 3;
	other.main = ranks_gather;
	instead_of_1(&other);
	ranks_expect_says(RANKS, "refuses rank 1: rank 1 is one of 3 ranks, this run has 4");
	ranks_expect_says(0, "rank 1 is one of 3 ranks, this run has 4");
}

Test(hosts, a_rank_of_other_terms_is_turned_away)
{
	struct host_run other;

	ranks_port();
	other = ranks_shape;
	other.rank = 1;
	other.terms = "--color red --size 44";
	other.main = ranks_gather;
	instead_of_1(&other);
	ranks_expect_says(RANKS,
			  "refuses rank 1: rank 1 runs with --size 44, rank 0 with --size 4");
}
