/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of a region: bounds. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static const struct srd_mr mr = {.addr = 0x10000, .len = 4096, .lkey = 7};

Test(sge, piece_inside_is_address_length_and_key)
{
	struct ibv_sge sge;

	cr_assert(zero(int, srd_sge(&sge, &mr, 100, 200)));
	cr_assert(eq(u64, sge.addr, 0x10000 + 100));
	cr_assert(eq(u32, sge.length, 200));
	cr_assert(eq(u32, sge.lkey, 7));
}

Test(sge, whole_region_is_inside)
{
	struct ibv_sge sge;

	cr_assert(zero(int, srd_sge(&sge, &mr, 0, 4096)));
}

Test(sge, nothing_at_the_end_is_inside)
{
	struct ibv_sge sge;

	cr_assert(zero(int, srd_sge(&sge, &mr, 4096, 0)));
}

Test(sge, one_byte_beyond_the_end_is_refused)
{
	struct ibv_sge sge;

	cr_assert(eq(int, srd_sge(&sge, &mr, 1, 4096), -EINVAL));
	cr_assert(eq(int, srd_sge(&sge, &mr, 4096, 1), -EINVAL));
	cr_assert(eq(int, srd_sge(&sge, &mr, 4097, 0), -EINVAL));
}

Test(sge, sum_that_wraps_is_refused)
{
	struct ibv_sge sge;

	cr_assert(eq(int, srd_sge(&sge, &mr, UINT64_MAX, 2), -EINVAL));
	cr_assert(eq(int, srd_sge(&sge, &mr, 8, UINT64_MAX - 4), -EINVAL));
	cr_assert(eq(int, srd_sge(&sge, &mr, 4096, UINT64_MAX), -EINVAL));
}

Test(sge, length_above_32_bits_is_refused)
{
	static const struct srd_mr huge = {.addr = 0, .len = 1ull << 33, .lkey = 1};
	struct ibv_sge sge;

	cr_assert(zero(int, srd_sge(&sge, &huge, 0, UINT32_MAX)));
	cr_assert(eq(int, srd_sge(&sge, &huge, 0, 1ull << 32), -EINVAL));
}

Test(sge, refused_piece_leaves_the_sge_alone)
{
	struct ibv_sge sge = {.addr = 1, .length = 2, .lkey = 3};

	cr_assert(eq(int, srd_sge(&sge, &mr, 0, 4097), -EINVAL));
	cr_assert(eq(u64, sge.addr, 1));
	cr_assert(eq(u32, sge.length, 2));
	cr_assert(eq(u32, sge.lkey, 3));
}
