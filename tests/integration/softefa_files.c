/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors are one table for the program and the adapter: whatever the program closes or
 * replaces there, its own files end, those of the adapter go on, and none is taken for another.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../lib/ear.h"
#include "../lib/kids.h"

TestSuite(softefa_files, .timeout = 60);

enum { FIRST = 40, KEPT = 42, END = 1024 }; /* the program's own are FIRST to KEPT - 1 */

/* As a program that arranges its files: its devices and its channel have low numbers. */
static void arrange(struct ear *e)
{
	int a = e->d.a.dev.fd, ch = e->fd;

	MUST(dup2(a, FIRST) == FIRST, "dup2");
	MUST(dup2(ch, FIRST + 1) == FIRST + 1, "dup2");
	MUST(a < FIRST && ch < FIRST, "numbers %d, %d", a, ch);
	close(a);
	close(ch);
	e->d.a.dev.fd = e->d.b.dev.fd = FIRST;
	e->fd = FIRST + 1;
}

/* ---- all but a few ---- */

static void by_loop(void)
{
	for (int fd = KEPT; fd < END; fd++)
		close(fd);
}

static void by_range(void)
{
	MUST(close_range(KEPT, UINT_MAX, 0) == 0, "close_range");
}

static void by_two_ranges(void)
{
	MUST(close_range(KEPT, 800, 0) == 0, "close_range");
	MUST(close_range(801, END, 0) == 0, "close_range");
}

static void by_closefrom(void)
{
	closefrom(KEPT);
}

/* As libraries do it that start other programs. */
static void by_list(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	while ((e = readdir(dir)))
		if (atoi(e->d_name) >= KEPT && atoi(e->d_name) != dirfd(dir))
			close(atoi(e->d_name));
	closedir(dir);
}

static void by_dup2(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = KEPT; fd < END; fd++)
		if (fd != null && dup2(null, fd) < 0)
			MUST(errno == EBADF, "dup2 over %d: %s", fd, strerror(errno));
}

static void by_dup3(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = KEPT; fd < END; fd++)
		if (fd != null && dup3(null, fd, O_CLOEXEC) < 0)
			MUST(errno == EBADF, "dup3 over %d: %s", fd, strerror(errno));
}

static void (*const ways[])(void) = {
	by_loop, by_range, by_two_ranges, by_closefrom, by_list, by_dup2, by_dup3,
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* All numbers that are free: of files that nobody but the program may write. */
static void fill_table(int *file, unsigned *n)
{
	int fd;

	for (*n = 0; *n < END && (fd = memfd_create("mine", 0)) >= 0; (*n)++)
		file[*n] = fd;
}

static void close_all_then_fill(void *arg)
{
	unsigned *way = arg;
	static int file[END];
	struct ear e;
	unsigned n;

	ear_init(&e);
	arrange(&e);
	ear_works(&e);
	ways[*way]();
	ear_works(&e);
	fill_table(file, &n);
	for (unsigned i = 0; i < 20; i++)
		ear_works(&e);
	for (unsigned i = 0; i < n; i++) {
		MUST(lseek(file[i], 0, SEEK_END) == 0, "file %d has bytes", file[i]);
		close(file[i]);
	}
	duo_fini(&e.d);
}

ParameterizedTestParameters(softefa_files, closing_all_leaves_the_adapter_and_the_program_theirs)
{
	static unsigned way[WAYS];

	for (unsigned i = 0; i < WAYS; i++)
		way[i] = i;
	return cr_make_param_array(unsigned, way, WAYS);
}

ParameterizedTest(unsigned *way, softefa_files,
		  closing_all_leaves_the_adapter_and_the_program_theirs)
{
	struct rlimit l = {END, END};

	node_settings("log=0");
	cr_assert(zero(int, setrlimit(RLIMIT_NOFILE, &l)));
	kids_join(kids_start(close_all_then_fill, way));
}

/* ---- the device's own numbers ---- */

static void end_by_close_range(int fd)
{
	MUST(close_range((unsigned)fd, (unsigned)fd, 0) == 0, "close_range");
}

static void end_by_closefrom(int fd)
{
	closefrom(fd);
}

static void end_by_dup2(int fd)
{
	int null = open("/dev/null", O_RDWR);

	MUST(dup2(null, fd) == fd, "dup2");
}

static void (*const endings[])(int fd) = {end_by_close_range, end_by_closefrom, end_by_dup2};

static void end_and_open_again(void *arg)
{
	unsigned *ending = arg;
	struct duo d;

	for (unsigned i = 0; i < 5; i++) {
		duo_init(&d, &(struct node_attr){0});
		endings[*ending](d.a.dev.fd);
		d.a.dev.sys = d.b.dev.sys = NULL; /* destroys nothing */
		node_fini(&d.b);
		node_fini(&d.a);
	}
}

ParameterizedTestParameters(softefa_files, any_end_of_the_last_number_destroys_the_objects)
{
	static unsigned ending[] = {0, 1, 2};

	return cr_make_param_array(unsigned, ending, 3);
}

ParameterizedTest(unsigned *ending, softefa_files, any_end_of_the_last_number_destroys_the_objects)
{
	node_settings("max_qp=2,max_pd=1");
	kids_join(kids_start(end_and_open_again, ending));
}

Test(softefa_files, dup2_onto_itself_is_no_end)
{
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	cr_assert(eq(int, dup2(e.d.a.dev.fd, e.d.a.dev.fd), e.d.a.dev.fd));
	cr_assert(eq(int, dup3(e.d.a.dev.fd, e.d.a.dev.fd, 0), -1));
	cr_assert(eq(int, errno, EINVAL));
	ear_works(&e);
}

Test(softefa_files, ranges_have_the_kernels_errors)
{
	node_settings(NULL);
	cr_assert(eq(int, close_range(5, 4, 0), -1));
	cr_assert(eq(int, errno, EINVAL));
	cr_assert(eq(int, close_range(5, UINT_MAX, 1 << 20), -1));
	cr_assert(eq(int, errno, EINVAL));
}

Test(softefa_files, range_for_exec_closes_nothing_now)
{
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	cr_assert(zero(int, close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC)));
	ear_works(&e);
	cr_assert(eq(int, fcntl(e.fd, F_GETFD), FD_CLOEXEC));
}

/* ---- fork ---- */

struct counts {
	struct ear e;
	unsigned files;
};

/* It inherits the program's files, not those of the adapter; and can have its own of both. */
static void child_without_the_adapters_files(void *arg)
{
	struct counts *c = arg;
	struct ear own;

	MUST(open_files() == c->files, "%u files, not %u", open_files(), c->files);
	ear_init(&own);
	ear_works(&own);
	close(c->e.d.a.dev.fd);
	ear_works(&own);
	free(c->e.d.a.buf);
	free(c->e.d.b.buf);
	duo_fini(&own.d);
}

Test(softefa_files, child_has_none_of_the_adapters)
{
	struct counts *c = kids_share(sizeof(*c));

	node_settings(NULL);
	c->files = open_files() + 2; /* a device and a channel */
	ear_init(&c->e);
	cr_assert(gt(uint, open_files(), c->files), "the adapter has some");
	kids_join(kids_start(child_without_the_adapters_files, c));
	ear_works(&c->e);
}
