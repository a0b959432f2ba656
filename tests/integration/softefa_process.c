/* SPDX-License-Identifier: BSD-3-Clause */
/* What processes do to an open device: dup, fork, vfork, exec, exits of all kinds, and nothing. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_process, .timeout = 100);

enum { LEN = 4096 };

static void assert_works(struct duo *d)
{
	struct raw_wr wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, LEN, 0);

	node_fill(d->a.buf, LEN, 1);
	memset(d->b.buf, 0, LEN);
	node_recv(&d->b, 1, 0, LEN);
	MUST(node_run(&d->a, &wr).status == 0, "send");
	node_wait_status(&d->b.rcq, 0);
	MUST(node_filled(d->b.buf, LEN, 1), "bytes");
}

/* gcc's does not take its own locks over a fork(), and finds leaks on stacks that are gone. */
static void skip_under_asan(const char *what)
{
#ifdef __SANITIZE_ADDRESS__
	cr_skip("AddressSanitizer does not stand %s", what);
#else
	(void)what;
#endif
}

static void own_device(void *arg)
{
	struct duo d;

	(void)arg;
	duo_init(&d, &(struct node_attr){0});
	assert_works(&d);
	duo_fini(&d);
}

/* ---- file descriptors ---- */

Test(softefa_process, device_is_a_character_device_by_any_number)
{
	struct stat st, by_name;
	struct raw_dev d;
	int fd;

	node_settings(NULL);
	MUST_0(raw_open(&d, &raw_libc, 1));
	cr_assert(zero(int, stat("/dev/infiniband/uverbs1", &by_name)));
	fd = dup(d.fd);
	cr_assert(zero(int, fstat(fd, &st)));
	cr_assert(eq(u32, st.st_mode & S_IFMT, S_IFCHR));
	cr_assert(eq(u64, st.st_rdev, by_name.st_rdev));
	close(d.fd);
	cr_assert(zero(int, fstatat(fd, "", &st, AT_EMPTY_PATH)));
	cr_assert(eq(u32, st.st_mode & S_IFMT, S_IFCHR));
	close(fd);
}

Test(softefa_process, close_on_exec_is_as_asked_for)
{
	int a, b;

	node_settings(NULL);
	a = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	b = open("/dev/infiniband/uverbs0", O_RDWR);
	cr_assert(eq(int, fcntl(a, F_GETFD), FD_CLOEXEC));
	cr_assert(zero(int, fcntl(b, F_GETFD)));
	cr_assert(eq(int, open("/dev/infiniband/uverbs99", O_RDWR), -1));
	cr_assert(eq(int, errno, ENOENT));
	cr_assert(eq(int, open("/dev/infiniband/uverbsX", O_RDWR), -1));
	cr_assert(eq(int, errno, ENOENT));
}

Test(softefa_process, context_lives_until_its_last_number_is_closed)
{
	struct raw_qp qp;
	struct duo d;
	int fd;

	node_settings("max_qp=2");
	duo_init(&d, &(struct node_attr){0});
	fd = dup(d.a.dev.fd);
	close(d.a.dev.fd);
	d.a.dev.fd = d.b.dev.fd = fcntl(fd, F_DUPFD_CLOEXEC, 200);
	close(fd);
	assert_works(&d);
	fd = d.a.dev.fd;
	cr_assert(eq(int,
		     raw_qp_create(&qp, &d.a.dev, &d.a.pd, &d.a.scq, &d.a.scq,
				   &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16}),
		     -ENOMEM));
	close(fd);
	kids_join(kids_start(own_device, NULL)); /* has both queue pairs again */
}

/* dup2() over a context is a close that nobody calls close() for. */
Test(softefa_process, number_of_another_file_is_no_device)
{
	int null = open("/dev/null", O_RDWR);
	struct raw_pd pd;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	cr_assert(eq(int, dup2(null, d.a.dev.fd), d.a.dev.fd));
	cr_assert(eq(int, raw_pd_alloc(&pd, &d.a.dev), -ENOTTY));
	own_device(NULL);
	free(d.a.buf);
	free(d.b.buf);
}

Test(softefa_process, old_write_commands_fail_loudly)
{
	struct raw_dev d;

	node_settings("log=0");
	MUST_0(raw_open(&d, &raw_libc, 0));
	cr_assert(eq(int, (int)write(d.fd, "12345678", 8), -1));
	cr_assert(eq(int, errno, EINVAL));
	raw_close(&d);
}

/* What is mapped from it stays. */
Test(softefa_process, command_file_cannot_be_cut_off)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	cr_assert(eq(int, ftruncate(d.a.dev.fd, 0), -1));
	assert_works(&d);
	duo_fini(&d);
}

/* ---- fork ---- */

struct family {
	struct duo d;
	atomic_uint step;
	bool few_for_the_receiver;
};

static void child_tries_the_parents(void *arg)
{
	struct family *f = arg;
	struct raw_pd pd;
	int rc = raw_pd_alloc(&pd, &f->d.a.dev);

	MUST(rc == -EIO, "a command on the parent's device: %s", strerror(-rc));
	own_device(NULL);
	close(f->d.a.dev.fd); /* the child's alone */
	own_device(NULL);
	free(f->d.a.buf); /* a leak checker does not look into shared memory */
	free(f->d.b.buf);
}

Test(softefa_process, child_opens_its_own_device_and_leaves_the_parents_alone)
{
	struct family *f = kids_share(sizeof(*f));
	pid_t pid;

	node_settings(NULL);
	duo_init(&f->d, &(struct node_attr){0});
	assert_works(&f->d);
	pid = kids_start(child_tries_the_parents, f);
	for (unsigned i = 0; i < 200; i++)
		assert_works(&f->d);
	kids_join(pid);
	assert_works(&f->d);
	duo_fini(&f->d);
}

/* The rings are shared memory: a child that posts rings the parent's doorbell. */
static void child_posts(void *arg)
{
	struct family *f = arg;
	struct raw_wr wr = node_wr(&f->d.a, RAW_SEND, &f->d.to_b, f->d.ahn, 0, 8, 0);

	node_post(&f->d.a, &wr);
}

Test(softefa_process, child_that_posts_works_the_parents_device)
{
	struct family *f = kids_share(sizeof(*f));

	node_settings(NULL);
	duo_init(&f->d, &(struct node_attr){0});
	node_recv(&f->d.b, 1, 0, LEN);
	kids_join(kids_start(child_posts, f));
	node_wait_status(&f->d.a.scq, 0);
	node_wait_status(&f->d.b.rcq, 0);
	duo_fini(&f->d);
}

static void idle_child(void *arg)
{
	(void)arg;
}

static void *forker(void *arg)
{
	atomic_uint *stop = arg;

	while (!*stop)
		kids_join(kids_start(idle_child, NULL));
	return NULL;
}

/* Forks of one thread while others are in the middle of commands and copies. */
Test(softefa_process, forks_at_any_moment_do_no_harm)
{
	atomic_uint stop = 0;
	pthread_t t;
	struct duo d;

	skip_under_asan("forks of many threads");
	node_settings(NULL);
	pthread_create(&t, NULL, forker, &stop);
	for (unsigned i = 0; i < 100; i++) {
		duo_init(&d, &(struct node_attr){0});
		assert_works(&d);
		duo_fini(&d);
	}
	stop = 1;
	pthread_join(t, NULL);
}

static void *opener(void *arg)
{
	atomic_uint *stop = arg;
	struct raw_dev d;
	struct raw_pd pd;

	while (!*stop) {
		MUST_0(raw_open(&d, &raw_libc, 0));
		MUST_0(raw_pd_alloc(&pd, &d));
		raw_close(&d);
	}
	return NULL;
}

/* The child finds whole lists, whatever the other threads did when it was made. */
Test(softefa_process, child_of_a_busy_process_can_open_a_device)
{
	atomic_uint stop = 0;
	pthread_t t[2];

	skip_under_asan("forks of many threads");
	node_settings(NULL);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, opener, &stop);
	for (unsigned i = 0; i < 100; i++)
		kids_join(kids_start(own_device, NULL));
	stop = 1;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

/* ---- vfork, exec ---- */

/* The child of vfork() has the parent's memory, but files of its own. */
Test(softefa_process, close_in_a_vforked_child_is_the_childs)
{
	struct duo d;
	int status;
	pid_t pid;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	pid = vfork();
	if (pid == 0) {
		close(d.a.dev.fd);
		_exit(0);
	}
	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	assert_works(&d);
	duo_fini(&d);
}

Test(softefa_process, inherited_number_is_no_device_after_exec)
{
	char cmd[200];
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	cr_assert(zero(int, fcntl(d.a.dev.fd, F_SETFD, 0)));
	/* It is a file of memory to a program that did not open it. */
	snprintf(cmd, sizeof(cmd), "test -f /dev/fd/%d && ! test -c /dev/fd/%d", d.a.dev.fd,
		 d.a.dev.fd);
	cr_assert(zero(int, system(cmd)));
	assert_works(&d);
	duo_fini(&d);
}

static void execs(void *arg)
{
	struct duo d;

	(void)arg;
	duo_init(&d, &(struct node_attr){0});
	assert_works(&d);
	execl("/bin/true", "true", (char *)NULL);
}

Test(softefa_process, exec_leaves_nothing)
{
	char dir[128];

	node_settings(NULL);
	kids_join(kids_start(execs, NULL));
	kids_join(kids_start(own_device, NULL)); /* cleans up after it */
	node_fabric_dir(dir, sizeof(dir));
	cr_assert(zero(int, dir[0]), "%s", dir);
}

/* ---- exits ---- */

/* Large transfers without end to oneself. */
static void busy(struct duo *d)
{
	duo_init(d, &(struct node_attr){.bytes = 16 << 20});
	for (unsigned i = 0; i < 60; i++) {
		struct raw_wr wr = node_wr(&d->a, RAW_WRITE, &d->to_b, d->ahn, 0, 16 << 20, 0);

		raw_post(&d->a.qp, &wr);
	}
	raw_ring(&d->a.qp);
	kids_nap_us(5000);
}

static void exit_busy(void *arg)
{
	struct duo d;

	(void)arg;
	busy(&d);
}

static void exit_busy_at_once(void *arg)
{
	struct duo d;

	(void)arg;
	busy(&d);
	_exit(0);
}

static void close_busy(void *arg)
{
	struct duo d;

	(void)arg;
	busy(&d);
	raw_close(&d.a.dev);
	node_abandon(&d.b);
	node_abandon(&d.a);
	own_device(NULL);
}

Test(softefa_process, exit_with_traffic_under_way)
{
	node_settings(NULL);
	for (unsigned i = 0; i < 10; i++)
		kids_join(kids_start(exit_busy, NULL));
}

Test(softefa_process, immediate_exit_with_traffic_under_way)
{
	node_settings(NULL);
	for (unsigned i = 0; i < 10; i++)
		kids_join(kids_start(exit_busy_at_once, NULL));
	kids_join(kids_start(own_device, NULL)); /* cleans up after the last one */
}

Test(softefa_process, close_with_traffic_under_way)
{
	node_settings(NULL);
	for (unsigned i = 0; i < 10; i++)
		kids_join(kids_start(close_busy, NULL));
}

static int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGTERM, SIGKILL};

/* In a thread of the program; the device is at work in its own. */
static void die_busy(void *arg)
{
	struct duo d;

	prctl(PR_SET_DUMPABLE, 0); /* no core */
	busy(&d);
	raise(*(int *)arg);
	exit(0);
}

ParameterizedTestParameters(softefa_process, deadly_signal_with_traffic_under_way)
{
	return cr_make_param_array(int, deadly, sizeof(deadly) / sizeof(deadly[0]));
}

/* It dies of just that, and those who come next find order. */
ParameterizedTest(int *sig, softefa_process, deadly_signal_with_traffic_under_way)
{
	char dir[128];
	int status;
	pid_t pid;

	skip_under_asan("deadly signals");
	node_settings(NULL);
	for (unsigned i = 0; i < 5; i++) {
		pid = kids_start(die_busy, sig);
		cr_assert(eq(int, waitpid(pid, &status, 0), pid));
		MUST(WIFSIGNALED(status), "%#x", status);
		cr_assert(eq(int, WTERMSIG(status), *sig));
	}
	kids_join(kids_start(own_device, NULL));
	node_fabric_dir(dir, sizeof(dir));
	cr_assert(zero(int, dir[0]), "%s", dir);
}

static void exit_from_handler(int sig)
{
	(void)sig;
	exit(0);
}

/* Commands and nothing else: exit() cannot stand to be called in the middle of malloc(). */
static void interrupted(void *arg)
{
	struct itimerval soon = {.it_value = {.tv_usec = 1000 + *(int *)arg * 37 % 5000}};
	struct raw_dev d;
	struct raw_pd pd;

	MUST_0(raw_open(&d, &raw_libc, 0));
	signal(SIGALRM, exit_from_handler);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (;;) {
		MUST_0(raw_pd_alloc(&pd, &d));
		MUST_0(raw_pd_free(&pd, &d));
	}
}

/* Many programs do it on ^C, and the signal may come in the middle of a command. */
Test(softefa_process, exit_from_a_signal_handler)
{
	node_settings(NULL);
	for (int i = 0; i < 50; i++)
		kids_join(kids_start(interrupted, &i));
}

static void *endless(void *arg)
{
	struct duo d;

	(void)arg;
	for (;;) {
		duo_init(&d, &(struct node_attr){.bytes = LEN});
		duo_fini(&d);
	}
	return NULL;
}

Test(softefa_process, cancelled_thread_leaves_the_device_to_others)
{
	pthread_t t;

	skip_under_asan("cancelled threads");
	node_settings(NULL);
	for (int i = 0; i < 30; i++) {
		pthread_create(&t, NULL, endless, NULL);
		kids_nap_us(3000 + i * 37);
		pthread_cancel(t);
		pthread_join(t, NULL);
		own_device(NULL);
	}
}

/* ---- scarce files ---- */

static void files(unsigned most)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = most;
	setrlimit(RLIMIT_NOFILE, &l);
}

static void one_receiver(void *arg)
{
	struct family *f = arg;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	node_recv(&n, 1, 0, LEN);
	f->d.to_b = node_addr(&n);
	if (f->few_for_the_receiver)
		files(3);
	f->step = 1;
	kids_await(&f->step, 2);
	files(1000);
	node_wait_status(&n.rcq, 0);
	kids_await(&f->step, 3);
	node_fini(&n);
}

static void send_without_files(bool receiver)
{
	struct family *f = kids_share(sizeof(*f));
	struct raw_wr wr;
	struct node n;
	pid_t pid;

	node_settings("log=0");
	f->few_for_the_receiver = receiver;
	pid = kids_start(one_receiver, f);
	kids_await(&f->step, 1);
	node_init(&n, &(struct node_attr){0});
	wr = node_wr(&n, RAW_SEND, &f->d.to_b, node_ahn(&n, &f->d.to_b), 0, LEN, 0);
	if (!receiver)
		files(3);
	node_post(&n, &wr);
	cr_assert(node_quiet(&n.scq, 50));
	files(1000);
	f->step = 2;
	node_wait_status(&n.scq, 0);
	f->step = 3;
	kids_join(pid);
	node_fini(&n);
}

/* The adapter's own want of files must not fail the program's requests. */
Test(softefa_process, request_waits_while_its_sender_can_open_no_file)
{
	send_without_files(false);
}

Test(softefa_process, request_waits_while_its_receiver_can_open_no_file)
{
	send_without_files(true);
}

/* ---- idle ---- */

static double cpu_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

Test(softefa_process, idle_device_costs_next_to_nothing)
{
	struct duo d;
	double used, share;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	assert_works(&d);
	kids_nap_us(500000); /* it falls asleep by and by */
	used = cpu_s();
	sleep(2);
	share = (cpu_s() - used) / 2;
	cr_log_info("idle: %.2f %% of a core", share * 100);
	cr_assert(le(dbl, share, 0.03), "%.2f %% of a core", share * 100);
	assert_works(&d);
	duo_fini(&d);
}
