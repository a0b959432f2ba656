/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels, and waiting for what comes out of a file descriptor. */
#include "srd.h"

#include <fcntl.h>
#include <string.h>

#include "direct.h"
#include "libs.h"
#include "log.h"
#include "wait.h"

int srd_channel_init(struct srd_channel *ch, struct srd_dev *dev)
{
	int flags, rc;

	memset(ch, 0, sizeof(*ch));
	errno = 0;
	ch->ibv = srd_ibv.create_comp_channel(dev->ibv);
	if (!ch->ibv)
		return srd_failed(dev->ibv, "ibv_create_comp_channel", errno, "%s", "");
	ch->fd = ch->ibv->fd;
	/* What poll() saw may be gone: another thread, or a CQ that was destroyed meanwhile. */
	flags = fcntl(ch->fd, F_GETFL);
	if (flags >= 0 && fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK) == 0)
		return 0;
	rc = srd_failed(dev->ibv, "fcntl", errno, ": O_NONBLOCK of a completion channel");
	srd_channel_fini(ch);
	return rc;
}

void srd_channel_fini(struct srd_channel *ch)
{
	int rc = ch->ibv ? srd_ibv.destroy_comp_channel(ch->ibv) : 0;

	if (rc)
		srd_warn("ibv_destroy_comp_channel: %s (%d)", strerror(rc), rc);
	memset(ch, 0, sizeof(*ch));
}

int srd_channel_wait(struct srd_channel *ch, int timeout_ms, struct srd_cq **cq)
{
	int rc = srd_wait_readable(ch->fd, timeout_ms);
	struct ibv_cq *ibv;
	void *context;

	if (rc)
		return rc;
	errno = 0;
	if (srd_ibv.get_cq_event(ch->ibv, &ibv, &context)) {
		if (errno == EAGAIN || errno == EINTR)
			return -EAGAIN;
		return srd_failed(ch->ibv->context, "ibv_get_cq_event", errno, "%s", "");
	}
	srd_ibv.ack_cq_events(ibv, 1);
	*cq = context;
	if ((*cq)->direct)
		srd_direct_event((*cq)->direct);
	return 0;
}
