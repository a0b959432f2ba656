/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of registered memory of one size, for rings and their mirrors: memory of an engine, known
 * to all its rails, registered in large chunks. Not for the data path; single-owner.
 */
#ifndef NET_SLAB_H
#define NET_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "limits.h"
#include "srd.h"

struct net_slab_chunk;

struct net_slab {
	size_t block_bytes;
	int access; /* IBV_ACCESS_*: of the registrations */
	struct srd_pd *pd[NET_MAX_RAILS];
	int npds;
	struct net_slab_chunk *chunks;
	struct net_block *first, *last; /* free ones, the longest free first */
};

/* Borrowed from the slab. */
struct net_block {
	struct net_block *next;
	void *mem; /* 64-byte aligned, zeroed */
	uint32_t lkey[NET_MAX_RAILS], rkey[NET_MAX_RAILS];
};

void net_slab_init(struct net_slab *s, size_t block_bytes, int access, struct srd_pd *const *pd,
		   int npds);
void net_slab_fini(struct net_slab *s);
int net_block_get(struct net_slab *s, struct net_block **out);
void net_block_put(struct net_slab *s, struct net_block *b);

#endif
