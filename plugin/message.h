/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between comms, where the receiver cannot write into the sender's memory: what they are
 * is in their immediate. They come in any order, each once.
 */
#ifndef NET_MESSAGE_H
#define NET_MESSAGE_H

#include "comm.h"

/* A message for engine @e in @data, which is valid until the return. Entered. */
void net_message(struct net_engine *e, uint32_t imm, const uint8_t *data, uint32_t len);

/* A mover's lines(), as a message. */
int net_message_lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n);

/*
 * Tell the peer that @c is over: it may wait for what will not come, with nothing under way that
 * would fail. Once, and not without credits; with writes nothing needs to be said. Entered.
 */
void net_message_over(struct net_comm *c);

/*
 * Send @nsge pieces with @imm from the control queue pair of @rail to the peer's; -EAGAIN: no
 * credits. It completes as @wr_id.
 */
int net_message_send(struct net_comm *c, int rail, uint32_t imm, const struct ibv_sge *sge,
		     int nsge, uint64_t wr_id);

#endif
