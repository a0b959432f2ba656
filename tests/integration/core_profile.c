/* SPDX-License-Identifier: BSD-3-Clause */
/* The core on each generation of the adapter, as softefa plays them. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/loop.h"
#include "../lib/plug.h"

enum { LEN = 4096 };

struct generation {
	char name[8];
	uint32_t part_id;
	uint32_t caps; /* of those that differ */
	uint16_t inline_size;
};

enum {
	WRITES = SRD_CAP_RDMA_WRITE | SRD_CAP_UNSOLICITED_WRITE_RECV,
	DIFFER = SRD_CAP_RDMA_READ | WRITES,
};

static struct generation generations[] = {
	{"efa0", 0xefa0, 0, 32},
	{"efa1", 0xefa1, SRD_CAP_RDMA_READ, 32},
	{"efa2", 0xefa2, SRD_CAP_RDMA_READ | WRITES, 32},
	{"efa3", 0xefa3, SRD_CAP_RDMA_READ | WRITES, 80},
	{"efa4", 0xefa4, SRD_CAP_RDMA_READ | WRITES, 80},
};

/* Take that generation, and from it what libefa does not know yet. */
static void use(struct generation *g)
{
	struct srd_lib_info info;
	char set[32];

	snprintf(set, sizeof(set), "profile=%s", g->name);
	plug_softefa(set);
	/* The core works no rings of the first generation, which has several per CQ. */
	if (g->part_id == 0xefa0 && !loop_classic())
		unsetenv("LOOP_CQ");
	cr_assert(zero(int, srd_lib_query(&info)));
	if (loop_release() < 46)
		g->caps &= ~SRD_CAP_RDMA_WRITE;
	if (loop_release() < 52)
		g->caps &= ~SRD_CAP_UNSOLICITED_WRITE_RECV;
	if (loop_release() < 63)
		g->inline_size = 32;
}

ParameterizedTestParameters(profile, device_tells_its_generation)
{
	return cr_make_param_array(struct generation, generations,
				   sizeof(generations) / sizeof(generations[0]));
}

ParameterizedTest(struct generation *g, profile, device_tells_its_generation)
{
	struct srd_dev dev;

	use(g);
	loop_open_dev(&dev);
	cr_assert(eq(u32, dev.attr.part_id, g->part_id));
	cr_assert(eq(u32, dev.attr.caps & DIFFER, g->caps));
	cr_assert(eq(u16, dev.attr.inline_size, g->inline_size));
	srd_dev_close(&dev);
}

static void assert_op(struct loop *l, enum ibv_wr_opcode op, bool can)
{
	struct srd_wr wr = loop_wr(l, op, 0, LEN, LOOP_B);
	struct srd_wc wc;

	if (can) {
		wc = loop_run(l, &wr);
		cr_assert(zero(int, srd_wc_err(&wc)));
	} else {
		cr_assert(eq(int, srd_post(&l->a, &wr, 1), -EOPNOTSUPP));
	}
}

ParameterizedTestParameters(profile, operations_that_are_lacking_are_refused)
{
	return cr_make_param_array(struct generation, generations,
				   sizeof(generations) / sizeof(generations[0]));
}

ParameterizedTest(struct generation *g, profile, operations_that_are_lacking_are_refused)
{
	struct loop_attr attr = {0};
	struct srd_qp_attr qp_attr;
	struct srd_qp qp;
	struct srd_mr mr;
	struct loop l;
	int rc;

	use(g);
	loop_init(&l, &attr);
	assert_op(&l, IBV_WR_RDMA_READ, g->caps & SRD_CAP_RDMA_READ);
	assert_op(&l, IBV_WR_RDMA_WRITE, g->caps & SRD_CAP_RDMA_WRITE);
	rc = srd_mr_init(&mr, &l.pd, l.buf, LEN, IBV_ACCESS_REMOTE_READ);
	cr_assert(eq(int, rc, g->caps &SRD_CAP_RDMA_READ ? 0 : -EOPNOTSUPP));
	if (!rc)
		srd_mr_fini(&mr);
	qp_attr = loop_qp_attr(&l, &attr);
	qp_attr.unsolicited = true;
	rc = srd_qp_init(&qp, &l.pd, &qp_attr);
	cr_assert(eq(int, rc,
		     !(g->caps & SRD_CAP_UNSOLICITED_WRITE_RECV) ? -EOPNOTSUPP
		     : loop_classic()                            ? -EINVAL
								 : 0));
	if (!rc)
		srd_qp_fini(&qp);
	loop_fini(&l);
}

ParameterizedTestParameters(profile, sends_carry_as_much_inline_as_the_device_takes)
{
	return cr_make_param_array(struct generation, generations,
				   sizeof(generations) / sizeof(generations[0]));
}

ParameterizedTest(struct generation *g, profile, sends_carry_as_much_inline_as_the_device_takes)
{
	struct srd_wr wr;
	struct srd_wc wc;
	struct loop l;

	use(g);
	loop_init(&l, &(struct loop_attr){.max_inline = g->inline_size});
	loop_fill(l.buf, g->inline_size, 4);
	loop_recv(&l, 1, LOOP_B, LEN);
	wr = loop_wr(&l, IBV_WR_SEND, 0, g->inline_size, 0);
	wr.inl = true;
	wc = loop_run(&l, &wr);
	cr_assert(zero(int, srd_wc_err(&wc)));
	loop_wait_ok(&l.b_cq);
	cr_assert(loop_filled(l.buf + LOOP_B, g->inline_size, 4));
	loop_fini(&l);
}
