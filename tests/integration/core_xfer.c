/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunked transfers over a queue that is shallower than their number. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "../lib/loop.h"

struct param {
	uint32_t len, chunk;
};

static struct param params[] = {
	{1, 4096},          {4096, 4096},  {4097, 4096}, {LOOP_B, 8192},
	{LOOP_B - 1, 8192}, {100000, 777}, {LOOP_B, 0},
};

/* Post what there is room for, poll, go on where it stopped: what the iterator is for. */
static void run(struct loop *l, struct srd_xfer *x)
{
	uint64_t total = srd_xfer_left(x), done = 0, posted = 0;
	struct srd_wr wr;
	struct srd_wc wc;

	while (done < total) {
		while (posted - done < l->a.sq_depth && srd_xfer_next(x, &wr)) {
			cr_assert(eq(u64, wr.wr_id, posted));
			cr_assert(zero(int, srd_post(&l->a, &wr, 1)));
			posted++;
		}
		loop_wait(&l->a_cq, &wc, 1);
		cr_assert(zero(int, srd_wc_err(&wc)));
		cr_assert(lt(u64, wc.wr_id, total));
		done++;
	}
	cr_assert(zero(u64, srd_xfer_left(x)));
	cr_assert(not(srd_xfer_next(x, &wr)));
	cr_assert(eq(u64, posted, total));
}

ParameterizedTestParameters(xfer, write_in_chunks_arrives)
{
	return cr_make_param_array(struct param, params, sizeof(params) / sizeof(params[0]));
}

ParameterizedTest(struct param *p, xfer, write_in_chunks_arrives)
{
	struct loop l;
	struct srd_xfer x;

	loop_init(&l, &(struct loop_attr){.depth = 8, .need = SRD_CAP_RDMA_WRITE});
	loop_fill(l.buf, p->len, 1);
	cr_assert(zero(int, srd_xfer_init(&x, &l.dev, IBV_WR_RDMA_WRITE, &l.to_b, &l.mr, 0, p->len,
					  l.b_mr.addr + LOOP_B, l.b_mr.rkey, p->chunk)));
	run(&l, &x);
	cr_assert(loop_filled(l.buf + LOOP_B, p->len, 1));
	loop_fini(&l);
}

ParameterizedTestParameters(xfer, read_in_chunks_arrives)
{
	return cr_make_param_array(struct param, params, sizeof(params) / sizeof(params[0]));
}

ParameterizedTest(struct param *p, xfer, read_in_chunks_arrives)
{
	struct loop l;
	struct srd_xfer x;

	loop_init(&l, &(struct loop_attr){.depth = 8, .need = SRD_CAP_RDMA_READ});
	loop_fill(l.buf + LOOP_B, p->len, 2);
	cr_assert(zero(int, srd_xfer_init(&x, &l.dev, IBV_WR_RDMA_READ, &l.to_b, &l.mr, 0, p->len,
					  l.b_mr.addr + LOOP_B, l.b_mr.rkey, p->chunk)));
	run(&l, &x);
	cr_assert(loop_filled(l.buf, p->len, 2));
	loop_fini(&l);
}
