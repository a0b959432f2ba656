/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes, with and without immediate. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(rdma, .timeout = 60);

enum { LEN = 5000 };

/* Section 4.4: of a write there is nothing to see at the target but its bytes. */
Test(rdma, write_and_read_leave_no_trace_at_the_target)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE | HW_READ}, NULL);
	hw_recv(&p.b, 1, 0, LEN);
	bytes_fill(p.a.buf, LEN, 1);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 100);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(lt(long, bytes_differ(p.b.buf + 100, LEN, 1), 0));
	wr = hw_pair_wr(&p, HW_OP_READ, 20000, LEN, 100);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(lt(long, bytes_differ(p.a.buf + 20000, LEN, 1), 0));
	cr_assert(hw_quiet(&p.b.rcq));
	cr_assert(hw_quiet(&p.b.scq));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

static uint32_t lengths[] = {0, 1, LEN, 60000};

ParameterizedTestParameters(rdma, write_with_immediate_takes_a_receive)
{
	return cr_make_param_array(uint32_t, lengths, 4);
}

/* Sections 4.4, 5.3: the completion tells the length and whose it is. */
ParameterizedTest(uint32_t *len, rdma, write_with_immediate_takes_a_receive)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE}, NULL);
	bytes_fill(p.a.buf, *len, 1);
	hw_recv(&p.b, 3, 0, 0); /* it need not have a byte */
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, *len, 0);
	wr.imm_on = true;
	wr.imm = 0xfedcba98;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	wc = hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(eq(u64, wc.wr_id, 3));
	cr_assert(eq(u32, wc.len, *len));
	cr_assert(eq(u32, wc.imm, 0xfedcba98));
	cr_assert(ne(uint, wc.flags & IBV_WC_WITH_IMM, 0));
	cr_assert(eq(int, (int)wc.op, IBV_WC_RECV_RDMA_WITH_IMM));
	cr_assert(eq(u32, wc.src_qpn, p.to_a.qpn));
	cr_assert(eq(int, wc.ahn, hw_ahn(p.ah_a)));
	cr_assert(lt(long, bytes_differ(p.b.buf, *len, 1), 0));
	hw_pair_fini(&p);
}

/* Section 4.4: a length beyond 16 bits. */
Test(rdma, write_with_immediate_tells_a_length_of_32_bits)
{
	enum { BYTES = 3 << 20 };
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE, .bytes = BYTES}, NULL);
	if (p.a.dev.max_rdma_size < BYTES)
		cr_skip("the device moves no more than %u bytes", p.a.dev.max_rdma_size);
	hw_recv(&p.b, 3, 0, 0);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, BYTES, 0);
	wr.imm_on = true;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(u32, hw_wait_for(&p.b.rcq, HW_OK).len, BYTES));
	hw_pair_fini(&p);
}

static const enum hw_op ops[] = {HW_OP_READ, HW_OP_WRITE};

/* Section 5.6. Guess: that the end of a region is an address of it, when there is no byte there. */
Test(rdma, transfer_of_nothing_succeeds)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE | HW_READ}, NULL);
	for (unsigned i = 0; i < 2; i++) {
		wr = hw_pair_wr(&p, ops[i], 0, 0, 0);
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		wr.raddr += p.b.bytes;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK), "at the end");
	}
	hw_pair_fini(&p);
}

/* Section 5.1: many at once, to where each belongs. */
Test(rdma, reads_under_way_together_do_not_mix)
{
	enum { N = 64, BYTES = 900 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ}, NULL);
	for (uint32_t i = 0; i < N; i++)
		bytes_fill(p.b.buf + i * BYTES, BYTES, i);
	for (uint32_t i = 0; i < N; i++) {
		struct hw_wr wr = hw_pair_wr(&p, HW_OP_READ, i * BYTES, BYTES, (N - 1 - i) * BYTES);

		wr.wr_id = i;
		hw_post(&p.a, &wr);
	}
	for (uint32_t n = 0; n < N; n++) {
		uint64_t i = hw_wait_for(&p.a.scq, HW_OK).wr_id;

		cr_assert(lt(u64, i, N));
		cr_assert(lt(long, bytes_differ(p.a.buf + i * BYTES, BYTES, (uint32_t)(N - 1 - i)),
			     0));
	}
	hw_pair_fini(&p);
}

/* ---- unsolicited ---- */

static void unsolicited_init(struct hw_pair *p, bool a, bool b)
{
	struct hw_attr attr = {.unsolicited = a, .told = true, .need = HW_UNSOLICITED | HW_WRITE};
	struct hw_attr other = attr;

	other.unsolicited = b;
	memset(p, 0, sizeof(*p));
	hw_init(&p->a, &attr);
	other.with = &p->a;
	hw_init(&p->b, &other);
	p->to_a = hw_addr(&p->a);
	p->to_b = hw_addr(&p->b);
	p->ah_b = hw_ah(&p->a, &p->to_b);
	p->ah_a = hw_ah(&p->b, &p->to_a);
}

/* Sections 4.4, 5.3: no receive is taken, and none need be there. */
Test(rdma, unsolicited_write_needs_no_receive)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	unsolicited_init(&p, true, true);
	for (uint32_t i = 0; i < 100; i++) {
		bytes_fill(p.a.buf, LEN, i);
		wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 0);
		wr.imm_on = true;
		wr.imm = i;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		wc = hw_wait_for(&p.b.rcq, HW_OK);
		cr_assert(wc.unsolicited);
		cr_assert(eq(u32, wc.imm, i));
		cr_assert(eq(u32, wc.len, LEN));
		cr_assert(eq(u32, wc.src_qpn, p.to_a.qpn));
		cr_assert(lt(long, bytes_differ(p.b.buf, LEN, i), 0));
	}
	hw_pair_fini(&p);
}

/* Section 5.3: receives are for sends then. */
Test(rdma, unsolicited_write_leaves_receives_to_sends)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	unsolicited_init(&p, true, true);
	hw_recv(&p.b, 7, 32768, LEN);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 0);
	wr.imm_on = true;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(hw_wait_for(&p.b.rcq, HW_OK).unsolicited);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	wc = hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(not(wc.unsolicited));
	cr_assert(eq(u64, wc.wr_id, 7));
	hw_pair_fini(&p);
}

struct mismatch {
	bool a, b;
};

ParameterizedTestParameters(rdma, write_with_immediate_needs_both_ends_to_agree)
{
	static struct mismatch both[] = {{true, false}, {false, true}};

	return cr_make_param_array(struct mismatch, both, 2);
}

/* Section 4.8: all else works between such ends. Guess: that nothing was written. */
ParameterizedTest(struct mismatch *m, rdma, write_with_immediate_needs_both_ends_to_agree)
{
	struct hw_pair p;
	struct hw_wr wr;

	unsolicited_init(&p, m->a, m->b);
	memset(p.b.buf, 0xee, LEN);
	hw_recv(&p.b, 1, 32768, LEN);
	wr = hw_pair_wr(&p, HW_OP_WRITE, 0, LEN, 0);
	wr.imm_on = true;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_MISMATCH));
	cr_assert(hw_quiet(&p.b.rcq));
	cr_assert(lt(long, bytes_differ_from(p.b.buf, LEN, 0xee), 0));
	wr.imm_on = false;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	wr.op = HW_OP_SEND;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	hw_wait_for(&p.b.rcq, HW_OK);
	hw_pair_fini(&p);
}

/* Section 3.3: what the device lacks is refused when the queue pair is made. */
Test(rdma, operation_that_the_device_lacks_is_refused)
{
	static const struct {
		uint64_t op;
		uint32_t cap;
	} lacks[] = {{IBV_QP_EX_WITH_RDMA_READ, HW_READ}, {IBV_QP_EX_WITH_RDMA_WRITE, HW_WRITE}};
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp_init_attr_ex attr = {
		.cap = {16, 16, 1, 1, 0},
		.qp_type = IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	attr.pd = h.pd;
	attr.send_cq = h.scq.cq;
	attr.recv_cq = h.rcq.cq;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp *qp;

		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | lacks[i].op;
		qp = HW(efadv_create_qp_ex)(h.ctx, &attr, &efa, sizeof(efa));
		cr_assert(eq(int, qp != NULL, (h.dev.device_caps & lacks[i].cap) != 0));
		MUST_0(qp ? -HW(ibv_destroy_qp)(qp) : 0);
	}
	hw_fini(&h);
}
