/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: the ring, its back-pressure, and events. */
#ifndef SE_CQ_H
#define SE_CQ_H

#include "async.h"
#include "channel.h"
#include "ctx.h"
#include "desc.h"

struct se_cq_attr {
	uint32_t cqe;
	uint32_t entry_size; /* 16 or 32 */
	uint32_t comp_vector;
	uint64_t user; /* what events carry */
	struct se_channel *channel;
	struct se_channel *async; /* NULL: the context's */
	bool sgid;                /* report the GID of unknown senders */
	bool req_id_64;           /* for QPs with 64-bit request ids */
};

struct se_cq {
	struct se_obj obj;
	uint32_t depth, entry_size;
	bool sgid;
	struct se_region ring;
	struct se_doorbell db;
	uint32_t next;          /* entry to write */
	uint8_t phase;          /* to write it with */
	uint16_t prod;          /* entries written, against the consumer index of the doorbell */
	uint64_t posts;         /* requests and receives that can be unread at once */
	bool stuck;             /* found full, and nothing heard since */
	uint16_t stuck_at;      /* the consumer index then */
	uint32_t stuck_since;   /* when, on the clock of stale() */
	struct se_list waiting; /* struct se_tx whose completion finds no room */
	/* events */
	struct se_list with_channel; /* node */
	struct se_channel *channel;
	uint64_t user;
	uint32_t events;     /* sent for this CQ */
	uint64_t last_event; /* the channel's count when the last of them was sent */
	uint32_t event_db;   /* the doorbell then */
	uint16_t event_prod; /* prod then */
	uint32_t seen_db;
	uint64_t seen_us; /* seen_db since then */
	bool owed;        /* an event that found no room */
	struct se_async async;
};

int se_cq_create(struct se_ctx *ctx, const struct se_cq_attr *attr, struct se_cq **out);
/* Events that the application has read. */
struct se_cq_read {
	uint32_t completions, async;
};

/* -EBUSY, or 0 with what was read of this CQ. */
int se_cq_destroy(struct se_cq *cq, struct se_cq_read *read);
/* After fork(): only its memory goes. */
void se_cq_forget(struct se_cq *cq);

/*
 * Is an entry free? What the application has read is known by the doorbell, which lags: libefa's
 * end_poll does not write it when the poll before it found nothing more. So a ring that is full
 * by its doorbell is waited for, and written to nevertheless when all that can be unread has room
 * in it, or when nothing was heard for a second in which the program could run. The device itself
 * would overrun it at once.
 */
bool se_cq_room(struct se_cq *cq);
/* A queue of @depth completes to @cq from now on, or no more. */
void se_cq_attach(struct se_cq *cq, uint32_t depth, bool unsolicited);
void se_cq_detach(struct se_cq *cq, uint32_t depth, bool unsolicited);
/* Write an entry; the caller has seen room. The phase bit is added here. */
void se_cq_push(struct se_cq *cq, const struct se_cqe *cqe);
/* Look for changed doorbells of CQs with a channel. Returns how many changed. */
unsigned se_cq_poll_doorbells(uint64_t now_us);
/* Send events that found no room in their channel, and see for how long readers are silent. */
void se_cq_timers(void);
void se_cq_forget_all(void);

#endif
