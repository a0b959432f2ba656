/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tool says on stderr. */
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

/* Set before any thread exists. */
static const char *program = "tool";
/* By the one thread that uses say(). */
static char latest[LINE_BYTES];

void say_init(const char *name)
{
	program = name;
}

void say_line(const char *head, const char *fmt, va_list args)
{
	char line[LINE_BYTES];
	int saved = errno, n = snprintf(line, LINE_BYTES, "%s", head);
	size_t at = n < 0 ? 0 : n < LINE_BYTES ? (size_t)n : LINE_BYTES - 1;
	ssize_t written;

	n = vsnprintf(line + at, LINE_BYTES - at, fmt, args);
	if (n > 0)
		at = (size_t)n < LINE_BYTES - at ? at + (size_t)n : LINE_BYTES - 1;
	if (at == LINE_BYTES - 1)
		at--;
	line[at++] = '\n';
	written = write(STDERR_FILENO, line, at);
	(void)written; /* nowhere left to complain */
	errno = saved;
}

void say(const char *fmt, ...)
{
	char head[64];
	va_list args;

	snprintf(head, sizeof(head), "%s: ", program);
	va_start(args, fmt);
	say_line(head, fmt, args);
	va_end(args);
	va_start(args, fmt);
	vsnprintf(latest, sizeof(latest), fmt, args);
	va_end(args);
}

const char *say_latest(void)
{
	return latest;
}
