/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and receiving. All return 0 or -errno. */
#ifndef NET_P2P_H
#define NET_P2P_H

#include "comm.h"
#include "mrcache.h"

/* *@request is NULL when nothing was started: to be called again. */
int net_isend(struct net_send *s, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request);
/*
 * @n: 1 ... NET_MAX_RECVS buffers, each with its size, tag and registration. Where *@request is
 * NCCL_NET_EARLY_RECV_HINT the receive may be done, of 0 bytes, before its data are here.
 */
int net_irecv(struct net_recv *r, int n, void *const *data, const size_t *sizes, const int *tags,
	      void *const *mrs, void **request);
/*
 * @mr goes away: nothing may be written there any more, or read. What the device has been asked
 * for, it refuses by itself; what we would copy or ask for later, must not be. Not entered.
 */
void net_forget(struct net_comm *c, const struct net_mr *mr);
/* A request would need it: that is the end of @c. Entered. */
void net_forgotten(struct net_comm *c);
/* Parts of net_test(): entered, and left; and by who is not the owner, or not known to be. */
int net_test_entered(struct net_req *req, int *done, int *sizes);
int net_test_taking(struct net_req *req, int *done, int *sizes);

/*
 * *@done is 1 or 0; when 1, @sizes (may be NULL) are set and the request is free again. Here is the
 * look that NCCL makes far more often than there is something to see.
 */
static inline int net_test(struct net_req *req, int *done, int *sizes)
{
	struct net_comm *c = req->comm;

	*done = 0;
	if (__builtin_expect(!net_owner_try(&c->engine->owner), 0))
		return net_test_taking(req, done, sizes);
	if (req->to_come && net_engine_idle(c->engine) &&
	    __builtin_expect(--c->engine->patience > 0, 1)) {
		int rc = c->err;

		net_owner_leave_own();
		return rc;
	}
	return net_test_entered(req, done, sizes);
}

/* ---- for sends and receives ---- */

/* Now and then, and at each test while something waits for credits: what no call would find. */
void net_look_around(struct net_engine *e);
/* No credits: whatever has completed may have some. Returns the comm's error. */
int net_later(struct net_comm *c);
/* The parts of net_forget(). Entered. */
void net_send_forget(struct net_send *s, const struct net_mr *mr);
void net_recv_forget(struct net_recv *r, const struct net_mr *mr);

/* ---- for movers ---- */

/* Line number @seq of a ring or mirror of @lines, a power of two. */
static inline struct proto_cts *net_line(const struct net_block *ring, uint32_t seq, uint32_t lines)
{
	return (struct proto_cts *)ring->mem + ((seq - 1) & (lines - 1));
}

/* The slot of buffer @i of @req. */
static inline struct net_slot *net_slot_of(struct net_recv *r, const struct net_req *req,
					   uint32_t i)
{
	return &r->slot[(req->slot + i) & (r->nslots - 1)];
}

/* Tell the peer of the buffers of @req; -EAGAIN: no credits. */
int net_announce(struct net_recv *r, struct net_req *req);

/* Slots and requests of receives that are over become free, oldest first. Entered. */
void net_reclaim(struct net_recv *r);

/* The peer of @r knows of quiet lines. Its ring may be too small for them. */
void net_quiet_expect(struct net_recv *r);
/* The line of @req, a quiet receive, is there. */
void net_quiet_told(struct net_req *req);

/* All of a buffer is here. */
void net_slot_filled(struct net_recv *r, struct net_slot *slot);

#endif
