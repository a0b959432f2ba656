/* SPDX-License-Identifier: BSD-3-Clause */
/* How a message is shared by the rails of a connection: one piece after the other. */
#ifndef NET_CUT_H
#define NET_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "comm.h"

enum { NET_PIECE_ALIGN = 128 }; /* bytes: what a device may promise to place in order */

/* The piece at hand. */
struct net_cut {
	uint32_t left; /* pieces, this one included */
	int rail;
	uint32_t off, len;
	uint32_t step, bytes; /* of the others; of all */
};

/* That is not out; there is one. */
static inline int net_next_rail(const struct net_comm *c, int rail)
{
	do
		rail = rail + 1 == c->nrails ? 0 : rail + 1;
	while (__builtin_expect(c->dead & 1u << rail, 0));
	return rail;
}

/* @rail0, which may come from the peer, or else another. */
static inline int net_live_rail(const struct net_comm *c, uint8_t rail0)
{
	int rail = rail0 < c->nrails ? rail0 : 0;

	return __builtin_expect(c->dead & 1u << rail, 0) ? net_next_rail(c, rail) : rail;
}

/* Bytes of each of @n pieces but the last. */
static inline uint32_t net_cut_step(uint32_t bytes, uint32_t n)
{
	return n == 1 ? bytes
		      : ((bytes + n - 1) / n + NET_PIECE_ALIGN - 1) & ~(NET_PIECE_ALIGN - 1u);
}

static inline struct net_cut net_cut(const struct net_comm *c, uint32_t bytes, uint8_t rail0)
{
	struct net_cut cut = {
		.left = 1,
		.rail = net_live_rail(c, rail0),
		.len = bytes,
		.step = bytes,
		.bytes = bytes,
	};

	if (__builtin_expect(bytes >= 2 * c->min_stripe && c->nalive > 1, 0)) {
		uint32_t n = bytes / c->min_stripe, max = (uint32_t)c->nalive;

		cut.left = n < max ? n : max;
		cut.len = cut.step = net_cut_step(bytes, cut.left);
	}
	return cut;
}

/* Not counting rails that are out. */
bool net_cut_has_room_now(const struct net_comm *c, const struct net_cut *cut);

static inline bool net_cut_has_room(const struct net_comm *c, const struct net_cut *cut)
{
	for (int i = 0; i < c->nrails; i++)
		if (__builtin_expect(!c->engine->rail[i].data_free, 0))
			return net_cut_has_room_now(c, cut);
	return true;
}

/* False: that was the last. */
static inline bool net_cut_next(const struct net_comm *c, struct net_cut *cut)
{
	if (--cut->left == 0)
		return false;
	cut->off += cut->len;
	cut->rail = net_next_rail(c, cut->rail);
	cut->len = cut->bytes - cut->off < cut->step ? cut->bytes - cut->off : cut->step;
	return true;
}

/* Post a request for @bytes of a message, with the credit that there is for it on @rail. */
static inline int net_data_post(struct net_comm *c, int rail, const struct srd_wr *wr,
				uint32_t bytes)
{
	struct net_engine *e = c->engine;
	int rc = srd_post(&e->rail[rail].data, wr, 1);

	if (__builtin_expect(rc, 0))
		return rc == -EAGAIN ? -EIO : rc; /* the credits say that there is room */
	e->rail[rail].data_free--;
	c->under_way++;
	if (__builtin_expect(e->counting, 0)) {
		net_count(&e->counts.rail_requests[rail], 1);
		net_count(&e->counts.rail_bytes[rail], bytes);
	}
	return 0;
}

#endif
