/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: list, open, attributes. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <unistd.h>
#include <stdio.h>
#include <string.h>

#include "../lib/loop.h"

static bool all_zero(const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++) {
		if (b[i])
			return false;
	}
	return true;
}

Test(dev, list_counts_devices_it_has_no_room_for)
{
	struct srd_dev_info info[64];
	int n = srd_dev_list(info, 64, true);

	if (n == 0)
		cr_skip("no EFA here: run below softefa");
	cr_assert(eq(int, srd_dev_list(info, 0, true), n));
	cr_assert(eq(int, srd_dev_list(NULL, 0, true), n));
}

Test(dev, list_is_sorted_by_name)
{
	struct srd_dev_info info[64];
	int n = srd_dev_list(info, 64, false);

	for (int i = 1; i < n && i < 64; i++)
		cr_assert(lt(int, strverscmp(info[i - 1].name, info[i].name), 0));
}

Test(dev, list_tells_guid_and_part_of_an_efa)
{
	struct srd_dev_info info;

	if (srd_dev_list(&info, 1, true) < 1)
		cr_skip("no EFA here: run below softefa");
	cr_assert(info.is_efa);
	cr_assert(ne(u64, info.guid, 0));
	cr_assert(eq(int, info.part_id & 0xfff0, 0xefa0));
}

Test(dev, open_agrees_with_the_list)
{
	struct srd_dev_info info;
	struct srd_dev dev;

	loop_open_dev(&dev);
	cr_assert(ge(int, srd_dev_list(&info, 1, true), 1));
	cr_assert(eq(u64, dev.attr.guid, info.guid));
	cr_assert(zero(int, strcmp(dev.ibv->device->name, info.name)));
	srd_dev_close(&dev);
}

Test(dev, open_reads_address_and_limits)
{
	struct srd_dev dev;

	loop_open_dev(&dev);
	cr_assert(not(all_zero(&dev.attr.gid, sizeof(dev.attr.gid))));
	cr_assert(gt(u64, dev.attr.max_mr_size, 0));
	cr_assert(gt(u32, dev.attr.max_msg_size, 0));
	cr_assert(gt(u32, dev.attr.max_sq_wr, 0));
	cr_assert(gt(u32, dev.attr.max_rq_wr, 0));
	cr_assert(gt(u32, dev.attr.max_cqe, 0));
	cr_assert(gt(u32, dev.attr.max_qp, 0));
	cr_assert(gt(u32, dev.attr.max_cq, 0));
	cr_assert(gt(u32, dev.attr.max_mr, 0));
	cr_assert(gt(u32, dev.attr.max_pd, 0));
	cr_assert(gt(u32, dev.attr.max_ah, 0));
	cr_assert(gt(u16, dev.attr.max_sq_sge, 0));
	cr_assert(gt(u16, dev.attr.max_rq_sge, 0));
	cr_assert(ge(u32, dev.attr.speed_mbps, 10000));
	srd_dev_close(&dev);
}

Test(dev, rdma_capability_comes_with_a_size)
{
	struct srd_dev dev;

	loop_open_dev(&dev);
	loop_need(&dev, SRD_CAP_RDMA_READ);
	cr_assert(gt(u32, dev.attr.max_rdma_size, 0));
	srd_dev_close(&dev);
}

Test(dev, open_of_an_unknown_name_is_enodev_and_leaves_zero)
{
	struct srd_dev dev;

	memset(&dev, 0xff, sizeof(dev));
	cr_assert(eq(int, srd_dev_open(&dev, "no_such_efa"), -ENODEV));
	cr_assert(all_zero(&dev, sizeof(dev)));
}

Test(dev, may_be_opened_twice)
{
	struct srd_dev a, b;

	loop_open_dev(&a);
	loop_open_dev(&b);
	cr_assert(ne(ptr, a.ibv, b.ibv));
	srd_dev_close(&b);
	srd_dev_close(&a);
}

Test(dev, close_leaves_zero_and_may_be_repeated)
{
	struct srd_dev dev;

	loop_open_dev(&dev);
	srd_dev_close(&dev);
	cr_assert(all_zero(&dev, sizeof(dev)));
	srd_dev_close(&dev);
}

Test(dev, open_reads_versions)
{
	struct srd_dev dev;

	loop_open_dev(&dev);
	cr_assert(gt(sz, strnlen(dev.attr.fw_ver, sizeof(dev.attr.fw_ver)), 0));
	cr_assert(
		lt(sz, strnlen(dev.attr.fw_ver, sizeof(dev.attr.fw_ver)), sizeof(dev.attr.fw_ver)));
	srd_dev_close(&dev);
}

Test(lib, tells_files_and_release_of_what_was_loaded)
{
	struct srd_lib_info info;
	unsigned major;

	cr_assert(zero(int, srd_lib_query(&info)));
	cr_assert(zero(int, access(info.ibverbs, R_OK)), "%s", info.ibverbs);
	cr_assert(zero(int, access(info.efa, R_OK)), "%s", info.efa);
	cr_assert(ne(ptr, strstr(info.efa, "/libefa.so.1."), NULL), "%s", info.efa);
	cr_assert(eq(int, sscanf(info.rdma_core, "%u.", &major), 1), "%s", info.rdma_core);
	cr_assert(ge(uint, major, 44));
	cr_assert(ne(ptr, strstr(info.efa, info.rdma_core), NULL));
}
