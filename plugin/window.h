/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which segments of a message are there: all below base, and some of the NET_WINDOW from base on. A
 * sender has no segment under way that is NET_WINDOW or more above one that was not acknowledged,
 * so neither side needs to know of more, however long the message is.
 */
#ifndef NET_WINDOW_H
#define NET_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { NET_WINDOW = 256 }; /* segments; what of a number fits into a wr_id */

struct net_window {
	uint32_t base;
	uint64_t bits[NET_WINDOW / 64]; /* by number modulo NET_WINDOW */
};

static inline uint64_t *net_window_word(struct net_window *w, uint32_t k)
{
	return &w->bits[k % NET_WINDOW / 64];
}

/* Not there yet, and may come. */
static inline bool net_window_awaits(struct net_window *w, uint32_t k)
{
	return k - w->base < NET_WINDOW && !(*net_window_word(w, k) >> k % 64 & 1);
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
