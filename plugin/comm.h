/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comms: one direction of one connection. The first error is kept and returned by every later
 * call; other comms of the engine go on. A closed comm lives until its last request has completed.
 */
#ifndef NET_COMM_H
#define NET_COMM_H

#include "engine.h"
#include "limits.h"
#include "nccl_net_abi.h"
#include "proto.h"
#include "slab.h"
#include "srd.h"

enum net_comm_kind { NET_SEND, NET_RECV };

#define NET_NO_ID UINT32_MAX

struct net_events;
struct net_flight;
struct net_mover;
struct net_window;

/* First member of both kinds. */
struct net_comm {
	enum net_comm_kind kind;
	int err; /* -errno, latched */
	bool closed;
	bool told;          /* the peer knows that it is over, or said so itself */
	uint32_t under_way; /* posted work requests that have not completed */
	struct net_engine *engine;
	const struct net_mover *mover;
	struct net_events *events; /* profile.c; NULL: none */
	nccl_net_profiler_fn profiler;
	uint32_t id;                  /* its number in immediates, or NET_NO_ID */
	uint32_t peer_id;             /* the same of the peer's comm */
	uint32_t min_stripe;          /* bytes of a piece of a message, at least */
	uint32_t segment;             /* bytes of one message of data */
	struct net_comm *next, *prev; /* of the engine */
	/*
	 * stall.c: what its requests looked like, since when; after how long the peer is asked for
	 * a sign of life; whether it was said
	 */
	uint64_t mark;
	int64_t marked_ms, ask_ms;
	bool stall_said;
	uint8_t asked; /* by messages, since the peer was heard of */
	int nrails;
	bool failover; /* more than one rail */
	uint8_t dead;  /* a bit per rail that is out */
	int nalive;
	struct srd_peer peer[NET_MAX_RAILS]; /* where it writes: to data or control queue pairs */
	/* doubt.c: a word failed; which, and how: the first */
	bool doubtful;
	int doubt_rail;
	struct srd_wc doubt;
};

/* A request of NCCL. Its address with a kind in the low bits is the wr_id of its work requests. */
struct net_req {
	_Alignas(64) struct net_comm *comm;
	uint32_t bytes;   /* of a sent message */
	uint32_t to_come; /* pieces of a send, buffers of a receive; 0: done */
	bool in_use;      /* from isend or irecv until test has said done */
	bool queued;      /* in the engine's todo */
	uint8_t busy;     /* whatever else keeps it from being used again */
	uint8_t n;        /* buffers of a receive, pieces of a send */
	uint8_t lost;     /* pieces or the word to be sent again, a bit each; of a receive: lines */
	uint8_t eager;    /* buffers of a receive that eager messages filled, or nobody tells of */
	/* receives */
	uint8_t from_reserve; /* how many of their promises are the comm's own */
	bool quiet;           /* done when its line is there, see recv.c */
	uint16_t slot;        /* of the first */
	struct net_req *todo; /* next to be gone on with */
	/* sends, of movers that do not start all at once */
	const void *data;
	const struct net_mr *mr;
	uint32_t next;
	uint32_t seq; /* of its line, of its first */
};

_Static_assert(sizeof(struct net_req) == 64, "a cache line");

/* Kinds of work requests: what their completion means, and whose credit it gives back. */
enum {
	WR_DATA = 0,  /* a piece of the send is there; data queue pair */
	WR_LINES = 1, /* what it was sent from may be written again; control */
	WR_RQ = 2,    /* a receive */
	WR_NOTE = 3,  /* nothing, unless it fails; control */
	WR_READ = 4,  /* a piece of buffer number wr_id >> WR_BUF_SHIFT is here; data */
	/* whose number is, as far as it fits, in the 8 bits that no address has: */
	WR_SEGMENT = 6, /* a segment is there; data */
	WR_KIND = 7,
	WR_CTRL = 1, /* the bit of those of the control queue pair */
	WR_BUF_SHIFT = 3,
	WR_BITS = 63, /* of all of these */
	WR_SEGMENT_SHIFT = 56,
	/* of receives, whose buffers have their numbers above: */
	WR_OF_DATA = 1 << WR_BUF_SHIFT, /* of the data queue pair */
	WR_EAGER = 2 << WR_BUF_SHIFT,   /* where eager messages are kept, see net_eager_rx() */
};

#define WR_ADDRESS (((uint64_t)1 << WR_SEGMENT_SHIFT) - 1 - WR_BITS)

struct net_send {
	struct net_comm c;
	struct srd_wr wr;  /* of the data; what is the same for all messages is filled in */
	uint32_t conn_id;  /* in lines for this comm */
	bool started;      /* the peer has answered */
	uint32_t next_seq; /* of the first line of the group that sends now go to */
	uint8_t group;     /* how many lines that is; 0: they are not all here */
	uint8_t taken;     /* a bit per line of it that has its send */
	struct net_block
		*ring; /* NET_RING_ENTRIES lines, written by the peer; by reads none comes */
	struct net_block *notes; /* one line per request, or NULL: not needed */
	uint64_t scratch_addr;   /* at the peer */
	uint32_t scratch_rkey[NET_MAX_RAILS];
	/* segment.c: segments that may be sent, and were, since the beginning; who waits for more
	 */
	uint32_t granted, sent;
	struct net_flight *flight; /* one per request, or NULL */
	struct net_req *waiting, *last_waiting;
	uint64_t free; /* a bit per request */
	/* what goes ahead of its line, of which there are none by reads: see early.h */
	uint32_t next_ahead; /* its number */
	uint8_t ahead_rail;
	/* eager.c */
	uint32_t eager_max;               /* bytes; 0: none are sent */
	uint32_t eager_sent, eager_limit; /* eager messages, and those that may be */
	uint64_t eager;                   /* a bit per request that went ahead */
	uint8_t nahead;
	uint32_t ahead[NET_EAGER_MOST]; /* tags of those whose lines were not seen yet, in order */
	struct srd_peer data_to[NET_MAX_RAILS]; /* as peer, but for the queue pair; borrowed */
	struct net_req req[NET_MAX_REQS];
	struct proto_cts line[NET_MAX_REQS]; /* what it goes by, for failover */
	/* read.c: the next number; the first that was not read, and a bit for each that was */
	uint32_t next_ready, unread, read;
	uint8_t reading[NET_SENDS_UNREAD]; /* requests, by number */
	uint64_t waits;                    /* stall.c: what was sent when an isend found no line */
};

/* A buffer of a posted receive. */
struct net_slot {
	uint32_t bytes; /* that are here */
	uint32_t left;  /* of pieces: what is counted, down or up, is the mover's affair */
	uint32_t total;
	bool open;     /* what is for it is not known, or, with lines, not all here */
	uint8_t copy;  /* eager.c: what becomes of the message for it */
	uint8_t req;   /* whose buffer it is */
	uint8_t got;   /* a bit per piece that is here */
	uint8_t state; /* the mover's */
	uint32_t most; /* segments that fit */
	const struct net_mr *mr;
};

/* What came before its receive. */
struct net_early {
	struct proto_eager head;
	uint32_t buf; /* the receive buffer that it is in, or its number among those to read */
	int rail;     /* or NET_TO_READ: where the data are is in the comm's ready */
};

enum { NET_TO_READ = -1 };

/*
 * Requests and slots are taken in turn: a receive that was not tested yet holds up those that come
 * round to it. The slot of a buffer is the number of its line, modulo nslots.
 */
struct net_recv {
	struct net_comm c;
	struct srd_wr wr;             /* of lines; likewise */
	uint32_t next_seq;            /* of the next line */
	uint32_t seen;                /* the peer needs no line before it any more */
	uint32_t nslots;              /* what this side and the peer's ring both have */
	uint32_t slots_free;          /* behind the last */
	uint32_t req_first, req_next; /* oldest request that holds slots; next to use */
	uint8_t next_rail;            /* for lines, and the first piece of data */
	uint32_t reserve;             /* promises left without asking the engine */
	uint32_t ring_mask;           /* entries of the peer's ring, less 1 */
	uint64_t ring_addr;           /* at the peer */
	uint32_t ring_rkey[NET_MAX_RAILS];
	struct net_block *mirror; /* the lines that are written there, by slot */
	/* quiet lines: in a row, at most, and at last; where the last of them ended */
	uint32_t quiet_most, nquiet, quiet_end;
	struct net_req req[NET_MAX_REQS];
	struct net_slot slot[NET_RING_ENTRIES];
	/* message.c: the newest messages with lines, by their first; of what line the peer spoke */
	uint32_t told[NET_LINES_UNSEEN], ntold, answered;
	/* segment.c: segments that the peer was granted, and that came, since the beginning */
	uint32_t granted, arrived;
	uint32_t wanted;           /* that open buffers may still take */
	uint32_t own;              /* receives for them without asking the engine */
	bool untold;               /* the peer does not know what it was granted */
	struct net_window *window; /* one per slot, or NULL */
	/* early.c */
	uint32_t first_open; /* line: none before it is open */
	uint32_t early_next; /* all before it are here, and were looked at in turn */
	uint8_t nearly;      /* that are without a buffer, or not looked at */
	struct net_early early[NET_EARLY_MOST]; /* by number */
	/* eager.c */
	bool eager;                       /* the peer may send them */
	uint8_t held;                     /* credits that are out */
	uint32_t eager_came, eager_limit; /* messages that are here, and that the peer may send */
	/* read.c */
	struct net_block *ready; /* the sender's, by number, or NULL */
	uint32_t known;          /* a bit for each that is to be read */
	struct proto_fin fin;    /* what the sender is to know, */
	bool fin_untold;         /* or does not yet, */
	uint32_t eager_told;     /* and what of eager_limit it was told */
	/* flush.c */
	uint32_t touched;      /* a bit per rail that data came by since the last flush */
	struct net_req *flush; /* NET_MAX_FLUSHES, or NULL: none yet; slot holds their rails */
	uint32_t flush_first, flush_next;
};

/*
 * The engine gets one user from its caller, given back when the comm is freed. What
 * net_engine_get() set aside is given back, too, when this fails. Not entered.
 */
int net_send_open(struct net_engine *e, uint32_t conn_id, const struct proto_handle *peer,
		  struct net_send **out);
/* With the peer's answer the comm can send. */
int net_send_start(struct net_send *s, const struct proto_resp *resp);
int net_recv_open(struct net_engine *e, const struct proto_req *req, struct net_recv **out);

/* Never waits for the peer, never fails. Not entered. */
void net_comm_close(struct net_comm *c);
/* Take it apart; nothing of it is under way. Entered. */
void net_comm_free(struct net_comm *c);

/* Something that was under way is not any more. Entered; @c may be gone then. */
static inline void net_comm_completed(struct net_comm *c)
{
	if (__builtin_expect(--c->under_way == 0 && c->closed, 0))
		net_comm_free(c);
}

enum { NET_SIDE_TEXT = 128 };
/* Who talks to whom on @rail: "device GID qp 17". */
void net_comm_sides(const struct net_comm *c, int rail, char here[NET_SIDE_TEXT],
		    char there[NET_SIDE_TEXT]);
/* Latch an error and say so, once per comm. @rail: where; @wc may be NULL. */
void net_comm_fail(struct net_comm *c, int err, const char *what, int rail,
		   const struct srd_wc *wc);

#endif
