/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable datagrams. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "../lib/loop.h"

enum { PREFIX = 40, LEN = 500 };

Test(ud, received_datagram_follows_a_prefix_of_40_bytes)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.type = SRD_QP_UD});
	loop_fill(l.buf, LEN, 1);
	loop_recv(&l, 5, LOOP_B, PREFIX + LEN);
	wr = loop_wr(&l, IBV_WR_SEND_WITH_IMM, 0, LEN, 0);
	wr.imm = 99;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	loop_wait_ok(&l.a_cq);
	wc = loop_wait_ok(&l.b_cq);
	cr_assert(eq(u64, wc.wr_id, 5));
	cr_assert(eq(u32, wc.byte_len, PREFIX + LEN));
	cr_assert(eq(u32, wc.imm, 99));
	cr_assert(loop_filled(l.buf + LOOP_B + PREFIX, LEN, 1));
	loop_fini(&l);
}

Test(ud, datagram_without_a_receive_is_sent_and_lost)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.type = SRD_QP_UD});
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	loop_wait_ok(&l.a_cq);
	cr_assert(loop_quiet(&l.b_cq));
	loop_recv(&l, 5, LOOP_B, PREFIX + LEN);
	cr_assert(loop_quiet(&l.b_cq), "it is not kept until there is a receive");
	loop_fini(&l);
}

Test(ud, datagram_with_a_wrong_qkey_is_lost)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.type = SRD_QP_UD});
	loop_recv(&l, 5, LOOP_B, PREFIX + LEN);
	l.to_b.qkey++;
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	loop_wait_ok(&l.a_cq);
	cr_assert(loop_quiet(&l.b_cq));
	loop_fini(&l);
}

Test(ud, rdma_is_not_there)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.type = SRD_QP_UD});
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE, 0, LEN, LOOP_B);
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EOPNOTSUPP));
	loop_fini(&l);
}
