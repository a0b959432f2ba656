/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults on demand: each is seen by what it does, and what it does not touch goes on. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "../lib/duo.h"
#include "../lib/faults.h"
#include "../lib/kids.h"

TestSuite(softefa_fault, .timeout = 60);

enum { LEN = 4096, N = 200 };

static void init(struct duo *d, const char *settings, const struct node_attr *attr)
{
	node_settings(settings);
	faults_init();
	duo_init(d, attr);
}

static struct raw_wc run(struct duo *d, enum raw_op op, uint32_t len)
{
	struct raw_wr wr = node_wr(&d->a, op, &d->to_b, d->ahn, 0, len, 0);

	return node_run(&d->a, &wr);
}

static void assert_works(struct duo *d)
{
	static uint32_t seed;

	node_fill(d->a.buf, LEN, ++seed);
	cr_assert(zero(int, run(d, RAW_WRITE, LEN).status));
	cr_assert(node_filled(d->b.buf, LEN, seed));
}

/* ---- forced status ---- */

Test(softefa_fault, third_write_ends_with_the_status_and_moves_nothing)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	faults_set(&d.a.dev, "status 13 op=write nth=3");
	for (unsigned i = 1; i <= 5; i++) {
		node_fill(d.a.buf, LEN, i);
		cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, i == 3 ? 13 : 0), "%u", i);
		cr_assert(node_filled(d.b.buf, LEN, i == 3 ? 2 : i));
		cr_assert(zero(int, run(&d, RAW_READ, LEN).status), "reads do not count");
	}
	duo_fini(&d);
}

Test(softefa_fault, unheard_answer_is_one_of_a_request_that_was_carried_out)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	faults_set(&d.a.dev, "unheard 13 op=write nth=3");
	for (unsigned i = 1; i <= 5; i++) {
		node_fill(d.a.buf, LEN, i);
		cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, i == 3 ? 13 : 0), "%u", i);
		cr_assert(node_filled(d.b.buf, LEN, i));
		cr_assert(zero(int, run(&d, RAW_READ, LEN).status), "reads do not count");
	}
	duo_fini(&d);
}

Test(softefa_fault, status_can_be_any_code_and_by_setting)
{
	struct duo d;

	init(&d, "fault=status 2 nth=1,fault=status 255 nth=2", &(struct node_attr){0});
	cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 2));
	cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 255));
	assert_works(&d);
	duo_fini(&d);
}

Test(softefa_fault, status_is_for_one_queue_pair_or_device_where_the_rule_says_so)
{
	char rules[64];
	struct raw_wr wr;
	struct node c;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	node_init(&c, &(struct node_attr){.with = &d.a});
	wr = node_wr(&c, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	snprintf(rules, sizeof(rules), "status 8 qpn=%u", (unsigned)c.qp.qpn);
	faults_set(&d.a.dev, rules);
	assert_works(&d);
	cr_assert(eq(int, node_run(&c, &wr).status, 8));
	faults_set(&d.a.dev, "status 8 dev=1");
	cr_assert(zero(int, node_run(&c, &wr).status));
	faults_set(&d.a.dev, "status 8 dev=0 times=2");
	cr_assert(eq(int, node_run(&c, &wr).status, 8));
	cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 8));
	assert_works(&d);
	node_fini(&c);
	duo_fini(&d);
}

struct outcome {
	uint8_t status[N];
	unsigned failed;
};

static void record_half(void *arg)
{
	struct outcome *o = arg;
	struct duo d;

	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < N; i++) {
		o->status[i] = run(&d, RAW_WRITE, 8).status;
		o->failed += o->status[i] == 7;
	}
	duo_fini(&d);
}

/* 200 times with p = 0.5: within 5 standard deviations of 100. */
Test(softefa_fault, chance_follows_from_the_seed)
{
	struct outcome *a = kids_share(sizeof(*a)), *b = kids_share(sizeof(*b));
	struct outcome *c = kids_share(sizeof(*c));

	node_settings("fault=status 7 p=0.5,seed=3");
	kids_join(kids_start(record_half, a));
	kids_join(kids_start(record_half, b));
	node_settings("fault=status 7 p=0.5,seed=4");
	kids_join(kids_start(record_half, c));
	cr_assert(ge(uint, a->failed, 65));
	cr_assert(le(uint, a->failed, 135));
	cr_assert(zero(int, memcmp(a, b, sizeof(*a))));
	cr_assert(ne(int, memcmp(a, c, sizeof(*a)), 0));
}

/* ---- late ---- */

Test(softefa_fault, delayed_request_takes_so_much_longer)
{
	int64_t start_us;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	faults_set(&d.a.dev, "delay 150000 nth=2");
	assert_works(&d);
	start_us = kids_now_us();
	assert_works(&d);
	cr_assert(ge(i64, kids_now_us() - start_us, 150000));
	assert_works(&d);
	duo_fini(&d);
}

Test(softefa_fault, delayed_request_can_be_flushed_and_dropped)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	faults_set(&d.a.dev, "delay 300000");
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	node_fill(d.a.buf, LEN, 9);
	node_post(&d.a, &wr);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_ERR));
	node_wait_status(&d.a.scq, 1);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_RESET));
	MUST_0(raw_qp_up(&d.a.qp, &d.a.dev, NODE_QKEY, -1));
	node_post(&d.a, &wr);
	MUST_0(raw_qp_to(&d.a.qp, &d.a.dev, RAW_RESET));
	kids_nap_us(400000);
	cr_assert(zero(u8, d.b.buf[1]), "it left all the same");
	duo_fini(&d);
}

Test(softefa_fault, jitter_lets_requests_overtake)
{
	enum { MANY = 32 };
	unsigned late = 0;
	struct duo d;

	init(&d, "reorder=0", &(struct node_attr){0});
	faults_set(&d.a.dev, "delay 0 jitter=50000");
	for (unsigned i = 0; i < MANY; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 8, 0);

		wr.req_id = i;
		raw_post(&d.a.qp, &wr);
	}
	raw_ring(&d.a.qp);
	for (unsigned i = 0; i < MANY; i++)
		late += node_wait_status(&d.a.scq, 0).req_id != i;
	cr_assert(ge(uint, late, MANY / 2));
	duo_fini(&d);
}

/* 10 MB/s: 4 MB take 0.4 s. Other devices are as fast as ever. */
Test(softefa_fault, slow_device_has_its_rate)
{
	enum { BIG = 1 << 20 };
	int64_t start_us, took_us;
	struct duo d;

	init(&d, NULL, &(struct node_attr){.bytes = BIG});
	faults_set(&d.a.dev, "rate 10");
	start_us = kids_now_us();
	for (unsigned i = 0; i < 4; i++)
		cr_assert(zero(int, run(&d, i & 1 ? RAW_READ : RAW_WRITE, BIG).status));
	took_us = kids_now_us() - start_us;
	cr_assert(ge(i64, took_us, 4 * BIG / 10));
	faults_set(&d.a.dev, "rate 1 dev=1");
	start_us = kids_now_us();
	cr_assert(zero(int, run(&d, RAW_WRITE, BIG).status));
	cr_assert(lt(i64, kids_now_us() - start_us, BIG));
	duo_fini(&d);
}

/* ---- dead ---- */

Test(softefa_fault, dead_device_that_never_answered_is_15_and_one_that_did_is_13)
{
	int64_t start_us;
	struct duo d;

	init(&d, "timeout_ms=100", &(struct node_attr){0});
	faults_set(&d.a.dev, "dead");
	start_us = kids_now_us();
	cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 15));
	cr_assert(ge(i64, kids_now_us() - start_us, 100000));
	faults_set(&d.a.dev, "");
	assert_works(&d);
	faults_set(&d.a.dev, "dead");
	start_us = kids_now_us();
	cr_assert(eq(int, run(&d, RAW_READ, LEN).status, 13));
	cr_assert(ge(i64, kids_now_us() - start_us, 100000));
	faults_set(&d.a.dev, "");
	assert_works(&d);
	duo_fini(&d);
}

/* From device 0 to device 1, and from there to itself; each in a context of its own. */
static void two_devices(struct duo *d, const char *settings)
{
	struct node_addr a;

	node_settings(settings);
	faults_init();
	node_init(&d->a, &(struct node_attr){.dev = 0});
	node_init(&d->b, &(struct node_attr){.dev = 1});
	d->to_b = node_addr(&d->b);
	d->ahn = node_ahn(&d->a, &d->to_b);
	a = node_addr(&d->a);
	node_ahn(&d->b, &a);
}

Test(softefa_fault, dead_device_sends_nothing)
{
	struct duo d;

	two_devices(&d, "timeout_ms=1");
	faults_set(&d.a.dev, "dead dev=0");
	node_fill(d.a.buf, LEN, 9);
	/* Many, for now and then the device looks around just after one. */
	for (unsigned i = 0; i < 50; i++)
		cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 15));
	cr_assert(zero(u8, d.b.buf[1]));
	duo_fini(&d);
}

Test(softefa_fault, device_is_dead_for_those_who_send_to_it)
{
	struct duo d;

	two_devices(&d, "timeout_ms=100");
	faults_set(&d.a.dev, "dead dev=1");
	cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 15), "its silence is no answer");
	faults_set(&d.a.dev, "");
	assert_works(&d);
	faults_set(&d.a.dev, "dead dev=1");
	cr_assert(eq(int, run(&d, RAW_WRITE, LEN).status, 13));
	faults_set(&d.a.dev, "dead dev=2");
	assert_works(&d);
	duo_fini(&d);
}

/* A message waits for a receive when its device dies, at either end: it is never delivered. */
ParameterizedTestParameters(softefa_fault, what_waits_when_the_device_dies_fails)
{
	static int dead[] = {0, 1};

	return cr_make_param_array(int, dead, 2);
}

ParameterizedTest(int *dead, softefa_fault, what_waits_when_the_device_dies_fails)
{
	struct raw_wr wr;
	char rule[32];
	struct duo d;

	two_devices(&d, "timeout_ms=100");
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	node_post(&d.a, &wr);
	cr_assert(node_quiet(&d.a.scq, 20));
	snprintf(rule, sizeof(rule), "dead dev=%d", *dead);
	faults_set(&d.a.dev, rule);
	node_wait_status(&d.a.scq, 15);
	faults_set(&d.a.dev, "");
	node_recv(&d.b, 1, 0, LEN);
	cr_assert(node_quiet(&d.b.rcq, 50), "a message of the past");
	node_post(&d.a, &wr);
	node_wait_status(&d.a.scq, 0);
	node_wait_status(&d.b.rcq, 0);
	duo_fini(&d);
}

Test(softefa_fault, datagram_of_a_dead_device_is_lost)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){.type = RAW_UD});
	faults_set(&d.a.dev, "dead");
	node_recv(&d.b, 1, 0, LEN);
	cr_assert(zero(int, run(&d, RAW_SEND, 8).status));
	cr_assert(node_quiet(&d.b.rcq, 30));
	duo_fini(&d);
}

/* ---- receives, order ---- */

Test(softefa_fault, receives_are_out_of_sight_for_a_time)
{
	char rules[64];
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	node_recv(&d.b, 3, 0, LEN);
	snprintf(rules, sizeof(rules), "rnr qpn=%u", (unsigned)d.b.qp.qpn);
	faults_set(&d.a.dev, rules);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	node_post(&d.a, &wr);
	cr_assert(node_quiet(&d.a.scq, 60));
	faults_set(&d.a.dev, "");
	node_wait_status(&d.a.scq, 0);
	cr_assert(eq(u64, node_wait_status(&d.b.rcq, 0).req_id, 3));
	duo_fini(&d);
}

Test(softefa_fault, receives_out_of_sight_end_retries)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){.rnr = 1});
	node_recv(&d.b, 3, 0, LEN);
	memset(d.a.buf, 0xee, LEN);
	faults_set(&d.a.dev, "rnr");
	cr_assert(eq(int, run(&d, RAW_SEND, LEN).status, 10));
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	wr.imm_on = true;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 10));
	cr_assert(zero(u8, d.b.buf[0]), "refused before any byte is written");
	assert_works(&d);
	faults_set(&d.a.dev, "");
	cr_assert(zero(int, run(&d, RAW_SEND, LEN).status));
	duo_fini(&d);
}

Test(softefa_fault, rule_ends_with_its_time)
{
	struct duo d;
	int64_t start_us;

	init(&d, NULL, &(struct node_attr){0});
	node_recv(&d.b, 3, 0, LEN);
	start_us = kids_now_us();
	faults_set(&d.a.dev, "rnr ms=200");
	cr_assert(zero(int, run(&d, RAW_SEND, LEN).status));
	cr_assert(ge(i64, kids_now_us() - start_us, 200000));
	duo_fini(&d);
}

static unsigned out_of_order(struct duo *d)
{
	enum { MANY = 32 };
	unsigned n = 0;

	for (unsigned i = 0; i < MANY; i++) {
		struct raw_wr wr = node_wr(&d->a, RAW_WRITE, &d->to_b, d->ahn, 0, 8, 0);

		wr.req_id = i;
		raw_post(&d->a.qp, &wr);
	}
	raw_ring(&d->a.qp);
	for (unsigned i = 0; i < MANY; i++)
		n += node_wait_status(&d->a.scq, 0).req_id != i;
	return n;
}

Test(softefa_fault, order_can_be_lost_and_found)
{
	struct duo d;

	init(&d, "reorder=0", &(struct node_attr){0});
	cr_assert(zero(uint, out_of_order(&d)));
	faults_set(&d.a.dev, "reorder 16");
	cr_assert(ge(uint, out_of_order(&d), 8));
	faults_set(&d.a.dev, "");
	cr_assert(zero(uint, out_of_order(&d)));
	duo_fini(&d);
}

/* ---- objects ---- */

static int make(struct node *n, const char *what)
{
	struct raw_gid gid;
	struct raw_pd pd;
	struct raw_mr mr;
	struct raw_ah ah;
	struct raw_cq cq;
	struct raw_qp qp;

	MUST_0(raw_gid(&n->dev, &gid));
	switch (what[0] << 8 | what[1]) {
	case 'p' << 8 | 'd':
		return raw_pd_alloc(&pd, &n->dev);
	case 'm' << 8 | 'r':
		return raw_mr_reg(&mr, &n->dev, &n->pd, n->buf, LEN, RAW_ALL_ACCESS);
	case 'a' << 8 | 'h':
		return raw_ah_create(&ah, &n->dev, &n->pd, &gid);
	case 'c' << 8 | 'q':
		return raw_cq_create(&cq, &n->dev, &(struct raw_cq_attr){.depth = 16});
	default:
		return raw_qp_create(&qp, &n->dev, &n->pd, &n->scq, &n->rcq,
				     &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16, .rq = 16});
	}
}

struct kind {
	char name[4];
};

static struct kind kinds[] = {{"pd"}, {"mr"}, {"ah"}, {"cq"}, {"qp"}};

ParameterizedTestParameters(softefa_fault, objects_are_refused_with_the_error)
{
	return cr_make_param_array(struct kind, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

ParameterizedTest(struct kind *k, softefa_fault, objects_are_refused_with_the_error)
{
	char rules[64];
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	snprintf(rules, sizeof(rules), "refuse %s", k->name);
	faults_set(&d.a.dev, rules);
	for (unsigned i = 0; i < 5; i++)
		cr_assert(eq(int, make(&d.a, kinds[i].name),
			     strcmp(kinds[i].name, k->name) ? 0 : -12),
			  "%s", kinds[i].name);
	snprintf(rules, sizeof(rules), "refuse %s nth=2 error=14", k->name);
	faults_set(&d.a.dev, rules);
	cr_assert(zero(int, make(&d.a, k->name)));
	cr_assert(eq(int, make(&d.a, k->name), -14));
	cr_assert(zero(int, make(&d.a, k->name)));
	snprintf(rules, sizeof(rules), "refuse %s dev=1", k->name);
	faults_set(&d.a.dev, rules);
	cr_assert(zero(int, make(&d.a, k->name)));
	assert_works(&d);
	raw_close(&d.a.dev);
}
