/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends: of objects that others need, and of those with work under way. "Guess": nobody saw it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(destroy, .timeout = 60);

enum { LEN = 128 };

/* ---- what is in use ---- */

/* Section 2.6. Older libraries lose the ring of a CQ whose end was refused. */
Test(destroy, completion_queue_of_a_queue_pair_is_busy)
{
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	if (!HW(efadv_query_qp_wqs))
		cr_skip("libefa is older than 59");
	cr_assert(eq(int, HW(ibv_destroy_cq)(p.a.scq.cq), EBUSY));
	cr_assert(eq(int, HW(ibv_destroy_cq)(p.b.rcq.cq), EBUSY));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 2.5: of each kind of object that is in it. */
Test(destroy, protection_domain_in_use_is_busy)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct hw h, other;
	struct hw_addr self;

	hw_init(&h, &(struct hw_attr){0});
	self = hw_addr(&h);
	pd = HW(ibv_alloc_pd)(h.ctx);
	mr = HW(ibv_reg_mr)(pd, h.buf, LEN, 0);
	cr_assert(ne(ptr, mr, NULL));
	cr_assert(eq(int, HW(ibv_dealloc_pd)(pd), EBUSY));
	cr_assert(zero(int, HW(ibv_dereg_mr)(mr)));
	ah = hw_ah_create(pd, &self.gid);
	cr_assert(ne(ptr, ah, NULL));
	cr_assert(eq(int, HW(ibv_dealloc_pd)(pd), EBUSY));
	cr_assert(zero(int, HW(ibv_destroy_ah)(ah)));
	cr_assert(zero(int, HW(ibv_dealloc_pd)(pd)));
	hw_init(&other, &(struct hw_attr){.near = &h});
	cr_assert(zero(int, HW(ibv_dereg_mr)(other.mr)));
	other.mr = NULL;
	cr_assert(eq(int, HW(ibv_dealloc_pd)(other.pd), EBUSY), "there is a queue pair");
	hw_fini(&other);
	hw_fini(&h);
}

/* Section 2.6. */
Test(destroy, channel_of_a_completion_queue_is_busy)
{
	struct hw h;

	hw_init(&h, &(struct hw_attr){.channel = true});
	cr_assert(eq(int, HW(ibv_destroy_comp_channel)(h.channel), EBUSY));
	hw_fini(&h);
}

/* Section 2.5: a region may go while requests name it; they find out. */
Test(destroy, memory_region_in_use_is_not_busy)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	hw_post(&p.a, &wr);
	cr_assert(hw_quiet(&p.a.scq));
	cr_assert(zero(int, HW(ibv_dereg_mr)(p.a.mr)));
	p.a.mr = NULL;
	hw_recv(&p.b, 1, 0, LEN);
	hw_wait_for(&p.a.scq, HW_BAD_LKEY);
	hw_pair_fini(&p);
}

/* ---- work under way ---- */

/* The poll of a completion of a QP that is no more is an error of the library: none may come. */
static void assert_nothing_comes(struct hw_cq *cq)
{
	cr_assert(hw_quiet(cq), "a completion after the end of its queue pair");
}

/* Section 5.10. Guess: that they vanish; the header of libefa speaks of a flush before the end. */
Test(destroy, nothing_of_a_destroyed_queue_pair_completes)
{
	enum { N = 20 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_pair_send_waiting(&p, N, LEN);
	for (uint64_t i = 0; i < N; i++)
		hw_recv(&p.a, i, 0, LEN);
	cr_assert(hw_quiet(&p.a.scq));
	cr_assert(zero(int, HW(ibv_destroy_qp)(p.a.qp)));
	p.a.qp = NULL;
	assert_nothing_comes(&p.a.scq);
	assert_nothing_comes(&p.a.rcq);
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(hw_quiet(&p.b.rcq), "a message of a queue pair that is no more");
	hw_pair_fini(&p);
}

/* Section 5.10: and the same while messages are on their way. */
Test(destroy, end_amid_traffic_is_the_end)
{
	enum { ROUNDS = 60, N = 16 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct hw_pair p;
		struct hw *gone = round % 2 ? &p.b : &p.a, *other = round % 2 ? &p.a : &p.b;
		struct hw_wc wc;

		hw_pair_init(&p, &(struct hw_attr){0}, NULL);
		for (uint64_t i = 0; i < N; i++) {
			struct hw_wr wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);

			hw_recv(&p.b, i, 0, LEN);
			hw_post(&p.a, &wr);
		}
		kids_nap_us(round * 5);
		while (hw_next(&gone->scq, &wc) || hw_next(&gone->rcq, &wc))
			; /* what is there before the end may be read until then */
		cr_assert(zero(int, HW(ibv_destroy_qp)(gone->qp)));
		gone->qp = NULL;
		MUST_0(-hw_qp_to(other->qp, IBV_QPS_ERR));
		for (uint64_t i = 0; i < N; i++)
			hw_wait(round % 2 ? &p.a.scq : &p.b.rcq);
		cr_assert(hw_quiet(round % 2 ? &p.a.scq : &p.b.rcq));
		hw_pair_fini(&p);
	}
}

/* Section 5.10. */
Test(destroy, waiting_messages_fail_with_their_receiver)
{
	enum { N = 10 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_pair_send_waiting(&p, N, LEN);
	cr_assert(hw_quiet(&p.a.scq));
	cr_assert(zero(int, HW(ibv_destroy_qp)(p.b.qp)));
	p.b.qp = NULL;
	hw_pair_waiting_fail(&p, N);
	hw_pair_fini(&p);
}

/* Section 4.8. */
Test(destroy, message_to_a_destroyed_queue_pair_fails)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	cr_assert(zero(int, HW(ibv_destroy_qp)(p.b.qp)));
	p.b.qp = NULL;
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_QPN));
	hw_pair_fini(&p);
}

/* Section 2.5: once the call is back, no write lands there. */
Test(destroy, deregistered_memory_does_not_change_any_more)
{
	enum { ROUNDS = 30, BYTES = 1 << 20, N = 8 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.bytes = BYTES, .need = HW_WRITE}, NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct ibv_mr *mr = HW(ibv_reg_mr)(p.b.pd, p.b.buf, BYTES, hw_access(&p.b));

		cr_assert(ne(ptr, mr, NULL));
		for (unsigned i = 0; i < N; i++) {
			struct hw_wr wr = hw_pair_wr(&p, HW_OP_WRITE, 0, 1 << 16, i << 16);

			wr.rkey = mr->rkey;
			hw_post(&p.a, &wr);
		}
		kids_nap_us(round * 20);
		cr_assert(zero(int, HW(ibv_dereg_mr)(mr)));
		memset(p.b.buf, 0xee, BYTES);
		for (unsigned i = 0; i < N; i++) {
			unsigned status = hw_wait(&p.a.scq).status;

			cr_assert(status == HW_OK || status == HW_BAD_RKEY, "status %u", status);
		}
		cr_assert(lt(long, bytes_differ_from(p.b.buf, BYTES, 0xee), 0));
	}
	hw_pair_fini(&p);
}

/* ---- again and again ---- */

/* Objects that are destroyed give back their room: more of them than a device has. */
Test(destroy, room_comes_back)
{
	struct ibv_device_attr dev;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	MUST_0(-HW(ibv_query_device)(h.ctx, &dev));
	for (int i = 0; i < dev.max_qp + 64 && i < 3000; i++) {
		struct ibv_qp *qp = hw_qp_create(&h, &(struct hw_attr){.sq = 4, .rq = 4});

		cr_assert(ne(ptr, qp, NULL), "queue pair %d of %d: %s", i, dev.max_qp,
			  strerror(errno));
		cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	}
	for (int i = 0; i < dev.max_pd + 64 && i < 3000; i++) {
		struct ibv_pd *pd = HW(ibv_alloc_pd)(h.ctx);

		cr_assert(ne(ptr, pd, NULL), "domain %d of %d", i, dev.max_pd);
		cr_assert(zero(int, HW(ibv_dealloc_pd)(pd)));
	}
	hw_fini(&h);
}

/* Section 2.7: the number of a queue pair that is gone is not soon another's. */
Test(destroy, late_message_does_not_reach_the_next_queue_pair)
{
	struct hw_pair p;
	struct hw_wr wr;
	uint32_t old;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	old = p.b.qp->qp_num;
	cr_assert(zero(int, HW(ibv_destroy_qp)(p.b.qp)));
	p.b.qp = hw_qp_create(&p.b, &(struct hw_attr){0});
	cr_assert(ne(ptr, p.b.qp, NULL));
	p.b.qpx = HW(ibv_qp_to_qp_ex)(p.b.qp);
	MUST_0(-hw_qp_up(p.b.qp, HW_QKEY, -1));
	cr_assert(ne(u32, p.b.qp->qp_num, old));
	hw_recv(&p.b, 1, 0, LEN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0); /* to the old number */
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_QPN));
	p.to_b = hw_addr(&p.b);
	hw_pair_works(&p);
	hw_pair_fini(&p);
}
