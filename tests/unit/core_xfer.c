/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting transfers of any length into requests. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define GIB (1ull << 30)

static struct srd_dev dev = {
	.attr = {.caps = SRD_CAP_RDMA_READ | SRD_CAP_RDMA_WRITE, .max_rdma_size = 1u << 30},
};
static struct srd_pd pd = {.dev = &dev};
static const struct srd_mr mr = {.addr = 0x1000000, .len = 64 * GIB, .lkey = 11};
static const struct srd_peer peer = {.pd = &pd, .qpn = 1};

static int begin_op(struct srd_xfer *x, enum ibv_wr_opcode op, uint64_t off, uint64_t len,
		    uint32_t chunk)
{
	*x = (struct srd_xfer){.op = op,
			       .to = &peer,
			       .mr = &mr,
			       .off = off,
			       .len = len,
			       .raddr = 0x5000,
			       .rkey = 22,
			       .chunk = chunk};
	return srd_xfer_begin(x);
}

static int begin(struct srd_xfer *x, uint64_t off, uint64_t len, uint32_t chunk)
{
	return begin_op(x, IBV_WR_RDMA_WRITE, off, len, chunk);
}

Test(xfer, nothing_is_no_request)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(zero(int, begin(&x, 0, 0, 4096)));
	cr_assert(zero(u64, srd_xfer_left(&x)));
	cr_assert(not(srd_xfer_next(&x, &wr)));
}

Test(xfer, exact_multiple_has_no_remainder)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(zero(int, begin(&x, 0, 3 * 4096, 4096)));
	cr_assert(eq(u64, srd_xfer_left(&x), 3));
	for (int i = 0; i < 3; i++) {
		cr_assert(srd_xfer_next(&x, &wr));
		cr_assert(eq(u32, wr.sge[0].length, 4096));
	}
	cr_assert(not(srd_xfer_next(&x, &wr)));
}

Test(xfer, last_request_is_the_remainder)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(zero(int, begin(&x, 0, 4096 + 1, 4096)));
	cr_assert(eq(u64, srd_xfer_left(&x), 2));
	cr_assert(srd_xfer_next(&x, &wr));
	cr_assert(eq(u32, wr.sge[0].length, 4096));
	cr_assert(eq(u64, srd_xfer_left(&x), 1));
	cr_assert(srd_xfer_next(&x, &wr));
	cr_assert(eq(u32, wr.sge[0].length, 1));
	cr_assert(zero(u64, srd_xfer_left(&x)));
}

Test(xfer, requests_advance_on_both_sides)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(zero(int, begin(&x, 256, 300, 100)));
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert(srd_xfer_next(&x, &wr));
		cr_assert(eq(u64, wr.sge[0].addr, 0x1000000 + 256 + 100 * i));
		cr_assert(eq(u32, wr.sge[0].lkey, 11));
		cr_assert(eq(u64, wr.raddr, 0x5000 + 100 * i));
		cr_assert(eq(u32, wr.rkey, 22));
		cr_assert(eq(ptr, (void *)wr.to, (void *)&peer));
		cr_assert(eq(int, wr.op, IBV_WR_RDMA_WRITE));
		cr_assert(eq(int, wr.nsge, 1));
		cr_assert(not(wr.inl));
	}
}

Test(xfer, ids_go_up_by_the_step)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(zero(int, begin(&x, 0, 300, 100)));
	x.wr_id = 7;
	x.wr_step = 2;
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert(srd_xfer_next(&x, &wr));
		cr_assert(eq(u64, wr.wr_id, 7 + 2 * i));
	}
}

Test(xfer, all_requests_carry_one_id_without_a_step)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(zero(int, begin(&x, 0, 300, 100)));
	x.wr_id = 0xabcdef;
	while (srd_xfer_next(&x, &wr))
		cr_assert(eq(u64, wr.wr_id, 0xabcdef));
}

Test(xfer, total_above_4_gib_is_cut_at_the_device_maximum)
{
	struct srd_xfer x;
	struct srd_wr wr;
	uint64_t sum = 0, n = 0;

	cr_assert(zero(int, begin(&x, 0, 33 * GIB + 5, 0)));
	cr_assert(eq(u64, srd_xfer_left(&x), 34));
	while (srd_xfer_next(&x, &wr)) {
		cr_assert(eq(u64, wr.raddr, 0x5000 + sum));
		cr_assert(le(u32, wr.sge[0].length, dev.attr.max_rdma_size));
		sum += wr.sge[0].length;
		n++;
	}
	cr_assert(eq(u64, sum, 33 * GIB + 5));
	cr_assert(eq(u64, n, 34));
}

Test(xfer, default_chunk_is_1_gib_when_the_device_can_more)
{
	struct srd_xfer x;

	dev.attr.max_rdma_size = 0x7fffffff;
	cr_assert(zero(int, begin(&x, 0, 1, 0)));
	cr_assert(eq(u32, x.chunk, 1u << 30));
}

Test(xfer, chunk_above_the_device_maximum_is_lowered)
{
	struct srd_xfer x;

	cr_assert(zero(int, begin(&x, 0, 10, 0xffffffff)));
	cr_assert(eq(u32, x.chunk, 1u << 30));
}

Test(xfer, range_outside_the_region_is_refused)
{
	struct srd_xfer x;

	cr_assert(eq(int, begin(&x, 0, 64 * GIB + 1, 0), -EINVAL));
	cr_assert(eq(int, begin(&x, 64 * GIB, 1, 0), -EINVAL));
	cr_assert(eq(int, begin(&x, UINT64_MAX, 2, 0), -EINVAL));
	cr_assert(eq(int, begin(&x, 8, UINT64_MAX - 4, 0), -EINVAL));
}

Test(xfer, remote_range_that_wraps_is_refused)
{
	struct srd_xfer x = {
		.op = IBV_WR_RDMA_READ, .to = &peer, .mr = &mr, .len = 16, .raddr = UINT64_MAX - 8};

	cr_assert(eq(int, srd_xfer_begin(&x), -EINVAL));
}

Test(xfer, sends_cannot_be_cut)
{
	struct srd_xfer x;

	cr_assert(eq(int, begin_op(&x, IBV_WR_SEND, 0, 1, 0), -EINVAL));
	cr_assert(eq(int, begin_op(&x, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1, 0), -EINVAL));
}

Test(xfer, operation_that_the_device_lacks_is_refused)
{
	struct srd_xfer x;

	dev.attr.caps = SRD_CAP_RDMA_READ;
	cr_assert(eq(int, begin_op(&x, IBV_WR_RDMA_WRITE, 0, 1, 0), -EOPNOTSUPP));
	cr_assert(zero(int, begin_op(&x, IBV_WR_RDMA_READ, 0, 1, 0)));
}

Test(xfer, refused_transfer_yields_nothing)
{
	struct srd_xfer x;
	struct srd_wr wr;

	cr_assert(eq(int, begin(&x, 64 * GIB, 1, 0), -EINVAL));
	cr_assert(zero(u64, srd_xfer_left(&x)));
	cr_assert(not(srd_xfer_next(&x, &wr)));
}
