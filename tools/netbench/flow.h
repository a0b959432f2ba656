/* SPDX-License-Identifier: BSD-3-Clause */
/* A sequence of messages through one connection: the engine of all patterns but ring. */
#ifndef NETBENCH_FLOW_H
#define NETBENCH_FLOW_H

#include "bench.h"

struct nb_flow {
	struct nb_conn *conn;
	enum nb_buf buf;

	/* Message m lies in slot m % slots, at base + slot * stride. */
	char *base;
	size_t stride;
	size_t len; /* of a message; of one in the last slot: */
	size_t last_len;
	uint64_t slots;
	uint64_t window; /* outstanding at most; no more than slots */

	/*
	 * Serials number the messages of the connection over the whole run, the same on both sides:
	 * serial is that of message 0, body that of slot 0 where bodies stay (NB_STAMP).
	 */
	uint64_t serial;
	uint64_t body;

	/* Counters of this exchange, in messages: done <= started <= ready <= messages. */
	uint64_t messages;
	uint64_t ready;   /* slot filled (sender), poisoned (receiver) if the mode asks for it */
	uint64_t started; /* isend or irecv gave a request */
	uint64_t done;
	void *requests[NCCL_NET_OUTSTANDING];
};

/* Start over with @messages more, numbered after those before. */
void nb_flow_restart(struct nb_flow *flow, uint64_t messages);

/* NB_STAMP: write the bodies (sender) or poison (receiver) before the first exchange of a size. */
void nb_flow_prepare(struct nb *nb, struct nb_flow *flow);

/*
 * One pass: at most one message made ready, one isend or irecv, one test. No message from number
 * @gate on is made ready. 1: something moved, 0: nothing, or an internal error code.
 */
int nb_flow_pass(struct nb *nb, struct nb_flow *flow, enum nb_mode mode, uint64_t gate);

/* Receiver, after NB_STAMP: verify every byte of what still lies in the slots. */
void nb_flow_verify(struct nb *nb, struct nb_flow *flow);

/* Say where the first unfinished of @flows stands; returns -ETIME. */
int nb_flow_stalled(struct nb *nb, const struct nb_flow *flows, int n);

static inline bool nb_flow_finished(const struct nb_flow *flow)
{
	return flow->done == flow->messages;
}

#endif
