/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registrations of a device, shared by all its comms: NCCL registers the same range once
 * per connection. Ranges are kept in whole pages and counted; when the last user leaves, the
 * memory is deregistered at once, which is also the fence against late writes of a peer. So no
 * idle entry could be evicted when the device has no more regions.
 *
 * Any thread; the lock is held while the kernel works, and is no lock of the data path.
 */
#ifndef NET_MRCACHE_H
#define NET_MRCACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"
#include "mem.h"
#include "srd.h"

/*
 * A range registered with every function of a device that is not broken, whose keys are 0; what
 * NCCL calls a memory handle.
 */
struct net_mr {
	uintptr_t addr, end; /* whole pages */
	bool gpu;
	unsigned users;
	uint32_t lkey[NET_MAX_RAILS], rkey[NET_MAX_RAILS];
	int n;
	struct srd_mr mr[NET_MAX_RAILS];
};

struct net_mrcache {
	pthread_mutex_t lock;
	struct net_mr **by_addr; /* sorted by addr, then end */
	size_t count, room;
	bool share; /* entries have several users */
	struct srd_pd *pd[NET_MAX_RAILS];
	int npds;
	uint64_t made, shared; /* registrations, and uses of those that were there */
};

/* The PDs must be open; they are kept until fini. */
void net_mrcache_init(struct net_mrcache *c, struct srd_pd *const *pd, int npds);
/* Deregisters what is still there. */
void net_mrcache_fini(struct net_mrcache *c);

/*
 * What is not there already is registered without the functions that @broken has a bit of. -EINVAL:
 * no range of memory, or not within one allocation of a GPU; -ENODEV: all are broken. Failures are
 * logged.
 */
int net_mr_get(struct net_mrcache *c, const struct net_range *r, uint8_t broken,
	       struct net_mr **out);
void net_mr_put(struct net_mrcache *c, struct net_mr *mr);

#endif
