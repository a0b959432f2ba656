/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address of a device. 16 bytes in network order:
 *
 *   fe80 | hash of the domain name (6 bytes) | IPv4 (4) | port (2) | device index + 1 (2)
 *
 * so that two domains never reach each other and a host can be found from the GID alone. All
 * processes of one host and domain have the same GIDs. Port 0: not reachable from other hosts.
 */
#ifndef SE_GID_H
#define SE_GID_H

#include <stdbool.h>
#include <stdint.h>

struct se_settings;

#define SE_GID_DEVICES 64 /* the most a host has */

struct se_gid {
	uint8_t b[16];
};

struct se_gid se_gid_of(const struct se_settings *s, uint32_t dev);
/* The device of this host and domain that has @gid, or -1. */
int se_gid_device(const struct se_gid *gid, const struct se_settings *s);
/* Is @gid one of a device of another host, of the same domain, that TCP can reach? */
bool se_gid_remote(const struct se_gid *gid, const struct se_settings *s);
/* Parts of a GID that is either. */
uint32_t se_gid_index(const struct se_gid *gid);
uint16_t se_gid_port(const struct se_gid *gid);
/* The node GUID of a device, host order: the lower half of its GID. */
uint64_t se_gid_guid(const struct se_gid *gid);

/* FNV-1a, for names of things; not a defence. */
uint64_t se_hash(const void *data, unsigned long len, uint64_t seed);

#endif
