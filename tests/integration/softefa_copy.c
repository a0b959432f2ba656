/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small messages, and all within a process, are copied through a memory file: what that saves, and
 * what it must not change.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../lib/deny.h"
#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_copy, .timeout = 60);

enum { PAGE = 4096, SMALL = 64, LARGE = 4096 };

static volatile sig_atomic_t handled;

static void on_fault(int sig)
{
	(void)sig;
	handled++;
	_exit(3);
}

static void handle_faults(void)
{
	const struct sigaction sa = {.sa_handler = on_fault};

	cr_assert(zero(int, sigaction(SIGSEGV, &sa, NULL)));
	cr_assert(zero(int, sigaction(SIGBUS, &sa, NULL)));
}

/* ---- lost memory is the request's fault, whoever copies ---- */

struct lost {
	enum raw_op op;
	bool at_a; /* whose memory is lost */
	uint32_t len;
	unsigned status, rx_status; /* 0: no receive completes */
};

static struct lost losses[] = {
	{RAW_SEND, true, SMALL, 5, 0},  {RAW_SEND, false, SMALL, 12, 5},
	{RAW_WRITE, true, SMALL, 5, 0}, {RAW_WRITE, false, SMALL, 7, 0},
	{RAW_READ, true, SMALL, 5, 0},  {RAW_READ, false, SMALL, 7, 0},
	{RAW_WRITE, true, LARGE, 5, 0}, {RAW_WRITE, false, LARGE, 7, 0},
	{RAW_READ, true, LARGE, 5, 0},  {RAW_READ, false, LARGE, 7, 0},
};

ParameterizedTestParameters(softefa_copy, lost_memory_never_reaches_the_program)
{
	return cr_make_param_array(struct lost, losses, sizeof(losses) / sizeof(losses[0]));
}

ParameterizedTest(struct lost *l, softefa_copy, lost_memory_never_reaches_the_program)
{
	struct node *loser;
	struct raw_sge sge;
	struct raw_mr mr;
	struct raw_wr wr;
	struct duo d;
	uint8_t *p;

	node_settings(NULL);
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

/* Commands need these calls: from now on nothing can be destroyed any more. */
static void forbid_copies(void)
{
	deny_call(SYS_process_vm_readv, EPERM);
	deny_call(SYS_process_vm_writev, EPERM);
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

Test(softefa_copy, small_messages_between_processes_pin_no_pages)
{
	struct pair *p = kids_share(sizeof(*p));
	struct raw_wr wr;
	struct node n;
	uint16_t ahn;
	pid_t kid;

	node_settings("log=0");
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

Test(softefa_copy, nothing_within_a_process_pins_pages)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	forbid_copies();
	node_fill(d.a.buf, 1 << 20, 3);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 1 << 20, 0);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf, 1 << 20, 3));
}

/* ---- what is the program's ---- */

Test(softefa_copy, handlers_are_left_alone)
{
	struct sigaction before[NSIG], now;
	struct raw_wr wr;
	struct duo d;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, NULL, &before[sig]);
	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, SMALL, 0);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	for (int sig = 1; sig < NSIG; sig++) {
		if (sigaction(sig, NULL, &now))
			continue; /* the C library's own */
		cr_assert(eq(ptr, (void *)now.sa_handler, (void *)before[sig].sa_handler), "%d",
			  sig);
	}
	duo_fini(&d);
}

/* The number of the memory file, or -1. */
static int scratch_fd(void)
{
	char link[64], path[32];

	for (int fd = 0; fd < 1 << 16; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, link, sizeof(link) - 1);
		if (n > 0 && memmem(link, (size_t)n, "softefa scratch", 15))
			return fd;
	}
	return -1;
}

/* Behind the back of the C library, so that nobody could prevent it. */
Test(softefa_copy, file_that_took_the_place_of_ours_is_not_written)
{
	int mine = memfd_create("mine", 0), fd;
	struct raw_wr wr;
	struct duo d;

	node_settings("log=0");
	duo_init(&d, &(struct node_attr){0});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, SMALL, 0);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	fd = scratch_fd();
	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, (int)syscall(SYS_dup3, mine, fd, 0), fd));
	kids_nap_us(10000); /* it looks every millisecond */
	node_fill(d.a.buf, SMALL, 8);
	cr_assert(zero(uint, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf, SMALL, 8));
	cr_assert(zero(i64, lseek(mine, 0, SEEK_END)));
	duo_fini(&d);
}
