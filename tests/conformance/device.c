/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device says of itself, and what it is not. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(device, .timeout = 60);

/* Section 2.4. */
Test(device, port_is_active_and_alone)
{
	struct ibv_port_attr port = {0};
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	MUST_0(-HW(ibv_query_port)(h.ctx, 1, &port));
	cr_assert(eq(int, (int)port.state, IBV_PORT_ACTIVE));
	cr_assert(eq(int, port.link_layer, IBV_LINK_LAYER_UNSPECIFIED));
	cr_assert(eq(int, port.gid_tbl_len, 1));
	cr_assert(eq(int, port.pkey_tbl_len, 1));
	cr_assert(zero(int, port.lid));
	cr_assert(ge(u32, port.max_msg_sz, 4096));
	cr_assert(ne(int, port.active_speed, 0));
	cr_assert(ne(int, port.active_width, 0));
	cr_assert(ne(int, HW(ibv_query_port)(h.ctx, 2, &port), 0));
	cr_assert(ne(int, HW(ibv_query_port)(h.ctx, 0, &port), 0));
	hw_fini(&h);
}

/* Section 2.4. */
Test(device, gid_is_one_for_each_device)
{
	union ibv_gid gid, again;
	struct ibv_context *ctx;
	unsigned n = hw_count();

	for (unsigned i = 0; i < n && i < 4; i++) {
		ctx = hw_open(i);
		cr_assert(zero(int, HW(ibv_query_gid)(ctx, 1, 0, &gid)));
		cr_assert(ne(u64, gid.global.interface_id, 0));
		cr_assert(ne(int, HW(ibv_query_gid)(ctx, 1, 1, &again), 0), "a second one");
		for (unsigned k = 0; k < i; k++) {
			struct ibv_context *other = hw_open(k);

			cr_assert(zero(int, HW(ibv_query_gid)(other, 1, 0, &again)));
			cr_assert(ne(int, memcmp(&gid, &again, sizeof(gid)), 0));
			cr_assert(zero(int, HW(ibv_close_device)(other)));
		}
		cr_assert(zero(int, HW(ibv_close_device)(ctx)));
	}
}

/* Section 2.4. */
Test(device, limits_are_those_of_an_efa)
{
	struct ibv_device_attr dev;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	MUST_0(-HW(ibv_query_device)(h.ctx, &dev));
	cr_assert(eq(u32, dev.vendor_id, 0x1d0f));
	cr_assert(eq(u32, dev.vendor_part_id & 0xfff0, 0xefa0));
	cr_assert(eq(int, dev.phys_port_cnt, 1));
	cr_assert(ge(int, dev.max_qp, 2));
	cr_assert(ge(int, dev.max_cq, 2));
	cr_assert(ge(int, dev.max_pd, 1));
	cr_assert(ge(int, dev.max_mr, 2));
	cr_assert(ge(int, dev.max_ah, 1));
	cr_assert(ge(u64, dev.max_mr_size, 1 << 20));
	cr_assert(le(u32, (uint32_t)dev.max_qp_wr, h.dev.max_sq_wr));
	cr_assert(le(u32, (uint32_t)dev.max_qp_wr, h.dev.max_rq_wr));
	cr_assert(le(int, dev.max_sge, h.dev.max_sq_sge));
	cr_assert(ge(int, h.dev.max_sq_sge, 1));
	cr_assert(le(int, h.dev.max_sq_sge, 2), "a work request has room for two");
	cr_assert(ge(int, h.dev.max_rq_sge, 1));
	if (h.dev.device_caps & (HW_READ | HW_WRITE))
		cr_assert(ge(u32, h.dev.max_rdma_size, h.mtu));
	hw_fini(&h);
}

/* Section 1.2. */
Test(device, partition_key_is_the_default)
{
	__be16 pkey = 0;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	cr_assert(zero(int, HW(ibv_query_pkey)(h.ctx, 1, 0, &pkey)));
	cr_assert(eq(int, be16toh(pkey), 0xffff));
	hw_fini(&h);
}

/* Section 2.4: no events of a healthy device. */
Test(device, asynchronous_events_do_not_come)
{
	struct pollfd fd = {.events = POLLIN};
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	fd.fd = p.a.ctx->async_fd;
	hw_pair_works(&p);
	MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_ERR));
	cr_assert(zero(int, poll(&fd, 1, 50)));
	hw_pair_fini(&p);
}

static enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND};

ParameterizedTestParameters(device, other_kinds_of_queue_pairs_are_refused)
{
	return cr_make_param_array(enum ibv_qp_type, types, 4);
}

/* Section 2.7. */
ParameterizedTest(enum ibv_qp_type *type, device, other_kinds_of_queue_pairs_are_refused)
{
	struct ibv_qp_init_attr attr = {.cap = {16, 16, 1, 1, 0}, .qp_type = *type};
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	attr.send_cq = h.scq.cq;
	attr.recv_cq = h.rcq.cq;
	cr_assert(eq(ptr, HW(ibv_create_qp)(h.pd, &attr), NULL));
	hw_fini(&h);
}

/* Section 4.9: by the efadv call of the first hour, and the flag-less extended one. */
Test(device, queue_pairs_by_old_calls_are_srd)
{
	struct efadv_qp_init_attr efa = {.driver_qp_type = 77};
	struct ibv_qp_init_attr_ex attr = {.cap = {16, 16, 1, 1, 0},
					   .qp_type = IBV_QPT_DRIVER,
					   .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_qp *qp;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	attr.pd = h.pd;
	attr.send_cq = h.scq.cq;
	attr.recv_cq = h.rcq.cq;
	cr_assert(eq(ptr, HW(efadv_create_qp_ex)(h.ctx, &attr, &efa, sizeof(efa)), NULL),
		  "there is no such kind");
	efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
	qp = HW(efadv_create_qp_ex)(h.ctx, &attr, &efa, sizeof(efa));
	cr_assert(ne(ptr, qp, NULL));
	cr_assert(eq(int, (int)qp->qp_type, IBV_QPT_DRIVER));
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	hw_fini(&h);
}

/* Section 5.13: contexts of one process do not know of each other. */
Test(device, contexts_come_and_go)
{
	struct ibv_context *ctx[16];

	for (unsigned i = 0; i < 16; i++)
		ctx[i] = hw_open(0);
	for (unsigned i = 0; i < 16; i += 2)
		cr_assert(zero(int, HW(ibv_close_device)(ctx[i])));
	for (unsigned i = 1; i < 16; i += 2) {
		struct ibv_pd *pd = HW(ibv_alloc_pd)(ctx[i]);

		cr_assert(ne(ptr, pd, NULL));
		cr_assert(zero(int, HW(ibv_dealloc_pd)(pd)));
		cr_assert(zero(int, HW(ibv_close_device)(ctx[i])));
	}
}
