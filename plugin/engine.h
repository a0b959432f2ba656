/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What moves data: per rail of a device one completion queue and two queue pairs (data; and
 * control, with the low-latency service level), shared by all comms that one NCCL service thread
 * makes and the progress thread that goes with it then drives. The number of queue pairs does not
 * depend on the number of peers.
 *
 * An engine is used by one thread at a time: net_owner_enter(&e->owner) first, "entered" below.
 */
#ifndef NET_ENGINE_H
#define NET_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "limits.h"
#include "owner.h"
#include "proto.h"
#include "rail.h"
#include "slab.h"
#include "srd.h"

struct net_comm;
struct net_numbers;
struct net_req;

enum {
	NET_RECV_RESERVE = 8,    /* immediates that each receive comm can always be promised */
	NET_SEGMENT_RESERVE = 2, /* likewise, segments that it can always grant */
	NET_ID_PAGE = 1024,
	NET_RINGS_RETIRED = 128, /* then no comms are added: 16 KiB each, until the end */
};

struct net_engine {
	/* device lock */
	struct net_engine *next;
	pthread_t thread; /* the service thread it is for */
	uint32_t users;   /* comms, and connections that will become one */
	uint32_t nrecvs, max_recvs;
	/* fixed */
	struct net_dev *dev;
	enum proto_mode mode; /* of all its comms */
	bool unsolicited;     /* of its queue pairs: the peer's must be the same */
	uint32_t segment;     /* bytes of data in one message */
	uint32_t eager_max;   /* bytes that may go ahead; 0: none */
	uint32_t eager_rx;    /* buffers for them, of each rail */
	uint32_t messages;    /* likewise, of those between comms, at most; 0: there are none */
	uint32_t qkey;
	int nrails;
	bool counting; /* NCCL_EFA_STATS */
	/* entered */
	struct net_counts counts; /* read by whoever writes them down */
	struct net_owner owner;
	struct net_rail rail[NET_MAX_RAILS];
	struct srd_peer self[NET_MAX_RAILS]; /* zero: not needed */
	bool flush_reads;
	uint32_t imm_free;              /* immediates that may still be promised, on every rail */
	uint32_t segments_free;         /* likewise, segments that may be granted */
	uint32_t eager_free;            /* eager messages, likewise */
	uint32_t messages_free;         /* that comms to come may have to take, see message.h */
	struct net_slab rings, mirrors; /* apart: peers write to rings, also to those of the past */
	struct net_slab notes; /* a line for each request of a send comm; what is to be read */
	uint32_t rings_retired;
	struct net_block *scratch; /* where messages of 0 bytes go, and the buffer of receives */
	struct net_comm *comms;    /* all, closed ones with requests under way included */
	struct net_comm **by_id[NET_MAX_COMMS / NET_ID_PAGE]; /* pages come as needed */
	uint32_t last_id;
	struct net_req *todo, **todo_end; /* what waits for credits */
	int64_t todo_after_ms;            /* and not before that; 0: at once */
	int32_t patience;            /* calls that may find nothing until the next look around */
	int64_t stall_look_ms;       /* not before that */
	uint8_t out;                 /* a bit per rail of a device that said so */
	struct net_numbers *numbers; /* for segments, or NULL */
	bool doubtful;               /* there is a comm that is, see doubt.h */
	int64_t doubt_ms;            /* and not before that it fails */
	bool worn; /* to go with its last user: promises are lost, or rings retired */
};

/*
 * An engine for the calling thread, with one user more. What one more comm needs is set aside, of a
 * receive comm (@recv) NET_RECV_RESERVE promises. The device must be open. Not entered.
 */
int net_engine_get(struct net_dev *dev, enum proto_mode mode, bool unsolicited, bool recv,
		   struct net_engine **out);
void net_engine_put(struct net_engine *e, bool recv);
/* What was set aside is not needed. Entered. */
void net_engine_unreserve(struct net_engine *e, bool recv);
/* Destroy all engines without users; true when none is left. Device lock held. */
bool net_engines_close_locked(struct net_dev *dev);

/* A number for @c; -ENOMEM, -EUSERS. Entered. */
int net_engine_add(struct net_engine *e, struct net_comm *c);
void net_engine_del(struct net_engine *e, struct net_comm *c);

/* With writes, only receive comms have numbers. */
static inline struct net_comm *net_engine_comm(const struct net_engine *e, uint32_t id)
{
	struct net_comm **page = e->by_id[id / NET_ID_PAGE];

	return page ? page[id % NET_ID_PAGE] : NULL;
}

/*
 * Nothing has completed, on any rail: a look at a byte each, without a branch, for it is most of a
 * test that finds nothing. Entered.
 */
static inline bool net_engine_idle(const struct net_engine *e)
{
	bool idle = true;

	switch (e->nrails) {
	default:
		for (int r = 4; r < e->nrails; r++)
			idle &= srd_cq_empty(&e->rail[r].cq);
		/* fall through */
	case 4:
		idle &= srd_cq_empty(&e->rail[3].cq);
		/* fall through */
	case 3:
		idle &= srd_cq_empty(&e->rail[2].cq);
		/* fall through */
	case 2:
		idle &= srd_cq_empty(&e->rail[1].cq);
		/* fall through */
	case 1:
		idle &= srd_cq_empty(&e->rail[0].cq);
	}
	return idle;
}

/* This side's queue pairs, for the peer. */
void net_engine_rails(const struct net_engine *e, struct proto_rail *rail);

#endif
