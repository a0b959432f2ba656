/* SPDX-License-Identifier: BSD-3-Clause */
/* The control file: when it is read, and what is said about it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_control, .timeout = 60);

enum { LEN = 64 };

static char dir[64], path[96];

static void write_file(const char *file, const char *mode, const char *text)
{
	FILE *f = fopen(file, mode);

	cr_assert(ne(ptr, f, NULL));
	cr_assert(ge(int, fputs(text, f), 0));
	cr_assert(zero(int, fclose(f)));
}

/* In one step: nobody sees it empty. */
static void put(const char *text)
{
	char fresh[sizeof(path) + 4];

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	write_file(fresh, "w", text);
	cr_assert(zero(int, rename(fresh, path)));
}

/* A folder of this test's own, with the file in it if @text. */
static void begin(const char *text)
{
	node_settings(NULL);
	strcpy(dir, "/tmp/softefa-test-XXXXXX");
	cr_assert(ne(ptr, mkdtemp(dir), NULL));
	snprintf(path, sizeof(path), "%s/control", dir);
	setenv("SOFTEFA_CONTROL", path, 1);
	if (text)
		put(text);
}

static void end(void)
{
	unlink(path);
	cr_assert(zero(int, rmdir(dir)));
}

static unsigned run(struct duo *d)
{
	struct raw_wr wr = node_wr(&d->a, RAW_WRITE, &d->to_b, d->ahn, 0, LEN, 0);

	return node_run(&d->a, &wr).status;
}

/* Any command makes the device look. */
static void command(struct duo *d)
{
	struct raw_gid gid;

	MUST_0(raw_gid(&d->a.dev, &gid));
}

Test(softefa_control, rules_of_the_file_hold_from_the_first_command)
{
	struct duo d;

	begin("# what goes wrong\n\n  status 8\n");
	duo_init(&d, &(struct node_attr){0});
	cr_assert(eq(uint, run(&d), 8));
	duo_fini(&d);
	end();
}

Test(softefa_control, change_holds_for_the_next_command)
{
	struct duo d;

	begin("");
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 200; i++) {
		put(i & 1 ? "status 8" : "status 7");
		command(&d);
		cr_assert(eq(uint, run(&d), i & 1 ? 8 : 7), "change %u", i);
	}
	duo_fini(&d);
	end();
}

static void date(const char *file, struct timespec t)
{
	struct timespec times[2] = {t, t};

	cr_assert(zero(int, utimensat(AT_FDCWD, file, times, 0)));
}

/* Written twice within a tick of the file system's clock, as long. */
Test(softefa_control, change_that_leaves_size_and_time_is_seen_all_the_same)
{
	int64_t start_us = 0, took_us = INT64_MAX;
	struct timespec now;
	struct duo d;

	begin("");
	duo_init(&d, &(struct node_attr){0});
	/* Where that takes longer than any tick there is nothing to see: again. */
	for (unsigned i = 0; i < 100 && took_us > 30000; i++) {
		clock_gettime(CLOCK_REALTIME, &now);
		start_us = kids_now_us();
		write_file(path, "r+", "status 7");
		date(path, now);
		command(&d);
		write_file(path, "r+", "status 8");
		date(path, now);
		command(&d);
		took_us = kids_now_us() - start_us;
	}
	cr_assert(le(i64, took_us, 30000), "too busy a machine");
	cr_assert(eq(uint, run(&d), 8));
	duo_fini(&d);
	end();
}

Test(softefa_control, change_is_seen_without_a_command)
{
	int64_t end_us = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);
	struct duo d;

	begin("");
	duo_init(&d, &(struct node_attr){0});
	cr_assert(zero(uint, run(&d)));
	put("status 8");
	while (run(&d) != 8) {
		cr_assert(lt(i64, kids_now_us(), end_us), "never seen");
		kids_nap_us(1000);
	}
	duo_fini(&d);
	end();
}

Test(softefa_control, another_file_by_that_name_replaces_it)
{
	const struct timespec old = {.tv_sec = 1000000000};
	char other[96];
	struct duo d;

	begin("status 8");
	date(path, old);
	duo_init(&d, &(struct node_attr){0});
	cr_assert(eq(uint, run(&d), 8));
	/* Size and time are the same. */
	snprintf(other, sizeof(other), "%s/other", dir);
	cr_assert(zero(int, rename(path, other)));
	put("status 7");
	date(path, old);
	command(&d);
	unlink(other);
	cr_assert(eq(uint, run(&d), 7));
	duo_fini(&d);
	end();
}

Test(softefa_control, rules_go_on_counting_when_others_come_and_go)
{
	struct duo d;

	begin("status 8 nth=2\n");
	duo_init(&d, &(struct node_attr){0});
	cr_assert(zero(uint, run(&d)));
	put("delay 1\nstatus 8 nth=2\n");
	command(&d);
	cr_assert(eq(uint, run(&d), 8));
	put("status 8 nth=2\nrnr\n");
	command(&d);
	cr_assert(zero(uint, run(&d)));
	cr_assert(zero(uint, run(&d)), "it struck already");
	put("status 8 nth=2\nstatus 8 nth=2\n");
	command(&d);
	cr_assert(zero(uint, run(&d)));
	cr_assert(eq(uint, run(&d), 8), "a second rule, equal but new");
	put("");
	command(&d);
	put("status 8 nth=2\n");
	command(&d);
	cr_assert(zero(uint, run(&d)));
	cr_assert(eq(uint, run(&d), 8), "gone and come again");
	duo_fini(&d);
	end();
}

/* ---- what is said ---- */

static int err_before;

static void listen(void)
{
	int fd = memfd_create("stderr", MFD_CLOEXEC);

	err_before = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

static const char *heard(void)
{
	static char text[8192];
	ssize_t n = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);

	dup2(err_before, STDERR_FILENO);
	close(err_before);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

Test(softefa_control, bad_line_is_reported_once_and_the_others_count)
{
	const char *said;
	char want[160];
	struct duo d;

	begin("");
	duo_init(&d, &(struct node_attr){0});
	listen();
	put("# one\nstatus 0\nstatus 8 nth=1\nstatus 9 nth=two\nstatus 7 nth=2\n");
	command(&d);
	kids_nap_us(200000);
	command(&d);
	said = heard();
	snprintf(want, sizeof(want), "%s:2: status '0': CODE is not a number in 1 ... 255\n", path);
	cr_assert(eq(uint, count(said, want), 1), "%s", said);
	snprintf(want, sizeof(want), "%s:4: nth=two is not a number in 1 ... 4294967295\n", path);
	cr_assert(eq(uint, count(said, want), 1), "%s", said);
	cr_assert(eq(uint, count(said, "\n"), 2), "%s", said);
	cr_assert(eq(uint, run(&d), 8));
	cr_assert(eq(uint, run(&d), 7));
	duo_fini(&d);
	end();
}

Test(softefa_control, file_that_goes_takes_its_rules_along_and_may_come_again)
{
	const char *said;
	struct duo d;

	begin("status 8");
	duo_init(&d, &(struct node_attr){0});
	cr_assert(eq(uint, run(&d), 8));
	listen();
	cr_assert(zero(int, unlink(path)));
	command(&d);
	kids_nap_us(100000);
	command(&d);
	said = heard();
	cr_assert(eq(uint, count(said, "No such file"), 1), "%s", said);
	cr_assert(zero(uint, run(&d)));
	put("status 7");
	command(&d);
	cr_assert(eq(uint, run(&d), 7));
	duo_fini(&d);
	end();
}

Test(softefa_control, too_many_rules_are_reported_and_the_first_count)
{
	char text[4096] = "", want[128];
	const char *said;
	struct duo d;

	begin("");
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 1; i <= 66; i++)
		sprintf(text + strlen(text), "status %u nth=%u\n", i, i);
	listen();
	put(text);
	command(&d);
	said = heard();
	snprintf(want, sizeof(want), "%s:65: more than 64 rules", path);
	cr_assert(ne(ptr, strstr(said, want), NULL), "%s", said);
	cr_assert(eq(uint, count(said, "more than"), 2));
	for (unsigned i = 1; i <= 64; i++)
		cr_assert(eq(uint, run(&d), i));
	cr_assert(zero(uint, run(&d)));
	duo_fini(&d);
	end();
}

Test(softefa_control, file_that_is_too_long_is_void)
{
	static char text[70000];
	const char *said;
	struct duo d;

	begin("status 8");
	duo_init(&d, &(struct node_attr){0});
	memset(text, '\n', sizeof(text) - 1);
	memcpy(text, "status 7", 8);
	listen();
	put(text);
	command(&d);
	said = heard();
	cr_assert(eq(uint, count(said, "longer than 65536 bytes"), 1), "%s", said);
	cr_assert(zero(uint, run(&d)));
	duo_fini(&d);
	end();
}

/* In one step: nobody sees that there is none. From before on it is listened to. */
static void folder_takes_its_place(void)
{
	char fresh[sizeof(path) + 4];

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	cr_assert(zero(int, mkdir(fresh, 0700)));
	listen();
	cr_assert(zero(int, renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_EXCHANGE)));
	unlink(fresh);
}

/* Neither waits for a writer nor spins. */
Test(softefa_control, folder_or_fifo_is_no_control_file)
{
	const char *said;
	struct duo d;

	begin("status 8");
	duo_init(&d, &(struct node_attr){0});
	folder_takes_its_place();
	command(&d);
	said = heard();
	cr_assert(eq(uint, count(said, "Is a directory"), 1), "%s", said);
	cr_assert(zero(uint, run(&d)));
	rmdir(path);
	cr_assert(zero(int, mkfifo(path, 0600)));
	command(&d);
	cr_assert(zero(uint, run(&d)));
	duo_fini(&d);
	end();
}

/* ---- children ---- */

static void child(void *arg)
{
	struct duo d;

	(void)arg;
	duo_init(&d, &(struct node_attr){0});
	MUST(run(&d) == 0 && run(&d) == 8, "the child counts from one");
	duo_fini(&d);
}

Test(softefa_control, children_count_anew)
{
	struct duo d;

	begin("status 8 nth=2");
	duo_init(&d, &(struct node_attr){0});
	cr_assert(zero(uint, run(&d)));
	kids_join(kids_start(child, NULL));
	cr_assert(eq(uint, run(&d), 8));
	duo_fini(&d);
	end();
}

/* ---- the launcher ---- */

static struct cmd cmd;

/* What is wrong with the arguments, and what is said about it. */
struct bad {
	char args[64], says[64];
};

static struct bad bads[] = {
	{"--control /nowhere/to/be/found", "/nowhere/to/be/found: No such file or directory"},
	{"--profile efa9", "profile 'efa9' is none of: efa0 efa1 efa2 efa3 efa4"},
	{"--set devices=65", "devices=65 is not a number in 1 ... 64"},
	{"--devices 0", "devices=0 is not a number in 1 ... 64"},
	{"--set 'fault=status 256'", "status '256': CODE is not a number in 1 ... 255"},
	{"--set nonsense=1", "there is no setting 'nonsense'"},
	{"--domain a/b", "domain 'a/b' is not"},
};

Test(softefa_control, launcher_refuses_what_is_wrong_and_says_what_would_be_right)
{
	for (unsigned i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		cmd_run(&cmd, 20, "$B/softefa %s -- true", bads[i].args);
		cr_assert(eq(int, cmd.code, 2), "%s", bads[i].args);
		cr_assert(cmd_says(&cmd, bads[i].says), "%s: %s", bads[i].args, cmd.out);
	}
	cmd_run(&cmd, 20, "SOFTEFA_SET=max_qp=0 $B/softefa -- true");
	cr_assert(eq(int, cmd.code, 2));
	cr_assert(cmd_says(&cmd, "max_qp=0 is not a number in 1 ... 16384"), "%s", cmd.out);
}

/* Whatever the order, and wherever the command runs. */
Test(softefa_control, launcher_hands_everything_on)
{
	char real[PATH_MAX];

	begin("status 8");
	cr_assert(ne(ptr, realpath(path, real), NULL));
	unsetenv("SOFTEFA_CONTROL");
	cmd_run(&cmd, 20,
		"cd %s && $B/softefa --set caps=1 --control control --profile efa2 -- "
		"sh -c 'cd / && echo set=$SOFTEFA_SET control=$SOFTEFA_CONTROL'",
		dir);
	cr_assert(zero(int, cmd.code));
	cr_assert(cmd_says(&cmd, "set=caps=1,profile=efa2 "), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, real), "%s", cmd.out);
	end();
}
