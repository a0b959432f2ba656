/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes on one device, each with a context of its own, made after the fork: what there is
 * between them, and what is left when one ends. "Guess": nobody has seen it on silicon.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(process, .timeout = 60);

enum { LEN = 1000, SLOTS = 16, N = 1500 };

/* What the two share: parent is 0, child 1. */
struct meeting {
	struct hw_addr addr[2];
	atomic_uint here, step, done;
	bool device_of_its_own; /* the child is on another device */
	uint32_t caps;
};

struct side {
	struct meeting *m;
	unsigned me;
	struct hw h;
	struct hw_addr *to;
	struct ibv_ah *ah;
};

static void side_init(struct side *s, struct meeting *m, unsigned me)
{
	struct hw_attr attr = {.dev = me && m->device_of_its_own};

	*s = (struct side){.m = m, .me = me};
	hw_init(&s->h, &attr);
	m->addr[me] = hw_addr(&s->h);
	m->here++;
	kids_await(&m->here, 2);
	s->to = &m->addr[!me];
	s->ah = hw_ah(&s->h, s->to);
	m->here++;
	kids_await(&m->here, 4);
}

static struct hw_wr side_wr(const struct side *s, enum hw_op op, uint64_t off, uint32_t len,
			    uint64_t roff)
{
	return hw_wr(&s->h, op, s->to, s->ah, off, len, roff);
}

/* Opened and closed before the fork: nothing of it is in the child. */
static uint32_t caps_of_device(void)
{
	struct ibv_context *ctx = hw_open(0);
	struct efadv_device_attr attr = {0};

	MUST_0(-HW(efadv_query_device)(ctx, &attr, sizeof(attr)));
	MUST_0(-HW(ibv_close_device)(ctx));
	return attr.device_caps;
}

/* ---- traffic both ways ---- */

struct traffic {
	unsigned posted, done, arrived;
	uint8_t seen[N];
};

static void post_next(struct side *s, struct traffic *t, uint64_t slot)
{
	struct hw_wr wr = side_wr(s, HW_OP_SEND, slot * LEN, 1 + t->posted * 13 % LEN, 0);

	bytes_fill(s->h.buf + slot * LEN, wr.sge[0].length, t->posted + s->me);
	wr.wr_id = slot;
	wr.imm_on = true;
	wr.imm = t->posted++;
	hw_post(&s->h, &wr);
}

static void receive(struct side *s, struct traffic *t, const struct hw_wc *wc)
{
	uint64_t off = (SLOTS + wc->wr_id) * LEN;

	MUST(wc->status == HW_OK && wc->imm < N, "status %u", wc->status);
	MUST(!t->seen[wc->imm], "message %u comes twice", wc->imm);
	MUST(wc->len == 1 + wc->imm * 13 % LEN, "%u bytes of message %u", wc->len, wc->imm);
	MUST(bytes_differ(s->h.buf + off, wc->len, wc->imm + !s->me) < 0, "message %u", wc->imm);
	MUST(wc->src_qpn == s->to->qpn && wc->ahn == hw_ahn(s->ah), "sender of %u", wc->imm);
	t->seen[wc->imm] = 1;
	t->arrived++;
	hw_recv(&s->h, wc->wr_id, off, LEN);
}

static void exchange(struct side *s)
{
	int64_t end = kids_now_us() + 50 * INT64_C(1000000);
	struct traffic t = {0};
	struct hw_wc wc;

	for (uint64_t i = 0; i < 2 * SLOTS; i++)
		hw_recv(&s->h, i, (SLOTS + i) * LEN, LEN);
	for (uint64_t i = 0; i < SLOTS; i++)
		post_next(s, &t, i);
	while (t.done < N || t.arrived < N) {
		bool any = hw_next(&s->h.scq, &wc);

		if (any) {
			MUST(wc.status == HW_OK, "status %u", wc.status);
			t.done++;
			if (t.posted < N)
				post_next(s, &t, wc.wr_id);
		}
		if (hw_next(&s->h.rcq, &wc))
			receive(s, &t, &wc);
		else if (!any)
			kids_nap_us(20);
		MUST(kids_now_us() < end, "%u sent, %u arrived of %u", t.done, t.arrived, N);
	}
	s->m->done++;
	kids_await(&s->m->done, 2);
	MUST(hw_quiet(&s->h.scq) && hw_quiet(&s->h.rcq), "more than was sent");
}

static void exchanger(void *arg)
{
	struct side s;

	side_init(&s, arg, 1);
	exchange(&s);
	hw_fini(&s.h);
}

ParameterizedTestParameters(process, both_send_and_receive_each_message_once)
{
	static bool devices[] = {false, true};

	return cr_make_param_array(bool, devices, 2);
}

/* Sections 5.1, 5.13. */
ParameterizedTest(bool *devices, process, both_send_and_receive_each_message_once)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct side s;
	pid_t pid;

	m->device_of_its_own = *devices;
	if (*devices && hw_count() < 2)
		cr_skip("needs EFA devices: 2, has: 1");
	pid = kids_start(exchanger, m);
	side_init(&s, m, 0);
	exchange(&s);
	hw_fini(&s.h);
	kids_join(pid);
}

/* ---- memory of the other ---- */

static void server(void *arg)
{
	struct meeting *m = arg;
	struct side s;

	side_init(&s, m, 1);
	bytes_fill(s.h.buf, s.h.bytes / 2, 77);
	m->step = 1;
	kids_await(&m->step, 2);
	MUST(!(m->caps & HW_WRITE) || bytes_differ(s.h.buf + 40000, 20000, 5) < 0, "written");
	MUST(hw_quiet(&s.h.rcq), "a trace of it");
	hw_fini(&s.h);
}

/* Sections 5.1, 5.6. */
Test(process, memory_of_the_other_is_read_and_written)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct side s;
	struct hw_wr wr;
	pid_t pid;

	m->caps = caps_of_device();
	if (!(m->caps & HW_READ))
		cr_skip("device or libefa without RDMA read");
	pid = kids_start(server, m);
	side_init(&s, m, 0);
	kids_await(&m->step, 1);
	wr = side_wr(&s, HW_OP_READ, 0, 30000, 0);
	cr_assert(eq(uint, hw_run(&s.h, &wr).status, HW_OK));
	cr_assert(lt(long, bytes_differ(s.h.buf, 30000, 77), 0));
	wr.rkey = s.h.mr->rkey; /* one's own key opens nothing there */
	cr_assert(eq(uint, hw_run(&s.h, &wr).status, HW_BAD_RKEY));
	if (m->caps & HW_WRITE) {
		bytes_fill(s.h.buf, 20000, 5);
		wr = side_wr(&s, HW_OP_WRITE, 0, 20000, 40000);
		cr_assert(eq(uint, hw_run(&s.h, &wr).status, HW_OK));
	}
	m->step = 2;
	kids_join(pid);
	hw_fini(&s.h);
}

/* ---- ends ---- */

/* How the other goes while messages wait for it. */
enum end { DESTROYS, CLOSES, EXITS, IS_KILLED };

struct ending {
	struct meeting m;
	enum end how;
};

static void ends(void *arg)
{
	struct ending *e = arg;
	struct side s;

	side_init(&s, &e->m, 1);
	kids_await(&e->m.step, 1);
	switch (e->how) {
	case DESTROYS:
		MUST_0(-HW(ibv_destroy_qp)(s.h.qp));
		break;
	case CLOSES:
		hw_fini(&s.h);
		break;
	case EXITS:
		_exit(0);
	case IS_KILLED:
		e->m.step = 2;
		pause();
	}
	e->m.step = 2;
	kids_await(&e->m.step, 3);
	_exit(0);
}

ParameterizedTestParameters(process, messages_fail_when_the_other_goes)
{
	static enum end hows[] = {DESTROYS, CLOSES, EXITS, IS_KILLED};

	return cr_make_param_array(enum end, hows, 4);
}

static bool lost(unsigned status)
{
	return status == HW_BAD_QPN || status == HW_ABORTED || status == HW_UNRESPONSIVE ||
	       status == HW_UNREACHABLE;
}

/* Section 5.10. Guess: which of the statuses that speak of a lost peer it is. */
ParameterizedTest(enum end *how, process, messages_fail_when_the_other_goes)
{
	struct ending *e = kids_share(sizeof(*e));
	struct side s;
	struct hw_wr wr;
	pid_t pid;

	e->how = *how;
	pid = kids_start(ends, e);
	side_init(&s, &e->m, 0);
	for (unsigned i = 0; i < 10; i++) {
		wr = side_wr(&s, HW_OP_SEND, 0, LEN, 0);
		hw_post(&s.h, &wr);
	}
	cr_assert(hw_quiet(&s.h.scq));
	e->m.step = 1;
	if (*how == EXITS)
		kids_join(pid);
	else
		kids_await(&e->m.step, 2);
	if (*how == IS_KILLED)
		kids_kill(pid);
	for (unsigned i = 0; i < 10; i++) {
		unsigned status = hw_wait(&s.h.scq).status;

		cr_assert(lost(status), "status %u", status);
	}
	wr = side_wr(&s, HW_OP_SEND, 0, LEN, 0);
	cr_assert(lost(hw_run(&s.h, &wr).status), "a message after the end");
	e->m.step = 3;
	if (*how <= CLOSES)
		kids_join(pid);
	/* The device goes on. */
	wr.qpn = s.h.qp->qp_num;
	wr.ah = hw_ah(&s.h, &e->m.addr[0]);
	hw_recv(&s.h, 1, 0, LEN);
	cr_assert(eq(uint, hw_run(&s.h, &wr).status, HW_OK));
	hw_fini(&s.h);
}

static void sends_and_waits(void *arg)
{
	struct meeting *m = arg;
	struct hw_wr wr;
	struct side s;

	side_init(&s, m, 1);
	for (unsigned i = 0; i < 10; i++) {
		wr = side_wr(&s, HW_OP_SEND, 0, LEN, 0);
		hw_post(&s.h, &wr);
	}
	MUST(hw_quiet(&s.h.scq), "there was no receive");
	m->step = 1;
	pause();
}

/* Section 5.10: what a dead process sent, and nobody took, is gone with it. */
Test(process, message_of_the_dead_that_waits_does_not_arrive)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct side s;
	pid_t pid;

	pid = kids_start(sends_and_waits, m);
	side_init(&s, m, 0);
	kids_await(&m->step, 1);
	kids_kill(pid);
	kids_nap_us(200000); /* a device takes a while to notice */
	hw_recv(&s.h, 1, 0, LEN);
	cr_assert(hw_quiet(&s.h.rcq));
	hw_fini(&s.h);
}

/* ---- numbers ---- */

struct numbers {
	struct meeting m;
	uint32_t qpn[8], key[8];
};

static void takes_numbers(void *arg)
{
	struct numbers *n = arg;
	struct side s;

	side_init(&s, &n->m, 1);
	for (unsigned i = 0; i < 8; i++) {
		struct ibv_qp *qp = hw_qp_create(&s.h, &(struct hw_attr){.sq = 4, .rq = 4});
		struct ibv_mr *mr = HW(ibv_reg_mr)(s.h.pd, s.h.buf, LEN, 0);

		MUST(qp && mr, "objects");
		n->qpn[i] = qp->qp_num;
		n->key[i] = mr->rkey;
	}
	n->m.step = 1;
	kids_await(&n->m.step, 2);
	_exit(0);
}

/* Section 5.13: numbers and keys are the device's, not the process's. */
Test(process, numbers_of_a_device_are_unique_over_processes)
{
	struct numbers *n = kids_share(sizeof(*n));
	struct side s;
	pid_t pid;

	pid = kids_start(takes_numbers, n);
	side_init(&s, &n->m, 0);
	kids_await(&n->m.step, 1);
	cr_assert(ne(u32, n->m.addr[0].qpn, n->m.addr[1].qpn));
	for (unsigned i = 0; i < 8; i++) {
		struct ibv_qp *qp = hw_qp_create(&s.h, &(struct hw_attr){.sq = 4, .rq = 4});
		struct ibv_mr *mr = HW(ibv_reg_mr)(s.h.pd, s.h.buf, LEN, 0);

		cr_assert(qp && mr);
		for (unsigned k = 0; k < 8; k++) {
			cr_assert(ne(u32, qp->qp_num, n->qpn[k]));
			cr_assert(ne(u32, mr->rkey, n->key[k]));
		}
		cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
		cr_assert(zero(int, HW(ibv_dereg_mr)(mr)));
	}
	n->m.step = 2;
	kids_join(pid);
	hw_fini(&s.h);
}
