/* SPDX-License-Identifier: BSD-3-Clause */
/* The supervisor's side of the bootstrap: start, watch, call off and reap the rank processes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_shared.h"
#include "log.h"

static const uint64_t second_ns = 1000000000;
static const uint64_t grace_ns = 500 * 1000 * 1000; /* for ranks to leave a run called off */
static const uint64_t stale_ns = 1000000000;        /* without a beat: worth a word when killed */

enum { CALLS_BYTES = 128 };

struct child {
	pid_t pid;          /* 0: none, or reaped */
	uint64_t beats;     /* sum at the last change */
	uint64_t beaten_ns; /* when that was */
	bool hangs;         /* and that was said */
};

struct supervisor {
	const struct host_run *run;
	struct host_boot *boot;
	size_t boot_bytes;
	struct child child[HOST_MAX_RANKS];
	sigset_t mask, old_mask;
	int code;            /* largest so far */
	uint64_t called_off; /* when, 0: not */
	bool killed;
};

/* ---- in the child ---- */

static _Noreturn void child_main(struct supervisor *sup, int rank, pid_t parent)
{
	struct host_boot *boot = sup->boot;
	struct host_rank self = {
		.rank = rank,
		.nranks = sup->run->nranks,
		.timeout_s = sup->run->timeout_s,
		.boot = boot,
		.pulse = boot->rank[rank].pulse,
	};
	int code;

	/* A killed supervisor must not leave ranks behind; it may be gone already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(HOST_USAGE);
	sigprocmask(SIG_SETMASK, &sup->old_mask, NULL);
	/* A terminal signals the whole group: the end of the run is the supervisor's affair. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	host_log_init(sup->run->program, rank);
	code = sup->run->main(&self, sup->run->arg);
	host_entering(&self, HOST_MAIN, "the plugin's exit handlers");
	atomic_store(&boot->rank[rank].code, code);
	/* What a run that is off leaves behind is no leak to report, no handler to wait for. */
	if (code > HOST_WRONG || host_over(&self)) {
		fflush(stdout);
		_exit(code);
	}
	exit(code);
}

/* ---- watching ---- */

static void call_off(struct supervisor *sup, int code)
{
	if (code > sup->code)
		sup->code = code;
	if (sup->called_off)
		return;
	sup->called_off = host_now_ns();
	atomic_store_explicit(&sup->boot->over, true, memory_order_release);
	host_boot_wake(sup->boot);
}

/* "service regMr, progress test": which of them is stuck the reader can tell, we cannot. */
static void last_calls(struct host_boot *boot, int rank, char *text, size_t size)
{
	static const char *const actor[] = {
		[HOST_MAIN] = "main",
		[HOST_SERVICE] = "service",
		[HOST_PROGRESS] = "progress",
	};
	size_t at = 0;

	snprintf(text, size, "none");
	for (int a = 0; a < HOST_ACTORS && at < size; a++) {
		const char *call = atomic_load(&boot->rank[rank].pulse[a].call);

		if (call)
			at += (size_t)snprintf(text + at, size - at, "%s%s %s", at ? ", " : "",
					       actor[a], call);
	}
}

/* Note a beat; return for how long there was none. */
static uint64_t silence_ns(struct supervisor *sup, int rank, uint64_t now)
{
	struct child *c = &sup->child[rank];
	uint64_t beats = 0;

	for (int a = 0; a < HOST_ACTORS; a++)
		beats += atomic_load_explicit(&sup->boot->rank[rank].pulse[a].beats,
					      memory_order_relaxed);
	if (beats != c->beats) {
		c->beats = beats;
		c->beaten_ns = now;
	}
	return now - c->beaten_ns;
}

static void judge_exit(struct supervisor *sup, int rank, pid_t pid, int status)
{
	int claimed = atomic_load(&sup->boot->rank[rank].code);
	char calls[CALLS_BYTES];

	last_calls(sup->boot, rank, calls, sizeof(calls));
	if (WIFSIGNALED(status)) {
		if (!sup->killed)
			host_err("rank %d (pid %d) was killed by signal %d (%s); last calls: %s",
				 rank, (int)pid, WTERMSIG(status), strsignal(WTERMSIG(status)),
				 calls);
		call_off(sup, HOST_FAIL);
	} else if (claimed < 0) {
		host_err("rank %d (pid %d) exited with status %d on its own; last calls: %s", rank,
			 (int)pid, WEXITSTATUS(status), calls);
		call_off(sup, HOST_FAIL);
	} else if (WEXITSTATUS(status) != claimed) {
		host_err("rank %d (pid %d) finished with %d but exited with status %d", rank,
			 (int)pid, claimed, WEXITSTATUS(status));
		call_off(sup, HOST_FAIL);
	} else if (claimed > HOST_WRONG) {
		call_off(sup, claimed);
	} else if (claimed > sup->code) {
		sup->code = claimed;
	}
}

/* Returns how many ranks are left. */
static int reap(struct supervisor *sup)
{
	int left = 0;

	for (int r = 0; r < sup->run->nranks; r++) {
		pid_t pid = sup->child[r].pid;
		int status;

		if (!pid)
			continue;
		if (waitpid(pid, &status, WNOHANG) != pid) {
			left++;
			continue;
		}
		sup->child[r].pid = 0;
		judge_exit(sup, r, pid, status);
	}
	return left;
}

static void watch(struct supervisor *sup)
{
	uint64_t limit = (uint64_t)sup->run->timeout_s * second_ns, now = host_now_ns();
	char calls[CALLS_BYTES];

	for (int r = 0; r < sup->run->nranks; r++) {
		if (!sup->child[r].pid || silence_ns(sup, r, now) < limit || sup->called_off)
			continue;
		last_calls(sup->boot, r, calls, sizeof(calls));
		host_err("rank %d (pid %d) hangs: no sign of life for %d s; last calls: %s", r,
			 (int)sup->child[r].pid, sup->run->timeout_s, calls);
		sup->child[r].hangs = true;
		call_off(sup, HOST_FAIL);
	}
}

static void kill_all(struct supervisor *sup)
{
	uint64_t now = host_now_ns();
	char calls[CALLS_BYTES];

	sup->killed = true;
	for (int r = 0; r < sup->run->nranks; r++) {
		pid_t pid = sup->child[r].pid;

		if (!pid)
			continue;
		last_calls(sup->boot, r, calls, sizeof(calls));
		if (!sup->child[r].hangs && silence_ns(sup, r, now) >= stale_ns)
			host_err("rank %d (pid %d) was stuck when killed; last calls: %s", r,
				 (int)pid, calls);
		kill(pid, SIGKILL);
	}
}

static void supervise(struct supervisor *sup)
{
	struct timespec tick = {.tv_nsec = 50 * 1000 * 1000};

	while (reap(sup)) {
		int sig = sigtimedwait(&sup->mask, NULL, &tick);

		if (sig > 0 && sig != SIGCHLD) {
			host_err("interrupted by signal %d", sig);
			call_off(sup, 128 + sig);
		}
		watch(sup);
		if (sup->called_off && !sup->killed && host_now_ns() - sup->called_off > grace_ns)
			kill_all(sup);
	}
}

/* ---- the run ---- */

static int spawn(struct supervisor *sup)
{
	pid_t parent = getpid();

	fflush(NULL); /* a child must not print our buffers a second time */
	for (int r = 0; r < sup->run->nranks; r++) {
		pid_t pid = fork();

		if (pid < 0) {
			host_err("fork of rank %d: %s", r, strerror(errno));
			return -errno;
		}
		if (!pid)
			child_main(sup, r, parent);
		sup->child[r] = (struct child){.pid = pid, .beaten_ns = host_now_ns()};
	}
	return 0;
}

static int boot_init(struct supervisor *sup)
{
	size_t share = (sup->run->share + 63) / 64 * 64;
	struct host_boot *boot;

	sup->boot_bytes = sizeof(*boot) + (size_t)sup->run->nranks * share;
	boot = mmap(NULL, sup->boot_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (boot == MAP_FAILED) {
		host_err("mmap of %zu shared bytes: %s", sup->boot_bytes, strerror(errno));
		return -errno;
	}
	boot->share = share;
	for (int r = 0; r < sup->run->nranks; r++)
		atomic_store(&boot->rank[r].code, -1);
	sup->boot = boot;
	return 0;
}

int host_run(const struct host_run *run)
{
	struct supervisor sup = {.run = run};

	if (boot_init(&sup))
		return HOST_USAGE;
	signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would make wait lose the status */
	sigemptyset(&sup.mask);
	sigaddset(&sup.mask, SIGCHLD);
	sigaddset(&sup.mask, SIGINT);
	sigaddset(&sup.mask, SIGTERM);
	sigaddset(&sup.mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &sup.mask, &sup.old_mask);
	if (spawn(&sup))
		call_off(&sup, HOST_USAGE);
	supervise(&sup);
	sigprocmask(SIG_SETMASK, &sup.old_mask, NULL);
	munmap(sup.boot, sup.boot_bytes);
	return sup.code;
}
