/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comms: one direction of one connection. The first error is kept and returned by every later
 * call; other comms of the engine go on. A closed comm lives until its last request has completed.
 */
#ifndef NET_COMM_H
#define NET_COMM_H

#include "engine.h"
#include "limits.h"
#include "proto.h"
#include "slab.h"
#include "srd.h"

enum net_comm_kind { NET_SEND, NET_RECV };

/* First member of both kinds. */
struct net_comm {
	enum net_comm_kind kind;
	int err; /* -errno, latched */
	bool closed;
	uint32_t under_way; /* posted work requests that have not completed */
	struct net_engine *engine;
	struct net_comm *next, *prev; /* of the engine */
	int nrails;
	struct srd_peer peer[NET_MAX_RAILS]; /* where it writes: to data or control queue pairs */
};

/* A request of NCCL. Its address with a kind in the low bits is the wr_id of its work requests. */
struct net_req {
	_Alignas(64) struct net_comm *comm;
	uint32_t bytes;  /* of the message */
	uint8_t to_come; /* 0: done */
	bool in_use;     /* from isend or irecv until test has said done */
	/* receives */
	uint8_t got;       /* a bit per piece that is here */
	bool from_reserve; /* whose promise it uses */
	bool cts_under_way;
};

enum { WR_DATA = 0, WR_CTS = 1, WR_RQ = 2, WR_KIND = 3 };

struct net_send {
	struct net_comm c;
	struct srd_wr wr;       /* of the data; what is the same for all messages is filled in */
	uint32_t conn_id;       /* in lines for this comm */
	uint32_t next_seq;      /* of the line it waits for */
	struct net_block *ring; /* NET_RING_ENTRIES lines, written by the peer */
	uint32_t peer_id;       /* its comm number */
	uint64_t scratch_addr;  /* at the peer */
	uint32_t scratch_rkey[NET_MAX_RAILS];
	uint64_t free; /* a bit per request */
	struct net_req req[NET_MAX_SENDS];
};

struct net_recv {
	struct net_comm c;
	struct srd_wr wr; /* of lines; likewise */
	uint32_t id;      /* its number in immediates */
	uint32_t next_seq;
	uint32_t ring_mask; /* entries of the peer's ring, less 1 */
	uint32_t reserve;   /* promises left without asking the engine */
	uint64_t ring_addr; /* at the peer */
	/* both by ring entry, modulo their size: never more are open */
	struct net_block *mirror; /* the lines that are written there */
	struct net_req req[NET_RING_ENTRIES];
};

/* The engine gets one user from its caller, given back when the comm is freed. Not entered. */
int net_send_open(struct net_engine *e, uint32_t conn_id, const struct proto_handle *peer,
		  struct net_send **out);
/* With the peer's answer the comm can send. */
int net_send_start(struct net_send *s, const struct proto_resp *resp);
/* The promises that net_engine_get() set aside are given back, too, when this fails. */
int net_recv_open(struct net_engine *e, const struct proto_req *req, struct net_recv **out);

/* Never waits for the peer, never fails. Not entered. */
void net_comm_close(struct net_comm *c);
/* Take it apart; nothing of it is under way. Entered. */
void net_comm_free(struct net_comm *c);

/* Latch an error and say so, once per comm. @wc may be NULL. */
void net_comm_fail(struct net_comm *c, int err, const char *what, const struct srd_wc *wc);

#endif
