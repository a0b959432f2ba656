/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of one rank per supervisor, on any hosts: the supervisors' connections, a star around rank
 * 0's. Its ranks meet in their mapping as ever; what the mapping cannot do, the supervisor does
 * for its rank: gather the others' arrivals and shares. Private to the bootstrap.
 */
#ifndef HOST_BOOT_TCP_H
#define HOST_BOOT_TCP_H

#include <poll.h>

#include "boot_shared.h"
#include "link.h"

enum {
	HOST_STRANGERS = 16, /* connections that have not said yet who they are */
	HOST_TCP_FDS = 2 + HOST_STRANGERS + HOST_MAX_RANKS
};

struct host_tcp {
	const struct host_run *run; /* borrowed, as is boot */
	struct host_boot *boot;
	char where[32]; /* the root, for messages */

	/* Rank 0 has links to all others, by rank; they have link[0] alone. */
	struct host_link link[HOST_MAX_RANKS];
	bool done[HOST_MAX_RANKS];
	uint64_t ping_ns; /* when the last was sent */

	/* Until the run starts. */
	uint64_t limit_ns; /* when to give up */
	int listener;      /* rank 0's; -1: none */
	struct host_link stranger[HOST_STRANGERS];
	unsigned strangers; /* so far */
	int complaints;     /* about them, so far */
	bool welcome;       /* others: rank 0 has answered */
	uint64_t retry_ns;  /* others: when to connect again */
	int refusal;        /* others: -errno of the last attempt */

	/* The round of the barrier; rank 0 has all ranks', the others their own. */
	bool arrived[HOST_MAX_RANKS];
	size_t offered[HOST_MAX_RANKS];

	bool started, off, ended;
	int code; /* largest learned so far */
};

/* 0 or an enum host_exit, said on stderr. @tcp must be there until fini. */
int host_tcp_init(struct host_tcp *tcp, const struct host_run *run, struct host_boot *boot);
void host_tcp_fini(struct host_tcp *tcp);

/* What to wait for; returns how many of @fds are filled. */
int host_tcp_watch(const struct host_tcp *tcp, struct pollfd fds[HOST_TCP_FDS]);

/* Do what can be done without waiting; at least every 50 ms. Sets started, off, code. */
void host_tcp_step(struct host_tcp *tcp);

/* The run is off, and @why was said here: tell the others. */
void host_tcp_report(struct host_tcp *tcp, int code, const char *why);

/* The rank of this supervisor is gone; true when all are, and code is the run's. */
bool host_tcp_done(struct host_tcp *tcp, int code);

/* ---- the part of it that brings the ranks together ---- */

/* A step of it. */
void host_tcp_join(struct host_tcp *tcp);

/* The run is off: say @why here and tell all but @from (-1: all). */
void host_tcp_off(struct host_tcp *tcp, int from, int code, const char *why);

/* Body that a link of a joined rank takes. */
size_t host_tcp_largest(const struct host_tcp *tcp);

/* Without a body if @text is NULL. */
void host_tcp_put(struct host_tcp *tcp, int rank, enum host_frame_type type, int value,
		  const char *text);

#endif
