/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: levels, sink, errno. Logs are provoked through calls that refuse. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/log.h"

static char last[1024];
static int lines;

static void collect(void *arg, enum srd_log_level level, const char *line)
{
	(void)level;
	cr_assert(eq(ptr, arg, &lines));
	snprintf(last, sizeof(last), "%s", line);
	lines++;
	errno = EBADF;
}

static int lines_at(const char *setting, enum srd_log_level level)
{
	if (setting)
		setenv("SRD_LOG", setting, 1);
	srd_log_to(collect, &lines);
	srd_log(level, "x %d", 3);
	return lines;
}

Test(log, warnings_are_written_by_default)
{
	cr_assert(eq(int, lines_at(NULL, SRD_LOG_WARN), 1));
	cr_assert(zero(int, strcmp(last, "x 3")));
}

Test(log, infos_are_not_written_by_default)
{
	cr_assert(zero(int, lines_at(NULL, SRD_LOG_INFO)));
}

Test(log, infos_are_written_when_asked)
{
	cr_assert(eq(int, lines_at("info", SRD_LOG_INFO), 1));
}

Test(log, warnings_are_not_written_when_only_errors_are_wanted)
{
	cr_assert(zero(int, lines_at("error", SRD_LOG_WARN)));
}

Test(log, bad_level_is_one_warning_and_the_default)
{
	cr_assert(eq(int, lines_at("loud", SRD_LOG_INFO), 1));
	cr_assert(ne(ptr, strstr(last, "SRD_LOG=loud"), NULL));
	cr_assert(ne(ptr, strstr(last, "error|warn|info"), NULL));
}

Test(log, errno_survives)
{
	errno = ENOTTY;
	lines_at(NULL, SRD_LOG_ERROR);
	cr_assert(eq(int, errno, ENOTTY));
}

Test(log, long_line_is_cut)
{
	char text[2000];

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = 0;
	srd_log_to(collect, &lines);
	srd_log(SRD_LOG_ERROR, "%s", text);
	cr_assert(eq(sz, strlen(last), 511));
}

Test(log, default_sink_is_stderr_and_stdout_stays_empty, .init = cr_redirect_stdout)
{
	cr_redirect_stderr();
	srd_log(SRD_LOG_ERROR, "to whom it may concern");
	fflush(stderr);
	fflush(stdout);
	cr_assert_stderr_eq_str("srd ERROR to whom it may concern\n");
	cr_assert_stdout_eq_str("");
}

Test(log, foreign_failure_becomes_a_line_with_call_and_number)
{
	struct ibv_device dev = {.name = "efa_9"};
	struct ibv_context ctx = {.device = &dev};
	int rc;

	srd_log_to(collect, &lines);
	rc = srd_failed(&ctx, "ibv_foo", ENOSPC, ": %d of %d", 3, 4);
	cr_assert(eq(int, rc, -ENOSPC));
	cr_assert(zero(int, strcmp(last, "efa_9: ibv_foo: No space left on device (28): 3 of 4")));
}

Test(log, foreign_failure_without_a_number_is_eio)
{
	struct ibv_device dev = {.name = "efa_9"};
	struct ibv_context ctx = {.device = &dev};

	srd_log_to(collect, &lines);
	cr_assert(eq(int, srd_failed(&ctx, "ibv_foo", 0, "%s", ""), -EIO));
}
