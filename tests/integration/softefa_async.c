/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of the adapter: what is told, to whom, and how it is read. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "../lib/ear.h"
#include "../lib/kids.h"

TestSuite(softefa_async, .timeout = 60);

enum { CQ_ERR = 0, QP_FATAL = 1, DEVICE_FATAL = 8, PORT_ACTIVE = 9, PORT_ERR = 10 };

struct event {
	uint64_t element;
	uint32_t type, reserved;
};

static struct event next(int fd)
{
	struct event e;

	MUST(ear_readable(fd, KIDS_WAIT_MS), "no event");
	MUST(read(fd, &e, sizeof(e)) == sizeof(e), "16 bytes");
	return e;
}

/* A's queue pair, as its maker knows it. */
static uint64_t qp_user(const struct duo *d)
{
	return (uintptr_t)&d->a.qp;
}

static unsigned send_one(struct duo *d)
{
	struct raw_wr wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, 8, 0);

	node_recv(&d->b, 0, 0, 8);
	return node_run(&d->a, &wr).status;
}

/* ---- what is told ---- */

static struct told {
	char word[16];
	uint32_t type;
	unsigned status;
} tolds[] = {
	{"qp_fatal", QP_FATAL, 1},         {"cq_err", CQ_ERR, 0},
	{"device_fatal", DEVICE_FATAL, 1}, {"port_err", PORT_ERR, 0},
	{"port_active", PORT_ACTIVE, 0},
};

static void assert_element(const struct duo *d, const struct event *e)
{
	uint64_t port = e->type == DEVICE_FATAL ? 0 : 1;

	if (e->type == QP_FATAL)
		cr_assert(eq(u64, e->element, qp_user(d)));
	else if (e->type == CQ_ERR)
		cr_assert(zero(u64, e->element)); /* what node_init() gives it */
	else
		cr_assert(eq(u64, e->element, port));
}

/* A duo whose context had an async fd before its objects. */
static void open_with_fd(struct duo *d, int *fd)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 64, .rq = 64};

	duo_init(d, &(struct node_attr){0});
	MUST_0(raw_async(&d->a.dev, fd));
	MUST_0(raw_qp_destroy(&d->a.qp, &d->a.dev));
	MUST_0(raw_cq_destroy(&d->a.scq, &d->a.dev, NULL));
	MUST_0(raw_cq_create(&d->a.scq, &d->a.dev, &(struct raw_cq_attr){.depth = 64}));
	MUST_0(raw_qp_create(&d->a.qp, &d->a.dev, &d->a.pd, &d->a.scq, &d->a.rcq, &attr));
	MUST_0(raw_qp_up(&d->a.qp, &d->a.dev, NODE_QKEY, -1));
}

ParameterizedTestParameters(softefa_async, event_is_told_once_with_its_element)
{
	return cr_make_param_array(struct told, tolds, sizeof(tolds) / sizeof(tolds[0]));
}

ParameterizedTest(struct told *t, softefa_async, event_is_told_once_with_its_element)
{
	char settings[64];
	struct event e;
	struct duo d;
	struct raw_pd pd;
	int fd, rc;

	snprintf(settings, sizeof(settings), "fault=event %s nth=2", t->word);
	node_settings(settings);
	open_with_fd(&d, &fd);
	cr_assert(zero(uint, send_one(&d)));
	cr_assert(not(ear_readable(fd, 20)));
	cr_assert(eq(uint, send_one(&d), t->status));
	e = next(fd);
	cr_assert(eq(u32, e.type, t->type));
	cr_assert(zero(u32, e.reserved));
	assert_element(&d, &e);
	cr_assert(not(ear_readable(fd, 20)));
	rc = raw_pd_alloc(&pd, &d.a.dev);
	cr_assert(eq(int, rc, t->type == DEVICE_FATAL ? -EIO : 0));
	node_abandon(&d.b);
	d.a.dev.sys = NULL; /* they are one device */
	node_fini(&d.a);
}

/* Without a rule: a queue that makes no sense. */
Test(softefa_async, senseless_doorbell_is_fatal_to_the_queue_pair)
{
	struct event e;
	struct duo d;
	int fd;

	node_settings("log=0");
	open_with_fd(&d, &fd);
	__atomic_store_n(d.a.qp.sq_db, 1000, __ATOMIC_RELEASE);
	e = next(fd);
	cr_assert(eq(u32, e.type, QP_FATAL));
	cr_assert(eq(u64, e.element, qp_user(&d)));
	duo_fini(&d);
}

/* ---- to whom ---- */

Test(softefa_async, object_tells_it_to_the_file_it_was_made_with)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 64, .rq = 64};
	int first, second;
	struct duo d;

	node_settings("fault=event qp_fatal");
	open_with_fd(&d, &first);
	MUST_0(raw_async(&d.a.dev, &second));
	attr.async = second;
	MUST_0(raw_qp_destroy(&d.a.qp, &d.a.dev));
	MUST_0(raw_qp_create(&d.a.qp, &d.a.dev, &d.a.pd, &d.a.scq, &d.a.rcq, &attr));
	MUST_0(raw_qp_up(&d.a.qp, &d.a.dev, NODE_QKEY, -1));
	cr_assert(eq(uint, send_one(&d), 1));
	cr_assert(eq(u32, next(second).type, QP_FATAL));
	cr_assert(not(ear_readable(first, 20)));
	duo_fini(&d);
}

Test(softefa_async, file_must_be_of_its_kind_and_context)
{
	struct raw_qp_attr qa = {.type = RAW_SRD, .sq = 64};
	struct raw_cq_attr ca = {.depth = 16};
	int comp, async, foreign, bad[4];
	struct node n, other;
	struct raw_qp qp;
	struct raw_cq cq;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	node_init(&other, &(struct node_attr){0});
	MUST_0(raw_channel(&n.dev, &comp));
	MUST_0(raw_async(&n.dev, &async));
	MUST_0(raw_async(&other.dev, &foreign));
	bad[0] = comp, bad[1] = foreign, bad[2] = 999, bad[3] = n.dev.fd;
	for (unsigned i = 0; i < 4; i++) {
		ca.async = qa.async = bad[i];
		cr_assert(eq(int, raw_cq_create(&cq, &n.dev, &ca), -EBADF));
		cr_assert(eq(int, raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.scq, &qa), -EBADF));
	}
	ca = (struct raw_cq_attr){.depth = 16, .channel = async};
	cr_assert(eq(int, raw_cq_create(&cq, &n.dev, &ca), -EBADF));
	node_fini(&other);
	node_fini(&n);
}

Test(softefa_async, closed_file_is_no_obstacle)
{
	struct duo d;
	int fd;

	node_settings("fault=event cq_err");
	open_with_fd(&d, &fd);
	close(fd);
	cr_assert(zero(uint, send_one(&d)));
	MUST_0(raw_async(&d.a.dev, &fd));
	cr_assert(zero(uint, send_one(&d)));
	duo_fini(&d);
}

Test(softefa_async, event_of_a_queue_pair_that_is_gone_does_not_come)
{
	struct duo d;
	int fd;

	node_settings("fault=event qp_fatal");
	open_with_fd(&d, &fd);
	cr_assert(eq(uint, send_one(&d), 1));
	cr_assert(ear_readable(fd, KIDS_WAIT_MS));
	MUST_0(raw_qp_destroy(&d.a.qp, &d.a.dev));
	cr_assert(not(ear_readable(fd, 0)));
	duo_fini(&d);
}

/* ---- how it is read ---- */

static void *reader(void *arg)
{
	static struct event e;

	e = (struct event){0};
	return read(*(int *)arg, &e, sizeof(e)) == sizeof(e) ? &e : NULL;
}

Test(softefa_async, read_waits_or_not_as_the_file_is_set)
{
	struct event *e, none;
	pthread_t t;
	struct duo d;
	int fd;

	node_settings("fault=event port_err");
	open_with_fd(&d, &fd);
	cr_assert(zero(int, fcntl(fd, F_SETFL, O_NONBLOCK)));
	cr_assert(eq(int, (int)read(fd, &none, sizeof(none)), -1));
	cr_assert(eq(int, errno, EAGAIN));
	cr_assert(zero(int, fcntl(fd, F_SETFL, 0)));
	pthread_create(&t, NULL, reader, &fd);
	kids_nap_us(20000);
	cr_assert(zero(uint, send_one(&d)));
	pthread_join(t, (void **)&e);
	cr_assert(ne(ptr, e, NULL));
	cr_assert(eq(u32, e->type, PORT_ERR));
	duo_fini(&d);
}
