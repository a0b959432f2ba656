/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the requester for requests to other hosts, tx->host: finding the way, sending them
 * with their bytes if these are few, handing out the others, noticing that nobody is there. Engine
 * lock held.
 */
#ifndef SE_AWAY_H
#define SE_AWAY_H

#include "tx.h"

/*
 * Send it. Without a way there, or room, it is put aside, for that must not delay what goes
 * elsewhere.
 */
void se_away_send(struct se_tx *tx);
/* Put it aside: to be sent again when there is news, but not for ever. */
void se_away_route(struct se_tx *tx);
/* Bytes of a request that the responder in @slot asks for. */
enum se_data_status se_away_source(int slot, const struct se_pull *p, void *out);

void se_away_poll(void);
/* Is the connection there over which it was sent? */
void se_away_check(struct se_tx *tx, uint64_t now_us);
void se_away_timers(uint64_t now_us);
void se_away_forget_all(void);

#endif
