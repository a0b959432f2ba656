/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters per device, in the memory that the processes of a fabric share. Each slot has its own
 * set, which only its engine writes: no counter is contended. A process that takes the slot of
 * another goes on counting where that one ended, so that the sum over all slots only grows.
 */
#ifndef SE_STATS_H
#define SE_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "numbers.h"

#define SE_STAT_CODES  20 /* completion statuses; the last stands for all above */
#define SE_STAT_OPS    4  /* send, read, write, what is none of these */
#define SE_STAT_STATUS (SE_STAT_CODES - 1)

/* The first of each array; + operation or + status. */
enum se_stat {
	SE_STAT_REQUESTS,                                       /* work requests fetched */
	SE_STAT_LOW_LATENCY = SE_STAT_REQUESTS + SE_STAT_OPS,   /* of queue pairs with a level */
	SE_STAT_BYTES = SE_STAT_LOW_LATENCY + SE_STAT_OPS,      /* moved by those that succeeded */
	SE_STAT_COMPLETIONS = SE_STAT_BYTES + SE_STAT_OPS,      /* of requests */
	SE_STAT_RECEIVES = SE_STAT_COMPLETIONS + SE_STAT_CODES, /* completions of receives */
	SE_STAT_RECEIVED = SE_STAT_RECEIVES + SE_STAT_CODES,    /* bytes in those that succeeded */
	SE_STAT_RNR,                                            /* requests that found no receive */
	SE_STAT_DUPLICATES,                   /* second placements of the same bytes */
	SE_STAT_REORDERS,                     /* requests that overtook another */
	SE_STAT_FAULTS,                       /* times that a rule struck */
	SE_STAT_TRAFFIC,                      /* how many there are so far: what follows is none */
	SE_STAT_REGISTERED = SE_STAT_TRAFFIC, /* bytes of regions */
	SE_STAT_DEREGISTERED,
	SE_STAT_SERVED, /* bytes of requests of others that were carried out, by operation */
	SE_STAT_DROPS = SE_STAT_SERVED + SE_STAT_OPS, /* datagrams */
	SE_NSTATS
};

struct se_stats {
	_Atomic uint64_t n[SE_MAX_PROC][SE_MAX_DEV][SE_NSTATS];
};

/* Where this process counts: a slot's, or a place of no account while it has none. */
extern _Atomic uint64_t (*se_stats_mine)[SE_NSTATS];

/* Count in @slot of @stats from now on; NULL: nowhere. Engine lock held. */
void se_stats_use(struct se_stats *stats, int slot);

/* Engine lock held: there is one writer. */
static inline void se_stat_add(uint32_t dev, unsigned which, uint64_t n)
{
	_Atomic uint64_t *c = &se_stats_mine[dev][which];

	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* The counter of @status in the array that begins at @first. */
static inline unsigned se_stat_of(enum se_stat first, uint8_t status)
{
	return first + (status < SE_STAT_STATUS ? status : SE_STAT_STATUS);
}

#endif
