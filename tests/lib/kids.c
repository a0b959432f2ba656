/* SPDX-License-Identifier: BSD-3-Clause */
/* Children of a test. */
#include "kids.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void kids_zero(const char *file, int line, const char *what, int rc)
{
	if (rc)
		need_failed(file, line, what, "%s", strerror(-rc));
}

void *kids_share(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED, "no memory");
	return p;
}

void kids_nap_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

int64_t kids_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

bool kids_reached(atomic_uint *step, unsigned n, unsigned ms)
{
	int64_t end = kids_now_us() + ms * INT64_C(1000);

	while (atomic_load(step) < n) {
		if (kids_now_us() > end)
			return false;
		kids_nap_us(200);
	}
	return true;
}

void kids_await(atomic_uint *step, unsigned n)
{
	MUST(kids_reached(step, n, KIDS_WAIT_MS), "step %u of %u", atomic_load(step), n);
}

pid_t kids_start(void (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();

	MUST(pid >= 0, "fork");
	if (pid)
		return pid;
	need_forked();
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
	fn(arg);
	exit(0);
}

void kids_join(pid_t pid)
{
	kids_join_within(pid, KIDS_WAIT_MS);
}

void kids_join_within(pid_t pid, unsigned ms)
{
	int64_t end = kids_now_us() + ms * INT64_C(1000);
	int status;
	pid_t rc;

	while ((rc = waitpid(pid, &status, WNOHANG)) == 0 && kids_now_us() < end)
		kids_nap_us(1000);
	if (rc == 0)
		kill(pid, SIGKILL);
	MUST(rc == pid, "child hangs");
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with status %#x", status);
}

void kids_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid, "wait");
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "child ended with %#x", status);
}
