/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of profiles. */
#include "profile.h"

#include "parse.h"

/*
 * Capabilities: 1 read, 2 RNR retry, 4 notifications, 8 GID of the sender, 0x20 write,
 * 0x40 unsolicited write, 0x200 request ids of 64 bits. A send queue of 4096 requests of 128 bytes
 * needs 512 KiB.
 */
#define PROFILES(X) \
	X("efa0", "send and receive; no RDMA", "part_id=0xefa0,caps=0x00e") \
	X("efa1", "and RDMA read", "part_id=0xefa1,caps=0x00f") \
	X("efa2", "and RDMA write, unsolicited", "part_id=0xefa2,caps=0x06f") \
	X("efa3", "and 80 bytes inline, 64-bit request ids, 200 Gb/s", \
	  "part_id=0xefa3,caps=0x26f,inline_size_ex=80,max_llq_size=524288,speed_gbps=200") \
	X("efa4", "the same at 400 Gb/s", \
	  "part_id=0xefa4,caps=0x26f,inline_size_ex=80,max_llq_size=524288,speed_gbps=400")

static const struct profile {
	const char *name, *text, *set;
} profiles[] = {
#define X(name, text, set) {name, text, set},
	PROFILES(X)
#undef X
};

#define NPROFILES (sizeof(profiles) / sizeof(profiles[0]))

const char *se_profile_find(const char *name, size_t len)
{
	for (size_t i = 0; i < NPROFILES; i++)
		if (se_parse_is(name, len, profiles[i].name))
			return profiles[i].set;
	return NULL;
}

const char *se_profile_names(void)
{
#define X(name, text, set) " " name
	return &PROFILES(X)[1];
#undef X
}

void se_profile_print(FILE *out)
{
	for (size_t i = 0; i < NPROFILES; i++)
		fprintf(out, "  %-15s %s\n  %-15s   %s\n", profiles[i].name, profiles[i].text, "",
			profiles[i].set);
}
