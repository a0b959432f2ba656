/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions and thread domains. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/loop.h"

Test(mr, region_tells_address_length_and_keys)
{
	struct loop l;
	struct srd_mr mr;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_mr_init(&mr, &l.pd, l.buf + 1, 5000, IBV_ACCESS_LOCAL_WRITE)));
	cr_assert(eq(u64, mr.addr, (uintptr_t)l.buf + 1));
	cr_assert(eq(u64, mr.len, 5000));
	cr_assert(eq(u32, mr.lkey, mr.ibv->lkey));
	cr_assert(eq(u32, mr.rkey, mr.ibv->rkey));
	srd_mr_fini(&mr);
	loop_fini(&l);
}

Test(mr, relaxed_ordering_may_be_asked_of_any_kernel)
{
	struct loop l;
	struct srd_mr mr;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_mr_init(&mr, &l.pd, l.buf, 4096, access)));
	srd_mr_fini(&mr);
	loop_fini(&l);
}

Test(mr, remote_write_without_local_write_fails_and_leaves_zero)
{
	struct loop l;
	struct srd_mr zero = {0}, mr;

	loop_init(&l, &(struct loop_attr){0});
	memset(&mr, 0xff, sizeof(mr));
	cr_assert(eq(int, srd_mr_init(&mr, &l.pd, l.buf, 4096, IBV_ACCESS_REMOTE_WRITE), -EINVAL));
	cr_assert(zero(int, memcmp(&mr, &zero, sizeof(mr))));
	loop_fini(&l);
}

Test(mr, fini_leaves_zero_and_may_be_repeated)
{
	struct loop l;
	struct srd_mr zero = {0}, mr;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_mr_init(&mr, &l.pd, l.buf, 4096, 0)));
	srd_mr_fini(&mr);
	cr_assert(zero(int, memcmp(&mr, &zero, sizeof(mr))));
	srd_mr_fini(&mr);
	loop_fini(&l);
}

Test(mr, interconnects_are_told_as_far_as_they_are_known)
{
	struct srd_mr_ids ids = {.valid = 0xffff};
	struct loop l;
	int rc;

	loop_init(&l, &(struct loop_attr){0});
	rc = srd_mr_ids(&l.mr, &ids);
	if (rc == -EOPNOTSUPP) {
		cr_assert(eq(u16, ids.valid, 0xffff));
		loop_fini(&l);
		cr_skip("libefa < 50");
	}
	cr_assert(zero(int, rc));
	cr_assert(zero(int, ids.valid & ~(SRD_MR_RECV | SRD_MR_RDMA_READ | SRD_MR_RDMA_RECV)));
	loop_fini(&l);
}

Test(td, thread_domain_is_there_or_the_plain_pd_is)
{
	struct srd_td td;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_td_init(&td, &l.pd)));
	if (td.td)
		cr_assert(ne(ptr, td.ibv, l.pd.ibv));
	else
		cr_assert(eq(ptr, td.ibv, l.pd.ibv));
	srd_td_fini(&td);
	srd_td_fini(&td);
	loop_fini(&l);
}

Test(pd, fini_leaves_zero_and_may_be_repeated)
{
	struct srd_pd zero = {0}, pd;
	struct srd_dev dev;

	loop_open_dev(&dev);
	cr_assert(zero(int, srd_pd_init(&pd, &dev)));
	srd_pd_fini(&pd);
	cr_assert(zero(int, memcmp(&pd, &zero, sizeof(pd))));
	srd_pd_fini(&pd);
	srd_dev_close(&dev);
}
