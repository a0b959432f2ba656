/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's addresses: one for each domain and device, recognised by nobody else. */
#include "../../softefa/settings.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

enum { DEVICES = 64 };

static struct se_settings settings(const char *domain, uint32_t devices, const char *address)
{
	struct se_settings s;
	char err[160];

	se_settings_default(&s);
	s.devices = devices;
	cr_assert(zero(int, se_settings_domain(&s, domain, err, sizeof(err))));
	if (address)
		cr_assert(zero(int, se_settings_address(&s, address, err, sizeof(err))), "%s", err);
	return s;
}

static struct se_gid gid_of(const char *domain, uint32_t dev)
{
	struct se_settings s = settings(domain, DEVICES, NULL);

	return se_gid_of(&s, dev);
}

static int device(const struct se_gid *gid, const char *domain, uint32_t devices)
{
	struct se_settings s = settings(domain, devices, NULL);

	return se_gid_device(gid, &s);
}

Test(gid, device_recognises_its_own)
{
	for (uint32_t d = 0; d < DEVICES; d++) {
		struct se_gid g = gid_of("somewhere", d);

		cr_assert(eq(int, device(&g, "somewhere", DEVICES), (int)d));
		cr_assert(eq(int, g.b[0], 0xfe));
		cr_assert(eq(int, g.b[1], 0x80));
	}
}

Test(gid, devices_differ_in_all_that_names_them)
{
	for (uint32_t d = 1; d < DEVICES; d++) {
		struct se_gid a = gid_of("somewhere", d - 1), b = gid_of("somewhere", d);

		cr_assert(ne(int, memcmp(&a, &b, sizeof(a)), 0));
		cr_assert(ne(u64, se_gid_guid(&a), se_gid_guid(&b)));
	}
}

Test(gid, other_domain_is_a_stranger)
{
	struct se_gid g = gid_of("somewhere", 1);

	cr_assert(eq(int, device(&g, "elsewhere", DEVICES), -1));
}

Test(gid, device_that_is_not_there_is_a_stranger)
{
	struct se_gid g = gid_of("somewhere", 5);

	cr_assert(eq(int, device(&g, "somewhere", 5), -1));
	cr_assert(eq(int, device(&g, "somewhere", 6), 5));
}

/* Whatever single bit is wrong. */
Test(gid, damaged_address_is_another)
{
	struct se_gid g = gid_of("somewhere", 3);

	for (int bit = 0; bit < 128; bit++) {
		struct se_gid bad = g;

		bad.b[bit / 8] ^= (uint8_t)(1 << (bit % 8));
		cr_assert(ne(int, device(&bad, "somewhere", DEVICES), 3));
	}
}

Test(gid, index_zero_is_nobody)
{
	struct se_gid g = gid_of("somewhere", 0);

	g.b[15] = 0;
	cr_assert(eq(int, device(&g, "somewhere", DEVICES), -1));
}

Test(gid, guid_is_the_lower_half_in_network_order)
{
	struct se_gid g = {{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};

	cr_assert(eq(u64, se_gid_guid(&g), 0x0102030405060708));
}

/* ---- other hosts ---- */

Test(gid, host_is_found_from_the_address)
{
	struct se_settings here = settings("somewhere", 4, "10.1.2.3:4000");
	struct se_settings there = settings("somewhere", 8, "10.1.2.4:5000");
	struct se_gid g = se_gid_of(&there, 7);

	cr_assert(eq(int, se_gid_device(&g, &here), -1));
	cr_assert(se_gid_remote(&g, &here));
	cr_assert(eq(int, memcmp(g.b + 8, (uint8_t[]){10, 1, 2, 4}, 4), 0));
	cr_assert(eq(u16, se_gid_port(&g), 5000));
	cr_assert(eq(u32, se_gid_index(&g), 7));
}

Test(gid, same_address_with_another_port_is_another_host)
{
	struct se_settings here = settings("somewhere", 4, "10.1.2.3:4000");
	struct se_settings there = settings("somewhere", 4, "10.1.2.3:4001");
	struct se_gid g = se_gid_of(&there, 0);

	cr_assert(se_gid_remote(&g, &here));
	g = se_gid_of(&here, 0);
	cr_assert(not(se_gid_remote(&g, &here)));
}

Test(gid, what_is_not_of_this_domain_or_has_no_port_is_nowhere)
{
	struct se_settings here = settings("somewhere", 4, "10.1.2.3:4000");
	struct se_settings alone = settings("somewhere", 4, NULL);
	struct se_settings other = settings("elsewhere", 4, "10.1.2.4:4000");
	struct se_gid g = se_gid_of(&other, 0);

	cr_assert(not(se_gid_remote(&g, &here)));
	g = se_gid_of(&alone, 0);
	cr_assert(not(se_gid_remote(&g, &here)));
	g = se_gid_of(&here, 0);
	cr_assert(not(se_gid_remote(&g, &alone)));
	g.b[14] = 1; /* device 256 */
	cr_assert(not(se_gid_remote(&g, &other)));
}
