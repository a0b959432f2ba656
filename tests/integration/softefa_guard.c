/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device thread copies small messages, and all within a process, by plain loads and stores
 * while the program leaves SIGSEGV and SIGBUS alone: what that must not change.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_guard, .timeout = 60);

enum { PAGE = 4096, SMALL = 64, LARGE = 4096 };

static volatile sig_atomic_t handled;
static void *hole; /* what the handler of the program maps */

static void on_fault(int sig)
{
	(void)sig;
	handled++;
	if (hole)
		mmap(hole, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
	else
		_exit(3);
}

static void handle_faults(void)
{
	const struct sigaction sa = {.sa_handler = on_fault};

	cr_assert(zero(int, sigaction(SIGSEGV, &sa, NULL)));
	cr_assert(zero(int, sigaction(SIGBUS, &sa, NULL)));
	kids_nap_us(10000); /* the device thread looks every millisecond */
}

/* ---- lost memory is the request's fault, whoever copies ---- */

enum when { NEVER, BEFORE, LATER };

struct lost {
	enum raw_op op;
	bool at_a; /* whose memory is lost */
	enum when handler;
	uint32_t len;
	unsigned status, rx_status; /* 0: no receive completes */
};

static struct lost losses[] = {
	{RAW_SEND, true, NEVER, SMALL, 5, 0},    {RAW_SEND, true, BEFORE, SMALL, 5, 0},
	{RAW_SEND, true, LATER, SMALL, 5, 0},    {RAW_SEND, false, NEVER, SMALL, 12, 5},
	{RAW_SEND, false, BEFORE, SMALL, 12, 5}, {RAW_SEND, false, LATER, SMALL, 12, 5},
	{RAW_WRITE, true, NEVER, SMALL, 5, 0},   {RAW_WRITE, true, LATER, SMALL, 5, 0},
	{RAW_WRITE, false, NEVER, SMALL, 7, 0},  {RAW_WRITE, false, LATER, SMALL, 7, 0},
	{RAW_READ, true, NEVER, SMALL, 5, 0},    {RAW_READ, true, LATER, SMALL, 5, 0},
	{RAW_READ, false, NEVER, SMALL, 7, 0},   {RAW_READ, false, LATER, SMALL, 7, 0},
	{RAW_WRITE, true, BEFORE, LARGE, 5, 0},  {RAW_WRITE, false, BEFORE, LARGE, 7, 0},
	{RAW_READ, false, BEFORE, LARGE, 7, 0},
};

ParameterizedTestParameters(softefa_guard, lost_memory_never_reaches_the_program)
{
	return cr_make_param_array(struct lost, losses, sizeof(losses) / sizeof(losses[0]));
}

ParameterizedTest(struct lost *l, softefa_guard, lost_memory_never_reaches_the_program)
{
	struct node *loser;
	struct raw_sge sge;
	struct raw_mr mr;
	struct raw_wr wr;
	struct duo d;
	uint8_t *p;

	node_settings(NULL);
	if (l->handler == BEFORE)
		handle_faults();
	duo_init(&d, &(struct node_attr){0});
	loser = l->at_a ? &d.a : &d.b;
	p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST_0(raw_mr_reg(&mr, &loser->dev, &loser->pd, p + PAGE, PAGE, RAW_ALL_ACCESS));
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, SMALL, 0);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	sge = l->at_a ? raw_sge(&d.b.mr, 0, l->len) : raw_sge(&mr, 0, l->len);
	raw_post_recv(&d.b.qp, 5, &sge, 1);
	raw_ring(&d.b.qp);
	if (l->handler == LATER)
		handle_faults();
	wr = node_wr(&d.a, l->op, &d.to_b, d.ahn, 0, l->len, 0);
	*(l->at_a ? &wr.sge[0] : &wr.remote) = raw_sge(&mr, 0, l->len);
	munmap(p + PAGE, PAGE);
	cr_assert(eq(uint, node_run(&d.a, &wr).status, l->status));
	if (l->rx_status)
		cr_assert(eq(uint, node_wait(&d.b.rcq).status, l->rx_status));
	cr_assert(node_quiet(&d.b.rcq, 5));
	cr_assert(zero(int, handled));
	/* And all goes on. */
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, SMALL, 0);
	node_fill(d.a.buf, SMALL, 7);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf, SMALL, 7));
	duo_fini(&d);
}

/* ---- the kernel is not asked ---- */

/*
 * From now on, and for all threads, process_vm_readv() and its twin are forbidden: commands need
 * them, so that nothing can be destroyed any more.
 */
static void forbid_copies(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = {sizeof(f) / sizeof(f[0]), f};

	MUST_0(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST_0((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			    &prog));
}

/* gcc's sanitizers handle SIGSEGV. */
static void skip_where_faults_are_handled(void)
{
	struct sigaction sa;

	sigaction(SIGSEGV, NULL, &sa);
	if (sa.sa_flags & SA_SIGINFO || sa.sa_handler != SIG_DFL)
		cr_skip("something here handles SIGSEGV");
}

struct pair {
	struct node_addr a, b;
	atomic_uint step;
};

static void receiver(void *arg)
{
	struct pair *p = arg;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	p->b = node_addr(&n);
	node_recv(&n, 1, 0, LARGE);
	node_recv(&n, 2, 0, LARGE);
	atomic_store(&p->step, 1);
	kids_await(&p->step, 2);
	node_ahn(&n, &p->a);
	forbid_copies();
	atomic_store(&p->step, 3);
	node_wait_status(&n.rcq, 0);
	MUST(node_filled(n.buf, SMALL, 1), "send");
	kids_await(&p->step, 4);
	MUST(node_filled(n.buf + PAGE, SMALL, 2), "write");
}

Test(softefa_guard, small_messages_between_processes_need_no_kernel)
{
	struct pair *p = kids_share(sizeof(*p));
	struct raw_wr wr;
	struct node n;
	uint16_t ahn;
	pid_t kid;

	node_settings("log=0");
	skip_where_faults_are_handled();
	kid = kids_start(receiver, p);
	kids_await(&p->step, 1);
	node_init(&n, &(struct node_attr){0});
	p->a = node_addr(&n);
	ahn = node_ahn(&n, &p->b);
	atomic_store(&p->step, 2);
	kids_await(&p->step, 3);
	forbid_copies();
	node_fill(n.buf, SMALL, 1);
	wr = node_wr(&n, RAW_SEND, &p->b, ahn, 0, SMALL, 0);
	cr_assert(zero(uint, node_run(&n, &wr).status));
	node_fill(n.buf, SMALL, 2);
	wr = node_wr(&n, RAW_WRITE, &p->b, ahn, 0, SMALL, PAGE);
	cr_assert(zero(uint, node_run(&n, &wr).status));
	/* Planted: a large one does need it. */
	wr = node_wr(&n, RAW_WRITE, &p->b, ahn, 0, LARGE, 2 * PAGE);
	cr_assert(eq(uint, node_run(&n, &wr).status, 2));
	atomic_store(&p->step, 4);
	kids_join(kid);
}

Test(softefa_guard, nothing_within_a_process_needs_the_kernel)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	skip_where_faults_are_handled();
	duo_init(&d, &(struct node_attr){0});
	forbid_copies();
	node_fill(d.a.buf, 1 << 20, 3);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 1 << 20, 0);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf, 1 << 20, 3));
}

/* ---- the program's own faults are its own ---- */

static void load_from_nowhere(void)
{
	(void)*(volatile char *)hole;
}

enum crash { LOAD, SENT_SEGV, RAISED_BUS };

static void die_by(enum crash crash)
{
	if (crash == LOAD)
		load_from_nowhere();
	else if (crash == SENT_SEGV)
		kill(getpid(), SIGSEGV);
	else
		raise(SIGBUS);
	kids_nap_us(1000000);
}

/* The status of a child that has an open device and the fault. */
static int status_of_crash(enum crash crash)
{
	const struct rlimit none = {0, 0};
	int status;
	pid_t pid;

	hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0) {
		struct duo d;

		setrlimit(RLIMIT_CORE, &none);
		duo_init(&d, &(struct node_attr){0});
		die_by(crash);
		_exit(0);
	}
	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	return status;
}

struct death {
	enum crash crash;
	int sig;
};

static struct death deaths[] = {{LOAD, SIGSEGV}, {SENT_SEGV, SIGSEGV}, {RAISED_BUS, SIGBUS}};

ParameterizedTestParameters(softefa_guard, program_dies_of_its_own_faults)
{
	return cr_make_param_array(struct death, deaths, sizeof(deaths) / sizeof(deaths[0]));
}

ParameterizedTest(struct death *d, softefa_guard, program_dies_of_its_own_faults)
{
	int status, killed_by;

	node_settings(NULL);
	skip_where_faults_are_handled();
	status = status_of_crash(d->crash);
	killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	cr_assert(eq(int, killed_by, d->sig), "status %x", (unsigned)status);
}

Test(softefa_guard, handler_of_the_program_has_its_faults)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle_faults();
	load_from_nowhere();
	cr_assert(eq(int, handled, 1));
	node_fill(d.a.buf, SMALL, 4);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, SMALL, 0);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf, SMALL, 4));
	cr_assert(eq(int, handled, 1));
	duo_fini(&d);
}
