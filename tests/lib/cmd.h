/* SPDX-License-Identifier: BSD-3-Clause */
/* Run a program of the build tree as a user would. */
#ifndef TESTS_CMD_H
#define TESTS_CMD_H

#include <stdbool.h>

#define CMD_TIMED_OUT (-1)

struct cmd {
	int code;          /* exit status, 128 + signal, or CMD_TIMED_OUT */
	double seconds;    /* wall */
	char out[1 << 16]; /* stdout and stderr as they came; what does not fit is cut off */
};

/*
 * Run a line of shell; "$B" in it is the build directory that this test lies in. It is killed,
 * with all that it started, after @timeout_s.
 */
void cmd_run(struct cmd *cmd, int timeout_s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

bool cmd_says(const struct cmd *cmd, const char *text);

#endif
