/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: batches, full queues, what is refused. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "../lib/loop.h"

enum { LEN = 64 };

/* Post one by one until the queue refuses; returns how many it took. */
static uint32_t fill_queue(struct loop *l, const struct srd_wr *wr)
{
	uint32_t n = 0;
	int rc;

	while ((rc = srd_post(&l->a, wr, 1)) == 0)
		n++;
	cr_assert(eq(int, rc, -EAGAIN));
	return n;
}

Test(post, batch_arrives_whole)
{
	enum { N = 48 };
	bool seen[N] = {false};
	struct srd_wr wr[N];
	struct srd_wc wc[N];
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	for (uint32_t i = 0; i < N; i++) {
		loop_fill(l.buf + i * LEN, LEN, i);
		loop_recv(&l, i, LOOP_B + i * LEN, LEN);
		wr[i] = loop_wr(&l, IBV_WR_SEND_WITH_IMM, i * LEN, LEN, 0);
		wr[i].imm = i;
		wr[i].wr_id = 1000 + i;
	}
	cr_assert(zero(int, srd_post(&l.a, wr, N)));
	loop_wait(&l.b_cq, wc, N);
	for (int i = 0; i < N; i++) {
		cr_assert(zero(int, srd_wc_err(&wc[i])));
		cr_assert(lt(u32, wc[i].imm, N));
		cr_assert(not(seen[wc[i].imm]), "message %u came twice", wc[i].imm);
		seen[wc[i].imm] = true;
		/* The receive it landed in need not be the one of the same index. */
		cr_assert(loop_filled(l.buf + LOOP_B + wc[i].wr_id * LEN, LEN, wc[i].imm));
	}
	loop_fini(&l);
}

Test(post, each_request_of_a_batch_completes_once)
{
	enum { N = 64 };
	bool seen[N] = {false};
	struct srd_wr wr[N];
	struct srd_wc wc[N];
	struct loop l;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	for (int i = 0; i < N; i++) {
		wr[i] = loop_wr(&l, IBV_WR_RDMA_READ, i * LEN, LEN, LOOP_B);
		wr[i].wr_id = i;
	}
	cr_assert(zero(int, srd_post(&l.a, wr, N)));
	loop_wait(&l.a_cq, wc, N);
	for (int i = 0; i < N; i++) {
		cr_assert(lt(u64, wc[i].wr_id, N));
		cr_assert(not(seen[wc[i].wr_id]));
		seen[wc[i].wr_id] = true;
	}
	cr_assert(loop_quiet(&l.a_cq));
	loop_fini(&l);
}

Test(post, batch_of_mixed_operations_runs)
{
	struct loop l;
	struct srd_wr wr[3];
	struct srd_wc wc[3];

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ | SRD_CAP_RDMA_WRITE});
	loop_fill(l.buf, LEN, 1);
	loop_fill(l.buf + LOOP_B, LEN, 2);
	loop_recv(&l, 1, LOOP_B + 4096, LEN);
	wr[0] = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr[1] = loop_wr(&l, IBV_WR_RDMA_WRITE, 0, LEN, LOOP_B + 8192);
	wr[2] = loop_wr(&l, IBV_WR_RDMA_READ, 4096, LEN, LOOP_B);
	cr_assert(zero(int, srd_post(&l.a, wr, 3)));
	loop_wait(&l.a_cq, wc, 3);
	loop_wait_ok(&l.b_cq);
	cr_assert(loop_filled(l.buf + LOOP_B + 4096, LEN, 1));
	cr_assert(loop_filled(l.buf + LOOP_B + 8192, LEN, 1));
	cr_assert(loop_filled(l.buf + 4096, LEN, 2));
	loop_fini(&l);
}

Test(post, batch_with_an_operation_the_queue_pair_lacks_posts_nothing)
{
	struct loop l;
	struct srd_wr wr[3];

	loop_init(&l, &(struct loop_attr){.type = SRD_QP_UD});
	for (int i = 0; i < 3; i++)
		wr[i] = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr[2].op = IBV_WR_RDMA_READ;
	cr_assert(eq(int, srd_post(&l.a, wr, 3), -EOPNOTSUPP));
	cr_assert(loop_quiet(&l.a_cq));
	/* All slots are still there. */
	cr_assert(eq(u32, fill_queue(&l, wr), l.a.sq_depth));
	loop_fini(&l);
}

Test(post, opcode_that_efa_has_not_is_refused)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	wr = loop_wr(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EOPNOTSUPP));
	wr.op = (enum ibv_wr_opcode)1000;
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EOPNOTSUPP));
	loop_fini(&l);
}

Test(post, batch_larger_than_the_room_posts_nothing)
{
	struct loop l;
	struct srd_wr wr[4];
	uint32_t depth;

	loop_init(&l, &(struct loop_attr){.rnr_retry = 7});
	depth = l.a.sq_depth;
	for (int i = 0; i < 4; i++)
		wr[i] = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	for (uint32_t i = 0; i < depth - 3; i++)
		cr_assert(zero(int, srd_post(&l.a, wr, 1)));
	cr_assert(eq(int, srd_post(&l.a, wr, 4), -EAGAIN));
	cr_assert(zero(int, srd_post(&l.a, wr, 3)));
	cr_assert(eq(int, srd_post(&l.a, wr, 1), -EAGAIN));
	loop_fini(&l);
}

Test(post, polling_makes_room_in_a_full_queue)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc *wc;
	uint32_t depth;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	depth = l.a.sq_depth;
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	wc = calloc(depth, sizeof(*wc));
	for (int round = 0; round < 3; round++) {
		cr_assert(eq(u32, fill_queue(&l, &wr), depth));
		loop_wait(&l.a_cq, wc, depth);
	}
	free(wc);
	loop_fini(&l);
}

Test(post, batch_larger_than_the_queue_can_never_be_posted)
{
	struct loop l;
	struct srd_wr *wr;
	uint32_t n;

	loop_init(&l, &(struct loop_attr){0});
	n = l.a.sq_depth + 1;
	wr = calloc(n, sizeof(*wr));
	for (uint32_t i = 0; i < n; i++)
		wr[i] = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	cr_assert(eq(int, srd_post(&l.a, wr, n), -EINVAL));
	free(wr);
	loop_fini(&l);
}

Test(post, batch_of_none_does_nothing)
{
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_post(&l.a, NULL, 0)));
	cr_assert(loop_quiet(&l.a_cq));
	loop_fini(&l);
}

Test(post, second_piece_of_an_rdma_is_refused)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.sges = 2, .need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	wr.sge[1] = wr.sge[0];
	wr.nsge = 2;
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EINVAL));
	loop_fini(&l);
}

Test(post, more_pieces_than_the_queue_pair_takes_are_refused)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.sges = 1});
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr.sge[1] = wr.sge[0];
	wr.nsge = 2;
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EINVAL));
	wr.nsge = 3;
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EINVAL));
	loop_fini(&l);
}

Test(post, inline_data_above_the_limit_are_refused)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.max_inline = 32});
	wr = loop_wr(&l, IBV_WR_SEND, 0, 33, 0);
	wr.inl = true;
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EINVAL));
	loop_fini(&l);
}

Test(post, inline_data_of_an_rdma_are_refused)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.max_inline = 32, .need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, 8, LOOP_B);
	wr.inl = true;
	cr_assert(eq(int, srd_post(&l.a, &wr, 1), -EINVAL));
	loop_fini(&l);
}

Test(post, queue_pair_that_is_not_prepared_refuses)
{
	struct loop l;
	struct srd_qp qp;
	struct srd_wr wr;
	struct loop_attr attr = {0};
	struct srd_qp_attr qp_attr;

	loop_init(&l, &attr);
	qp_attr = loop_qp_attr(&l, &attr);
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &qp_attr)));
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	cr_assert(eq(int, srd_post(&qp, &wr, 1), -EINVAL));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(post, thousands_of_messages_wrap_the_rings)
{
	enum { N = 5000 };
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.td = true, .depth = 16});
	for (uint32_t i = 0; i < N; i++) {
		loop_fill(l.buf, LEN, i);
		loop_recv(&l, i, LOOP_B, LEN);
		wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
		wr.wr_id = i;
		cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
		wc = loop_wait_ok(&l.b_cq);
		cr_assert(eq(u64, wc.wr_id, i));
		cr_assert(loop_filled(l.buf + LOOP_B, LEN, i));
		wc = loop_wait_ok(&l.a_cq);
		cr_assert(eq(u64, wc.wr_id, i));
	}
	loop_fini(&l);
}

Test(post, full_receive_queue_names_the_first_not_posted)
{
	struct loop l;
	struct ibv_sge sge;
	struct ibv_recv_wr wr[3] = {
		{.next = &wr[1], .sg_list = &sge, .num_sge = 1},
		{.next = &wr[2], .sg_list = &sge, .num_sge = 1},
		{.sg_list = &sge, .num_sge = 1},
	};
	struct ibv_recv_wr *bad = NULL;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_sge(&sge, &l.b_mr, LOOP_B, LEN)));
	for (uint32_t i = 0; i < l.b.rq_depth - 2; i++)
		loop_recv(&l, i, LOOP_B, LEN);
	cr_assert(eq(int, srd_post_recv(&l.b, wr, &bad), -EAGAIN));
	cr_assert(eq(ptr, bad, &wr[2]));
	loop_fini(&l);
}

Test(post, receive_without_pieces_is_refused_and_none_is_posted)
{
	struct loop l;
	struct ibv_sge sge;
	struct ibv_recv_wr wr[2] = {
		{.next = &wr[1], .sg_list = &sge, .num_sge = 1},
		{.num_sge = 0},
	};
	struct ibv_recv_wr *bad = NULL;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_sge(&sge, &l.b_mr, LOOP_B, LEN)));
	cr_assert(eq(int, srd_post_recv(&l.b, wr, &bad), -EINVAL));
	cr_assert(eq(ptr, bad, &wr[0]));
	for (uint32_t i = 0; i < l.b.rq_depth; i++)
		loop_recv(&l, i, LOOP_B, LEN);
	loop_fini(&l);
}

Test(post, receive_longer_than_a_descriptor_can_say_is_refused)
{
	struct loop l;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_sge(&sge, &l.b_mr, LOOP_B, 65536)));
	cr_assert(eq(int, srd_post_recv(&l.b, &wr, NULL), -EINVAL));
	sge.length = 65535;
	cr_assert(zero(int, srd_post_recv(&l.b, &wr, NULL)));
	loop_fini(&l);
}
