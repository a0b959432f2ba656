/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processes of a host share: numbers, room, files; and what they leave behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../lib/kids.h"
#include "../lib/node.h"

TestSuite(softefa_shared, .timeout = 60);

enum { KIDS = 4, EACH = 40, LEN = 1024 };

struct meeting {
	atomic_uint arrived, go, done;
	uint32_t qpn[KIDS][EACH], key[KIDS][EACH];
	uint16_t ahn[KIDS];
	struct node_addr addr[KIDS];
};

struct kid {
	struct meeting *m;
	unsigned me;
};

static pid_t start(void (*fn)(void *), struct meeting *m, unsigned me)
{
	struct kid *k = kids_share(sizeof(*k));

	*k = (struct kid){m, me};
	return kids_start(fn, k);
}

/* ---- numbers ---- */

static void number_taker(void *arg)
{
	struct kid *k = arg;
	struct meeting *m = k->m;
	struct raw_gid stranger = {{0xfe, 0x80, 1, 2, 3}};
	struct raw_ah ah;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_ah_create(&ah, &n.dev, &n.pd, &stranger));
	m->ahn[k->me] = ah.ahn;
	for (unsigned i = 0; i < EACH; i++) {
		struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 16, .rq = 16};
		struct raw_qp qp;
		struct raw_mr mr;

		MUST_0(raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.rcq, &attr));
		MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RAW_ALL_ACCESS));
		m->qpn[k->me][i] = qp.qpn;
		m->key[k->me][i] = mr.key;
	}
	m->arrived++;
	kids_await(&m->go, 1);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void assert_unique(uint32_t (*n)[EACH])
{
	uint32_t all[KIDS * EACH];

	memcpy(all, n, sizeof(all));
	qsort(all, KIDS * EACH, sizeof(all[0]), by_value);
	for (unsigned i = 1; i < KIDS * EACH; i++)
		cr_assert(ne(u32, all[i - 1], all[i]));
}

Test(softefa_shared, numbers_are_unique_on_a_device_whoever_has_them)
{
	struct meeting *m = kids_share(sizeof(*m));
	pid_t pid[KIDS];

	node_settings(NULL);
	for (unsigned i = 0; i < KIDS; i++)
		pid[i] = start(number_taker, m, i);
	kids_await(&m->arrived, KIDS);
	m->go = 1;
	for (unsigned i = 0; i < KIDS; i++)
		kids_join(pid[i]);
	assert_unique(m->qpn);
	assert_unique(m->key);
	for (unsigned i = 1; i < KIDS; i++)
		cr_assert(eq(u16, m->ahn[i], m->ahn[0]), "the number of a GID is the device's");
	cr_assert(eq(u32, m->qpn[0][0] >> 16, 0));
	cr_assert(eq(u32, m->key[0][0] >> 24, 0));
}

/* ---- room ---- */

enum { ROOM = 8 };

/* Takes all that the device has of everything. */
static void hoarder(void *arg)
{
	struct kid *k = arg;
	struct node n;

	node_init(&n, &(struct node_attr){.sq = 16, .rq = 16});
	for (;;) {
		struct raw_pd pd;

		if (raw_pd_alloc(&pd, &n.dev))
			break;
	}
	for (;;) {
		struct raw_cq cq;

		if (raw_cq_create(&cq, &n.dev, &(struct raw_cq_attr){.depth = 16}))
			break;
	}
	for (;;) {
		struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 16, .rq = 16};
		struct raw_qp qp;

		if (raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.rcq, &attr))
			break;
	}
	for (;;) {
		struct raw_mr mr;

		if (raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RAW_LOCAL_WRITE))
			break;
	}
	for (uint8_t i = 1;; i++) {
		struct raw_gid gid = {{0xfe, 0x80, [15] = i}};
		struct raw_ah ah;

		if (raw_ah_create(&ah, &n.dev, &n.pd, &gid))
			break;
	}
	k->m->arrived++;
	pause();
}

Test(softefa_shared, room_of_a_killed_process_is_free_for_the_others)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct raw_gid gid = {{0xfe, 0x80, [15] = 99}};
	struct raw_pd pd;
	struct raw_cq cq;
	struct raw_qp qp;
	struct raw_mr mr;
	struct raw_ah ah;
	struct node n;
	pid_t pid;

	node_settings("max_pd=8,max_cq=9,max_qp=8,max_mr=8,max_ah=8");
	node_init(&n, &(struct node_attr){.sq = 16, .rq = 16});
	pid = start(hoarder, m, 0);
	kids_await(&m->arrived, 1);
	cr_assert(eq(int, raw_pd_alloc(&pd, &n.dev), -ENOMEM));
	cr_assert(eq(int, raw_cq_create(&cq, &n.dev, &(struct raw_cq_attr){.depth = 16}), -ENOMEM));
	cr_assert(eq(int,
		     raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.rcq,
				   &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16}),
		     -ENOMEM));
	cr_assert(eq(int, raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, 0), -ENOMEM));
	cr_assert(eq(int, raw_ah_create(&ah, &n.dev, &n.pd, &gid), -ENOMEM));
	kids_kill(pid);
	for (unsigned i = 1; i < ROOM; i++) {
		gid.b[14] = (uint8_t)i;
		MUST_0(raw_pd_alloc(&pd, &n.dev));
		MUST_0(raw_cq_create(&cq, &n.dev, &(struct raw_cq_attr){.depth = 16}));
		MUST_0(raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.rcq,
				     &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16}));
		MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, 0));
		MUST_0(raw_ah_create(&ah, &n.dev, &n.pd, &gid));
	}
}

/* ---- what is left ---- */

/* Sends to all and waits for all; what follows is up to the test. */
static void talker(struct kid *k, struct node *n)
{
	struct meeting *m = k->m;

	node_init(n, &(struct node_attr){0});
	m->addr[k->me] = node_addr(n);
	for (uint16_t i = 0; i < KIDS; i++)
		node_recv(n, i, (uint64_t)i * LEN, LEN);
	m->arrived++;
	kids_await(&m->arrived, KIDS);
	for (unsigned i = 0; i < KIDS; i++) {
		struct node_addr *to = &m->addr[i];
		struct raw_wr wr = node_wr(n, RAW_SEND, to, node_ahn(n, to), KIDS * LEN, LEN, 0);

		node_run(n, &wr);
	}
	for (unsigned i = 0; i < KIDS; i++)
		node_wait_status(&n->rcq, 0);
	m->done++;
	kids_await(&m->done, KIDS);
}

static void exits_well(void *arg)
{
	struct node n;

	talker(arg, &n);
	node_fini(&n);
}

static void exits_with_all_open(void *arg)
{
	struct node n;

	talker(arg, &n);
}

static void exits_at_once(void *arg)
{
	struct node n;

	talker(arg, &n);
	_exit(0);
}

static void stays(void *arg)
{
	struct node n;

	talker(arg, &n);
	pause();
}

static void run_kids(void (*fn)(void *), bool kill_them)
{
	struct meeting *m = kids_share(sizeof(*m));
	pid_t pid[KIDS];

	for (unsigned i = 0; i < KIDS; i++)
		pid[i] = start(fn, m, i);
	if (kill_them)
		kids_await(&m->done, KIDS);
	for (unsigned i = 0; i < KIDS; i++)
		(kill_them ? kids_kill : kids_join)(pid[i]);
}

static void assert_clean(void)
{
	char dir[128];

	node_fabric_dir(dir, sizeof(dir));
	cr_assert(zero(int, dir[0]), "%s", dir);
}

Test(softefa_shared, nothing_is_left_when_all_have_closed)
{
	node_settings(NULL);
	run_kids(exits_well, false);
	assert_clean();
}

Test(softefa_shared, nothing_is_left_when_all_exit_with_everything_open)
{
	node_settings(NULL);
	run_kids(exits_with_all_open, false);
	assert_clean();
}

Test(softefa_shared, next_processes_work_after_all_were_killed_and_clean_up)
{
	node_settings(NULL);
	run_kids(stays, true);
	run_kids(stays, true);
	run_kids(exits_well, false);
	assert_clean();
}

Test(softefa_shared, next_processes_work_after_immediate_exits_and_clean_up)
{
	node_settings(NULL);
	run_kids(exits_at_once, false);
	run_kids(exits_well, false);
	assert_clean();
}

/* Rings that were never read, to others and to oneself. */
static void sends_into_the_void(void *arg)
{
	struct kid *k = arg;
	struct meeting *m = k->m;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	m->addr[k->me] = node_addr(&n);
	m->arrived++;
	kids_await(&m->arrived, KIDS);
	if (k->me == 0) {
		kids_await(&m->go, 1); /* the others are stopped */
		for (unsigned i = 0; i < KIDS; i++) {
			struct node_addr *to = &m->addr[i];
			struct raw_wr wr = node_wr(&n, RAW_SEND, to, node_ahn(&n, to), 0, LEN, 0);

			node_post(&n, &wr);
		}
		kids_nap_us(50000);
		m->done = 1;
	}
	pause();
}

Test(softefa_shared, unread_rings_of_killed_processes_are_cleaned_up)
{
	struct meeting *m = kids_share(sizeof(*m));
	pid_t pid[KIDS];

	node_settings(NULL);
	for (unsigned i = 0; i < KIDS; i++)
		pid[i] = start(sends_into_the_void, m, i);
	kids_await(&m->arrived, KIDS);
	for (unsigned i = 1; i < KIDS; i++)
		kill(pid[i], SIGSTOP);
	m->go = 1;
	kids_await(&m->done, 1);
	for (unsigned i = 0; i < KIDS; i++)
		kids_kill(pid[i]);
	run_kids(exits_well, false);
	assert_clean();
}

/* Of processes that were killed while they made them. */
Test(softefa_shared, files_that_nobody_knows_are_cleaned_up)
{
	struct meeting *m = kids_share(sizeof(*m));
	char dir[128], path[160];
	pid_t pid;
	int fd;

	node_settings(NULL);
	pid = start(number_taker, m, 0);
	kids_await(&m->arrived, 1);
	node_fabric_dir(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/new.4711", dir);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	cr_assert(ge(int, fd, 0));
	close(fd);
	m->go = 1;
	kids_join(pid);
	assert_clean();
}

/* ---- who may look ---- */

static void stranger(void *arg)
{
	struct meeting *m = arg;
	char dir[128], path[160];
	struct dirent *e;
	DIR *d;

	node_fabric_dir(dir, sizeof(dir));
	MUST(dir[0], "nobody there");
	snprintf(path, sizeof(path), "%s/fabric", dir);
	MUST_0(setgid(65534) ? -errno : 0);
	MUST_0(setuid(65534) ? -errno : 0);
	MUST(open(path, O_RDWR) < 0 && errno == EACCES, "open");
	MUST(open(path, O_RDONLY) < 0 && errno == EACCES, "open");
	d = opendir(dir);
	e = d ? readdir(d) : NULL;
	MUST(!e && errno == EACCES, "opendir");
	m->done = 1;
}

Test(softefa_shared, files_are_their_owners_alone)
{
	struct meeting *m = kids_share(sizeof(*m));
	char dir[128], path[160];
	struct stat st;
	struct node n;

	node_settings(NULL);
	if (geteuid() != 0)
		cr_skip("not root: cannot be somebody else");
	node_init(&n, &(struct node_attr){0});
	node_fabric_dir(dir, sizeof(dir));
	cr_assert(zero(int, stat(dir, &st)));
	cr_assert(eq(int, st.st_mode & 0777, 0700));
	snprintf(path, sizeof(path), "%s/fabric", dir);
	cr_assert(zero(int, stat(path, &st)));
	cr_assert(eq(int, st.st_mode & 0777, 0600));
	kids_join(kids_start(stranger, m));
	cr_assert(eq(int, m->done, 1));
	node_fini(&n);
}

/* In the same domain on the same host, and with all that the owner's peers know. */
static void intruder(void *arg)
{
	struct kid *k = arg;
	struct node_addr *victim = &k->m->addr[0];
	struct iovec here = {&(char){0}, 1}, there = {(void *)(uintptr_t)victim->mr.addr, 1};
	struct raw_wr wr;
	struct node n;
	unsigned status;

	MUST_0(setgid(65534) ? -errno : 0);
	MUST_0(setuid(65534) ? -errno : 0);
	node_init(&n, &(struct node_attr){0});
	for (unsigned op = RAW_SEND; op <= RAW_WRITE; op++) {
		wr = node_wr(&n, (enum raw_op)op, victim, node_ahn(&n, victim), 0, LEN, 0);
		status = node_run(&n, &wr).status;
		MUST(status == 9, "status %u", status); /* no such queue pair here */
	}
	MUST(process_vm_readv(getppid(), &here, 1, &there, 1, 0) < 0 && errno == EPERM, "read");
	node_fini(&n);
	k->m->done = 1;
}

Test(softefa_shared, other_user_reaches_neither_queues_nor_memory)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct node n, first;

	node_settings(NULL);
	if (geteuid() != 0)
		cr_skip("not root: cannot be somebody else");
	node_init(&first, &(struct node_attr){0}); /* has the number that the intruder has, too */
	node_init(&n, &(struct node_attr){.with = &first});
	node_fill(n.buf, LEN, 1);
	node_recv(&n, 1, LEN, LEN);
	m->addr[0] = node_addr(&n);
	node_ahn(&n, &m->addr[0]); /* as far as the device is concerned it knows them all */
	kids_join(start(intruder, m, 0));
	cr_assert(eq(int, m->done, 1));
	cr_assert(node_filled(n.buf, LEN, 1));
	cr_assert(node_quiet(&n.rcq, 20));
	node_fini(&n);
	node_fini(&first);
}

/* Somebody else made our folder before us. */
static void refused(void *arg)
{
	struct raw_dev d;
	struct raw_pd pd;
	int rc;

	(void)arg;
	MUST_0(raw_open(&d, &raw_libc, 0));
	rc = raw_pd_alloc(&pd, &d);
	MUST(rc == -EACCES, "%s", strerror(-rc));
	raw_close(&d);
}

Test(softefa_shared, folder_of_somebody_else_is_refused)
{
	char dir[128];
	struct node n;
	pid_t pid;

	node_settings(NULL);
	if (geteuid() != 0)
		cr_skip("not root: cannot be somebody else");
	node_init(&n, &(struct node_attr){0});
	node_fabric_dir(dir, sizeof(dir));
	cr_assert(zero(int, chown(dir, 65534, 65534)));
	pid = kids_start(refused, NULL);
	kids_join(pid);
	cr_assert(zero(int, chown(dir, 0, 0)));
	cr_assert(zero(int, chmod(dir, 0770)));
	pid = kids_start(refused, NULL);
	kids_join(pid);
	cr_assert(zero(int, chmod(dir, 0700)));
	node_fini(&n);
}

/* ---- who is reached ---- */

static void neighbour(void *arg)
{
	struct kid *k = arg;
	struct node n;

	setenv("SOFTEFA_DOMAIN", "elsewhere", 1);
	node_init(&n, &(struct node_attr){0});
	node_recv(&n, 0, 0, LEN);
	k->m->addr[0] = node_addr(&n);
	k->m->arrived = 1;
	kids_await(&k->m->go, 1);
	MUST(node_quiet(&n.rcq, 10), "a message from another domain");
	node_fini(&n);
}

Test(softefa_shared, gid_of_nobody_here_is_unreachable_after_the_timeout)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct raw_wr wr;
	struct node n;
	struct node_addr mine;
	int64_t start_us, took_us;
	pid_t pid;

	node_settings("timeout_ms=300");
	pid = start(neighbour, m, 0);
	kids_await(&m->arrived, 1);
	node_init(&n, &(struct node_attr){0});
	mine = node_addr(&n);
	cr_assert(ne(int, memcmp(&m->addr[0].gid, &mine.gid, sizeof(mine.gid)), 0));
	wr = node_wr(&n, RAW_SEND, &m->addr[0], node_ahn(&n, &m->addr[0]), 0, LEN, 0);
	start_us = kids_now_us();
	cr_assert(eq(int, node_run(&n, &wr).status, 15));
	took_us = kids_now_us() - start_us;
	cr_assert(ge(i64, took_us, 300000));
	cr_assert(le(i64, took_us, 5000000));
	m->go = 1;
	kids_join(pid);
	node_fini(&n);
}
