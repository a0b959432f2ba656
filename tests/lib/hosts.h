/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts: the test's process and a child have addresses of their own, which the adapter connects
 * by TCP. Each has a node; the child does with its node what it is told.
 */
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include <sys/types.h>

#include "node.h"

enum { HOSTS_BUF = 32 << 20, HOSTS_HALF = HOSTS_BUF / 2 }; /* of both nodes */

enum hosts_order {
	HOSTS_FILL,   /* off, len, seed */
	HOSTS_FILLED, /* off, len, seed: is it? */
	HOSTS_RECV,   /* post one: off, len, seed is its id */
	HOSTS_RECV_2, /* and another, with the next id, right behind */
	HOSTS_QUIET,  /* no receive completes within len ms: is it so? */
	HOSTS_DEREG,
	HOSTS_FAIL, /* its queue pair */
	HOSTS_LEAVE,
	HOSTS_EXIT, /* without a close */
};

struct hosts {
	struct node n; /* ours */
	struct node_addr here, there;
	uint16_t ahn; /* of them */
	pid_t pid;
	uint16_t port[2]; /* here, there */
	struct hosts_meeting *meeting;
};

struct hosts_attr {
	const char *settings;
	struct node_attr node; /* of both */
	bool strangers;        /* they have no AH for us */
	bool apart; /* in network namespaces of their own; skips the test without the right to that
		     */
};

void hosts_begin(struct hosts *h, const struct hosts_attr *attr);
/* They leave, and well. */
void hosts_end(struct hosts *h);

/* True unless asked a question with another answer. */
bool hosts_order(struct hosts *h, enum hosts_order what, uint64_t off, uint32_t len, uint32_t seed);
/* Their next receive completion. */
struct raw_wc hosts_wait(struct hosts *h);

/* A request to the same place there. */
struct raw_wr hosts_wr(struct hosts *h, enum raw_op op, uint64_t off, uint32_t len);
/* Its status. */
unsigned hosts_run(struct hosts *h, const struct raw_wr *wr);

/* Cut the cable between hosts that are apart, or mend it. */
void hosts_cable(struct hosts *h, bool up);

#endif
