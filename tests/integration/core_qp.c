/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: what is granted and refused. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "../lib/loop.h"

static void init(struct loop *l, struct srd_qp_attr *attr)
{
	struct loop_attr none = {0};

	loop_init(l, &none);
	*attr = loop_qp_attr(l, &none);
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
