/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events: what is told of an object, or of the device, without being asked. Each
 * object tells it to the asynchronous event fd that it was made with, or else to the context's
 * first. Engine lock held.
 */
#ifndef SE_ASYNC_H
#define SE_ASYNC_H

#include "channel.h"

/* enum ib_event_type */
enum se_event {
	SE_EVENT_CQ_ERR = 0,
	SE_EVENT_QP_FATAL = 1,
	SE_EVENT_DEVICE_FATAL = 8,
	SE_EVENT_PORT_ACTIVE = 9,
	SE_EVENT_PORT_ERR = 10,
};

struct se_qp;

/* Of one object. */
struct se_async {
	struct se_channel *channel; /* NULL: nobody listens */
	uint64_t user;              /* by which the application knows the object */
	uint32_t sent;
};

/* @channel NULL: that of @ctx. */
void se_async_init(struct se_async *a, struct se_ctx *ctx, struct se_channel *channel,
		   uint64_t user);
/* Take back what was not read; returns the number of events that were. */
uint32_t se_async_fini(struct se_async *a);
void se_async_raise(struct se_async *a, enum se_event event);

/* An injected event, by its place among the words of the rule; -1: none. @qp is at work. */
void se_async_inject(struct se_qp *qp, int word);

#endif
