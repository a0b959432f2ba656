/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(ud, .timeout = 60);

enum { LEN = 300 };

static uint32_t lengths[] = {0, 1, 64, 4096, UINT32_MAX}; /* the last: the longest there is */

ParameterizedTestParameters(ud, message_arrives_behind_room_for_a_header)
{
	return cr_make_param_array(uint32_t, lengths, 5);
}

/* Section 4.10: 40 bytes, which the length counts. What is in them is open. */
ParameterizedTest(uint32_t *l, ud, message_arrives_behind_room_for_a_header)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;
	uint32_t len;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	len = *l == UINT32_MAX ? p.a.mtu : *l;
	memset(p.b.buf, 0xee, p.b.bytes);
	bytes_fill(p.a.buf, len, 1);
	hw_recv(&p.b, 1, 0, HW_GRH + len);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, len, 0);
	wr.imm_on = true;
	wr.imm = 0x12345678;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	wc = hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(eq(u32, wc.len, len + HW_GRH));
	cr_assert(eq(u32, wc.imm, 0x12345678));
	cr_assert(ne(uint, wc.flags & IBV_WC_WITH_IMM, 0));
	cr_assert(eq(u32, wc.src_qpn, p.to_a.qpn));
	cr_assert(lt(long, bytes_differ(p.b.buf + HW_GRH, len, 1), 0));
	cr_assert(lt(long, bytes_differ_from(p.b.buf + HW_GRH + len, 1000, 0xee), 0));
	hw_pair_fini(&p);
}

/* Section 4.10: a message is not longer than one of a reliable queue pair. */
Test(ud, message_beyond_the_longest_fails_at_its_sender)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, p.a.mtu + 1, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_LENGTH));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* What is wrong with the message. */
enum loss { NO_RECEIVE, QKEY, QPN, NOBODY, STATE };

ParameterizedTestParameters(ud, sender_does_not_learn_of_a_loss)
{
	static enum loss losses[] = {NO_RECEIVE, QKEY, QPN, NOBODY, STATE};

	return cr_make_param_array(enum loss, losses, 5);
}

/* Sections 4.10, 5.5: it is complete when it is on its way. */
ParameterizedTest(enum loss *l, ud, sender_does_not_learn_of_a_loss)
{
	const union ibv_gid nobody = {.raw = {0xfe, 0x80, [8] = 0x0e, [15] = 0x99}};
	struct hw_pair p;
	struct hw_wr wr;
	struct ibv_ah *ah;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	ah = hw_ah_create(p.a.pd, &nobody);
	cr_assert(ne(ptr, ah, NULL));
	if (*l != NO_RECEIVE)
		hw_recv(&p.b, 1, 0, LEN + HW_GRH);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.qkey ^= *l == QKEY;
	wr.qpn ^= *l == QPN ? 0x5a5a : 0;
	wr.ah = *l == NOBODY ? ah : wr.ah;
	if (*l == STATE)
		MUST_0(-hw_qp_to(p.b.qp, IBV_QPS_RESET));
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(hw_quiet(&p.b.rcq));
	if (*l == NO_RECEIVE) {
		hw_recv(&p.b, 2, 0, LEN + HW_GRH);
		cr_assert(hw_quiet(&p.b.rcq), "it was kept");
	}
	if (*l == STATE)
		MUST_0(-hw_qp_up(p.b.qp, HW_QKEY, -1));
	cr_assert(zero(int, HW(ibv_destroy_ah)(ah)));
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 8, 0);
	hw_recv(&p.b, 3, 0, LEN + HW_GRH);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	hw_wait_for(&p.b.rcq, HW_OK);
	hw_pair_fini(&p);
}

/* Section 4.10. Guess: that the receive is consumed, and its status. */
Test(ud, receive_without_room_for_the_header_is_too_short)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	hw_recv(&p.b, 1, 0, LEN + HW_GRH - 1);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(u64, hw_wait_for(&p.b.rcq, HW_BAD_LENGTH).wr_id, 1));
	hw_pair_fini(&p);
}

/* Section 5.6: what can be seen at the sender is told there. */
Test(ud, wrong_key_of_the_sender_is_told)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.sge[0].lkey ^= 0x7fff;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_LKEY));
	hw_pair_fini(&p);
}

/* Section 4.9. */
Test(ud, rdma_is_refused_when_the_queue_pair_is_made)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {16, 16, 1, 1, 0},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct hw h;

	hw_init(&h, &(struct hw_attr){.ud = true});
	attr.pd = h.pd;
	attr.send_cq = h.scq.cq;
	attr.recv_cq = h.rcq.cq;
	cr_assert(eq(ptr, hw_create_qp_ex(h.ctx, &attr), NULL));
	hw_fini(&h);
}

/* Section 4.9: by the old call, with and without a completion. */
Test(ud, old_call_posts_signaled_sends_only)
{
	struct ibv_qp_init_attr attr = {.cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_send_wr wr = {.wr_id = 5, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_sge sge;
	struct hw_pair p;
	struct ibv_qp *qp;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	attr.send_cq = p.a.scq.cq;
	attr.recv_cq = p.a.rcq.cq;
	qp = HW(ibv_create_qp)(p.a.pd, &attr);
	cr_assert(ne(ptr, qp, NULL));
	MUST_0(-hw_qp_up(qp, HW_QKEY, -1));
	sge = hw_sge(p.a.mr, 0, LEN);
	wr.sg_list = &sge;
	wr.wr.ud.ah = p.ah_b;
	wr.wr.ud.remote_qpn = p.to_b.qpn;
	wr.wr.ud.remote_qkey = p.to_b.qkey;
	hw_recv(&p.b, 1, 0, LEN + HW_GRH);
	cr_assert(eq(int, ibv_post_send(qp, &wr, &bad), EINVAL));
	cr_assert(eq(ptr, bad, &wr));
	wr.send_flags = IBV_SEND_SIGNALED;
	cr_assert(zero(int, ibv_post_send(qp, &wr, &bad)));
	cr_assert(eq(u64, hw_wait_for(&p.a.scq, HW_OK).wr_id, 5));
	cr_assert(eq(u32, hw_wait_for(&p.b.rcq, HW_OK).src_qpn, qp->qp_num));
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	hw_pair_fini(&p);
}

/* Section 4.10: what arrives does so once and whole, even if some does not. */
Test(ud, burst_arrives_at_most_once_and_whole)
{
	enum { N = 32 };
	uint64_t seen = 0;
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.ud = true}, NULL);
	for (uint32_t i = 0; i < N; i++)
		hw_recv(&p.b, i, i * 1024, LEN + HW_GRH);
	for (uint32_t i = 0; i < N; i++) {
		struct hw_wr wr = hw_pair_wr(&p, HW_OP_SEND, i * LEN, LEN, 0);

		bytes_fill(p.a.buf + i * LEN, LEN, i);
		wr.imm_on = true;
		wr.imm = i;
		hw_post(&p.a, &wr);
	}
	for (uint32_t i = 0; i < N; i++)
		hw_wait_for(&p.a.scq, HW_OK);
	kids_nap_us(50000);
	for (struct hw_wc wc; hw_next(&p.b.rcq, &wc);) {
		cr_assert(zero(uint, wc.status));
		cr_assert(lt(u32, wc.imm, N));
		cr_assert(zero(u64, seen >> wc.imm & 1), "message %u comes twice", wc.imm);
		seen |= UINT64_C(1) << wc.imm;
		cr_assert(
			lt(long, bytes_differ(p.b.buf + wc.wr_id * 1024 + HW_GRH, LEN, wc.imm), 0));
	}
	cr_assert(ne(u64, seen, 0), "none has arrived");
	hw_pair_fini(&p);
}
