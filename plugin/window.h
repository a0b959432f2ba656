/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which segments of a message are there: all below base, and some of those from base on. A sender
 * has no segment under way that is NET_WINDOW or more above one that was not acknowledged. What was
 * acknowledged a receiver may not have looked at: it takes some of each rail in turn, so while one
 * waits behind NET_WINDOW others of its rail, those of seven other rails get far ahead of it.
 */
#ifndef NET_WINDOW_H
#define NET_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum {
	NET_WINDOW = 256,       /* segments; what of a number fits into a wr_id */
	NET_WINDOW_MOST = 4096, /* of a receiver */
};

struct net_window {
	uint32_t base;
	uint64_t bits[NET_WINDOW_MOST / 64]; /* by number modulo NET_WINDOW_MOST */
};

static inline uint64_t *net_window_word(struct net_window *w, uint32_t k)
{
	return &w->bits[k % NET_WINDOW_MOST / 64];
}

/* Not there yet, and may come: one of the @most from base on. */
static inline bool net_window_awaits(struct net_window *w, uint32_t k, uint32_t most)
{
	return k - w->base < most && !(*net_window_word(w, k) >> k % 64 & 1);
}

/* One that is awaited is there. */
static inline void net_window_add(struct net_window *w, uint32_t k)
{
	*net_window_word(w, k) |= 1ull << k % 64;
	while (*net_window_word(w, w->base) >> w->base % 64 & 1) {
		*net_window_word(w, w->base) &= ~(1ull << w->base % 64);
		w->base++;
	}
}

/* The number of which @low is what fits into NET_WINDOW. */
static inline uint32_t net_window_number(const struct net_window *w, uint32_t low)
{
	return w->base + (low - w->base) % NET_WINDOW;
}

#endif
