/* SPDX-License-Identifier: BSD-3-Clause */
/* All numbers that a segment may have, as memory that every rail can send from. */
#ifndef NET_NUMBERS_H
#define NET_NUMBERS_H

#include <stdint.h>

#include "limits.h"
#include "srd.h"

struct net_numbers {
	uint32_t n;
	uint32_t *mem; /* mem[i] is i */
	struct srd_mr mr[NET_MAX_RAILS];
};

/* NULL with errno. */
struct net_numbers *net_numbers_new(uint32_t n, struct srd_pd *const *pd, int npds);
void net_numbers_free(struct net_numbers *numbers);

#endif
