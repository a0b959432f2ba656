/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that nothing happens to, and sends that do not become any. NCCL waits for ever and says
 * nothing, and so does the device where no request of its own is under way. So the peer is asked
 * for a sign of life, which fails the comm if it is gone, and one line tells who waits for whom.
 * Looked at now and then by calls that find nothing.
 */
#ifndef NET_STALL_H
#define NET_STALL_H

#include "comm.h"

/*
 * Calls that find nothing, between two looks at the clock. A prime: where some calls are made in
 * turn, each of them is the one that looks some time.
 */
enum { NET_STALL_CALLS = 16381 };

/* Is there a request that nothing has happened to since the last look? Entered. */
bool net_stall_look(struct net_engine *e);
/* An isend found no line. It need not be said of each: it holds until a send of @s starts. */
void net_stall_no_line(struct net_send *s);
/* Is there a request that is not done, or an isend that is made again and again? Entered. */
bool net_stall_waits(struct net_comm *c);
/* What was asked has got nowhere, by a rail that is out now: at the next look. Entered. */
void net_stall_ask_again(struct net_comm *c);

#endif
