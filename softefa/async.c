/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events. */
#include "async.h"

#include <errno.h>

#include "log.h"
#include "qp.h"

#define PORT 1

void se_async_init(struct se_async *a, struct se_ctx *ctx, struct se_channel *channel,
		   uint64_t user)
{
	a->channel = channel ? channel : ctx->async;
	a->user = user;
	a->sent = 0;
	if (a->channel)
		a->channel->users++;
}

uint32_t se_async_fini(struct se_async *a)
{
	uint32_t read;

	if (!a->channel)
		return 0;
	read = a->sent - se_channel_purge(a->channel, a->user);
	a->channel->users--;
	a->channel = NULL;
	return read;
}

static bool tell(struct se_channel *channel, uint64_t element, enum se_event event)
{
	int rc = channel ? se_channel_send(channel, element, event) : 0;

	if (rc == -EAGAIN)
		se_log(SE_LOG_ERROR, "asynchronous event %d is lost: too many are unread", event);
	return channel && !rc;
}

void se_async_raise(struct se_async *a, enum se_event event)
{
	a->sent += tell(a->channel, a->user, event);
}

/* The device is gone: commands find nobody, and what is posted comes back flushed. */
static void device_fatal(struct se_ctx *ctx)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &se_qps) {
		struct se_qp *qp = se_container(n, struct se_qp, node);

		if (qp->obj.ctx != ctx)
			continue;
		qp->state = SE_ERR;
		qp->failed = true;
	}
	ctx->fatal = true;
	tell(ctx->async, 0, SE_EVENT_DEVICE_FATAL);
}

void se_async_inject(struct se_qp *qp, int word)
{
	/* In the order of the words in rule.h. */
	enum { QP_FATAL, CQ_ERR, DEVICE_FATAL, PORT_ERR, PORT_ACTIVE };

	switch (word) {
	case QP_FATAL:
		se_qp_fail(qp);
		break;
	case CQ_ERR:
		se_async_raise(&qp->send_cq->async, SE_EVENT_CQ_ERR);
		break;
	case DEVICE_FATAL:
		device_fatal(qp->obj.ctx);
		break;
	case PORT_ERR:
		tell(qp->obj.ctx->async, PORT, SE_EVENT_PORT_ERR);
		break;
	case PORT_ACTIVE:
		tell(qp->obj.ctx->async, PORT, SE_EVENT_PORT_ACTIVE);
		break;
	}
}
