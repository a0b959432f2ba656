/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: what is granted and refused. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "../lib/loop.h"

static void init(struct loop *l, struct srd_qp_attr *attr)
{
	/* CQs with room for a third QP. */
	struct loop_attr deep = {.depth = 256};

	loop_init(l, &deep);
	*attr = loop_qp_attr(l, &(struct loop_attr){0});
}

static void assert_refused(struct loop *l, const struct srd_qp_attr *attr, int rc)
{
	struct srd_qp zero = {0}, qp;

	memset(&qp, 0xff, sizeof(qp));
	cr_assert(eq(int, srd_qp_init(&qp, &l->pd, attr), rc));
	cr_assert(zero(int, memcmp(&qp, &zero, sizeof(qp))), "a refused QP is left zeroed");
	srd_qp_fini(&qp);
}

Test(qp, zero_attributes_mean_128_deep_and_all_the_device_can)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	init(&l, &attr);
	attr = (struct srd_qp_attr){.send_cq = &l.a_cq, .recv_cq = &l.a_cq};
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	if (l.dev.attr.caps & SRD_CAP_RDMA_READ)
		ops |= IBV_QP_EX_WITH_RDMA_READ;
	if (l.dev.attr.caps & SRD_CAP_RDMA_WRITE)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	cr_assert(eq(u64, qp.ops, ops));
	cr_assert(ge(u32, qp.sq_depth, 128));
	cr_assert(ge(u32, qp.rq_depth, 128));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, granted_depth_is_what_the_queue_takes)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, &attr);
	attr.max_send_wr = attr.max_recv_wr = 100;
	attr.max_recv_sge = 2;
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(ge(u32, qp.sq_depth, 128));
	cr_assert(ge(u32, qp.rq_depth, 100));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, operations_may_be_fewer_than_the_device_can)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct srd_wr wr;
	struct loop l;

	init(&l, &attr);
	attr.ops = IBV_QP_EX_WITH_SEND;
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(zero(int, srd_qp_prepare(&qp, 1, SRD_RNR_DEFAULT)));
	cr_assert(eq(u64, qp.ops, IBV_QP_EX_WITH_SEND));
	wr = loop_wr(&l, IBV_WR_SEND_WITH_IMM, 0, 1, 0);
	cr_assert(eq(int, srd_post(&qp, &wr, 1), -EOPNOTSUPP));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, operation_that_the_device_lacks_is_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE;
	assert_refused(&l, &attr, -EOPNOTSUPP);
	loop_fini(&l);
}

Test(qp, rdma_on_a_ud_queue_pair_is_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.type = SRD_QP_UD;
	attr.ops = IBV_QP_EX_WITH_RDMA_READ;
	assert_refused(&l, &attr, -EOPNOTSUPP);
	loop_fini(&l);
}

Test(qp, unsolicited_ud_queue_pair_is_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.type = SRD_QP_UD;
	attr.unsolicited = true;
	assert_refused(&l, &attr, -EOPNOTSUPP);
	loop_fini(&l);
}

/* Public report 11: without a command to the kernel, which would take it for an SRD one. */
Test(qp, queue_pair_of_another_type_is_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.type = (enum srd_qp_type)(SRD_QP_UD + 1);
	assert_refused(&l, &attr, -EINVAL);
	attr.type = (enum srd_qp_type) - 1;
	assert_refused(&l, &attr, -EINVAL);
	loop_fini(&l);
}

Test(qp, queue_pair_without_a_cq_is_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.recv_cq = NULL;
	assert_refused(&l, &attr, -EINVAL);
	loop_fini(&l);
}

Test(qp, send_queue_deeper_than_the_device_has_is_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.max_send_wr = 2 * l.dev.attr.max_sq_wr;
	assert_refused(&l, &attr, -EINVAL);
	loop_fini(&l);
}

Test(qp, more_pieces_than_the_device_has_are_refused)
{
	struct srd_qp_attr attr;
	struct loop l;

	init(&l, &attr);
	attr.max_send_sge = l.dev.attr.max_sq_sge + 1;
	assert_refused(&l, &attr, -EINVAL);
	loop_fini(&l);
}

Test(qp, low_latency_service_level_is_taken_or_ignored)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, &attr);
	attr.sl = 8;
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(zero(int, srd_qp_prepare(&qp, 1, SRD_RNR_DEFAULT)));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, rnr_retry_outside_its_range_is_refused)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, &attr);
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(eq(int, srd_qp_prepare(&qp, 1, 8), -EINVAL));
	cr_assert(eq(int, srd_qp_prepare(&qp, 1, -2), -EINVAL));
	cr_assert(zero(int, srd_qp_prepare(&qp, 1, SRD_RNR_DEFAULT)), "nothing had changed");
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, rnr_retry_of_a_ud_queue_pair_is_refused)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, &attr);
	attr.type = SRD_QP_UD;
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(eq(int, srd_qp_prepare(&qp, 1, 3), -EOPNOTSUPP));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, endpoint_is_gid_number_and_qkey)
{
	struct srd_ep ep;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.b, &ep);
	cr_assert(zero(int, memcmp(&ep.gid, &l.dev.attr.gid, sizeof(ep.gid))));
	cr_assert(eq(u32, ep.qpn, l.b.ibv->qp_num));
	cr_assert(eq(u32, ep.qkey, LOOP_QKEY + 2));
	loop_fini(&l);
}

Test(qp, order_by_128_bytes_can_be_asked)
{
	struct loop l;
	bool yes;

	loop_init(&l, &(struct loop_attr){0});
	yes = srd_qp_in_order_128(&l.a, IBV_WR_RDMA_WRITE);
	cr_log_info("aligned 128-byte blocks in order: %s", yes ? "yes" : "no");
	cr_assert(eq(int, srd_qp_in_order_128(&l.b, IBV_WR_RDMA_WRITE), yes));
	loop_fini(&l);
}

Test(qp, fini_leaves_zero_and_may_be_repeated)
{
	struct srd_qp_attr attr;
	struct srd_qp zero = {0}, qp;
	struct loop l;

	init(&l, &attr);
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	srd_qp_fini(&qp);
	cr_assert(zero(int, memcmp(&qp, &zero, sizeof(qp))));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

/* ---- states ---- */

static enum ibv_qp_state state(struct srd_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {0};

	cr_assert(zero(int, loop_query_qp(qp, &attr, IBV_QP_STATE, &init)));
	return attr.qp_state;
}

Test(qp, one_state_after_the_other_takes_receives_then_requests)
{
	struct srd_qp_attr attr;
	struct ibv_sge sge;
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
	struct srd_peer peer;
	struct srd_ep ep;
	struct srd_qp qp;
	struct srd_wr wr;
	struct srd_wc wc;
	struct loop l;

	init(&l, &attr);
	attr.send_cq = attr.recv_cq = &l.b_cq;
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(eq(int, state(&qp), IBV_QPS_RESET));
	cr_assert(zero(int, srd_qp_to_init(&qp, 5)));
	cr_assert(eq(int, state(&qp), IBV_QPS_INIT));
	cr_assert(eq(u32, qp.qkey, 5));
	cr_assert(zero(int, srd_qp_to_rtr(&qp)));
	cr_assert(eq(int, state(&qp), IBV_QPS_RTR));
	cr_assert(zero(int, srd_sge(&sge, &l.mr, LOOP_B, 64)));
	cr_assert(zero(int, srd_post_recv(&qp, &recv, NULL)));
	wr = loop_wr(&l, IBV_WR_SEND, 0, 64, 0);
	cr_assert(eq(int, srd_post(&qp, &wr, 1), -EINVAL), "nothing is sent before RTS");
	cr_assert(zero(int, srd_qp_to_rts(&qp, 0x123456, SRD_RNR_DEFAULT)));
	cr_assert(eq(int, state(&qp), IBV_QPS_RTS));
	srd_ep_local(&qp, &ep);
	cr_assert(eq(u32, ep.qkey, 5));
	cr_assert(zero(int, srd_peer_init(&peer, &l.pd, &ep)));
	wr.to = &peer;
	loop_fill(l.buf, 64, 3);
	wc = loop_run(&l, &wr);
	cr_assert(zero(int, srd_wc_err(&wc)));
	cr_assert(eq(u64, loop_wait_ok(&l.b_cq).wr_id, 7));
	cr_assert(loop_filled(l.buf + LOOP_B, 64, 3));
	srd_peer_fini(&peer);
	srd_qp_fini(&qp);
	loop_fini(&l);
}

Test(qp, state_out_of_turn_is_refused)
{
	struct srd_qp_attr attr;
	struct srd_qp qp;
	struct loop l;

	init(&l, &attr);
	cr_assert(zero(int, srd_qp_init(&qp, &l.pd, &attr)));
	cr_assert(eq(int, srd_qp_to_rts(&qp, 0, SRD_RNR_DEFAULT), -EINVAL));
	cr_assert(eq(int, srd_qp_to_rtr(&qp), -EINVAL));
	cr_assert(eq(int, state(&qp), IBV_QPS_RESET));
	srd_qp_fini(&qp);
	loop_fini(&l);
}

/* ---- room ---- */

Test(qp, completion_queue_takes_no_more_than_it_has_entries_for)
{
	struct srd_cq_attr cq_attr = {.cqe = 256, .classic = loop_classic()};
	struct srd_qp_attr attr;
	struct srd_qp one, two;
	struct srd_cq cq;
	struct loop l;

	init(&l, &attr);
	cr_assert(zero(int, srd_cq_init(&cq, &l.dev, &cq_attr)));
	attr = (struct srd_qp_attr){.send_cq = &cq, .recv_cq = &cq};
	cr_assert(zero(int, srd_qp_init(&one, &l.pd, &attr)));
	cr_assert(zero(u32, cq.room));
	attr.max_send_wr = attr.max_recv_wr = 16;
	assert_refused(&l, &attr, -ENOSPC);
	srd_qp_fini(&one);
	cr_assert(eq(u32, cq.room, 256), "a finished QP gives its room back");
	cr_assert(zero(int, srd_qp_init(&two, &l.pd, &attr)));
	srd_qp_fini(&two);
	srd_cq_fini(&cq);
	loop_fini(&l);
}

Test(qp, receive_queue_that_does_not_fit_takes_nothing_of_the_send_queue)
{
	struct srd_cq_attr cq_attr = {.classic = loop_classic()};
	struct srd_qp_attr attr;
	struct srd_cq large, small;
	struct loop l;

	init(&l, &attr);
	cq_attr.cqe = 256;
	cr_assert(zero(int, srd_cq_init(&large, &l.dev, &cq_attr)));
	cq_attr.cqe = 32;
	cr_assert(zero(int, srd_cq_init(&small, &l.dev, &cq_attr)));
	attr = (struct srd_qp_attr){.send_cq = &large, .recv_cq = &small};
	assert_refused(&l, &attr, -ENOSPC);
	cr_assert(eq(u32, large.room, 256));
	cr_assert(eq(u32, small.room, 32));
	srd_cq_fini(&small);
	srd_cq_fini(&large);
	loop_fini(&l);
}

/* ---- rings ---- */

Test(qp, rings_are_those_that_the_device_works)
{
	struct srd_ring sq, rq, cq;
	struct srd_wr wr;
	struct loop l;
	uint8_t before;

	loop_init(&l, &(struct loop_attr){0});
	if (srd_cq_ring(&l.a_cq, &cq) == -EOPNOTSUPP) {
		loop_fini(&l);
		cr_skip("a device or libefa that does not show its rings");
	}
	cr_assert(zero(int, srd_qp_rings(&l.a, &sq, &rq)));
	cr_assert(eq(u32, sq.entries, l.a.sq_depth));
	cr_assert(eq(u32, rq.entries, l.a.rq_depth));
	cr_assert(eq(u32, cq.entries, (uint32_t)l.a_cq.cqe));
	cr_assert(eq(u32, sq.entry_bytes, 64));
	cr_assert(eq(u32, rq.entry_bytes, 16));
	cr_assert(eq(u32, cq.entry_bytes, 32));
	cr_assert(gt(u32, sq.max_batch, 0));
	cr_assert(zero(int, srd_qp_rings(&l.a, NULL, &rq)));
	/* byte 3 of a completion has the phase bit: it turns when the device writes one */
	before = __atomic_load_n(cq.buffer + 3, __ATOMIC_ACQUIRE) & 1;
	loop_recv(&l, 1, LOOP_B, 64);
	wr = loop_wr(&l, IBV_WR_SEND, 0, 64, 0);
	loop_run(&l, &wr);
	cr_assert(ne(int, __atomic_load_n(cq.buffer + 3, __ATOMIC_ACQUIRE) & 1, before));
	cr_assert(eq(u32, __atomic_load_n(sq.doorbell, __ATOMIC_ACQUIRE), 1));
	loop_fini(&l);
}
