/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of a device. */
#include "srd.h"

#include "libs.h"
#include "log.h"
#include "wait.h"

int srd_dev_event(struct srd_dev *dev, int timeout_ms, struct srd_event *event)
{
	struct ibv_async_event ibv;
	int rc = srd_wait_readable(dev->ibv->async_fd, timeout_ms);

	if (rc)
		return rc;
	errno = 0;
	if (srd_ibv.get_async_event(dev->ibv, &ibv)) {
		if (errno == EAGAIN || errno == EINTR)
			return -EAGAIN;
		return srd_failed(dev->ibv, "ibv_get_async_event", errno, "%s", "");
	}
	*event = (struct srd_event){.type = ibv.event_type};
	switch (ibv.event_type) {
	case IBV_EVENT_CQ_ERR:
		event->cq = ibv.element.cq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
		event->qp = ibv.element.qp;
		break;
	default:
		break;
	}
	srd_ibv.ack_async_event(&ibv);
	return 0;
}
