/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pair states of the adapter: which moves there are, and what becomes of work under way. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_state, .timeout = 60);

enum { LEN = 64 };

static void send_one(struct duo *d, uint16_t req_id)
{
	struct raw_wr wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, LEN, 0);

	wr.req_id = req_id;
	node_post(&d->a, &wr);
}

Test(softefa_state, error_gives_back_receives_that_wait_for_room_in_the_cq)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.cq = 2});
	for (uint16_t i = 0; i < 6; i++)
		node_recv(&d.b, i, i * LEN, LEN);
	for (uint16_t i = 0; i < 6; i++)
		send_one(&d, i);
	/* Two have room; the others arrived, too, and wait. */
	node_wait_status(&d.a.scq, 0);
	node_wait_status(&d.a.scq, 0);
	kids_nap_us(20000);
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_ERR));
	for (unsigned i = 0; i < 6; i++)
		node_wait_status(&d.b.rcq, i < 2 ? 0 : 1);
	for (unsigned i = 0; i < 4; i++)
		node_wait_status(&d.a.scq, 8);
	cr_assert(node_quiet(&d.b.rcq, 10));
	duo_fini(&d);
}

/* Each of req_ids 0 ... n-1 once; returns how many with status 0. */
static unsigned each_once(struct raw_cq *cq, unsigned n)
{
	uint8_t seen[4096] = {0};
	unsigned fine = 0;

	for (unsigned i = 0; i < n; i++) {
		struct raw_wc wc = node_wait(cq);

		cr_assert(lt(u64, wc.req_id, n));
		cr_assert(zero(u8, seen[wc.req_id]), "request %u completes twice",
			  (unsigned)wc.req_id);
		seen[wc.req_id] = 1;
		fine += wc.status == 0;
	}
	cr_assert(node_quiet(cq, 10), "more completions than work");
	return fine;
}

/* More requests than the ring between processes takes: answers wait for room in it. */
Test(softefa_state, error_completes_nothing_twice)
{
	enum { N = 4096 };
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.sq = N, .rq = N, .cq = 2 * N});
	for (uint16_t i = 0; i < N; i++)
		node_recv(&d.b, i, 0, LEN);
	for (uint16_t i = 0; i < N; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);

		wr.req_id = i;
		raw_post(&d.a.qp, &wr);
	}
	raw_ring(&d.a.qp);
	while (__atomic_load_n(d.b.rcq.ring + 3, __ATOMIC_ACQUIRE) == 0)
		; /* the first has arrived */
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_ERR));
	each_once(&d.b.rcq, N);
	each_once(&d.a.scq, N);
	duo_fini(&d);
}

Test(softefa_state, error_flushes_all_that_is_posted)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	for (uint16_t i = 0; i < 20; i++)
		send_one(&d, i); /* wait for receives */
	for (uint16_t i = 0; i < 20; i++)
		node_recv(&d.a, i, 0, LEN);
	cr_assert(node_quiet(&d.a.scq, 10));
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_ERR));
	cr_assert(zero(uint, each_once(&d.a.scq, 20)));
	cr_assert(zero(uint, each_once(&d.a.rcq, 20)));
	/* What the application posts before it knows is flushed, too. */
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 1);
	node_recv(&d.a, 0, 0, LEN);
	node_wait_status(&d.a.rcq, 1);
	duo_fini(&d);
}

Test(softefa_state, reset_drops_all_and_starts_a_new_life)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.sq = 16, .rq = 16});
	for (unsigned life = 0; life < 20; life++) {
		for (uint16_t i = 0; i < 5 + life % 7; i++) {
			node_recv(&d.b, i, 0, LEN);
			send_one(&d, i);
			node_wait_status(&d.b.rcq, 0);
			node_wait_status(&d.a.scq, 0);
		}
		send_one(&d, 0);
		send_one(&d, 1);
		node_recv(&d.a, 2, 0, LEN);
		MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_RESET));
		MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_RESET));
		cr_assert(node_quiet(&d.a.scq, 3));
		cr_assert(node_quiet(&d.a.rcq, 3));
		MUST_0(raw_qp_up(&d.a.qp, &d.a.dev, NODE_QKEY, -1));
		MUST_0(raw_qp_up(&d.b.qp, &d.b.dev, NODE_QKEY, -1));
		cr_assert(node_quiet(&d.b.rcq, 3));
	}
	duo_fini(&d);
}

Test(softefa_state, destruction_drops_all)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	for (uint16_t i = 0; i < 10; i++)
		send_one(&d, i);
	for (uint16_t i = 0; i < 10; i++)
		node_recv(&d.a, i, 0, LEN);
	MUST_0(raw_qp_destroy(&d.a.qp, &d.a.dev));
	cr_assert(node_quiet(&d.a.scq, 20));
	cr_assert(node_quiet(&d.a.rcq, 3));
	duo_fini(&d);
}

Test(softefa_state, waiting_messages_fail_with_their_receiver)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	send_one(&d, 0);
	cr_assert(node_quiet(&d.a.scq, 10));
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_RESET));
	node_wait_status(&d.a.scq, 9);
	MUST_0(raw_qp_up(&d.b.qp, &d.b.dev, NODE_QKEY, -1));
	send_one(&d, 1);
	cr_assert(node_quiet(&d.a.scq, 10));
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_ERR));
	node_wait_status(&d.a.scq, 9);
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_RESET));
	MUST_0(raw_qp_up(&d.b.qp, &d.b.dev, NODE_QKEY, -1));
	send_one(&d, 2);
	cr_assert(node_quiet(&d.a.scq, 10));
	MUST_0(raw_qp_destroy(&d.b.qp, &d.b.dev));
	node_wait_status(&d.a.scq, 9);
	duo_fini(&d);
}

Test(softefa_state, queue_pair_is_reached_from_ready_to_receive_on)
{
	struct raw_modify init = {.mask = RAW_M_STATE | RAW_M_PKEY | RAW_M_PORT | RAW_M_QKEY,
				  .state = RAW_INIT,
				  .port = 1,
				  .qkey = NODE_QKEY};
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_RESET));
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 9);
	MUST_0(raw_qp_modify(&d.b.qp, &d.b.dev, &init));
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 9);
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_RTR));
	node_recv(&d.b, 1, 0, LEN);
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 0);
	node_wait_status(&d.b.rcq, 0);
	duo_fini(&d);
}

Test(softefa_state, drained_send_queue_finishes_what_it_has)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	send_one(&d, 0);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_SQD));
	node_recv(&d.b, 1, 0, LEN);
	node_wait_status(&d.a.scq, 0);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_RTS));
	node_recv(&d.b, 1, 0, LEN);
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 0);
	duo_fini(&d);
}

/* ---- nonsense in the rings ---- */

static void assert_fell_alone(struct duo *d, struct node *fallen)
{
	struct node other;
	struct raw_wr wr;
	struct node_addr self;

	node_init(&other, &(struct node_attr){.with = &d->a});
	self = node_addr(&other);
	node_recv(&other, 0, 0, LEN);
	wr = node_wr(&other, RAW_SEND, &self, d->ahn, 0, LEN, 0);
	cr_assert(zero(int, node_run(&other, &wr).status));
	node_fini(&other);
	wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, 0, 0);
	wr.qpn = (uint16_t)fallen->qp.qpn;
	if (fallen != &d->a)
		cr_assert(eq(int, node_run(&d->a, &wr).status, 9));
	/* It can be had again. */
	MUST_0(raw_qp_to(&fallen->qp, &fallen->dev, RAW_RESET));
	MUST_0(raw_qp_up(&fallen->qp, &fallen->dev, NODE_QKEY, -1));
}

Test(softefa_state, send_doorbell_beyond_the_queue_fails_the_queue_pair_alone)
{
	struct duo d;

	node_settings("log=0");
	duo_init(&d, &(struct node_attr){0});
	*d.a.qp.sq_db = 65;
	kids_nap_us(20000);
	assert_fell_alone(&d, &d.a);
	duo_fini(&d);
}

Test(softefa_state, receive_doorbell_beyond_the_queue_fails_the_queue_pair_alone)
{
	struct duo d;

	node_settings("log=0");
	duo_init(&d, &(struct node_attr){0});
	*d.b.qp.rq_db = 65;
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 9);
	assert_fell_alone(&d, &d.b);
	duo_fini(&d);
}

/* Flags of its descriptors, and how many the doorbell tells of. */
struct chain {
	uint32_t flags[20];
	unsigned told;
};

enum { FIRST = 1u << 30, LAST = 1u << 31 };

static struct chain chains[] = {
	{{0, LAST}, 2},      /* no first */
	{{FIRST, FIRST}, 2}, /* two firsts */
	{{FIRST, 0, 0}, 2},  /* cut off by the doorbell */
	{{FIRST}, 20},       /* longer than any receive */
};

ParameterizedTestParameters(softefa_state, broken_chain_of_receive_descriptors_fails_alone)
{
	return cr_make_param_array(struct chain, chains, sizeof(chains) / sizeof(chains[0]));
}

ParameterizedTest(struct chain *c, softefa_state, broken_chain_of_receive_descriptors_fails_alone)
{
	struct duo d;

	node_settings("log=0");
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 20; i++) {
		uint32_t ctrl = c->flags[i] | d.b.mr.key;

		memcpy(d.b.qp.rq + 16 * i + 12, &ctrl, sizeof(ctrl));
	}
	d.b.qp.rq_prod = (uint16_t)c->told;
	raw_ring(&d.b.qp);
	send_one(&d, 0);
	node_wait_status(&d.a.scq, 9);
	assert_fell_alone(&d, &d.b);
	duo_fini(&d);
}

/* ---- transitions ---- */

enum {
	M_INIT = RAW_M_STATE | RAW_M_PKEY | RAW_M_PORT | RAW_M_QKEY,
	M_RTS = RAW_M_STATE | RAW_M_PSN,
	AH = 1 << 7, /* a mask bit that means nothing here */
};

struct transition {
	enum raw_state from, to;
	uint32_t mask;
	int err;
	struct raw_modify with; /* values other than the usual ones */
	uint32_t type;
};

static struct transition transitions[] = {
	{RAW_RESET, RAW_INIT, M_INIT & ~RAW_M_QKEY, EINVAL, {0}, 0},
	{RAW_RESET, RAW_INIT, M_INIT & ~RAW_M_PORT, EINVAL, {0}, 0},
	{RAW_RESET, RAW_INIT, M_INIT & ~RAW_M_PKEY, EINVAL, {0}, 0},
	{RAW_RESET, RAW_INIT, M_INIT | RAW_M_PSN, EINVAL, {0}, 0},
	{RAW_RESET, RAW_INIT, M_INIT | AH, EOPNOTSUPP, {0}, 0},
	{RAW_RESET, RAW_INIT, M_INIT, EOPNOTSUPP, {.port = 2}, 0},
	{RAW_RESET, RAW_INIT, M_INIT, EOPNOTSUPP, {.pkey = 1}, 0},
	{RAW_RESET, RAW_INIT, M_INIT, 0, {0}, 0},
	{RAW_RESET, RAW_RTR, RAW_M_STATE, EINVAL, {0}, 0},
	{RAW_RESET, RAW_RTS, M_RTS, EINVAL, {0}, 0},
	{RAW_RESET, RAW_ERR, RAW_M_STATE, EINVAL, {0}, 0},
	{RAW_RESET, RAW_RESET, RAW_M_STATE, 0, {0}, 0},
	{RAW_RESET, 7, RAW_M_STATE, EINVAL, {0}, 0},
	{RAW_INIT, RAW_INIT, RAW_M_STATE | RAW_M_QKEY, 0, {0}, 0},
	{RAW_INIT, RAW_RTR, RAW_M_STATE, 0, {0}, 0},
	{RAW_INIT, RAW_RTR, RAW_M_STATE | RAW_M_QKEY, 0, {0}, 0},
	{RAW_INIT, RAW_RTR, RAW_M_STATE | RAW_M_PSN, EINVAL, {0}, 0},
	{RAW_INIT, RAW_RTS, M_RTS, EINVAL, {0}, 0},
	{RAW_INIT, RAW_ERR, RAW_M_STATE, 0, {0}, 0},
	{RAW_INIT, RAW_RESET, RAW_M_STATE, 0, {0}, 0},
	{RAW_RTR, RAW_RTS, RAW_M_STATE, EINVAL, {0}, 0},
	{RAW_RTR, RAW_RTS, M_RTS | RAW_M_RNR, 0, {.rnr_retry = 7}, 0},
	{RAW_RTR, RAW_RTS, M_RTS | RAW_M_RNR, EINVAL, {.rnr_retry = 8}, 0},
	{RAW_RTR, RAW_RTS, M_RTS | RAW_M_RNR, EINVAL, {0}, RAW_UD},
	{RAW_RTR, RAW_RTS, M_RTS, 0, {0}, RAW_UD},
	{RAW_RTR, RAW_RTS, M_RTS | RAW_M_CUR_STATE, 0, {.cur_state = RAW_RTR}, 0},
	{RAW_RTR, RAW_RTS, M_RTS | RAW_M_CUR_STATE, EINVAL, {.cur_state = RAW_INIT}, 0},
	{RAW_RTR, RAW_INIT, M_INIT, EINVAL, {0}, 0},
	{RAW_RTS, RAW_RTS, RAW_M_STATE | RAW_M_QKEY, 0, {0}, 0},
	{RAW_RTS, RAW_RTS, RAW_M_QKEY, 0, {0}, 0},
	{RAW_RTS, RAW_RTS, RAW_M_STATE | RAW_M_RNR, EINVAL, {0}, 0},
	{RAW_RTS, RAW_SQD, RAW_M_STATE | RAW_M_SQD_NOTIFY, 0, {0}, 0},
	{RAW_RTS, RAW_INIT, M_INIT, EINVAL, {0}, 0},
	{RAW_RTS, RAW_ERR, RAW_M_STATE, 0, {0}, 0},
	{RAW_RTS, RAW_ERR, RAW_M_STATE | RAW_M_QKEY, EINVAL, {0}, 0},
	{RAW_RTS, RAW_RESET, RAW_M_STATE, 0, {0}, 0},
	{RAW_SQD, RAW_SQD, RAW_M_STATE | RAW_M_QKEY, 0, {0}, 0},
	{RAW_SQD, RAW_RTS, RAW_M_STATE, 0, {0}, 0},
	{RAW_SQD, RAW_ERR, RAW_M_STATE, 0, {0}, 0},
	{RAW_ERR, RAW_ERR, RAW_M_STATE, 0, {0}, 0},
	{RAW_ERR, RAW_RESET, RAW_M_STATE, 0, {0}, 0},
	{RAW_ERR, RAW_RTS, M_RTS, EINVAL, {0}, 0},
	{RAW_ERR, RAW_INIT, M_INIT, EINVAL, {0}, 0},
};

/* By the shortest way; from ERR and RTS through RESET. */
static void bring_to(struct node *n, enum raw_state state)
{
	struct raw_modify init = {.mask = M_INIT, .state = RAW_INIT, .port = 1};

	MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_RESET));
	if (state == RAW_RESET)
		return;
	MUST_0(raw_qp_modify(&n->qp, &n->dev, &init));
	if (state == RAW_ERR)
		MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_ERR));
	if (state == RAW_INIT || state == RAW_ERR)
		return;
	MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_RTR));
	if (state == RAW_RTR)
		return;
	MUST_0(raw_qp_modify(&n->qp, &n->dev, &(struct raw_modify){M_RTS, .state = RAW_RTS}));
	if (state == RAW_SQD)
		MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_SQD));
}

static uint8_t state_of(const struct node *n)
{
	uint32_t in[4] = {0, 0, n->qp.handle, RAW_M_STATE};
	uint8_t out[128];
	struct raw_write w = {25, in, sizeof(in), out, sizeof(out), NULL, 0};

	MUST_0(raw_write_run(n->dev.sys, n->dev.fd, &w));
	return out[108];
}

ParameterizedTestParameters(softefa_state, moves_are_those_of_the_table)
{
	return cr_make_param_array(struct transition, transitions,
				   sizeof(transitions) / sizeof(transitions[0]));
}

ParameterizedTest(struct transition *t, softefa_state, moves_are_those_of_the_table)
{
	struct raw_modify m = t->with;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){.type = t->type});
	bring_to(&n, t->from);
	m.mask = t->mask;
	m.state = (uint8_t)t->to;
	m.port = m.port ? m.port : 1;
	cr_assert(eq(int, raw_qp_modify(&n.qp, &n.dev, &m), -t->err));
	cr_assert(eq(int, state_of(&n), t->err ? t->from : t->to));
	node_fini(&n);
}
