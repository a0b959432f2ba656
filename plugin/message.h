/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between comms, where the receiver cannot write into the sender's memory: what they are
 * is in their immediate. They come in any order, each once.
 *
 * For each that may be on its way the engine of the receiver has a receive posted, on every rail,
 * even if it does not get to look. So of a comm there are never more than net_message_share(),
 * and an engine takes as many comms as it has receives for.
 *
 * By messages, of lines, NET_LINES_UNSEEN that the peer has not spoken of: for as many receives as
 * NCCL has outstanding, of which some may take two; and for those that eager messages were there
 * for, as a peer that has sent all it had may never speak of their lines.
 *
 * By reads, NET_SENDS_UNREAD that say where data are; and NET_FINS_UNSEEN that some were read, of
 * which each tells of one more, or of so many more promises (read.c).
 *
 * By messages, of grants, each is of as many segments as are out, or more. So those that the sender
 * has not seen are twice as many with each, and NET_WINDOW at most; and there may be one that is
 * late.
 *
 * Of signs of life, NET_ASKS without an answer, which are more than 20 minutes; those that read a
 * byte take no receive. And one that it is over.
 */
#ifndef NET_MESSAGE_H
#define NET_MESSAGE_H

#include "comm.h"

/* A message for engine @e in @data, which is valid until the return. Entered. */
void net_message(struct net_engine *e, uint32_t imm, const uint8_t *data, uint32_t len);

/* What a comm may have to take, before it sees any of it. */
static inline uint32_t net_message_share(enum proto_mode mode, enum net_comm_kind kind)
{
	if (mode == PROTO_WRITE)
		return 0;
	if (mode == PROTO_READ)
		return (kind == NET_SEND ? NET_FINS_UNSEEN : NET_SENDS_UNREAD) + 1;
	return (kind == NET_SEND ? NET_LINES_UNSEEN + NET_GRANTS_UNSEEN : 0) + NET_ASKS + 1;
}

/* Is there room for the lines of one more receive? */
bool net_message_may_tell(const struct net_recv *r);
/* The peer has spoken of line @seq. */
static inline void net_message_answered(struct net_recv *r, uint32_t seq)
{
	if (proto_before(r->answered, seq))
		r->answered = seq;
}

/* A mover's lines(), as a message. */
int net_message_lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n);

/*
 * Tell the peer that @c is over: it may wait for what will not come, with nothing under way that
 * would fail. Once, and not without credits; with writes nothing needs to be said. Entered.
 */
void net_message_over(struct net_comm *c);

/*
 * Send @nsge pieces with @imm from the control queue pair of @rail to the peer's; -EAGAIN: no
 * credits. It completes as @wr_id, until when what does not fit into the request must stay.
 */
int net_message_send(struct net_comm *c, int rail, uint32_t imm, const struct ibv_sge *sge,
		     int nsge, uint64_t wr_id);

#endif
