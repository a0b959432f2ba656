/* SPDX-License-Identifier: BSD-3-Clause */
/* Run a program of the build tree as a user would. */
#include "cmd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Tests lie one directory below the one that make builds into. */
static void set_build_dir(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	cr_assert(n > 0);
	path[n] = 0;
	for (int up = 0; up < 2; up++)
		*strrchr(path, '/') = 0;
	setenv("B", path, 1);
}

static _Noreturn void exec_line(const char *line, int out)
{
	setpgid(0, 0);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	close(out);
	execl("/bin/sh", "sh", "-c", line, (char *)NULL);
	_exit(127);
}

/* Until all writers are gone or time is up; false for the latter. */
static bool collect(struct cmd *cmd, int fd, double end_s)
{
	size_t at = 0;
	char rest[256];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		double left_s = end_s - now_s();
		size_t room = sizeof(cmd->out) - 1 - at;
		ssize_t n;

		if (left_s <= 0)
			return false;
		if (poll(&p, 1, (int)(left_s * 1000) + 1) <= 0)
			continue;
		n = read(fd, room ? cmd->out + at : rest, room ? room : sizeof(rest));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		at += room ? (size_t)n : 0;
	}
}

void cmd_run(struct cmd *cmd, int timeout_s, const char *fmt, ...)
{
	double start_s = now_s();
	char line[4096];
	int out[2], status;
	va_list args;
	bool ended;
	pid_t pid;

	memset(cmd, 0, sizeof(*cmd));
	va_start(args, fmt);
	cr_assert((size_t)vsnprintf(line, sizeof(line), fmt, args) < sizeof(line));
	va_end(args);
	set_build_dir();
	cr_assert(!pipe(out));
	pid = fork();
	cr_assert(pid >= 0);
	if (!pid) {
		close(out[0]);
		exec_line(line, out[1]);
	}
	close(out[1]);
	ended = collect(cmd, out[0], start_s + timeout_s);
	close(out[0]);
	if (!ended)
		kill(-pid, SIGKILL);
	cr_assert(waitpid(pid, &status, 0) == pid);
	cmd->seconds = now_s() - start_s;
	if (!ended)
		cmd->code = CMD_TIMED_OUT;
	else
		cmd->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool cmd_says(const struct cmd *cmd, const char *text)
{
	return strstr(cmd->out, text) != NULL;
}
