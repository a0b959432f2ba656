/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making what has arrived in memory of a GPU visible to it. The NIC's writes and the CPU's word
 * that they are there take different ways; a read of the buffer by the same NIC pushes the writes
 * out first. So a flush is a read of one byte, from the engine to itself, by each rail that data
 * came by since the last one.
 */
#ifndef NET_FLUSH_H
#define NET_FLUSH_H

#include "comm.h"

/* Is it done by reads? */
bool net_flush_reads(const struct net_engine *e);

/*
 * @n buffers of receives that are done; those of 0 bytes and of the host need nothing. *@request is
 * NULL when that is over already: there is no "not now". What finds no room in a send queue is a
 * request all the same, and posted later.
 */
int net_iflush(struct net_recv *r, int n, void *const *data, const int *sizes, void *const *mrs,
	       void **request);

/* Post what found no room; false: there is none yet. Entered. */
bool net_flush_run(struct net_req *req);
/* @mr goes away. Entered. */
void net_flush_forget(struct net_recv *r, const struct net_mr *mr);
/* Of a comm that is taken apart. */
void net_flush_free(struct net_recv *r);

#endif
