/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks, and waits that end. */
#include "need.h"

#include <dirent.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static bool forked;

void need_forked(void)
{
	forked = true;
}

bool need_is_forked(void)
{
	return forked;
}

void need_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	int n = snprintf(text, sizeof(text), "%s:%d: %s: ", file, line, cond);

	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	va_end(args);
	if (!forked && gettid() == getpid())
		cr_assert_fail("%s", text);
	fprintf(stderr, "%s\n", text);
	if (forked)
		_exit(1);
	abort();
}

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void nap_ms(int ms)
{
	const struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&nap, NULL);
}

void relax(unsigned *tries)
{
	const struct timespec nap = {.tv_nsec = 50000};

	if (++*tries < 200)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	need(dir, "%s", path);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

unsigned open_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1 << 16; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
