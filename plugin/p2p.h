/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and receiving. All return 0 or -errno. */
#ifndef NET_P2P_H
#define NET_P2P_H

#include "comm.h"
#include "mrcache.h"

/* *@request is NULL when nothing was started: to be called again. */
int net_isend(struct net_send *s, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request);
int net_irecv(struct net_recv *r, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request);
/* *@done is 1 or 0; when 1, *@size (may be NULL) is set and the request is free again. */
int net_test(struct net_req *req, int *done, int *size);

/* One completion of an engine's rail. */
void net_p2p_completed(struct net_engine *e, struct net_rail *rail, const struct srd_wc *wc);

#endif
