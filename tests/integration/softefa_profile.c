/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations of the adapter: what one lacks fails as on the real one. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "../lib/kids.h"
#include "../lib/node.h"

TestSuite(softefa_profile, .timeout = 60);

enum { LEN = 4096 };

struct generation {
	char name[8];
	bool read, write, unsolicited, wide;
};

static struct generation generations[] = {
	{"efa0", false, false, false, false}, {"efa1", true, false, false, false},
	{"efa2", true, true, true, false},    {"efa3", true, true, true, true},
	{"efa4", true, true, true, true},
};

/* One queue pair that knows itself, with the rights that its device can grant. */
static void init(struct node *n, const struct generation *g)
{
	char set[32];
	uint32_t rights = RAW_LOCAL_WRITE | (g->read ? RAW_REMOTE_READ : 0) |
			  (g->write ? RAW_REMOTE_WRITE : 0);

	snprintf(set, sizeof(set), "profile=%s", g->name);
	node_settings(set);
	memset(n, 0, sizeof(*n));
	MUST_0(raw_open(&n->dev, &raw_libc, 0));
	MUST_0(raw_pd_alloc(&n->pd, &n->dev));
	MUST_0(raw_cq_create(&n->scq, &n->dev, &(struct raw_cq_attr){.depth = 16}));
	MUST_0(raw_qp_create(&n->qp, &n->dev, &n->pd, &n->scq, &n->scq,
			     &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16, .rq = 16}));
	MUST_0(raw_qp_up(&n->qp, &n->dev, NODE_QKEY, -1));
	n->buf = kids_share(2 * LEN);
	MUST_0(raw_mr_reg(&n->mr, &n->dev, &n->pd, n->buf, 2 * LEN, rights));
}

static struct raw_wc run(struct node *n, enum raw_op op)
{
	struct node_addr self = node_addr(n);
	struct raw_wr wr = node_wr(n, op, &self, node_ahn(n, &self), 0, LEN, LEN);

	return node_run(n, &wr);
}

ParameterizedTestParameters(softefa_profile, operation_that_a_generation_lacks_is_3)
{
	return cr_make_param_array(struct generation, generations,
				   sizeof(generations) / sizeof(generations[0]));
}

ParameterizedTest(struct generation *g, softefa_profile, operation_that_a_generation_lacks_is_3)
{
	struct node n;

	init(&n, g);
	node_recv(&n, 1, LEN, LEN);
	cr_assert(eq(int, run(&n, RAW_READ).status, g->read ? 0 : 3));
	cr_assert(eq(int, run(&n, RAW_WRITE).status, g->write ? 0 : 3));
	node_fill(n.buf, LEN, 3);
	/* Both completions are on one queue, in any order. */
	cr_assert(zero(int, run(&n, RAW_SEND).status));
	node_wait_status(&n.scq, 0);
	cr_assert(node_filled(n.buf + LEN, LEN, 3));
	raw_close(&n.dev);
}

ParameterizedTestParameters(softefa_profile, rights_and_queues_that_a_generation_lacks_are_refused)
{
	return cr_make_param_array(struct generation, generations,
				   sizeof(generations) / sizeof(generations[0]));
}

ParameterizedTest(struct generation *g, softefa_profile,
		  rights_and_queues_that_a_generation_lacks_are_refused)
{
	enum { RIGHTS_W = RAW_LOCAL_WRITE | RAW_REMOTE_WRITE };
	struct raw_qp_attr unsolicited = {.type = RAW_SRD, .sq = 16, .rq = 16, .unsolicited = true};
	struct raw_qp_attr wide = {
		.type = RAW_SRD, .sq = 16, .rq = 16, .stride = 128, .max_inline = 80};
	struct raw_qp_attr ids = {.type = RAW_SRD, .sq = 16, .rq = 16, .req_id_64 = true};
	struct raw_cq cq;
	struct raw_qp qp;
	struct raw_mr mr;
	struct node n;

	init(&n, g);
	cr_assert(eq(int, raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RAW_REMOTE_READ),
		     g->read ? 0 : -95));
	cr_assert(
		eq(int, raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RIGHTS_W), g->write ? 0 : -95));
	cr_assert(eq(int, raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.scq, &unsolicited),
		     g->unsolicited ? 0 : -95));
	cr_assert(eq(int, raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.scq, &wide),
		     g->wide ? 0 : -22));
	cr_assert(eq(int, raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.scq, &ids),
		     g->wide ? 0 : -95));
	cr_assert(eq(
		int,
		raw_cq_create(&cq, &n.dev, &(struct raw_cq_attr){.depth = 16, .req_id_64 = true}),
		g->wide ? 0 : -95));
	raw_close(&n.dev);
}

/* 4096 requests of the wider kind fit where there are such. */
Test(softefa_profile, wide_send_queue_is_as_deep_as_the_others)
{
	struct raw_qp_attr deep = {.type = RAW_SRD, .sq = 4096, .stride = 128};
	struct raw_qp qp;
	struct node n;

	init(&n, &generations[4]);
	MUST_0(raw_qp_create(&qp, &n.dev, &n.pd, &n.scq, &n.scq, &deep));
	raw_close(&n.dev);
}
