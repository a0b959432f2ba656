/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager messages. A small send for which there is no line yet goes ahead, as a message with all
 * that its receiver needs to match it; the line is sent nevertheless, and the sender takes it as
 * used up when it comes. So matching is the sender's affair alone, and the same as ever; by reads,
 * where there are no lines, it is the receiver's, see early.h.
 *
 * A send is done when the message is in a buffer of the peer, where it stays until it is received:
 * the sender may write its memory again, or close. Every buffer is promised to one peer, in lines
 * or in what says that data were read: so whoever sends more than is received waits for lines, or
 * has its data read, as for large messages, and no message meets an empty receive queue. Promises
 * are renewed with receives into memory of the host only: what goes to a GPU must be copied there
 * by the NIC, which costs more than it saves. Where a NIC does not make such copies there is
 * nothing eager at all, see loopback.h.
 *
 * All functions are entered.
 */
#ifndef NET_EAGER_H
#define NET_EAGER_H

#include "comm.h"
#include "mrcache.h"
#include "p2p.h"

enum { NET_EAGER_RX = 256 }; /* buffers of a rail, at most */

/* Bytes of data that a message of @dev may have; 0: none are sent. */
uint32_t net_eager_bytes(const struct net_dev *dev);

/* ---- sender ---- */

/*
 * May a send of @size bytes go ahead? Not behind one that waits for its data to be moved: it would
 * not be received earlier, only at a higher price.
 */
static inline bool net_eager_may(const struct net_send *s, size_t size)
{
	return size <= s->eager_max && proto_before(s->eager_sent, s->eager_limit) &&
	       (s->free | s->eager) == ~0ull;
}

/* Both sides can: with the peer's answer. */
void net_eager_start(struct net_send *s, const struct proto_resp *resp);
/* What a line says: the next that may not be sent, in its low bits. It never goes back. */
static inline void net_eager_promised(struct net_send *s, uint8_t low)
{
	s->eager_limit += (uint8_t)(low - (uint8_t)s->eager_limit);
}

/* Start it as @req; -EAGAIN: no credits. net_eager_may() said yes. */
int net_eager_send(struct net_send *s, struct net_req *req, const void *data, uint32_t size,
		   int tag, const struct net_mr *mr);
/* Go on with @req, which went ahead and was lost; false: no credits. */
bool net_eager_again(struct net_send *s, struct net_req *req);

static inline bool net_went_ahead(const struct net_send *s, const struct net_req *req)
{
	return s->eager >> (req - s->req) & 1;
}

/* ---- receiver ---- */

/* Their buffers; of a connection by messages, segments are in them as well. */
static inline struct net_rx *net_eager_rx(struct net_engine *e, int rail)
{
	return e->mode == PROTO_WRITE ? &e->rail[rail].ctrl_rx : &e->rail[rail].data_rx;
}

/* @r may get them, if its lines are enough to say what was seen. */
void net_eager_expect(struct net_recv *r);

/* Renew promises to the peer, with a line for a buffer in @mr. */
static inline void net_eager_promise(struct net_recv *r, const struct net_mr *mr)
{
	struct net_engine *e = r->c.engine;

	/* An equal share for all that are busy, and some for those to come. */
	if (r->held < NET_EAGER_MOST && r->held < e->eager_free / 4 && !mr->gpu) {
		r->held++;
		e->eager_free--;
		r->eager_limit++;
	}
}

/*
 * A message in buffer @wr_id of @rail, @data of @len bytes, for comm @id. True: the buffer is kept.
 */
bool net_eager_arrived(struct net_engine *e, uint32_t id, int rail, uint64_t wr_id,
		       const uint8_t *data, uint32_t len);
/* Bring @m to @slot, whose line is @l. */
void net_eager_deliver(struct net_recv *r, const struct net_early *m, struct net_slot *slot,
		       const struct proto_cts *l);
/* Copies for buffers of @req that the NIC is to make; false: no credits. */
bool net_eager_copy(struct net_recv *r, struct net_req *req);
/* There is one into buffer @i of @req. */
static inline bool net_eager_copies(const struct net_req *req, uint32_t i)
{
	return net_slot_of((struct net_recv *)req->comm, req, i)->copy;
}

/* It is made. */
void net_eager_copied(struct net_req *req, uint32_t i, int rail);
/* The end of @r. @lost: the peer may still send what it was promised. */
void net_eager_forget(struct net_recv *r, bool lost);

#endif
