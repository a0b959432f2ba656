/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One queue pair: the messages that this side starts, and those that complete receives here. One
 * thread works all lanes. Errors are -errno, and were said on stderr.
 */
#ifndef SRD_BW_LANE_H
#define SRD_BW_LANE_H

#include "plan.h"
#include "srd.h"

struct bw_rail;

/* What all lanes do in a pass. */
struct bw_job {
	const struct bw_plan *plan;
	struct bw_pass pass;
	uint64_t stride, slots; /* of its size */
	bool client;            /* this side is */
	uint64_t *wrong;        /* bytes */
};

/* The contents of a message; @ours: that this side started. */
uint64_t bw_job_key(const struct bw_job *job, bool ours, uint32_t lane, uint64_t message);

struct bw_lane {
	struct bw_rail *rail;
	uint32_t number; /* in the run */
	struct srd_cq scq, rcq;
	struct srd_qp qp;
	struct srd_peer peer;
	uint64_t out, in; /* where its memory begins in that of the rail, by who starts messages */
	uint64_t raddr;   /* the other side's in */
	uint32_t rkey;
	uint64_t buffers; /* receives */

	/* Of the pass. */
	struct srd_xfer xfer;   /* what is left of the last message started */
	uint64_t goal, started; /* messages */
	uint64_t requests;      /* posted */
	uint32_t outstanding;   /* of them */
	uint64_t done_ns;       /* when the last of them completed */
	uint64_t received;
	uint8_t seen[2 * BW_MAX_WINDOW / 8]; /* with check: messages that came, a bit each */
};

int bw_lane_init(struct bw_lane *lane, const struct bw_plan *plan, bool direct);
void bw_lane_fini(struct bw_lane *lane);

void bw_lane_begin(struct bw_lane *lane, const struct bw_job *job, uint64_t goal);
/* Post what the window has room for. Returns how many requests. */
int bw_lane_push(struct bw_lane *lane, const struct bw_job *job);
/* Take completions of requests. Returns how many. */
int bw_lane_reap(struct bw_lane *lane, const struct bw_job *job);
/* Take completions of receives, look at them, post anew. Returns how many. */
int bw_lane_receive(struct bw_lane *lane, const struct bw_job *job);

/* No more is to come of it. */
static inline bool bw_lane_idle(const struct bw_lane *lane)
{
	return !lane->outstanding && lane->started == lane->goal && !srd_xfer_left(&lane->xfer);
}

/* Count @wrong bytes of message @message, and say so if it is one of the first. */
void bw_lane_complain(const struct bw_lane *lane, const struct bw_job *job, uint64_t message,
		      uint64_t wrong, uint64_t first);

#endif
