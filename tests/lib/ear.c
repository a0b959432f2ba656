/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits for events. */
#include "ear.h"

#include <poll.h>
#include <unistd.h>

#include "kids.h"

void ear_init(struct ear *e)
{
	struct raw_cq_attr attr = {.depth = 64};

	duo_init(&e->d, &(struct node_attr){0});
	MUST_0(raw_channel(&e->d.b.dev, &e->fd));
	attr.channel = e->fd;
	attr.user = (uintptr_t)&e->cq;
	MUST_0(raw_cq_create(&e->cq, &e->d.b.dev, &attr));
	MUST_0(raw_qp_create(&e->qp, &e->d.b.dev, &e->d.b.pd, &e->cq, &e->cq,
			     &(struct raw_qp_attr){.type = RAW_SRD, .rq = 64}));
	MUST_0(raw_qp_up(&e->qp, &e->d.b.dev, NODE_QKEY, -1));
}

void ear_recv(struct ear *e, uint16_t req_id)
{
	struct raw_sge sge = raw_sge(&e->d.b.mr, 0, EAR_LEN);

	raw_post_recv(&e->qp, req_id, &sge, 1);
	raw_ring(&e->qp);
}

struct raw_wr ear_wr(const struct ear *e)
{
	struct raw_wr wr = node_wr(&e->d.a, RAW_SEND, &e->d.to_b, e->d.ahn, 0, EAR_LEN, 0);

	wr.qpn = (uint16_t)e->qp.qpn;
	return wr;
}

void ear_send(struct ear *e)
{
	struct raw_wr wr = ear_wr(e);
	unsigned status = node_run(&e->d.a, &wr).status;

	MUST(status == 0, "status %u", status);
}

bool ear_readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

uint64_t ear_event(int fd)
{
	uint64_t user;

	MUST(ear_readable(fd, KIDS_WAIT_MS), "no event");
	MUST(read(fd, &user, sizeof(user)) == 8, "8 bytes");
	return user;
}

void ear_hear(struct ear *e)
{
	MUST(ear_event(e->fd) == (uintptr_t)&e->cq, "its event");
	e->cq.events++;
}

void ear_works(struct ear *e)
{
	struct raw_wc wc;

	ear_recv(e, 0);
	raw_cq_done(&e->cq, true);
	ear_send(e);
	ear_hear(e);
	MUST(raw_poll(&e->cq, &wc) && wc.status == 0, "received");
}
