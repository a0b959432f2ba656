/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: the 24 bytes that travel. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* By hand: fe80::0102:03ff:fe04:0506, queue pair 0x1234, qkey 0x89abcdef, big endian. */
static const struct srd_ep_wire vector = {{
	0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0xff,
	0xfe, 0x04, 0x05, 0x06, 0x00, 0x00, 0x12, 0x34, 0x89, 0xab, 0xcd, 0xef,
}};

Test(ep, pack_gives_the_bytes_fixed_by_hand)
{
	struct srd_ep ep = {.qpn = 0x1234, .qkey = 0x89abcdef};
	struct srd_ep_wire wire;

	memcpy(ep.gid.raw, vector.b, 16);
	srd_ep_pack(&wire, &ep);
	cr_assert(zero(int, memcmp(&wire, &vector, sizeof(wire))));
}

Test(ep, unpack_reads_the_bytes_fixed_by_hand)
{
	struct srd_ep ep;

	cr_assert(zero(int, srd_ep_unpack(&ep, &vector)));
	cr_assert(zero(int, memcmp(ep.gid.raw, vector.b, 16)));
	cr_assert(eq(u32, ep.qpn, 0x1234));
	cr_assert(eq(u32, ep.qkey, 0x89abcdef));
}

Test(ep, unpack_undoes_pack_at_the_limits)
{
	static const uint32_t limits[] = {0, 1, 0xfffe, 0xffff};
	struct srd_ep in = {.gid.raw = {[15] = 1}, .qkey = 0xffffffff}, out;
	struct srd_ep_wire wire;

	for (int i = 0; i < 4; i++) {
		in.qpn = limits[i];
		srd_ep_pack(&wire, &in);
		cr_assert(zero(int, srd_ep_unpack(&out, &wire)));
		cr_assert(zero(int, memcmp(&in, &out, sizeof(in))));
	}
}

Test(ep, queue_pair_number_above_16_bits_is_refused)
{
	struct srd_ep_wire wire = vector;
	struct srd_ep ep;

	wire.b[17] = 1;
	cr_assert(eq(int, srd_ep_unpack(&ep, &wire), -EINVAL));
	wire.b[17] = 0;
	wire.b[16] = 0x80;
	cr_assert(eq(int, srd_ep_unpack(&ep, &wire), -EINVAL));
}

Test(ep, gid_of_zeroes_is_refused)
{
	struct srd_ep_wire wire = vector;
	struct srd_ep ep;

	memset(wire.b, 0, 16);
	cr_assert(eq(int, srd_ep_unpack(&ep, &wire), -EINVAL));
}

Test(ep, refused_bytes_leave_the_endpoint_alone)
{
	struct srd_ep_wire wire = {{0}};
	struct srd_ep ep = {.qpn = 7, .qkey = 8};

	cr_assert(eq(int, srd_ep_unpack(&ep, &wire), -EINVAL));
	cr_assert(eq(u32, ep.qpn, 7));
	cr_assert(eq(u32, ep.qkey, 8));
}
