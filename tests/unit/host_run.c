/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap: however a rank ends, the run ends in time and with one code. */
#include "host/boot.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, LIMIT_S = 2 };

static double seconds;

static int run(int (*rank_main)(struct host_rank *self, void *arg))
{
	struct host_run r = {.program = "test",
			     .nranks = RANKS,
			     .timeout_s = LIMIT_S,
			     .share = 64,
			     .main = rank_main};
	uint64_t start_ns = host_now_ns();
	int code = host_run(&r);

	seconds = (double)(host_now_ns() - start_ns) / 1e9;
	return code;
}

/* All others wait for rank 2 in a barrier, as they would in a real run. */
static int wait_for_2(struct host_rank *self)
{
	return host_barrier(self, HOST_MAIN) ? HOST_PASS : HOST_USAGE;
}

static int gather(struct host_rank *self, void *arg)
{
	int mine[3], all[RANKS][3];

	(void)arg;
	for (int round = 0; round < 1000; round++) {
		mine[0] = mine[1] = mine[2] = self->rank * 1000 + round;
		if (host_allgather(self, HOST_MAIN, mine, all, sizeof(mine)))
			return HOST_USAGE;
		for (int r = 0; r < RANKS; r++) {
			if (all[r][0] != r * 1000 + round || all[r][2] != r * 1000 + round)
				return HOST_WRONG;
		}
	}
	return HOST_PASS;
}

Test(run, allgather_gives_everybody_everything_in_order)
{
	cr_assert_eq(run(gather), HOST_PASS);
}

static int too_much(struct host_rank *self, void *arg)
{
	char mine[65] = {0}, all[RANKS * 65];

	(void)arg;
	return host_allgather(self, HOST_MAIN, mine, all, sizeof(mine)) ? HOST_PASS : HOST_WRONG;
}

Test(run, allgather_refuses_more_than_the_share)
{
	cr_assert_eq(run(too_much), HOST_PASS);
}

static int wrong_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	return host_barrier(self, HOST_MAIN) ? HOST_USAGE : self->rank == 2;
}

Test(run, one_rank_with_wrong_data_makes_a_wrong_run)
{
	cr_assert_eq(run(wrong_at_2), HOST_WRONG);
}

static int fail_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	return self->rank == 2 ? HOST_FAIL : wait_for_2(self);
}

Test(run, a_failing_rank_calls_off_the_others)
{
	cr_assert_eq(run(fail_at_2), HOST_FAIL);
	cr_assert(seconds < LIMIT_S, "%g s", seconds);
}

static int killed_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	if (self->rank == 2)
		raise(SIGKILL);
	return wait_for_2(self);
}

Test(run, a_killed_rank_fails_the_run)
{
	cr_assert_eq(run(killed_at_2), HOST_FAIL);
	cr_assert(seconds < LIMIT_S, "%g s", seconds);
}

static int exits_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	if (self->rank == 2)
		exit(0);
	return wait_for_2(self);
}

Test(run, a_rank_that_leaves_by_itself_fails_the_run)
{
	cr_assert_eq(run(exits_at_2), HOST_FAIL);
}

static int hangs_at_2(struct host_rank *self, void *arg)
{
	(void)arg;
	while (self->rank == 2)
		pause();
	return wait_for_2(self);
}

Test(run, a_hanging_rank_is_killed_at_the_time_limit)
{
	cr_assert_eq(run(hangs_at_2), HOST_FAIL);
	cr_assert(seconds >= LIMIT_S && seconds < LIMIT_S + 4, "%g s", seconds);
}

static int hangs_in_exit(struct host_rank *self, void *arg)
{
	(void)arg;
	if (self->rank == 2)
		atexit((void (*)(void))pause);
	return HOST_PASS;
}

Test(run, a_rank_that_hangs_in_an_exit_handler_is_killed)
{
	cr_assert_eq(run(hangs_in_exit), HOST_FAIL);
}

static int slow_but_alive(struct host_rank *self, void *arg)
{
	(void)arg;
	for (int i = 0; self->rank == 2 && i < 30; i++) {
		host_beat(self, HOST_PROGRESS);
		usleep(100 * 1000);
	}
	return host_barrier(self, HOST_MAIN) ? HOST_USAGE : HOST_PASS;
}

Test(run, a_rank_that_beats_may_take_longer_than_the_limit)
{
	cr_assert_eq(run(slow_but_alive), HOST_PASS);
	cr_assert(seconds > LIMIT_S, "%g s", seconds);
}
