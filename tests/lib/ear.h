/* SPDX-License-Identifier: BSD-3-Clause */
/* A duo of which B has one more queue pair, which receives into a CQ with a completion channel. */
#ifndef TESTS_EAR_H
#define TESTS_EAR_H

#include "duo.h"

enum { EAR_LEN = 64 };

struct ear {
	struct duo d;
	int fd; /* the channel */
	struct raw_cq cq;
	struct raw_qp qp;
};

/* Events say the address of e->cq. */
void ear_init(struct ear *e);
/* Post a receive. */
void ear_recv(struct ear *e, uint16_t req_id);
/* What A posts to send to it. */
struct raw_wr ear_wr(const struct ear *e);
/* Send, and see it delivered. */
void ear_send(struct ear *e);

bool ear_readable(int fd, int ms);
/* The next event's CQ; fails when there is none. */
uint64_t ear_event(int fd);
/* Take the next event, which must be e->cq's. */
void ear_hear(struct ear *e);

/* A message arrives and its event with it. */
void ear_works(struct ear *e);

#endif
