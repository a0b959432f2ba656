/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs: how a device's address is made and recognised. */
#include "gid.h"

#include <string.h>

#include "settings.h"

uint64_t se_hash(const void *data, unsigned long len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t h = 0xcbf29ce484222325u ^ seed;

	for (unsigned long i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

struct se_gid se_gid_of(const struct se_settings *s, uint32_t dev)
{
	uint64_t h = se_hash(s->domain, strlen(s->domain), 0);
	struct se_gid g = {{0xfe, 0x80}};

	for (int i = 0; i < 6; i++)
		g.b[2 + i] = (uint8_t)(h >> (8 * i));
	memcpy(g.b + 8, s->address, sizeof(s->address));
	g.b[12] = (uint8_t)(s->port >> 8);
	g.b[13] = (uint8_t)s->port;
	g.b[14] = (uint8_t)((dev + 1) >> 8);
	g.b[15] = (uint8_t)(dev + 1);
	return g;
}

uint32_t se_gid_index(const struct se_gid *gid)
{
	return (uint32_t)(gid->b[14] << 8 | gid->b[15]) - 1;
}

uint16_t se_gid_port(const struct se_gid *gid)
{
	return (uint16_t)(gid->b[12] << 8 | gid->b[13]);
}

int se_gid_device(const struct se_gid *gid, const struct se_settings *s)
{
	uint32_t dev = se_gid_index(gid);
	struct se_gid mine;

	if (dev >= s->devices)
		return -1;
	mine = se_gid_of(s, dev);
	return memcmp(&mine, gid, sizeof(mine)) == 0 ? (int)dev : -1;
}

bool se_gid_remote(const struct se_gid *gid, const struct se_settings *s)
{
	struct se_gid mine = se_gid_of(s, 0);

	return s->port && se_gid_port(gid) && se_gid_index(gid) < SE_GID_DEVICES &&
	       memcmp(gid->b, mine.b, 8) == 0 && memcmp(gid->b + 8, mine.b + 8, 6) != 0;
}

uint64_t se_gid_guid(const struct se_gid *gid)
{
	uint64_t v = 0;

	for (int i = 8; i < 16; i++)
		v = v << 8 | gid->b[i];
	return v;
}
