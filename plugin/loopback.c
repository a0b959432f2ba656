/* SPDX-License-Identifier: BSD-3-Clause */
/* Trying copies of a NIC to itself. */
#include "loopback.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "clock.h"
#include "log.h"
#include "mem.h"

enum { BYTES = 64, PAGE_BYTES = 4096, WAIT_MS = 2000, WHY_BYTES = 256 };

/* A queue pair for this alone: what does not end goes with it. */
struct loop {
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_peer self;
	struct srd_mr mr;
	uint8_t *mem; /* what is copied, and behind it where to */
};

static void loop_fini(struct loop *l)
{
	srd_peer_fini(&l->self);
	srd_qp_fini(&l->qp);
	srd_cq_fini(&l->cq);
	srd_mr_fini(&l->mr);
	if (l->mem)
		munmap(l->mem, PAGE_BYTES);
}

static int memory_init(struct loop *l, struct net_nic *nic, enum proto_mode mode)
{
	int access = IBV_ACCESS_LOCAL_WRITE |
		     (mode == PROTO_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
	void *mem =
		mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return -errno;
	l->mem = mem;
	for (int i = 0; i < BYTES; i++)
		l->mem[i] = (uint8_t)(i + 1);
	return srd_mr_init(&l->mr, &nic->pd, mem, PAGE_BYTES, access);
}

static int loop_init(struct loop *l, struct net_nic *nic, enum proto_mode mode)
{
	const struct srd_cq_attr cq = {.cqe = 4};
	const struct srd_qp_attr qp = {
		.send_cq = &l->cq, .recv_cq = &l->cq, .max_send_wr = 1, .max_recv_wr = 1};
	struct srd_ep ep;
	uint32_t qkey;
	int rc = memory_init(l, nic, mode);

	if (!rc && getrandom(&qkey, sizeof(qkey), 0) != sizeof(qkey))
		rc = -EIO;
	if (!rc)
		rc = srd_cq_init(&l->cq, &nic->dev, &cq);
	if (!rc)
		rc = srd_qp_init(&l->qp, &nic->pd, &qp);
	if (!rc)
		rc = srd_qp_prepare(&l->qp, qkey, SRD_RNR_DEFAULT);
	if (rc)
		return rc;
	srd_ep_local(&l->qp, &ep);
	return srd_peer_init(&l->self, &nic->pd, &ep);
}

static int copy(struct loop *l, enum proto_mode mode, struct srd_wc *wc)
{
	bool reads = mode == PROTO_READ;
	uintptr_t from = (uintptr_t)l->mem, to = from + BYTES;
	const struct srd_wr wr = {
		.to = &l->self,
		.sge[0] = {reads ? to : from, BYTES, l->mr.lkey},
		.raddr = reads ? from : to,
		.rkey = l->mr.rkey,
		.op = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.nsge = 1,
	};
	const struct timespec moment = {0, 20000};
	int64_t end = net_now_ms() + WAIT_MS;
	int rc = srd_post(&l->qp, &wr, 1);

	while (!rc) {
		rc = srd_cq_poll(&l->cq, wc, 1);
		if (!rc && net_now_ms() > end)
			rc = -ETIMEDOUT;
		else if (!rc)
			nanosleep(&moment, NULL);
	}
	return rc < 0 ? rc : 0;
}

/* False: with the reason in @why. */
static bool copies(struct net_nic *nic, enum proto_mode mode, char *why)
{
	struct loop l = {.mem = NULL};
	struct srd_wc wc = {0};
	int rc;

	net_log_capture(why, WHY_BYTES);
	rc = loop_init(&l, nic, mode);
	if (!rc)
		rc = copy(&l, mode, &wc);
	net_log_capture(NULL, 0);
	if (!rc && wc.status)
		snprintf(why, WHY_BYTES, "%s (status %u)", srd_status_str(wc.efa_status),
			 wc.efa_status);
	else if (rc && !why[0])
		snprintf(why, WHY_BYTES, "%s", strerror(-rc));
	else if (!rc && memcmp(l.mem, l.mem + BYTES, BYTES))
		snprintf(why, WHY_BYTES, "its bytes are not there");
	else if (!rc)
		why[0] = '\0';
	loop_fini(&l);
	return !why[0];
}

bool net_loopback_works(struct net_dev *dev, enum proto_mode mode)
{
	char why[WHY_BYTES];

	if (dev->loopback[mode] == NET_LOOPBACK_UNKNOWN) {
		if (mode == PROTO_SEND || !(net_mem_support() & NCCL_NET_PTR_CUDA))
			return true;
		dev->loopback[mode] = NET_LOOPBACK_WORKS;
		for (int i = 0; i < dev->nrails && dev->loopback[mode] == NET_LOOPBACK_WORKS; i++) {
			if (copies(&dev->nic[i], mode, why))
				continue;
			dev->loopback[mode] = NET_LOOPBACK_FAILS;
			net_info("NET/EFA: %s: no message goes ahead of its receive: %s does not "
				 "copy to itself, as memory of a GPU takes: %s",
				 dev->name, dev->nic[i].name, why);
		}
	}
	return dev->loopback[mode] == NET_LOOPBACK_WORKS;
}
