/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is particular to direct CQs: they count what may complete. All tests of the core run on
 * direct CQs as well (LOOP_CQ). Needs an EFA or softefa.
 */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/loop.h"

enum { LEN = 64, CQE = 32 };

static void init(struct loop *l, struct loop_attr attr)
{
	setenv("LOOP_CQ", "direct", 1);
	attr.depth = CQE / 4;
	attr.need |= SRD_CAP_RDMA_READ;
	loop_init(l, &attr);
	cr_assert(eq(int, l->a_cq.cqe, CQE));
}

/* @n queue pairs on A's CQ, which are half of what fills it with their sends alone. */
static void add_qps(struct loop *l, struct srd_qp *qp, int n)
{
	struct srd_qp_attr attr = loop_qp_attr(l, &(struct loop_attr){.depth = CQE / 2});

	for (int i = 0; i < n; i++) {
		cr_assert(zero(int, srd_qp_init(&qp[i], &l->pd, &attr)));
		cr_assert(zero(int, srd_qp_prepare(&qp[i], LOOP_QKEY + 3, SRD_RNR_DEFAULT)));
	}
}

/* Reads until there is no room; how many. */
static int fill(struct loop *l, struct srd_qp *qp)
{
	struct srd_wr wr = loop_wr(l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	int n = 0, rc;

	while ((rc = srd_post(qp, &wr, 1)) == 0)
		n++;
	cr_assert(eq(int, rc, -EAGAIN));
	return n;
}

Test(direct_cq, requests_beyond_its_entries_wait)
{
	struct srd_wc wc[CQE];
	struct srd_qp qp[3];
	struct loop l;

	init(&l, (struct loop_attr){0});
	add_qps(&l, qp, 3);
	cr_assert(eq(int, fill(&l, &qp[0]), CQE / 2));
	cr_assert(eq(int, fill(&l, &qp[1]), CQE / 2));
	cr_assert(zero(int, fill(&l, &qp[2])));
	loop_wait(&l.a_cq, wc, 3);
	cr_assert(eq(int, fill(&l, &qp[2]), 3));
	loop_wait(&l.a_cq, wc, CQE);
	for (int i = 0; i < CQE; i++)
		cr_assert(zero(int, srd_wc_err(&wc[i])));
	cr_assert(loop_quiet(&l.a_cq));
	for (int i = 0; i < 3; i++)
		srd_qp_fini(&qp[i]);
	loop_fini(&l);
}

Test(direct_cq, receives_take_entries_too)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad = NULL;
	struct srd_qp qp[3];
	struct loop l;

	init(&l, (struct loop_attr){0});
	add_qps(&l, qp, 3);
	sge = (struct ibv_sge){.addr = (uintptr_t)l.buf, .length = LEN, .lkey = l.mr.lkey};
	for (int i = 0; i < CQE; i++)
		cr_assert(zero(int, srd_post_recv(&qp[i / (CQE / 2)], &wr, &bad)));
	cr_assert(eq(int, srd_post_recv(&qp[2], &wr, &bad), -EAGAIN));
	cr_assert(eq(ptr, bad, &wr));
	cr_assert(zero(int, fill(&l, &l.a)));
	srd_qp_fini(&qp[0]);
	cr_assert(eq(int, fill(&l, &l.a), CQE / 4));
	srd_qp_fini(&qp[1]);
	srd_qp_fini(&qp[2]);
	loop_fini(&l);
}

/*
 * Each queue pair leaves behind receives that nobody sent to, and completions that nobody polled.
 */
Test(direct_cq, destroyed_queue_pairs_give_back_their_entries)
{
	enum { SETTLE_US = 3000 };
	struct srd_wc wc;
	struct srd_qp qp;
	struct loop l;

	init(&l, (struct loop_attr){0});
	for (int round = 0; round < 3 * CQE; round++) {
		struct ibv_sge sge = {(uintptr_t)l.buf, LEN, l.mr.lkey};
		struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};

		add_qps(&l, &qp, 1);
		for (int i = 0; i < CQE / 4; i++)
			cr_assert(zero(int, srd_post_recv(&qp, &recv, NULL)));
		cr_assert(eq(int, fill(&l, &qp), CQE / 2));
		if (round % 2)
			usleep(SETTLE_US);
		srd_qp_fini(&qp);
		cr_assert(zero(int, srd_cq_poll(&l.a_cq, &wc, 1)));
	}
	cr_assert(eq(int, fill(&l, &l.a), CQE / 4));
	loop_fini(&l);
}

Test(direct_cq, queue_pair_on_one_direct_cq_and_one_that_is_not_is_refused)
{
	struct srd_cq plain;
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, (struct loop_attr){0});
	cr_assert(zero(int, srd_cq_init(&plain, &l.dev, &(struct srd_cq_attr){.cqe = CQE})));
	attr = loop_qp_attr(&l, &(struct loop_attr){0});
	attr.recv_cq = &plain;
	cr_assert(eq(int, srd_qp_init(&qp, &l.pd, &attr), -EINVAL));
	srd_cq_fini(&plain);
	loop_fini(&l);
}

Test(direct_cq, queue_pair_that_is_not_prepared_takes_no_receive)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad = NULL;
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, (struct loop_attr){0});
	attr = loop_qp_attr(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	sge = (struct ibv_sge){.addr = (uintptr_t)l.buf, .length = LEN, .lkey = l.mr.lkey};
	cr_assert(eq(int, srd_post_recv(&qp, &wr, &bad), -EINVAL));
	cr_assert(eq(ptr, bad, &wr));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

/* Above 32 bytes requests of 128 bytes are used; many more than the ring holds, of both kinds. */
Test(direct_cq, long_requests_carry_80_bytes_inline)
{
	enum { MAX = 80, ROUNDS = 100 };
	struct loop l;

	setenv("SOFTEFA_SET", "inline_size_ex=80", 1);
	init(&l, (struct loop_attr){.max_inline = MAX, .sges = 2});
	cr_assert(ge(u32, l.a.max_inline, MAX));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t len = i % (MAX + 1);
		struct srd_wr wr = loop_wr(&l, IBV_WR_SEND, 0, len, 0);

		loop_fill(l.buf, len, i);
		memset(l.buf + LOOP_B, 0xee, MAX + 1);
		wr.inl = i % 3 != 0;
		loop_recv(&l, i, LOOP_B, MAX + 1);
		cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
		loop_wait_ok(&l.a_cq);
		cr_assert(eq(u32, loop_wait_ok(&l.b_cq).byte_len, len));
		cr_assert(loop_filled(l.buf + LOOP_B, len, i));
		cr_assert(eq(u8, l.buf[LOOP_B + len], 0xee));
	}
	loop_fini(&l);
}
