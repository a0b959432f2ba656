/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs: how a device's address is made and recognised. */
#include "gid.h"

#include <string.h>

uint64_t se_hash(const void *data, unsigned long len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t h = 0xcbf29ce484222325u ^ seed;

	for (unsigned long i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

struct se_gid se_gid_of(const char *domain, uint32_t dev)
{
	uint64_t h = se_hash(domain, strlen(domain), 0);
	struct se_gid g = {{0xfe, 0x80}};

	for (int i = 0; i < 6; i++)
		g.b[2 + i] = (uint8_t)(h >> (8 * i));
	g.b[8] = 127;
	g.b[11] = 1;
	g.b[14] = (uint8_t)((dev + 1) >> 8);
	g.b[15] = (uint8_t)(dev + 1);
	return g;
}

int se_gid_device(const struct se_gid *gid, const char *domain, uint32_t ndev)
{
	uint32_t dev = (uint32_t)(gid->b[14] << 8 | gid->b[15]) - 1;
	struct se_gid mine;

	if (dev >= ndev)
		return -1;
	mine = se_gid_of(domain, dev);
	return memcmp(&mine, gid, sizeof(mine)) == 0 ? (int)dev : -1;
}

uint64_t se_gid_guid(const struct se_gid *gid)
{
	uint64_t v = 0;

	for (int i = 8; i < 16; i++)
		v = v << 8 | gid->b[i];
	return v;
}
