/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words to a peer that failed: a line, where data are or that they were read, whether it lives.
 * That is no error of who needs nothing of the peer any more: it may have done all it had to, and
 * be over. What says so may be there and not have been looked at, so the word's comm is in doubt
 * until there is nothing more to be polled.
 *
 * All functions are entered.
 */
#ifndef NET_DOUBT_H
#define NET_DOUBT_H

#include "comm.h"

/*
 * A word of @req failed. True: it is left to net_doubt_resolve(). A sender that lives may wait for
 * what was read: that is said once more, and if it was the last word, that the receiver is over.
 */
bool net_doubt(struct net_req *req, int rail, const struct srd_wc *wc);
/* A receive of a comm in doubt has come, which may need the peer. */
void net_doubt_again(struct net_engine *e);
/* Nothing is to be polled: some time after the last word failed, comms that need their peer fail.
 */
void net_doubt_resolve(struct net_engine *e);

#endif
