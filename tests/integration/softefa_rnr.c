/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that find no receive: how long they wait, and what ends the wait. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

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
