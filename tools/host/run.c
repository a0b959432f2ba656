/* SPDX-License-Identifier: BSD-3-Clause */
/* The supervisor's side of the bootstrap: start, watch, call off and reap the rank processes. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_tcp.h"
#include "log.h"
#include "signals.h"

static const uint64_t second_ns = 1000000000;
static const uint64_t grace_ns = 500 * 1000 * 1000; /* for ranks to leave a run called off */
static const uint64_t stale_ns = 1000000000;        /* without a beat: worth a word when killed */
static const uint64_t parting_ns = 5000000000;      /* for other hosts, likewise */

enum { TICK_MS = 50 };

struct child {
	pid_t pid;          /* 0: none, or reaped */
	uint64_t beats;     /* sum at the last change */
	uint64_t beaten_ns; /* when that was */
	bool hangs;         /* and that was said */
};

struct supervisor {
	const struct host_run *run;
	struct host_boot *boot;
	struct child child[HOST_MAX_RANKS];
	bool spawned;
	bool hosts; /* several; tcp is in use */
	struct host_tcp tcp;
	sigset_t mask, old_mask;
	int sigfd;
	int code;            /* largest so far */
	uint64_t called_off; /* when, 0: not */
	bool killed;
};

/* ---- in the child ---- */

static _Noreturn void child_main(struct supervisor *sup, int rank, pid_t parent)
{
	struct host_boot *boot = sup->boot;
	struct host_rank self = host_boot_rank(boot, rank, sup->run->nranks, sup->run->timeout_s);
	int code;

	/* A killed supervisor must not leave ranks behind; it may be gone already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(HOST_USAGE);
	sigprocmask(SIG_SETMASK, &sup->old_mask, NULL);
	close(sup->sigfd);
	if (sup->hosts)
		host_tcp_fini(&sup->tcp);
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
	host_boot_off(sup->boot);
}

/* Call the run off, and say why to the other hosts. */
static void tell(struct supervisor *sup, int code, const char *why)
{
	call_off(sup, code);
	if (sup->hosts)
		host_tcp_report(&sup->tcp, code, why);
}

/* The same, and say it here. */
static void fail(struct supervisor *sup, int code, const char *fmt, ...) NCCL_NET_PRINTF(3, 4);
static void fail(struct supervisor *sup, int code, const char *fmt, ...)
{
	char why[HOST_TEXT_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	host_err("%s", why);
	tell(sup, code, why);
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

/* It has said here why. */
static void claims(struct supervisor *sup, int rank, int code)
{
	char why[64];

	snprintf(why, sizeof(why), "rank %d ended with code %d; it says why on its host", rank,
		 code);
	tell(sup, code, why);
}

static void judge_exit(struct supervisor *sup, int rank, pid_t pid, int status)
{
	int claimed = atomic_load(&sup->boot->rank[rank].code);
	char calls[HOST_CALLS_BYTES];

	host_boot_calls(sup->boot, rank, calls, sizeof(calls));
	if (WIFSIGNALED(status) && sup->killed)
		call_off(sup, HOST_FAIL);
	else if (WIFSIGNALED(status))
		fail(sup, HOST_FAIL,
		     "rank %d (pid %d) was killed by signal %d (%s); last calls: %s", rank,
		     (int)pid, WTERMSIG(status), strsignal(WTERMSIG(status)), calls);
	else if (claimed < 0)
		fail(sup, HOST_FAIL,
		     "rank %d (pid %d) exited with status %d on its own; last calls: %s", rank,
		     (int)pid, WEXITSTATUS(status), calls);
	else if (WEXITSTATUS(status) != claimed)
		fail(sup, HOST_FAIL, "rank %d (pid %d) finished with %d but exited with status %d",
		     rank, (int)pid, claimed, WEXITSTATUS(status));
	else if (claimed > HOST_WRONG)
		claims(sup, rank, claimed);
	else if (claimed > sup->code)
		sup->code = claimed;
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
	char calls[HOST_CALLS_BYTES];

	for (int r = 0; r < sup->run->nranks; r++) {
		if (!sup->child[r].pid || silence_ns(sup, r, now) < limit || sup->called_off)
			continue;
		host_boot_calls(sup->boot, r, calls, sizeof(calls));
		sup->child[r].hangs = true;
		fail(sup, HOST_FAIL,
		     "rank %d (pid %d) hangs: no sign of life for %d s; last calls: %s", r,
		     (int)sup->child[r].pid, sup->run->timeout_s, calls);
	}
}

static void kill_all(struct supervisor *sup)
{
	uint64_t now = host_now_ns();
	char calls[HOST_CALLS_BYTES];

	sup->killed = true;
	for (int r = 0; r < sup->run->nranks; r++) {
		pid_t pid = sup->child[r].pid;

		if (!pid)
			continue;
		host_boot_calls(sup->boot, r, calls, sizeof(calls));
		if (!sup->child[r].hangs && silence_ns(sup, r, now) >= stale_ns)
			fail(sup, HOST_FAIL,
			     "rank %d (pid %d) was stuck when killed; last calls: %s", r, (int)pid,
			     calls);
		kill(pid, SIGKILL);
	}
}

static void signals_take(struct supervisor *sup)
{
	struct signalfd_siginfo info;
	char why[64];

	while (read(sup->sigfd, &info, sizeof(info)) == sizeof(info)) {
		int sig = (int)info.ssi_signo;

		if (sig == SIGCHLD)
			continue;
		host_err("interrupted by signal %d", sig);
		snprintf(why, sizeof(why), "rank %d was interrupted by signal %d", sup->run->rank,
			 sig);
		tell(sup, 128 + sig, why);
	}
}

/* Wait for a signal or for word from another host, a tick at most. */
static void attend(struct supervisor *sup)
{
	struct pollfd fds[1 + HOST_TCP_FDS] = {{.fd = sup->sigfd, .events = POLLIN}};
	int n = 1;

	if (sup->hosts)
		n += host_tcp_watch(&sup->tcp, fds + n);
	poll(fds, (nfds_t)n, TICK_MS);
	signals_take(sup);
	if (!sup->hosts)
		return;
	host_tcp_step(&sup->tcp);
	if (sup->tcp.off)
		call_off(sup, sup->tcp.code);
}

/* ---- the run ---- */

static int spawn_one(struct supervisor *sup, int rank, pid_t parent)
{
	pid_t pid = fork();

	if (pid < 0) {
		fail(sup, HOST_USAGE, "fork of rank %d: %s", rank, strerror(errno));
		return -errno;
	}
	if (!pid)
		child_main(sup, rank, parent);
	sup->child[rank] = (struct child){.pid = pid, .beaten_ns = host_now_ns()};
	return 0;
}

static void spawn(struct supervisor *sup)
{
	pid_t parent = getpid();
	int rc = 0;

	sup->spawned = true;
	fflush(NULL); /* a child must not print our buffers a second time */
	if (sup->hosts)
		spawn_one(sup, sup->run->rank, parent);
	for (int r = 0; !sup->hosts && !rc && r < sup->run->nranks; r++)
		rc = spawn_one(sup, r, parent);
}

/* All ranks are gone, here and elsewhere, or waited for long enough. */
static bool finished(struct supervisor *sup)
{
	if (reap(sup))
		return false;
	if (!sup->hosts)
		return true;
	if (!sup->spawned && !sup->called_off)
		return false;
	if (!host_tcp_done(&sup->tcp, sup->code) &&
	    (!sup->called_off || host_now_ns() - sup->called_off < parting_ns))
		return false;
	sup->code = sup->tcp.code;
	return true;
}

static void supervise(struct supervisor *sup)
{
	while (!finished(sup)) {
		attend(sup);
		if (!sup->spawned && sup->tcp.started && !sup->called_off)
			spawn(sup);
		watch(sup);
		if (sup->called_off && !sup->killed && host_now_ns() - sup->called_off > grace_ns)
			kill_all(sup);
	}
}

static int boot_init(struct supervisor *sup)
{
	sup->boot = host_boot_new(sup->run->nranks, sup->run->share);
	if (!sup->boot)
		return -ENOMEM;
	if (sup->hosts) {
		sup->boot->here = 1;
		sup->boot->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	}
	return 0;
}

static void run_here(struct supervisor *sup)
{
	spawn(sup);
	supervise(sup);
}

static void run_hosts(struct supervisor *sup)
{
	sup->code = host_tcp_init(&sup->tcp, sup->run, sup->boot);
	if (!sup->code)
		supervise(sup);
	host_tcp_fini(&sup->tcp);
}

int host_run(const struct host_run *run)
{
	struct supervisor sup = {.run = run, .hosts = run->root.sin_port != 0};

	if (boot_init(&sup))
		return HOST_USAGE;
	host_signals_block(&sup.mask, &sup.old_mask);
	sup.sigfd = signalfd(-1, &sup.mask, SFD_NONBLOCK | SFD_CLOEXEC);
	if (sup.hosts)
		run_hosts(&sup);
	else
		run_here(&sup);
	close(sup.sigfd);
	sigprocmask(SIG_SETMASK, &sup.old_mask, NULL);
	host_boot_free(sup.boot);
	return sup.code;
}
