/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages one behind the other on a lane, some of them under way at a time, each verified: the
 * body of most checks of the data path.
 */
#ifndef NETCHECK_STREAM_H
#define NETCHECK_STREAM_H

#include "check.h"

enum { STREAM_SLOTS = 64 };

struct stream {
	/* What the check sets. */
	struct check_ctx *ctx;
	struct check_lane *lane;
	uint64_t count; /* messages each way */
	int slots;      /* under way, of equal parts of the lane's buffers */
	size_t largest; /* bytes of a message, at most a slot */
	/* Of message @k, the same in all ranks; NULL: any from 0 to largest. */
	size_t (*size)(const struct stream *s, uint64_t k);
	bool overwrite;    /* a source when its send is done */
	uint64_t still_ns; /* how long a target that was used must stay as it is */

	/* What has happened; the checks may look. */
	uint64_t sent, sends_done, posted, received;
	void *send[STREAM_SLOTS], *recv[STREAM_SLOTS];
};

/* Fails unless the lane has room. */
void stream_init(struct stream *s, struct check_ctx *ctx, struct check_lane *lane, uint64_t count,
		 int slots);

/* Three sizes in turn, so that a message that comes twice or not at all has another. */
size_t stream_size_serial(const struct stream *s, uint64_t k);

/* One of each if it can be now; true: something was. They may be mixed with other calls. */
bool stream_post(struct stream *s);
bool stream_send(struct stream *s);
bool stream_sends_reap(struct stream *s); /* the oldest */
bool stream_recvs_reap(struct stream *s);

/* The @k-th message, which is there: size and bytes are expected. */
void stream_verify(struct stream *s, uint64_t k, int reported);

/* All that is left. */
void stream_run(struct stream *s);
bool stream_over(const struct stream *s);

#endif
