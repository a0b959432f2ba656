/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection between the supervisors of two ranks: frames, never waiting. A frame is a head
 * of 16 bytes and a body:
 *
 *   0  magic "nbb1"   4  type   5  rank   6  zero (2)   8  value, u32   12  body bytes, u32
 *
 * Numbers are little-endian; a body is text or the share of an all-gather, as the memory of its
 * rank holds it.
 */
#ifndef HOST_LINK_H
#define HOST_LINK_H

#include <stddef.h>
#include <stdint.h>

enum host_frame_type {
	HOST_HELLO = 1, /* rank to 0; value: ranks in the run; body: terms, text */
	HOST_REFUSE,    /* 0 to rank; body: why, text */
	HOST_START,     /* 0 to rank: all have come */
	HOST_PING,      /* both */
	HOST_ARRIVE,    /* rank to 0: at the barrier; value: round; body: share */
	HOST_OPEN,      /* 0 to rank: all have arrived; value: round; body: all shares */
	HOST_REPORT,    /* both: the run is off; value: code; body: why, text */
	HOST_DONE,      /* rank to 0: its process is gone; value: code */
	HOST_END,       /* 0 to rank: so are all; value: code of the run */
	HOST_FRAME_TYPES
};

enum {
	HOST_HEAD_BYTES = 16,
	HOST_TEXT_BYTES = 512 /* body that is text: at most so long */
};

struct host_frame {
	enum host_frame_type type;
	int rank; /* the sender's */
	uint32_t value;
	uint32_t bytes;
	const void *body; /* got: until the next get */
};

struct host_link {
	int fd;            /* owned; -1: none */
	char name[32];     /* "192.0.2.1:4000" of the other end */
	size_t largest;    /* body accepted */
	uint64_t heard_ns; /* when bytes last came */
	int error;         /* -errno: nothing leaves any more */
	char *in, *out;
	size_t in_cap, in_at;            /* of the frame that comes in */
	size_t out_cap, out_at, out_end; /* queued: from out_at to out_end */
};

/* Takes @fd, which may still be connecting, and makes it non-blocking. */
void host_link_init(struct host_link *link, int fd, size_t largest);
void host_link_fini(struct host_link *link);

/*
 * Queue @frame and send what can be sent. A connection that fails meanwhile, or the want of memory
 * for the queue, shows in host_link_get(), after all that came in before.
 */
void host_link_put(struct host_link *link, const struct host_frame *frame);
void host_link_flush(struct host_link *link);

/*
 * 1: @frame. 0: not now. -EPIPE: closed by the other end. -EPROTO: not a frame, or one above
 * largest. Other -errno: of the connection.
 */
int host_link_get(struct host_link *link, struct host_frame *frame);

/* The body as text; what may not be shown on a terminal becomes '?'. */
void host_frame_text(const struct host_frame *frame, char text[HOST_TEXT_BYTES + 1]);

#endif
