/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the machine itself needs for what softefa does: to copy into memory that two processes
 * share and to be seen there by one that spins, to let the kernel copy from another process, and to
 * wake a process that sleeps.
 *
 * usage: machine_limits [MS]      rows: what bytes us/round trip copies/s ("-": does not apply)
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 20, SAMPLES = 8192 };

static struct {
	_Alignas(64) atomic_uint there, back; /* turns that were taken */
	_Alignas(64) uint8_t room[ROOM];
} * shared;

static uint8_t *source;
static size_t bytes;
static int there_fd, back_fd;
static double run_us = 40e3;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- ways to tell the other process, and to wait for it: turn @n ---- */

static void flag_tell(atomic_uint *word, int fd, unsigned n)
{
	(void)fd;
	atomic_store(word, n);
}

static void flag_wait(atomic_uint *word, int fd, unsigned n)
{
	(void)fd;
	while (atomic_load(word) != n)
		sched_yield();
}

static void futex_tell(atomic_uint *word, int fd, unsigned n)
{
	(void)fd;
	atomic_store(word, n);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_wait(atomic_uint *word, int fd, unsigned n)
{
	(void)fd;
	while (atomic_load(word) != n)
		syscall(SYS_futex, word, FUTEX_WAIT, n - 1, NULL, NULL, 0);
}

static void event_tell(atomic_uint *word, int fd, unsigned n)
{
	const uint64_t one = 1;

	(void)word, (void)n;
	if (write(fd, &one, sizeof(one)) != sizeof(one))
		die("write to an eventfd");
}

static void event_wait(atomic_uint *word, int fd, unsigned n)
{
	uint64_t count;

	(void)word, (void)n;
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		die("read from an eventfd");
}

static const struct way {
	const char *name;
	void (*tell)(atomic_uint *word, int fd, unsigned n);
	void (*wait)(atomic_uint *word, int fd, unsigned n);
} ways[] = {
	{"copy", flag_tell, flag_wait},
	{"futex", futex_tell, futex_wait},
	{"eventfd", event_tell, event_wait},
};

/* ---- measuring ---- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(v[0]), ascending);
	return v[n / 2];
}

static void answer(const struct way *way)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned n = 1;; n++) {
		way->wait(&shared->there, there_fd, n);
		way->tell(&shared->back, back_fd, n);
	}
}

static double round_trip(const struct way *way)
{
	static double took[SAMPLES];
	double start = now_us(), at = start, end;
	unsigned n = 0;
	pid_t kid;

	atomic_store(&shared->there, 0);
	atomic_store(&shared->back, 0);
	kid = fork();
	if (kid == 0)
		answer(way);
	while (n < SAMPLES && at < start + run_us) {
		memcpy(shared->room, source, bytes);
		n++;
		way->tell(&shared->there, there_fd, n);
		way->wait(&shared->back, back_fd, n);
		end = now_us();
		took[n - 1] = end - at;
		at = end;
	}
	kill(kid, SIGKILL);
	waitpid(kid, NULL, 0);
	return median(took, n);
}

static void copy(pid_t pid)
{
	(void)pid;
	memcpy(shared->room, source, bytes);
	__asm__ volatile("" ::: "memory");
}

static void pull(pid_t pid)
{
	const struct iovec to = {shared->room, bytes}, from = {source, bytes};

	if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)bytes)
		die("process_vm_readv");
}

/* Per second, each at its best after the first: nobody else touches the memory. */
static double copies(void (*one)(pid_t pid), pid_t pid)
{
	unsigned at_once = bytes < 65536 ? 1000 : 10;
	double start = now_us(), at = start;
	uint64_t n = 0;

	while (at < start + run_us) {
		for (unsigned i = 0; i < at_once; i++)
			one(pid);
		n += at_once;
		at = now_us();
	}
	return (double)n / (at - start) * 1e6;
}

/* One that has memory, at the addresses of ours. */
static pid_t start_owner(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(source, 2, ROOM);
		for (;;)
			pause();
	}
	return pid;
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8, 4096, 65536, ROOM};
	pid_t owner;

	if (argc > 1)
		run_us = atof(argv[1]) * 1e3;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	source = malloc(ROOM);
	there_fd = eventfd(0, 0);
	back_fd = eventfd(0, 0);
	if (shared == MAP_FAILED || !source || there_fd < 0 || back_fd < 0)
		die("machine_limits");
	memset(source, 1, ROOM);
	owner = start_owner();
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		bytes = sizes[s];
		printf("copy %zu %.2f ", bytes, round_trip(&ways[0]));
		printf("%.0f\n", copies(copy, 0));
		printf("pull %zu - %.0f\n", bytes, copies(pull, owner));
	}
	kill(owner, SIGKILL);
	bytes = 0;
	for (unsigned w = 1; w < sizeof(ways) / sizeof(ways[0]); w++)
		printf("%s 0 %.2f -\n", ways[w].name, round_trip(&ways[w]));
	return 0;
}
