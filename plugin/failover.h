/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rail that does not reach the peer any more is taken out of a connection, and what was on its
 * way there goes over the others. The receiver knows pieces that come twice.
 */
#ifndef NET_FAILOVER_H
#define NET_FAILOVER_H

#include "comm.h"

/*
 * A work request of @req failed on @rail: piece @piece of a send, buffer @piece of a receive by
 * reads, lines, or another word. True: it will be made again. Entered.
 */
bool net_failover(struct net_req *req, int kind, uint32_t piece, int rail, const struct srd_wc *wc);

/* Does an EFA status say that nothing gets through, rather than something of what was asked? */
bool net_failover_is_of_the_rail(uint32_t efa_status);
/* Once it is known how many rails @c has: may they be taken out? Those that are out, are. */
void net_failover_allow(struct net_comm *c);
/* @rail is out for @c, by what its device says; false: there is no other. */
bool net_failover_device(struct net_comm *c, int rail, const char *why);
/* @rail is out for @c, by what @wc says; false: it says something else, or there is no other. */
bool net_failover_rail(struct net_comm *c, int rail, const struct srd_wc *wc);

#endif
