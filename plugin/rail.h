/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine has on one EFA: queues, and what they have room for. */
#ifndef NET_RAIL_H
#define NET_RAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "rx.h"
#include "srd.h"

struct net_engine;

/*
 * Credits, so that no queue can overflow: a CQ has an entry for every request of both send queues
 * and for every immediate that clear-to-send lines have promised room for.
 */
struct net_rail {
	_Alignas(64) struct srd_td td;
	struct srd_cq cq;
	struct srd_qp data, ctrl;
	uint32_t data_free, ctrl_free;  /* send queue entries */
	bool reported;                  /* that it is out of some connection */
	uint32_t rq_missing;            /* receives to post again; 0 with unsolicited writes */
	uint32_t taken, tidy_after;     /* completions since complete.c tidied up, at most */
	struct net_rx data_rx, ctrl_rx; /* where messages go */
};

enum {
	NET_RQ_BATCH = 64,     /* receives for immediates that are posted at a time */
	NET_TAKEN_MOST = 80,   /* completions that the device was not told to be taken */
	NET_SEGMENT_RX = 1024, /* receives for segments */
};

/* What the rails of @e, which has its mode, are to have room for; -EOPNOTSUPP: for too little. */
int net_rails_plan(struct net_engine *e);
/* Rail @i, as planned. On error it is to be taken apart as well. */
int net_rail_init(struct net_engine *e, int i);
void net_rail_fini(struct net_rail *rail);
/* Post the receives that immediates consumed on rail @i. */
void net_rail_refill(struct net_engine *e, int i);

#endif
