/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles of one PD, shared by GID.
 *
 * The device has few of them, and all that an EFA makes of one is the GID's number, so a
 * thousand peers behind one GID need a single handle.
 */
#ifndef SRD_CORE_AH_H
#define SRD_CORE_AH_H

#include "srd.h"

/* *@cache is written on success only. */
int srd_ah_cache_open(struct srd_ah_cache **cache, struct ibv_pd *pd);
void srd_ah_cache_close(struct srd_ah_cache *cache);

/* Both from any thread. Each get is undone by a put of the same GID. */
int srd_ah_get(struct srd_ah_cache *cache, const union ibv_gid *gid, struct ibv_ah **ah);
void srd_ah_put(struct srd_ah_cache *cache, const union ibv_gid *gid);

#endif
