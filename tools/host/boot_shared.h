/* SPDX-License-Identifier: BSD-3-Clause */
/* The mapping that a supervisor and its ranks share. Private to the bootstrap. */
#ifndef HOST_BOOT_SHARED_H
#define HOST_BOOT_SHARED_H

#include "boot.h"

struct host_boot {
	_Atomic bool over;        /* set by the supervisor, once */
	_Atomic uint32_t arrived; /* barrier: ranks of this round */
	_Atomic uint32_t round;   /* barrier: futex word, written by who opens it */
	size_t mapped;            /* bytes of all this */
	uint32_t here;            /* ranks on this mapping */
	int bell;     /* eventfd, rung when all here have arrived; -1: the last opens the round */
	size_t share; /* bytes per rank in shares[] */
	_Atomic size_t bytes; /* of each share that matter in this round */
	struct {
		struct host_pulse pulse[HOST_ACTORS];
		_Atomic int code; /* by the rank when its main returned; -1 before */
	} rank[HOST_MAX_RANKS];
	_Alignas(64) char shares[]; /* [nranks][share], each by its rank between two barriers */
};

static inline void *host_boot_share(struct host_boot *boot, int rank)
{
	return boot->shares + (size_t)rank * boot->share;
}

/* Let the ranks that have arrived pass. */
void host_boot_open(struct host_boot *boot);

/* Make ranks in a barrier look at over. */
void host_boot_wake(struct host_boot *boot);

#endif
