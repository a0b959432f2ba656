/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the kernel forbids to read the memory of processes: said once and clearly, and no hang. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/deny.h"
#include "../lib/kids.h"
#include "../lib/node.h"

TestSuite(softefa_denied, .timeout = 60);

enum { LEN = 4096, SENDS = 5 };

/* What the adapter says goes to a file. */
static void log_to(const char *path)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	MUST(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO, "log");
}

static unsigned count(const char *path, const char *what)
{
	char text[8192] = {0};
	int fd = open(path, O_RDONLY);
	unsigned n = 0;

	MUST(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0, "log");
	close(fd);
	for (char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

struct meeting {
	char log[64];
	atomic_uint step;
	struct node_addr addr;
};

static void name_log(struct meeting *m)
{
	snprintf(m->log, sizeof(m->log), "/tmp/softefa-denied-%d", (int)getpid());
}

static void receiver(void *arg)
{
	struct meeting *m = arg;
	struct node n;

	log_to(m->log);
	deny_call_to_others(SYS_process_vm_readv, EPERM);
	node_init(&n, &(struct node_attr){0});
	for (unsigned i = 0; i < SENDS; i++)
		node_recv(&n, 0, 0, LEN);
	m->addr = node_addr(&n);
	m->step = 1;
	kids_await(&m->step, 2);
	node_recv(&n, 0, 0, LEN);
	m->step = 3;
	kids_await(&m->step, 4);
	node_fini(&n);
}

Test(softefa_denied, transfer_between_processes_fails_and_the_log_says_why_once)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct raw_wr wr;
	struct node n;
	pid_t pid;

	node_settings(NULL);
	name_log(m);
	pid = kids_start(receiver, m);
	kids_await(&m->step, 1);
	node_init(&n, &(struct node_attr){0});
	wr = node_wr(&n, RAW_SEND, &m->addr, node_ahn(&n, &m->addr), 0, LEN, 0);
	for (unsigned i = 0; i < SENDS; i++)
		cr_assert(eq(int, node_run(&n, &wr).status, 2));
	cr_assert(eq(uint, count(m->log, "process_vm_readv"), 1));
	cr_assert(eq(uint, count(m->log, "Yama"), 1));
	cr_assert(eq(uint, count(m->log, "seccomp"), 1));
	unlink(m->log);
	/* What needs no reading goes through: the bytes are in the message. */
	wr.data = "inline";
	wr.data_len = 7;
	m->step = 2;
	kids_await(&m->step, 3);
	cr_assert(zero(int, node_run(&n, &wr).status));
	m->step = 4;
	kids_join(pid);
	node_fini(&n);
}

static void nobody(void *arg)
{
	struct meeting *m = arg;
	struct raw_dev d;
	int rc;

	log_to(m->log);
	deny_call(SYS_process_vm_readv, EPERM);
	rc = raw_open(&d, &raw_libc, 0);
	MUST(rc == -EPERM, "%s", strerror(-rc));
}

Test(softefa_denied, device_that_could_do_nothing_does_not_open)
{
	struct meeting *m = kids_share(sizeof(*m));

	node_settings(NULL);
	name_log(m);
	kids_join(kids_start(nobody, m));
	cr_assert(eq(uint, count(m->log, "seccomp"), 1));
	unlink(m->log);
}
