/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes to a receiver before it is known which buffer it is for: eager messages, and words of
 * where the data of a send can be read. In the order in which they were sent, each is for the first
 * buffer that has its tag and nothing yet; what finds none waits until there is one.
 *
 * All functions are entered.
 */
#ifndef NET_EARLY_H
#define NET_EARLY_H

#include "comm.h"

/*
 * False: @m makes no sense, or is here already, and stays the caller's. Else it is brought to its
 * buffer, now or later: net_eager_deliver() or net_read_deliver().
 */
bool net_early_arrived(struct net_recv *r, const struct net_early *m);
/* @req was posted: for what is here already. */
void net_early_posted(struct net_recv *r, struct net_req *req);

#endif
