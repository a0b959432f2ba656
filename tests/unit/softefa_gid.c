/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's addresses: one for each domain and device, recognised by nobody else. */
#include "../../softefa/gid.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

enum { DEVICES = 64 };

Test(gid, device_recognises_its_own)
{
	for (uint32_t d = 0; d < DEVICES; d++) {
		struct se_gid g = se_gid_of("somewhere", d);

		cr_assert(eq(int, se_gid_device(&g, "somewhere", DEVICES), (int)d));
		cr_assert(eq(int, g.b[0], 0xfe));
		cr_assert(eq(int, g.b[1], 0x80));
	}
}

Test(gid, devices_differ_in_all_that_names_them)
{
	for (uint32_t d = 1; d < DEVICES; d++) {
		struct se_gid a = se_gid_of("somewhere", d - 1), b = se_gid_of("somewhere", d);

		cr_assert(ne(int, memcmp(&a, &b, sizeof(a)), 0));
		cr_assert(ne(u64, se_gid_guid(&a), se_gid_guid(&b)));
	}
}

Test(gid, other_domain_is_a_stranger)
{
	struct se_gid g = se_gid_of("somewhere", 1);

	cr_assert(eq(int, se_gid_device(&g, "elsewhere", DEVICES), -1));
}

Test(gid, device_that_is_not_there_is_a_stranger)
{
	struct se_gid g = se_gid_of("somewhere", 5);

	cr_assert(eq(int, se_gid_device(&g, "somewhere", 5), -1));
	cr_assert(eq(int, se_gid_device(&g, "somewhere", 6), 5));
}

/* Whatever single bit is wrong. */
Test(gid, damaged_address_is_another)
{
	struct se_gid g = se_gid_of("somewhere", 3);

	for (int bit = 0; bit < 128; bit++) {
		struct se_gid bad = g;

		bad.b[bit / 8] ^= (uint8_t)(1 << (bit % 8));
		cr_assert(ne(int, se_gid_device(&bad, "somewhere", DEVICES), 3));
	}
}

Test(gid, index_zero_is_nobody)
{
	struct se_gid g = se_gid_of("somewhere", 0);

	g.b[15] = 0;
	cr_assert(eq(int, se_gid_device(&g, "somewhere", DEVICES), -1));
}

Test(gid, guid_is_the_lower_half_in_network_order)
{
	struct se_gid g = {{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};

	cr_assert(eq(u64, se_gid_guid(&g), 0x0102030405060708));
}
