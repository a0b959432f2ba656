/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters, when NCCL_EFA_STATS names a file: what went over which rail, by which protocol, in
 * messages of which size. An engine counts for itself; who writes the file reads along.
 */
#ifndef NET_STATS_H
#define NET_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"

/* Classes of sizes: 0, 1, 2 ... 3, 4 ... 7, and so on. */
enum { NET_SIZES = 33 };

struct net_counts {
	uint64_t sends[NET_SIZES], recvs[NET_SIZES]; /* messages by size */
	uint64_t send_bytes, recv_bytes;
	uint64_t refused;                  /* isends and irecvs that found no credits */
	uint64_t again;                    /* requests that another rail took over */
	uint64_t eager_sends, eager_recvs; /* of the messages, those that went ahead */
	uint64_t quiet_recvs; /* receives done before their messages, which are not in recvs */
	uint64_t rail_requests[NET_MAX_RAILS], rail_bytes[NET_MAX_RAILS];
};

/* By one thread at a time, while others read. */
static inline void net_count(uint64_t *n, uint64_t more)
{
	__atomic_store_n(n, __atomic_load_n(n, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

static inline int net_size_class(uint32_t bytes)
{
	return bytes ? 32 - __builtin_clz(bytes) : 0;
}

/* Of size classes and all bytes. */
static inline void net_count_message(uint64_t *sizes, uint64_t *total, uint32_t bytes)
{
	net_count(&sizes[net_size_class(bytes)], 1);
	net_count(total, bytes);
}

bool net_stats_wanted(void);
/* Write the file, as a whole: to another of its name and .new, then renamed. Any thread. */
void net_stats_write(void);
/* The same, if that was not done within the last second. */
void net_stats_refresh(void);

/* @to += @from */
void net_counts_add(struct net_counts *to, const struct net_counts *from);

#endif
