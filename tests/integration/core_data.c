/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation over loopback, with its data. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "../lib/loop.h"

struct param {
	bool td;
	uint32_t len;
};

/* Around the inline size, the limits of a descriptor, cache lines and blocks, and the odd ones. */
static struct param sends[] = {
	{false, 1}, {false, 32}, {false, 33}, {false, 4096}, {false, 8000},
	{true, 1},  {true, 32},  {true, 33},  {true, 4096},  {true, 8000},
};

static struct param rdmas[] = {
	{false, 1}, {false, 127}, {false, 4097}, {false, 65536}, {false, 262144},
	{true, 1},  {true, 127},  {true, 4097},  {true, 65536},  {true, 262144},
};

static struct param both[] = {{false, 0}, {true, 0}};

#define PARAMS(array) cr_make_param_array(struct param, array, sizeof(array) / sizeof(array[0]))

ParameterizedTestParameters(data, send_arrives)
{
	return PARAMS(sends);
}

ParameterizedTest(struct param *p, data, send_arrives)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.td = p->td});
	loop_fill(l.buf, p->len, 1);
	loop_recv(&l, 77, LOOP_B, p->len);
	wr = loop_wr(&l, IBV_WR_SEND, 0, p->len, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	wc = loop_wait_ok(&l.b_cq);
	cr_assert(eq(u64, wc.wr_id, 77));
	cr_assert(eq(int, wc.opcode, IBV_WC_RECV));
	cr_assert(eq(u32, wc.byte_len, p->len));
	cr_assert(eq(u32, wc.flags, 0));
	cr_assert(loop_filled(l.buf + LOOP_B, p->len, 1));
	cr_assert(zero(u8, l.buf[LOOP_B + p->len]));
	wc = loop_wait_ok(&l.a_cq);
	cr_assert(eq(u64, wc.wr_id, wr.wr_id));
	cr_assert(eq(int, wc.opcode, IBV_WC_SEND));
	loop_fini(&l);
}

ParameterizedTestParameters(data, send_carries_its_immediate)
{
	return PARAMS(both);
}

ParameterizedTest(struct param *p, data, send_carries_its_immediate)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.td = p->td});
	loop_fill(l.buf, 100, 2);
	loop_recv(&l, 1, LOOP_B, 100);
	wr = loop_wr(&l, IBV_WR_SEND_WITH_IMM, 0, 100, 0);
	wr.imm = 0xdeadbeef;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	wc = loop_wait_ok(&l.b_cq);
	cr_assert(eq(u32, wc.flags, SRD_WC_IMM));
	cr_assert(eq(u32, wc.imm, 0xdeadbeef));
	cr_assert(loop_filled(l.buf + LOOP_B, 100, 2));
	loop_wait_ok(&l.a_cq);
	loop_fini(&l);
}

ParameterizedTestParameters(data, inline_send_takes_the_data_at_once)
{
	return PARAMS(both);
}

ParameterizedTest(struct param *p, data, inline_send_takes_the_data_at_once)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.td = p->td, .max_inline = 32});
	loop_fill(l.buf, 32, 3);
	loop_recv(&l, 1, LOOP_B, 32);
	wr = loop_wr(&l, IBV_WR_SEND, 0, 32, 0);
	wr.inl = true;
	wr.sge[0].lkey = 0;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	memset(l.buf, 0, 32);
	loop_wait_ok(&l.b_cq);
	cr_assert(loop_filled(l.buf + LOOP_B, 32, 3));
	loop_wait_ok(&l.a_cq);
	loop_fini(&l);
}

Test(data, inline_send_joins_two_pieces)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.max_inline = 32, .sges = 2});
	loop_fill(l.buf, 24, 4);
	loop_recv(&l, 1, LOOP_B, 24);
	wr = loop_wr(&l, IBV_WR_SEND, 0, 5, 0);
	cr_assert(zero(int, srd_sge(&wr.sge[1], &l.mr, 5, 19)));
	wr.nsge = 2;
	wr.inl = true;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	cr_assert(eq(u32, loop_wait_ok(&l.b_cq).byte_len, 24));
	cr_assert(loop_filled(l.buf + LOOP_B, 24, 4));
	loop_fini(&l);
}

Test(data, send_gathers_two_pieces_and_receive_scatters_them)
{
	struct loop l;
	struct srd_wr wr;
	struct ibv_sge to[2];
	struct ibv_recv_wr recv = {.sg_list = to, .num_sge = 2};

	loop_init(&l, &(struct loop_attr){.sges = 2});
	loop_fill(l.buf, 3000, 5);
	cr_assert(zero(int, srd_sge(&to[0], &l.b_mr, LOOP_B, 700)));
	cr_assert(zero(int, srd_sge(&to[1], &l.b_mr, LOOP_B + 8192, 4000)));
	cr_assert(zero(int, srd_post_recv(&l.b, &recv, NULL)));
	wr = loop_wr(&l, IBV_WR_SEND, 0, 1000, 0);
	cr_assert(zero(int, srd_sge(&wr.sge[1], &l.mr, 1000, 2000)));
	wr.nsge = 2;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	cr_assert(eq(u32, loop_wait_ok(&l.b_cq).byte_len, 3000));
	memmove(l.buf + LOOP_B + 700, l.buf + LOOP_B + 8192, 2300);
	cr_assert(loop_filled(l.buf + LOOP_B, 3000, 5));
	loop_fini(&l);
}

Test(data, send_of_nothing_arrives)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	loop_recv(&l, 9, LOOP_B, 64);
	wr = loop_wr(&l, IBV_WR_SEND_WITH_IMM, 0, 0, 0);
	wr.nsge = 0;
	wr.imm = 5;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	cr_assert(zero(u32, loop_wait_ok(&l.b_cq).byte_len));
	loop_wait_ok(&l.a_cq);
	loop_fini(&l);
}

Test(data, longest_send_arrives)
{
	struct loop l;
	struct srd_wr wr;
	uint32_t len;

	loop_init(&l, &(struct loop_attr){0});
	len = l.dev.attr.max_msg_size;
	loop_fill(l.buf, len, 6);
	loop_recv(&l, 1, LOOP_B, len);
	wr = loop_wr(&l, IBV_WR_SEND, 0, len, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	cr_assert(eq(u32, loop_wait_ok(&l.b_cq).byte_len, len));
	cr_assert(loop_filled(l.buf + LOOP_B, len, 6));
	loop_fini(&l);
}

ParameterizedTestParameters(data, write_lands)
{
	return PARAMS(rdmas);
}

ParameterizedTest(struct param *p, data, write_lands)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.td = p->td, .need = SRD_CAP_RDMA_WRITE});
	loop_fill(l.buf, p->len, 7);
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE, 0, p->len, LOOP_B + 3);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	wc = loop_wait_ok(&l.a_cq);
	cr_assert(eq(int, wc.opcode, IBV_WC_RDMA_WRITE));
	cr_assert(loop_filled(l.buf + LOOP_B + 3, p->len, 7));
	cr_assert(zero(u8, l.buf[LOOP_B + 2]));
	cr_assert(loop_quiet(&l.b_cq), "a plain write is not seen by the receiver");
	loop_fini(&l);
}

ParameterizedTestParameters(data, read_fetches)
{
	return PARAMS(rdmas);
}

ParameterizedTest(struct param *p, data, read_fetches)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.td = p->td, .need = SRD_CAP_RDMA_READ});
	loop_fill(l.buf + LOOP_B, p->len, 8);
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 5, p->len, LOOP_B);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	loop_wait_ok(&l.a_cq);
	cr_assert(loop_filled(l.buf + 5, p->len, 8));
	cr_assert(zero(u8, l.buf[5 + p->len]));
	loop_fini(&l);
}

ParameterizedTestParameters(data, write_with_imm_consumes_a_receive)
{
	return PARAMS(rdmas);
}

ParameterizedTest(struct param *p, data, write_with_imm_consumes_a_receive)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.td = p->td, .need = SRD_CAP_RDMA_WRITE});
	loop_fill(l.buf, p->len, 9);
	loop_recv(&l, 42, 0, 1);
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 0, p->len, LOOP_B);
	wr.imm = 0x01020304;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	wc = loop_wait_ok(&l.b_cq);
	cr_assert(eq(u64, wc.wr_id, 42));
	cr_assert(eq(int, wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM));
	cr_assert(eq(u32, wc.flags, SRD_WC_IMM));
	cr_assert(eq(u32, wc.imm, 0x01020304));
	cr_assert(eq(u32, wc.byte_len, p->len));
	cr_assert(loop_filled(l.buf + LOOP_B, p->len, 9));
	cr_assert(eq(int, loop_wait_ok(&l.a_cq).opcode, IBV_WC_RDMA_WRITE));
	loop_fini(&l);
}

ParameterizedTestParameters(data, unsolicited_write_with_imm_needs_no_receive)
{
	return PARAMS(rdmas);
}

ParameterizedTest(struct param *p, data, unsolicited_write_with_imm_needs_no_receive)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l,
		  &(struct loop_attr){.td = p->td, .a_unsolicited = true, .b_unsolicited = true});
	loop_fill(l.buf, p->len, 10);
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 0, p->len, LOOP_B);
	wr.imm = 0xffffffff;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	wc = loop_wait_ok(&l.b_cq);
	cr_assert(zero(u64, wc.wr_id));
	cr_assert(eq(u32, wc.flags, SRD_WC_IMM | SRD_WC_UNSOLICITED));
	cr_assert(eq(u32, wc.imm, 0xffffffff));
	cr_assert(eq(u32, wc.byte_len, p->len));
	cr_assert(loop_filled(l.buf + LOOP_B, p->len, 10));
	loop_fini(&l);
}

Test(data, write_of_nothing_still_carries_its_immediate)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.a_unsolicited = true, .b_unsolicited = true});
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, LOOP_B);
	wr.nsge = 0;
	wr.imm = 11;
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	wc = loop_wait_ok(&l.b_cq);
	cr_assert(eq(u32, wc.imm, 11));
	cr_assert(zero(u32, wc.byte_len));
	loop_fini(&l);
}

Test(data, queue_pair_may_talk_to_itself)
{
	struct loop l;
	struct srd_peer self;
	struct srd_ep ep;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	srd_ep_local(&l.a, &ep);
	cr_assert(zero(int, srd_peer_init(&self, &l.pd, &ep)));
	loop_fill(l.buf + LOOP_B, 1, 12);
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, 1, LOOP_B);
	wr.to = &self;
	wc = loop_run(&l, &wr);
	cr_assert(zero(int, srd_wc_err(&wc)));
	cr_assert(loop_filled(l.buf, 1, 12));
	srd_peer_fini(&self);
	loop_fini(&l);
}
