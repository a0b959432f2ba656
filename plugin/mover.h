/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the data of a connection move, by what both devices can. Requests, matching and credits are
 * the same for all (send.c, recv.c). All functions are entered; they return 0 or -errno, -EAGAIN
 * when there are no credits now and nothing was posted.
 */
#ifndef NET_MOVER_H
#define NET_MOVER_H

#include <stdint.h>

#include "comm.h"
#include "mrcache.h"

struct net_mover {
	/*
	 * Tell the peer of @n lines of @req, which follow each other in mirror and ring from number
	 * @seq on: one request of the control queue pair of r->next_rail, which has room for it.
	 * Where data are read, the peer need not know of them.
	 */
	int (*lines)(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n);
	/* Start to move req->bytes of @data to the buffer of line @l, number @seq; NULL: no lines.
	 */
	int (*send)(struct net_send *s, struct net_req *req, const struct proto_cts *l,
		    uint32_t seq, const void *data, const struct net_mr *mr);
	/* Go on with what net_todo_add() was called for; false: no credits. */
	bool (*run)(struct net_req *req);
	/* A message to @c but one with lines; @data is valid until the return. */
	void (*message)(struct net_comm *c, const struct proto_note *note, const uint8_t *data,
			uint32_t len);
};

extern const struct net_mover net_write, net_read, net_segment;

/* A write of a peer to this engine has completed. */
void net_write_arrived(struct net_engine *e, int rail, const struct srd_wc *wc);
/* Say where @size bytes of @data are, for a buffer with @tag, as @req. */
int net_read_send(struct net_send *s, struct net_req *req, const void *data, uint32_t size, int tag,
		  const struct net_mr *mr);
/* What was said so under @number is for @slot. */
void net_read_deliver(struct net_recv *r, uint32_t number, struct net_slot *slot);
/* An eager message for @slot was taken: its promise is made anew. */
void net_read_renew(struct net_recv *r, const struct net_slot *slot);
/* A read into buffer @i of @req has completed. */
void net_read_completed(struct net_req *req, uint32_t i, int rail);
/* It has not, and is to be tried again. */
void net_read_lost(struct net_req *req, uint32_t i);
/* Tell the sender all, once more; @req: any receive of the comm. */
void net_read_tell(struct net_req *req);

#endif
