/* SPDX-License-Identifier: BSD-3-Clause */
/* Data by messages: what is there besides the mover. */
#ifndef NET_SEGMENT_H
#define NET_SEGMENT_H

#include "comm.h"

/* What a comm needs of its own; -ENOMEM. Freed with the comm. */
int net_segment_open_send(struct net_send *s);
int net_segment_open_recv(struct net_recv *r);

/* A segment of @req, of whose number wr_id holds @low, has completed; or it is to be sent again. */
void net_segment_completed(struct net_req *req, uint32_t low);
void net_segment_lost(struct net_req *req, uint32_t low);

/* The receiver has granted so many, since the beginning. */
void net_segment_granted(struct net_send *s, uint32_t grant);
/* The sender is to be told again how many that is. */
void net_grant_lost(struct net_recv *r);

#endif
