/* SPDX-License-Identifier: BSD-3-Clause */
/* States of queue pairs: the moves, and what each lets through. "Guess": nobody has seen it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(states, .timeout = 60);

enum { LEN = 64, INIT_MASK = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY };

/* From RESET, by the common way. */
static void bring(struct ibv_qp *qp, enum ibv_qp_state state)
{
	static const int masks[] = {[IBV_QPS_INIT] = INIT_MASK, [IBV_QPS_RTS] = IBV_QP_SQ_PSN};
	enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
	struct ibv_qp_attr attr = {.port_num = 1, .qkey = HW_QKEY};

	if (state == IBV_QPS_ERR) {
		bring(qp, IBV_QPS_RTS);
		MUST_0(-hw_qp_to(qp, IBV_QPS_ERR));
		return;
	}
	for (unsigned i = 0; i < 4 && way[i] <= state; i++) {
		attr.qp_state = way[i];
		MUST_0(-HW(ibv_modify_qp)(
			qp, &attr, IBV_QP_STATE | (way[i] < IBV_QPS_SQD ? masks[way[i]] : 0)));
	}
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	MUST_0(-HW(ibv_query_qp)(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* ---- moves ---- */

struct step {
	enum ibv_qp_state from, to;
	int mask;
	bool fine;
};

#define RESET IBV_QPS_RESET
#define INIT  IBV_QPS_INIT
#define RTR   IBV_QPS_RTR
#define RTS   IBV_QPS_RTS
#define SQD   IBV_QPS_SQD
#define ERR   IBV_QPS_ERR

static struct step steps[] = {
	{RESET, INIT, INIT_MASK, true},
	{RESET, INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, false},
	{RESET, INIT, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, false},
	{RESET, INIT, IBV_QP_PORT | IBV_QP_QKEY, false},
	{RESET, RTR, 0, false},
	{RESET, RTS, IBV_QP_SQ_PSN, false},
	{RESET, RESET, 0, true},
	{INIT, INIT, IBV_QP_QKEY, true},
	{INIT, RTR, 0, true},
	{INIT, RTR, IBV_QP_QKEY, true},
	{INIT, RTS, IBV_QP_SQ_PSN, false},
	{INIT, RESET, 0, true},
	{INIT, ERR, 0, true},
	{RTR, RTS, IBV_QP_SQ_PSN, true},
	{RTR, RTS, 0, false},
	{RTR, RTS, IBV_QP_SQ_PSN | IBV_QP_QKEY, true},
	{RTR, INIT, INIT_MASK, false},
	{RTR, RESET, 0, true},
	{RTR, ERR, 0, true},
	{RTS, RTS, IBV_QP_QKEY, true},
	{RTS, RTS, IBV_QP_RNR_RETRY, false},
	{RTS, SQD, 0, true},
	{RTS, INIT, INIT_MASK, false},
	{RTS, RTR, 0, false},
	{RTS, RESET, 0, true},
	{RTS, ERR, 0, true},
	{SQD, RTS, 0, true},
	{SQD, SQD, IBV_QP_QKEY, true},
	{SQD, RESET, 0, true},
	{SQD, ERR, 0, true},
	{SQD, RTR, 0, false},
	{ERR, RESET, 0, true},
	{ERR, ERR, 0, true},
	{ERR, INIT, INIT_MASK, false},
	{ERR, RTS, IBV_QP_SQ_PSN, false},
};

ParameterizedTestParameters(states, moves_are_those_of_the_table)
{
	return cr_make_param_array(struct step, steps, sizeof(steps) / sizeof(steps[0]));
}

/* Section 2.7; the kernel's own table for queue pairs of this kind. */
ParameterizedTest(struct step *s, states, moves_are_those_of_the_table)
{
	struct ibv_qp_attr attr = {.qp_state = s->to, .port_num = 1, .qkey = HW_QKEY};
	struct ibv_qp *qp;
	struct hw h;
	int rc;

	hw_init(&h, &(struct hw_attr){0});
	qp = hw_qp_create(&h, &(struct hw_attr){0});
	cr_assert(ne(ptr, qp, NULL));
	cr_assert(eq(int, (int)state_of(qp), (int)RESET));
	bring(qp, s->from);
	cr_assert(eq(int, (int)state_of(qp), (int)s->from));
	rc = HW(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | s->mask);
	cr_assert(eq(int, rc, s->fine ? 0 : EINVAL));
	cr_assert(eq(int, (int)state_of(qp), (int)(s->fine ? s->to : s->from)));
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	hw_fini(&h);
}

struct refusal {
	int mask;
	uint8_t port;
	uint16_t pkey;
};

static struct refusal refusals[] = {
	{INIT_MASK, 2, 0},
	{INIT_MASK, 0, 0},
	{INIT_MASK, 1, 1},
	{INIT_MASK | IBV_QP_AV, 1, 0},
	{INIT_MASK | IBV_QP_DEST_QPN, 1, 0},
	{INIT_MASK | IBV_QP_TIMEOUT, 1, 0},
	{INIT_MASK | IBV_QP_RETRY_CNT, 1, 0},
};

ParameterizedTestParameters(states, what_the_device_does_not_have_is_refused)
{
	return cr_make_param_array(struct refusal, refusals,
				   sizeof(refusals) / sizeof(refusals[0]));
}

/* Section 2.7. With which error is the kernel's affair; nothing changes. */
ParameterizedTest(struct refusal *r, states, what_the_device_does_not_have_is_refused)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = r->port, .pkey_index = r->pkey};
	struct ibv_qp *qp;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	qp = hw_qp_create(&h, &(struct hw_attr){0});
	cr_assert(ne(ptr, qp, NULL));
	cr_assert(ne(int, HW(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | r->mask), 0));
	cr_assert(eq(int, (int)state_of(qp), (int)RESET));
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	hw_fini(&h);
}

/* Section 4.10. */
Test(states, datagrams_have_no_retries)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .rnr_retry = 3};
	struct ibv_qp *qp;
	struct hw h;

	hw_init(&h, &(struct hw_attr){.ud = true});
	qp = hw_qp_create(&h, &(struct hw_attr){.ud = true});
	cr_assert(ne(ptr, qp, NULL));
	bring(qp, IBV_QPS_RTR);
	cr_assert(eq(int,
		     HW(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY),
		     EINVAL));
	cr_assert(zero(int, HW(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)));
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	hw_fini(&h);
}

/* Section 2.7. */
Test(states, query_tells_what_was_set)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = 0x1234, .rnr_retry = 5};
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;
	struct hw h;
	int mask = IBV_QP_SQ_PSN;

	hw_init(&h, &(struct hw_attr){0});
	if (h.dev.device_caps & HW_RNR_RETRY)
		mask |= IBV_QP_RNR_RETRY;
	qp = hw_qp_create(&h, &(struct hw_attr){.sq = 32, .rq = 16});
	cr_assert(ne(ptr, qp, NULL));
	bring(qp, IBV_QPS_RTR);
	cr_assert(zero(int, HW(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | mask)));
	memset(&attr, 0, sizeof(attr));
	cr_assert(zero(
		int, HW(ibv_query_qp)(qp, &attr,
				      IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_PORT | IBV_QP_CAP | mask,
				      &init)));
	cr_assert(eq(int, (int)attr.qp_state, (int)RTS));
	cr_assert(eq(u32, attr.qkey, HW_QKEY));
	cr_assert(eq(u32, attr.sq_psn, 0x1234));
	cr_assert(eq(int, attr.port_num, 1));
	cr_assert(ge(u32, attr.cap.max_send_wr, 32));
	cr_assert(ge(u32, attr.cap.max_recv_wr, 16));
	if (mask & IBV_QP_RNR_RETRY)
		cr_assert(eq(int, attr.rnr_retry, 5));
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	hw_fini(&h);
}

/* ---- what each state lets through ---- */

/* To post and to be reached: in which states. */
struct life {
	enum ibv_qp_state state;
	bool recv, send, reached;
};

static struct life lives[] = {
	{IBV_QPS_RESET, false, false, false}, {IBV_QPS_INIT, true, false, false},
	{IBV_QPS_RTR, true, false, true},     {IBV_QPS_RTS, true, true, true},
	{IBV_QPS_SQD, true, true, true},      {IBV_QPS_ERR, false, false, false},
};

ParameterizedTestParameters(states, each_lets_through_its_own)
{
	return cr_make_param_array(struct life, lives, sizeof(lives) / sizeof(lives[0]));
}

/* Sections 4.9, 5.9. */
ParameterizedTest(struct life *l, states, each_lets_through_its_own)
{
	struct hw_pair p;
	struct ibv_sge sge;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	MUST_0(-hw_qp_to(p.b.qp, IBV_QPS_RESET));
	bring(p.b.qp, l->state);
	sge = hw_sge(p.b.mr, 0, LEN);
	cr_assert(eq(int, hw_try_recv(&p.b, 1, &sge, 1), l->recv ? 0 : EINVAL));
	wr = hw_wr(&p.b, HW_OP_SEND, &p.to_a, p.ah_a, 0, LEN, 0);
	wr.qkey ^= 1; /* that there is an answer is enough */
	cr_assert(eq(int, hw_try_post(&p.b, &wr), l->send ? 0 : EINVAL));
	if (l->send)
		hw_wait_for(&p.b.scq, HW_BAD_QPN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, l->reached ? HW_OK : HW_BAD_QPN));
	if (l->reached)
		hw_wait_for(&p.b.rcq, HW_OK);
	hw_pair_fini(&p);
}

/* Section 5.9: a receive posted in INIT is there when messages may come. */
Test(states, receive_posted_early_is_used_later)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	MUST_0(-hw_qp_to(p.b.qp, IBV_QPS_RESET));
	bring(p.b.qp, IBV_QPS_INIT);
	hw_recv(&p.b, 4, 0, LEN);
	MUST_0(-hw_qp_to(p.b.qp, IBV_QPS_RTR));
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(u64, hw_wait_for(&p.b.rcq, HW_OK).wr_id, 4));
	hw_pair_fini(&p);
}

/* Section 5.9: what was under way is finished, and more is taken. */
Test(states, drained_send_queue_finishes_what_it_has)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	hw_post(&p.a, &wr);
	MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_SQD));
	hw_recv(&p.b, 1, 0, LEN);
	hw_wait_for(&p.a.scq, HW_OK);
	hw_wait_for(&p.b.rcq, HW_OK);
	hw_pair_works(&p);
	MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_RTS));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

static void each_flushed_once(struct hw_cq *cq, unsigned n)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < n; i++) {
		struct hw_wc wc = hw_wait_for(cq, HW_FLUSHED);

		MUST(wc.wr_id < n && !(seen >> wc.wr_id & 1), "request %u", (unsigned)wc.wr_id);
		seen |= UINT64_C(1) << wc.wr_id;
	}
	cr_assert(hw_quiet(cq), "more than was posted");
}

/* Section 5.9: requests and receives, each once. */
Test(states, error_flushes_all_that_is_posted)
{
	enum { N = 20 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_pair_send_waiting(&p, N, LEN);
	for (uint64_t i = 0; i < N; i++)
		hw_recv(&p.a, i, 0, LEN);
	cr_assert(hw_quiet(&p.a.scq));
	MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_ERR));
	each_flushed_once(&p.a.scq, N);
	each_flushed_once(&p.a.rcq, N);
	/* What was given up does not arrive, either. */
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(hw_quiet(&p.b.rcq));
	hw_pair_fini(&p);
}

/* Section 5.9. */
Test(states, waiting_messages_fail_with_their_receiver)
{
	enum { N = 10 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_pair_send_waiting(&p, N, LEN);
	cr_assert(hw_quiet(&p.a.scq));
	MUST_0(-hw_qp_to(p.b.qp, IBV_QPS_ERR));
	hw_pair_waiting_fail(&p, N);
	hw_pair_fini(&p);
}

/* Section 2.7: counters, doorbells and all work are gone; both queues start anew. */
Test(states, reset_starts_a_new_life)
{
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.sq = 16, .rq = 16}, NULL);
	for (unsigned life = 0; life < 20; life++) {
		unsigned n = 3 + life % 7;

		hw_pair_send_waiting(&p, n, LEN);
		for (uint64_t i = 0; i < n; i++)
			hw_recv(&p.a, i, 0, LEN);
		if (life % 2) { /* older libraries do not stand completions from before a reset */
			MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_ERR));
			each_flushed_once(&p.a.scq, n);
			each_flushed_once(&p.a.rcq, n);
		}
		MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_RESET));
		cr_assert(hw_quiet(&p.a.scq));
		MUST_0(-hw_qp_up(p.a.qp, HW_QKEY, -1));
		hw_pair_works(&p);
		cr_assert(hw_quiet(&p.b.rcq), "a message of the former life");
	}
	hw_pair_fini(&p);
}

/* Section 5.9: those that wait for it are told. */
Test(states, reset_of_a_receiver_fails_what_waits_there)
{
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_pair_send_waiting(&p, 1, LEN);
	cr_assert(hw_quiet(&p.a.scq));
	MUST_0(-hw_qp_to(p.b.qp, IBV_QPS_RESET));
	hw_pair_waiting_fail(&p, 1);
	MUST_0(-hw_qp_up(p.b.qp, HW_QKEY, -1));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}
