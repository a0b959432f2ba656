/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: what polling tells, and what it survives. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <unistd.h>

#include "../lib/loop.h"

/* Nothing but polling tells that a completion is there: where a test must not, it waits. */
enum { LEN = 64, SETTLE_US = 30000 };

static struct srd_wc one_message(struct loop *l)
{
	struct srd_wr wr = loop_wr(l, IBV_WR_SEND, 0, LEN, 0);

	loop_recv(l, 1, LOOP_B, LEN);
	cr_assert(zero(int, srd_post(&l->a, &wr, 1)));
	return loop_wait_ok(&l->b_cq);
}

Test(cq, empty_queue_gives_none)
{
	struct loop l;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_cq_poll(&l.a_cq, &wc, 1)));
	cr_assert(zero(int, srd_cq_poll(&l.a_cq, NULL, 0)));
	loop_fini(&l);
}

Test(cq, depth_is_a_power_of_two_not_below_what_was_asked)
{
	struct srd_dev dev;
	struct srd_cq cq;

	loop_open_dev(&dev);
	cr_assert(zero(int, srd_cq_init(&cq, &dev, &(struct srd_cq_attr){.cqe = 100})));
	cr_assert(eq(int, cq.cqe, 128));
	srd_cq_fini(&cq);
	cr_assert(zero(int, srd_cq_init(&cq, &dev, &(struct srd_cq_attr){0})));
	cr_assert(eq(int, cq.cqe, 256));
	srd_cq_fini(&cq);
	srd_dev_close(&dev);
}

Test(cq, more_entries_than_the_device_has_fail_and_leave_zero)
{
	struct srd_cq zero = {0}, cq;
	struct srd_dev dev;
	struct srd_cq_attr attr;

	loop_open_dev(&dev);
	attr = (struct srd_cq_attr){.cqe = dev.attr.max_cqe + 1};
	memset(&cq, 0xff, sizeof(cq));
	cr_assert(eq(int, srd_cq_init(&cq, &dev, &attr), -EINVAL));
	cr_assert(zero(int, memcmp(&cq, &zero, sizeof(cq))));
	srd_dev_close(&dev);
}

Test(cq, poll_takes_no_more_than_asked)
{
	enum { N = 5 };
	struct loop l;
	struct srd_wc wc[N];
	int got = 0;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	for (int i = 0; i < N; i++) {
		struct srd_wr wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);

		cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	}
	while (got < N) {
		int rc = srd_cq_poll(&l.a_cq, wc, 2);

		cr_assert(ge(int, rc, 0));
		cr_assert(le(int, rc, 2));
		got += rc;
	}
	cr_assert(eq(int, got, N));
	loop_fini(&l);
}

Test(cq, completions_name_their_queue_pair_when_asked)
{
	struct loop l;

	loop_init(&l, &(struct loop_attr){.cq_fields = SRD_CQ_QPN});
	cr_assert(eq(u32, one_message(&l).qpn, l.b.ibv->qp_num));
	cr_assert(eq(u32, loop_wait_ok(&l.a_cq).qpn, l.a.ibv->qp_num));
	loop_fini(&l);
}

Test(cq, received_messages_name_their_sender_when_asked)
{
	struct loop l;
	struct srd_wc wc;
	uint16_t ahn;

	loop_init(&l, &(struct loop_attr){.cq_fields = SRD_CQ_SRC});
	ahn = l.to_a.ahn;
	wc = one_message(&l);
	cr_assert(eq(u32, wc.src_qpn, l.a.ibv->qp_num));
	cr_assert(eq(u16, wc.ahn, ahn));
	loop_fini(&l);
}

Test(cq, unknown_sender_has_no_address_handle)
{
	struct loop l;

	loop_init(&l, &(struct loop_attr){.strangers = true, .cq_fields = SRD_CQ_SRC});
	cr_assert(eq(u16, one_message(&l).ahn, 0xffff));
	loop_fini(&l);
}

Test(cq, unknown_sender_is_told_by_its_gid_when_asked)
{
	struct loop l;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.strangers = true, .cq_fields = SRD_CQ_SGID});
	wc = one_message(&l);
	cr_assert(eq(u32, wc.flags, SRD_WC_SGID));
	cr_assert(zero(int, memcmp(&wc.sgid, &l.dev.attr.gid, sizeof(wc.sgid))));
	loop_fini(&l);
}

Test(cq, known_sender_is_not_told_by_its_gid)
{
	struct loop l;

	loop_init(&l, &(struct loop_attr){.cq_fields = SRD_CQ_SGID});
	cr_assert(zero(u32, one_message(&l).flags));
	loop_fini(&l);
}

/*
 * C shares A's CQ. Requests of both complete, alternating, and are not polled before A is
 * destroyed: only C's may be seen, and C's queue must be as good as new afterwards.
 */
Test(cq, completions_of_a_destroyed_queue_pair_are_dropped)
{
	enum { N = 8 };
	struct loop_attr attr = {.depth = 16, .need = SRD_CAP_RDMA_READ};
	struct srd_qp_attr qp_attr;
	struct srd_wc wc[N];
	struct srd_wr wr;
	struct srd_qp c;
	struct loop l;

	loop_init(&l, &attr);
	qp_attr = loop_qp_attr(&l, &attr);
	cr_assert(zero(int, srd_qp_init(&c, &l.pd, &qp_attr)));
	cr_assert(zero(int, srd_qp_prepare(&c, 1, SRD_RNR_DEFAULT)));
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	for (int i = 0; i < N; i++) {
		wr.wr_id = i;
		cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
		usleep(SETTLE_US);
		wr.wr_id = 100 + i;
		cr_assert(zero(int, srd_post(&c, &wr, 1)));
		usleep(SETTLE_US);
	}
	srd_qp_fini(&l.a);
	loop_wait(&l.a_cq, wc, N);
	for (int i = 0; i < N; i++)
		cr_assert(ge(u64, wc[i].wr_id, 100));
	cr_assert(loop_quiet(&l.a_cq));
	for (int round = 0; round < 4; round++) {
		bool seen[16] = {false};

		for (int i = 0; i < 16; i++) {
			wr.wr_id = i;
			cr_assert(zero(int, srd_post(&c, &wr, 1)));
		}
		for (int i = 0; i < 16; i++) {
			uint64_t id = loop_wait_ok(&l.a_cq).wr_id;

			cr_assert(lt(u64, id, 16));
			cr_assert(not(seen[id]), "request %d completed twice", (int)id);
			seen[id] = true;
		}
	}
	srd_qp_fini(&c);
	loop_fini(&l);
}

Test(cq, queue_of_stale_completions_only_polls_empty)
{
	struct loop l;
	struct srd_wc wc;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	for (int i = 0; i < 10; i++)
		cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	usleep(10 * SETTLE_US);
	srd_qp_fini(&l.a);
	cr_assert(zero(int, srd_cq_poll(&l.a_cq, &wc, 1)));
	loop_fini(&l);
}

/* libefa's own answer is IBV_WC_SEND. */
Test(cq, read_is_called_a_read_where_the_ring_is_seen)
{
	struct srd_wr wr;
	struct loop l;
	bool seen;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, 64, LOOP_B);
	seen = loop_release() >= 59 && !loop_classic();
	cr_assert(eq(int, loop_run(&l, &wr).opcode, seen ? IBV_WC_RDMA_READ : IBV_WC_SEND));
	loop_fini(&l);
}
