/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages without a receive, completions without room: how long they wait, and what ends it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_rnr, .timeout = 60);

enum { LEN = 4096, PARK_MS = 30 };

/* A message from A, not inline, that waits at B. */
static void park_one(struct duo *d)
{
	struct raw_wr wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, LEN, 0);

	node_fill(d->a.buf, LEN, 1);
	node_post(&d->a, &wr);
	cr_assert(node_quiet(&d->a.scq, PARK_MS), "it waits");
}

/* B has a receive, and nothing comes into it. */
static void assert_gone(struct duo *d)
{
	node_recv(&d->b, 7, 0, LEN);
	cr_assert(node_quiet(&d->b.rcq, PARK_MS), "a message of the past");
	cr_assert(zero(u8, d->b.buf[1]));
}

/* The receive of assert_gone() is still there, for a new sender. */
static void assert_receive_works(struct duo *d)
{
	struct node c;
	struct raw_wc wc;

	node_init(&c, &(struct node_attr){.with = &d->a});
	node_fill(c.buf, LEN, 2);
	node_post(&c, &(struct raw_wr){.req_id = 1,
				       .ahn = d->ahn,
				       .qpn = d->to_b.qpn,
				       .qkey = d->to_b.qkey,
				       .nsge = 1,
				       .sge = {raw_sge(&c.mr, 0, LEN)}});
	wc = node_wait_status(&d->b.rcq, 0);
	cr_assert(eq(u64, wc.req_id, 7));
	cr_assert(eq(int, wc.src_qpn, c.qp.qpn));
	cr_assert(node_filled(d->b.buf, LEN, 2));
	node_wait_status(&c.scq, 0);
	node_fini(&c);
}

Test(softefa_rnr, message_waits_for_a_receive)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	park_one(&d);
	node_recv(&d.b, 3, 0, LEN);
	cr_assert(eq(u64, node_wait_status(&d.b.rcq, 0).req_id, 3));
	cr_assert(node_filled(d.b.buf, LEN, 1));
	node_wait_status(&d.a.scq, 0);
	duo_fini(&d);
}

Test(softefa_rnr, message_of_a_destroyed_sender_is_gone)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	park_one(&d);
	MUST_0(raw_qp_destroy(&d.a.qp, &d.a.dev));
	assert_gone(&d);
	assert_receive_works(&d);
	duo_fini(&d);
}

Test(softefa_rnr, message_of_a_reset_sender_is_gone)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	park_one(&d);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_RESET));
	assert_gone(&d);
	assert_receive_works(&d);
	duo_fini(&d);
}

/* With the flushed completion the buffer is the application's again: it must not be sent. */
Test(softefa_rnr, message_of_a_sender_in_error_is_gone)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	park_one(&d);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_ERR));
	node_wait_status(&d.a.scq, 1);
	memset(d.a.buf, 0xee, LEN);
	assert_gone(&d);
	assert_receive_works(&d);
	duo_fini(&d);
}

Test(softefa_rnr, message_whose_memory_is_deregistered_fails_at_its_sender_only)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	park_one(&d);
	MUST_0(raw_mr_dereg(&d.a.mr, &d.a.dev));
	assert_gone(&d);
	node_wait_status(&d.a.scq, 5);
	assert_receive_works(&d);
	duo_fini(&d);
}

/* ---- how long ---- */

/* The waits double: rnr_retry = n lasts (2^n - 1) timers. */
struct budget {
	enum raw_op op;
	int rnr_retry;
	unsigned ms; /* with a timer of 10 ms */
};

static struct budget budgets[] = {
	{RAW_SEND, 0, 0},  {RAW_SEND, 1, 10},  {RAW_SEND, 3, 70},
	{RAW_WRITE, 0, 0}, {RAW_WRITE, 2, 30},
};

ParameterizedTestParameters(softefa_rnr, wait_ends_with_the_retries)
{
	return cr_make_param_array(struct budget, budgets, sizeof(budgets) / sizeof(budgets[0]));
}

ParameterizedTest(struct budget *b, softefa_rnr, wait_ends_with_the_retries)
{
	int64_t start_us, took_us;
	struct raw_wr wr;
	struct duo d;

	node_settings("rnr_timer_us=10000");
	duo_init(&d, &(struct node_attr){.rnr = b->rnr_retry + 1});
	memset(d.a.buf, 0xee, LEN);
	wr = node_wr(&d.a, b->op, &d.to_b, d.ahn, 0, LEN, 0);
	wr.imm_on = true;
	start_us = kids_now_us();
	cr_assert(eq(int, node_run(&d.a, &wr).status, 10));
	took_us = kids_now_us() - start_us;
	cr_assert(ge(i64, took_us, b->ms * 1000));
	cr_assert(le(i64, took_us, b->ms * 1000 + 5000000));
	cr_assert(zero(u8, d.b.buf[0]), "refused before any byte is written");
	/* A receive that comes in time ends it well. */
	node_recv(&d.b, 1, 0, LEN);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	node_wait_status(&d.b.rcq, 0);
	duo_fini(&d);
}

Test(softefa_rnr, write_with_immediate_waits_for_a_receive_and_leaves_its_buffer_alone)
{
	struct raw_wr wr;
	struct raw_wc wc;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.rnr = 8});
	node_fill(d.a.buf, LEN, 1);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, LEN);
	wr.imm_on = true;
	wr.imm = 0xfeedf00d;
	node_post(&d.a, &wr);
	cr_assert(node_quiet(&d.a.scq, PARK_MS));
	cr_assert(zero(u8, d.b.buf[LEN + 1]));
	node_recv(&d.b, 4, 0, LEN);
	wc = node_wait_status(&d.b.rcq, 0);
	cr_assert(eq(u64, wc.req_id, 4));
	cr_assert(eq(u32, wc.imm, 0xfeedf00d));
	cr_assert(eq(u32, wc.len, LEN));
	cr_assert(node_filled(d.b.buf + LEN, LEN, 1));
	cr_assert(zero(u8, d.b.buf[1]));
	node_wait_status(&d.a.scq, 0);
	duo_fini(&d);
}

Test(softefa_rnr, unsolicited_write_needs_no_receive)
{
	struct raw_wr wr;
	struct raw_wc wc;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.unsolicited = true, .rnr = 1});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 1 << 17, 0);
	wr.imm_on = true;
	wr.imm = 7;
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	wc = node_wait_status(&d.b.rcq, 0);
	cr_assert(wc.unsolicited);
	cr_assert(zero(u64, wc.req_id));
	cr_assert(eq(u32, wc.len, 1 << 17), "more than 16 bits of length");
	cr_assert(eq(u32, wc.imm, 7));
	duo_fini(&d);
}

/* ---- room in completion queues ---- */

/*
 * A program that reads completions without saying so, as libefa's end_poll does when nothing more
 * was there: libfabric's fi_flood on the fabric efa-direct waited for ever.
 */
struct silent {
	unsigned depth; /* of the queue pairs' queues */
	unsigned cq;
};

ParameterizedTestParameters(softefa_rnr, silent_reader_goes_on_for_ever)
{
	static struct silent cases[] = {{8, 8}, {64, 8}};

	return cr_make_param_array(struct silent, cases, 2);
}

ParameterizedTest(struct silent *c, softefa_rnr, silent_reader_goes_on_for_ever)
{
	uint32_t nowhere = 0;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.sq = c->depth, .rq = c->depth, .cq = c->cq});
	d.a.scq.db = d.b.rcq.db = &nowhere;
	for (uint16_t i = 0; i < 10 * c->cq; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 8, 0);

		node_recv(&d.b, i % 8, 0, 8);
		node_post(&d.a, &wr);
		node_wait_status(&d.a.scq, 0);
		node_wait_status(&d.b.rcq, 0);
	}
	duo_fini(&d);
}

/* A full queue is waited for: the device knows what was polled by the doorbell. */
Test(softefa_rnr, full_completion_queues_lose_nothing)
{
	enum { N = 500, DEPTH = 8 };
	uint8_t sent[N] = {0}, got[N] = {0};
	struct raw_wc wc;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.sq = 512, .rq = 512, .cq = DEPTH});
	for (unsigned i = 0; i < N; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 8, 0);
		struct raw_sge sge = raw_sge(&d.b.mr, 0, 8);

		wr.req_id = i;
		raw_post(&d.a.qp, &wr);
		raw_post_recv(&d.b.qp, (uint16_t)i, &sge, 1);
	}
	raw_ring(&d.b.qp);
	raw_ring(&d.a.qp);
	kids_nap_us(50000); /* both are full */
	for (unsigned i = 0; i < N; i++) {
		wc = node_wait_status(&d.b.rcq, 0);
		cr_assert(zero(u8, got[wc.req_id]++));
		wc = node_wait_status(&d.a.scq, 0);
		cr_assert(zero(u8, sent[wc.req_id]++));
	}
	cr_assert(node_quiet(&d.a.scq, 10));
	cr_assert(node_quiet(&d.b.rcq, 10));
	duo_fini(&d);
}

enum { FLOOD = 24, FLOODED = 8 };

static void *never_held_up(void *arg)
{
	for (;;)
		kids_nap_us(500);
	return arg;
}

/* Two full queues, which are read when that may go on. */
static void flood(void *arg)
{
	atomic_uint *step = arg;
	pthread_t other;
	struct duo d;

	MUST_0(-pthread_create(&other, NULL, never_held_up, NULL));
	duo_init(&d, &(struct node_attr){.cq = FLOODED});
	for (uint16_t i = 0; i < FLOOD; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 8, 0);

		node_recv(&d.b, i, 0, 8);
		node_post(&d.a, &wr);
	}
	atomic_store(step, 1);
	kids_await(step, 2);
	for (unsigned i = 0; i < FLOOD; i++) {
		node_wait_status(&d.b.rcq, 0);
		node_wait_status(&d.a.scq, 0);
	}
	duo_fini(&d);
}

/*
 * A thread that waits for a core on a busy machine is silent, too. Here a tracer stops it, while
 * another and the device go on.
 */
Test(softefa_rnr, reader_that_is_kept_from_running_loses_nothing)
{
	atomic_uint *step;
	int status;
	pid_t kid;

	node_settings(NULL);
	step = kids_share(sizeof(*step));
	kid = kids_start(flood, step);
	kids_await(step, 1);
	if (ptrace(PTRACE_SEIZE, kid, NULL, NULL)) {
		atomic_store(step, 2);
		kids_join(kid);
		cr_skip("this machine forbids ptrace()");
	}
	cr_assert(zero(long, ptrace(PTRACE_INTERRUPT, kid, NULL, NULL)));
	cr_assert(eq(int, waitpid(kid, &status, 0), kid));
	kids_nap_us(2500000);
	atomic_store(step, 2);
	cr_assert(zero(long, ptrace(PTRACE_DETACH, kid, NULL, NULL)));
	kids_join(kid);
}

/*
 * While one message lands, another takes a later receive, whose completion lets the application
 * use the slot of the first one's again; and then the first one's sender goes.
 */
Test(softefa_rnr, receive_of_a_message_that_was_given_up_goes_to_another)
{
	unsigned seen = 1u << 1;
	struct raw_wr wr;
	struct node c;
	struct duo d;

	node_settings("fault=twice gap=10000000 nth=1");
	duo_init(&d, &(struct node_attr){.rq = 4});
	node_init(&c, &(struct node_attr){.with = &d.a});
	for (uint16_t i = 0; i < 4; i++)
		node_recv(&d.b, i, i * LEN, LEN);
	wr = node_wr(&c, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	node_post(&c, &wr);
	cr_assert(node_quiet(&d.b.rcq, 100)); /* between its two landings */
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	node_post(&d.a, &wr);
	cr_assert(eq(u64, node_wait_status(&d.b.rcq, 0).req_id, 1));
	node_recv(&d.b, 4, 4 * LEN, LEN);
	node_wait_status(&d.a.scq, 0);
	MUST_0(raw_qp_destroy(&c.qp, &c.dev));
	for (unsigned i = 0; i < 4; i++) {
		struct raw_wc wc;

		node_fill(d.a.buf, LEN, i);
		cr_assert(zero(int, node_run(&d.a, &wr).status));
		wc = node_wait_status(&d.b.rcq, 0);
		cr_assert(zero(uint, seen >> wc.req_id & 1), "receive %u completes twice",
			  (unsigned)wc.req_id);
		seen |= 1u << wc.req_id;
		cr_assert(node_filled(d.b.buf + wc.req_id * LEN, LEN, i));
	}
	cr_assert(eq(uint, seen, 0x1f));
	node_fini(&c);
	duo_fini(&d);
}
