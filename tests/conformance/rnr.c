/* SPDX-License-Identifier: BSD-3-Clause */
/* Receivers that are not ready. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(rnr, .timeout = 60);

enum { LEN = 512, FOREVER = 7 };

static int waiting[] = {0, FOREVER + 1}; /* rnr + 1: left to the device, and set */

ParameterizedTestParameters(rnr, message_waits_until_a_receive_is_posted)
{
	return cr_make_param_array(int, waiting, 2);
}

/* Section 5.3: 7 is without end, and what a queue pair has when nothing was set. */
ParameterizedTest(int *rnr, rnr, message_waits_until_a_receive_is_posted)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.rnr = *rnr}, NULL);
	bytes_fill(p.a.buf, LEN, 1);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	hw_post(&p.a, &wr);
	cr_assert(hw_quiet(&p.a.scq));
	kids_nap_us(100000);
	cr_assert(hw_quiet(&p.a.scq));
	hw_recv(&p.b, 1, 0, LEN);
	hw_wait_for(&p.a.scq, HW_OK);
	hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(lt(long, bytes_differ(p.b.buf, LEN, 1), 0));
	hw_pair_fini(&p);
}

static int budgets[] = {0, 1, 3, 6};

ParameterizedTestParameters(rnr, message_fails_when_its_retries_are_used_up)
{
	return cr_make_param_array(int, budgets, 4);
}

/* Section 5.3. Guess: how long a retry takes. The message does not come later, either. */
ParameterizedTest(int *retries, rnr, message_fails_when_its_retries_are_used_up)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.rnr = *retries + 1}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	for (unsigned i = 0; i < 5; i++)
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_RNR));
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(hw_quiet(&p.b.rcq));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 5.3. */
Test(rnr, retries_beyond_seven_are_refused)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .rnr_retry = 8};
	struct hw h;

	hw_init(&h, &(struct hw_attr){.need = HW_RNR_RETRY});
	cr_assert(zero(int, hw_qp_to(h.qp, IBV_QPS_RESET)));
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	cr_assert(zero(int, HW(ibv_modify_qp)(h.qp, &attr,
					      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						      IBV_QP_QKEY)));
	cr_assert(zero(int, hw_qp_to(h.qp, IBV_QPS_RTR)));
	attr.qp_state = IBV_QPS_RTS;
	cr_assert(
		ne(int,
		   HW(ibv_modify_qp)(h.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY),
		   0));
	attr.rnr_retry = 7;
	cr_assert(zero(int, HW(ibv_modify_qp)(h.qp, &attr,
					      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY)));
	hw_fini(&h);
}

/* Section 5.3: the retries are the requester's, whatever the receiver has set. */
Test(rnr, retries_are_those_of_the_sender)
{
	struct hw_attr b = {.rnr = 1};
	struct hw_pair p;
	struct hw_wr wr;

	memset(&p, 0, sizeof(p));
	hw_init(&p.a, &(struct hw_attr){.rnr = FOREVER + 1});
	b.with = &p.a;
	hw_init(&p.b, &b);
	p.to_b = hw_addr(&p.b);
	p.ah_b = hw_ah(&p.a, &p.to_b);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	hw_post(&p.a, &wr);
	cr_assert(hw_quiet(&p.a.scq));
	hw_recv(&p.b, 1, 0, LEN);
	hw_wait_for(&p.a.scq, HW_OK);
	hw_pair_fini(&p);
}

/* Sections 5.1, 5.3: what waits holds up nothing else of the queue pair. */
Test(rnr, others_pass_the_message_that_waits)
{
	struct hw_addr to;
	struct hw_pair p;
	struct hw_wr wr;
	struct hw c;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_init(&c, &(struct hw_attr){.with = &p.a});
	to = hw_addr(&c);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.wr_id = 1;
	hw_post(&p.a, &wr);
	hw_recv(&c, 1, 0, LEN);
	wr = hw_wr(&p.a, HW_OP_SEND, &to, p.ah_b, 0, LEN, 0);
	wr.wr_id = 2;
	cr_assert(eq(u64, hw_run(&p.a, &wr).wr_id, 2));
	hw_wait_for(&c.rcq, HW_OK);
	if (p.a.dev.device_caps & HW_READ) {
		wr = hw_pair_wr(&p, HW_OP_READ, 0, LEN, 0);
		wr.wr_id = 3;
		cr_assert(eq(u64, hw_run(&p.a, &wr).wr_id, 3));
	}
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(eq(u64, hw_wait_for(&p.a.scq, HW_OK).wr_id, 1));
	hw_fini(&c);
	hw_pair_fini(&p);
}

/* Section 5.3: each receive lets one through, whichever it is. */
Test(rnr, each_receive_ends_one_wait)
{
	enum { N = 32 };
	uint32_t seen = 0;
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	for (uint32_t i = 0; i < N; i++) {
		struct hw_wr wr = hw_pair_wr(&p, HW_OP_SEND, i * LEN, LEN, 0);

		bytes_fill(p.a.buf + i * LEN, LEN, i);
		wr.wr_id = wr.imm = i;
		wr.imm_on = true;
		hw_post(&p.a, &wr);
	}
	cr_assert(hw_quiet(&p.a.scq));
	for (uint32_t n = 0; n < N; n++) {
		struct hw_wc wc;

		hw_recv(&p.b, n, n * LEN, LEN);
		wc = hw_wait_for(&p.b.rcq, HW_OK);
		cr_assert(lt(long, bytes_differ(p.b.buf + wc.wr_id * LEN, LEN, wc.imm), 0));
		cr_assert(lt(u32, wc.imm, N));
		cr_assert(zero(u32, seen & 1u << wc.imm), "message %u comes twice", wc.imm);
		seen |= 1u << wc.imm;
		cr_assert(eq(u64, hw_wait_for(&p.a.scq, HW_OK).wr_id, wc.imm));
	}
	cr_assert(hw_quiet(&p.b.rcq));
	hw_pair_fini(&p);
}

/* Section 5.3: a write with immediate takes a receive for that alone; its data may be there early.
 */
Test(rnr, write_with_immediate_waits_for_a_receive_and_leaves_its_buffer_alone)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE}, NULL);
	bytes_fill(p.a.buf, LEN, 1);
	memset(p.b.buf + 4096, 0xee, LEN);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 0);
	wr.imm_on = true;
	wr.imm = 0x01020304;
	hw_post(&p.a, &wr);
	cr_assert(hw_quiet(&p.a.scq));
	cr_assert(hw_quiet(&p.b.rcq));
	hw_recv(&p.b, 8, 4096, LEN);
	hw_wait_for(&p.a.scq, HW_OK);
	wc = hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(eq(u64, wc.wr_id, 8));
	cr_assert(eq(u32, wc.imm, 0x01020304));
	cr_assert(lt(long, bytes_differ(p.b.buf, LEN, 1), 0));
	cr_assert(lt(long, bytes_differ_from(p.b.buf + 4096, LEN, 0xee), 0));
	hw_pair_fini(&p);
}

/* Section 5.3. Guess: that a write with immediate has the same retries. */
Test(rnr, write_with_immediate_fails_when_its_retries_are_used_up)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.rnr = 1, .need = HW_WRITE}, NULL);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 0);
	wr.imm_on = true;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_RNR));
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(hw_quiet(&p.b.rcq));
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	hw_wait_for(&p.b.rcq, HW_OK);
	hw_pair_fini(&p);
}

/* Section 5.3: an error that the receiver sees without a receive is told at once. */
Test(rnr, wrong_key_is_told_without_a_receive)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE}, NULL);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 0);
	wr.imm_on = true;
	wr.rkey ^= 0x7fff;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_RKEY));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}
