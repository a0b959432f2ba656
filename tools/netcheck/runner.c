/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of checks: start, watch, end, judge. */
#include "runner.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/log.h"
#include "host/signals.h"
#include "rank.h"

static const uint64_t second_ns = 1000000000;
static const uint64_t grace_ns = 1000000000;  /* for ranks to leave a check that is off */
static const uint64_t margin_ns = 1000000000; /* for check_tick(), which knows more, to be first */

enum { MAX_JOBS = 64, TICK_MS = 50, LOG_BYTES = sizeof(((struct nk_result *)0)->log) - 1 };

struct job {
	struct nk_result *result; /* NULL: free */
	struct nk_ranks ranks;
	int nprocs;
	pid_t pid[HOST_MAX_RANKS]; /* 0: reaped */
	pid_t group;
	uint64_t began_ns, off_ns; /* off: 0, or since when the others are to leave */
	bool killed;               /* those that did not */
	int log;                   /* file of stderr */
};

struct runner {
	const struct nk_options *opt;
	struct job job[MAX_JOBS];
	sigset_t mask, old_mask;
	int signal; /* that interrupted the run */
};

/* ---- start ---- */

static _Noreturn void child_main(const struct runner *run, struct job *j, int rank, pid_t parent)
{
	setpgid(0, j->group);
	/* A killed runner must not leave ranks behind; it may be gone already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
	dup2(j->log, STDOUT_FILENO);
	dup2(j->log, STDERR_FILENO);
	host_log_init("netcheck", rank);
	nk_ranks_play(&j->ranks, rank);
}

static int start_one(struct runner *run, struct job *j, int rank)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0) {
		host_err("fork: %s", strerror(errno));
		return -errno;
	}
	if (!pid)
		child_main(run, j, rank, parent);
	if (!j->group)
		j->group = pid;
	setpgid(pid, j->group); /* whoever is first */
	j->pid[rank] = pid;
	return 0;
}

static int start(struct runner *run, struct job *j, struct nk_result *result)
{
	bool ranks = result->check->flags & CHECK_RANKS;
	int rc = 0;

	*j = (struct job){
		.result = result,
		.ranks = {.check = result->check,
			  .opt = run->opt,
			  .abi = result->abi,
			  .nranks = ranks ? (int)run->opt->ranks : 1},
		.began_ns = host_now_ns(),
		.log = memfd_create("log", MFD_CLOEXEC),
	};
	j->nprocs = run->opt->threads ? 1 : j->ranks.nranks;
	j->ranks.boot = host_boot_new(j->ranks.nranks, CHECK_SHARE);
	j->ranks.notes = mmap(NULL, HOST_MAX_RANKS * sizeof(struct check_note),
			      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (j->log < 0 || !j->ranks.boot || j->ranks.notes == MAP_FAILED) {
		host_err("no memory for a check: %s", strerror(errno));
		exit(HOST_USAGE);
	}
	fflush(NULL); /* a child must not print our buffers a second time */
	for (int r = 0; !rc && r < j->nprocs; r++)
		rc = start_one(run, j, r);
	return rc;
}

/* ---- watch ---- */

static void call_off(struct job *j)
{
	if (j->off_ns)
		return;
	j->off_ns = host_now_ns();
	host_boot_off(j->ranks.boot);
}

/* Since @ns, unless the check has said itself why. */
static void blame(struct job *j, int rank, uint64_t ns, const char *fmt, ...) NCCL_NET_PRINTF(4, 5);
static void blame(struct job *j, int rank, uint64_t ns, const char *fmt, ...)
{
	struct check_note *note = &j->ranks.notes[rank];
	char calls[HOST_CALLS_BYTES];
	va_list args;
	size_t at;

	if (atomic_load(&note->failed))
		return;
	note->claimed_ns = ns;
	host_boot_calls(j->ranks.boot, rank, calls, sizeof(calls));
	va_start(args, fmt);
	vsnprintf(note->text, sizeof(note->text), fmt, args);
	va_end(args);
	at = strlen(note->text);
	snprintf(note->text + at, sizeof(note->text) - at, "; last calls: %s", calls);
	atomic_store(&note->failed, true);
}

static void judge_exit(struct job *j, int rank, int status)
{
	int state = atomic_load(&j->ranks.notes[rank].state);
	bool clean = WIFEXITED(status) && !WEXITSTATUS(status);

	/* Threads: the one that left took the others with it. */
	for (int r = 0; r < j->ranks.nranks && j->nprocs == 1; r++) {
		if (atomic_load(&j->ranks.notes[r].state) == CHECK_LEFT)
			state = CHECK_LEFT;
	}
	if (clean && state == CHECK_DONE)
		return;
	if (WIFSIGNALED(status) && state == CHECK_DYING)
		return;
	if (clean && state == CHECK_LEFT)
		;
	else if (WIFSIGNALED(status) && !j->killed) /* what others saw of that came after it */
		blame(j, rank, j->began_ns,
		      "expected rank %d to live, saw it killed by signal %d (%s)", rank,
		      WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (!j->off_ns)
		blame(j, rank, host_now_ns(),
		      "expected rank %d to live, saw it exit with status %d", rank,
		      WEXITSTATUS(status));
	call_off(j);
}

/* Returns how many processes are left. */
static int reap(struct job *j)
{
	int left = 0;

	for (int r = 0; r < j->nprocs; r++) {
		int status;

		if (!j->pid[r])
			continue;
		if (waitpid(j->pid[r], &status, WNOHANG) != j->pid[r]) {
			left++;
			continue;
		}
		j->pid[r] = 0;
		judge_exit(j, r, status);
	}
	return left;
}

static void limit(const struct runner *run, struct job *j)
{
	uint64_t now = host_now_ns();

	if (!j->off_ns && now - j->began_ns > run->opt->timeout * second_ns + margin_ns) {
		for (int r = 0; r < j->nprocs; r++) {
			if (j->pid[r])
				blame(j, r, host_now_ns(),
				      "expected an end within %d s, saw rank %d hang",
				      (int)run->opt->timeout, r);
		}
		call_off(j);
	}
	if (j->off_ns && now - j->off_ns > grace_ns) {
		j->killed = true;
		kill(-j->group, SIGKILL);
	}
}

/* ---- end ---- */

static void log_keep(struct job *j)
{
	off_t size = lseek(j->log, 0, SEEK_END), from = size > LOG_BYTES ? size - LOG_BYTES : 0;
	ssize_t n = pread(j->log, j->result->log, LOG_BYTES, from);

	j->result->log[n > 0 ? n : 0] = 0;
}

static void verdict_set(struct nk_result *result, enum nk_verdict verdict, const char *text)
{
	result->verdict = verdict;
	snprintf(result->text, sizeof(result->text), "%s", text);
}

static void judge(struct job *j)
{
	const struct check_note *skip = NULL, *report = NULL, *fail = NULL;
	uint64_t expected = 0;

	for (int r = j->ranks.nranks - 1; r >= 0; r--) {
		const struct check_note *note = &j->ranks.notes[r];

		expected += atomic_load(&note->expected);
		/* The first: others are often its consequence, at the other end. */
		if (atomic_load(&note->failed) && (!fail || note->claimed_ns <= fail->claimed_ns))
			fail = note;
		skip = atomic_load(&note->skipped) ? note : skip;
		report = atomic_load(&note->reported) ? note : report;
	}
	if (fail)
		verdict_set(j->result, NK_FAIL, fail->text);
	else if (skip)
		verdict_set(j->result, NK_SKIP, skip->text);
	else if (report)
		verdict_set(j->result, NK_REPORT, report->report);
	else if (expected)
		verdict_set(j->result, NK_PASS, "");
	else
		verdict_set(j->result, NK_FAIL, "expected something to be checked, saw nothing");
}

static void end(struct job *j)
{
	/* What the plugin started is not ours to reap, but to end. */
	kill(-j->group, SIGKILL);
	j->result->seconds = (double)(host_now_ns() - j->began_ns) / 1e9;
	judge(j);
	log_keep(j);
	close(j->log);
	munmap(j->ranks.notes, HOST_MAX_RANKS * sizeof(struct check_note));
	host_boot_free(j->ranks.boot);
	j->result = NULL;
}

/* ---- the run ---- */

/* Until a child ends, or a tick. */
static void wait_signal(struct runner *run)
{
	struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
	int sig = sigtimedwait(&run->mask, NULL, &tick);

	if (sig > 0 && sig != SIGCHLD)
		run->signal = sig;
}

static void interrupt(struct runner *run)
{
	host_err("interrupted by signal %d", run->signal);
	for (int i = 0; i < MAX_JOBS; i++) {
		struct job *j = &run->job[i];

		if (!j->result)
			continue;
		kill(-j->group, SIGKILL);
		while (reap(j))
			wait_signal(run);
		end(j);
	}
}

/* One pass over the jobs: ends what has ended, starts what is next. Returns how many run. */
static int step(struct runner *run, struct nk_result *results, int n, int *next)
{
	int running = 0;

	for (int i = 0; i < (int)run->opt->jobs; i++) {
		struct job *j = &run->job[i];

		if (j->result && !reap(j))
			end(j);
		if (!j->result) {
			while (*next < n && results[*next].verdict)
				++*next;
			if (*next < n && start(run, j, &results[(*next)++]))
				exit(HOST_USAGE);
		}
		if (j->result) {
			limit(run, j);
			running++;
		}
	}
	return running;
}

int nk_run(const struct nk_options *opt, struct nk_result *results, int n,
	   void (*done)(const struct nk_result *result))
{
	struct runner run = {.opt = opt};
	int next = 0, said = 0;

	host_signals_block(&run.mask, &run.old_mask);
	for (;;) {
		int running = step(&run, results, n, &next);

		for (; said < n && results[said].verdict; said++)
			done(&results[said]);
		if (!running)
			break;
		wait_signal(&run);
		if (run.signal) {
			interrupt(&run);
			break;
		}
	}
	sigprocmask(SIG_SETMASK, &run.old_mask, NULL);
	return run.signal ? 128 + run.signal : 0;
}

/* ---- which versions there are ---- */

/* In a process of its own as well: who knows what loading it does. */
static void versions_find(struct check_ctx *ctx)
{
	unsigned mask = host_net_versions(ctx->opt->plugin);

	if (!mask)
		check_fail(ctx, "expected a table of v%d to v%d, saw none", HOST_ABI_OLDEST,
			   HOST_ABI_NEWEST);
	check_report(ctx, "%u", mask);
}

static void versions_done(const struct nk_result *result)
{
	(void)result;
}

unsigned nk_versions(const struct nk_options *opt, struct nk_result *result)
{
	static const struct check probe = {
		.id = "C00",
		.group = "load",
		.title = "the plugin can be loaded and has a table",
		.rule = "src/plugin/net.cc: dlopen, then dlsym of the newest version first",
		.flags = CHECK_BARE,
		.run = versions_find,
	};

	*result = (struct nk_result){.check = &probe};
	if (nk_run(opt, result, 1, versions_done))
		return 0;
	return result->verdict == NK_REPORT ? (unsigned)strtoul(result->text, NULL, 10) : 0;
}
