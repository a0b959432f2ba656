/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair of connections. */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "conn.h"
#include "log.h"

enum {
	RECVS = 256,
	SENDS = 64,
	POLL_BATCH = 16,
	RNR_RETRY = 3,
	WR_RECV = 1 << 16, /* in wr_id, above the buffer's number */
};

static uint8_t *recv_buf(const struct net_cm *cm, int i)
{
	return cm->mem + (size_t)i * PROTO_MSG_BYTES;
}

static uint8_t *send_buf(const struct net_cm *cm, int i)
{
	return recv_buf(cm, RECVS + i);
}

/* ---- open, close ---- */

static int post_recv(struct net_cm *cm, int i)
{
	struct ibv_sge sge = {(uintptr_t)recv_buf(cm, i), PROTO_MSG_BYTES, cm->mr.lkey};
	struct ibv_recv_wr wr = {.wr_id = WR_RECV | (uint64_t)i, .sg_list = &sge, .num_sge = 1};

	return srd_post_recv(&cm->qp, &wr, NULL);
}

static int qp_open(struct net_cm *cm)
{
	struct net_nic *nic = &cm->dev->nic[0];
	const struct srd_cq_attr cq = {.cqe = RECVS + SENDS};
	const struct srd_qp_attr qp = {
		.send_cq = &cm->cq,
		.recv_cq = &cm->cq,
		.max_send_wr = SENDS,
		.max_recv_wr = RECVS,
		.ops = IBV_QP_EX_WITH_SEND,
	};
	/* A peer that does not listen must not keep the send buffers: others need them, too. */
	int rnr = nic->dev.attr.caps & SRD_CAP_RNR_RETRY ? RNR_RETRY : SRD_RNR_DEFAULT, rc;

	if (getrandom(&cm->qkey, sizeof(cm->qkey), 0) != sizeof(cm->qkey) ||
	    getrandom(&cm->last_id, sizeof(cm->last_id), 0) != sizeof(cm->last_id))
		return -EIO;
	rc = srd_cq_init(&cm->cq, &nic->dev, &cq);
	if (!rc)
		rc = srd_qp_init(&cm->qp, &nic->pd, &qp);
	if (!rc)
		rc = srd_qp_prepare(&cm->qp, cm->qkey, rnr);
	return rc;
}

static int mem_open(struct net_cm *cm)
{
	const size_t bytes = (RECVS + SENDS) * PROTO_MSG_BYTES;
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (mem == MAP_FAILED)
		return -errno;
	cm->mem = mem;
	cm->sending = calloc(SENDS, sizeof(*cm->sending));
	if (!cm->sending)
		return -ENOMEM;
	rc = srd_mr_init(&cm->mr, &cm->dev->nic[0].pd, mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < RECVS && !rc; i++)
		rc = post_recv(cm, i);
	return rc;
}

int net_cm_open(struct net_dev *dev, struct net_cm **out)
{
	struct net_cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	pthread_mutex_init(&cm->lock, NULL);
	cm->dev = dev;
	rc = qp_open(cm);
	if (!rc)
		rc = mem_open(cm);
	if (rc)
		net_cm_close(cm);
	else
		*out = cm;
	return rc;
}

void net_cm_close(struct net_cm *cm)
{
	if (!cm)
		return;
	net_refusals_close(cm);
	srd_qp_fini(&cm->qp);
	srd_cq_fini(&cm->cq);
	srd_mr_fini(&cm->mr);
	if (cm->mem)
		munmap(cm->mem, (RECVS + SENDS) * PROTO_MSG_BYTES);
	free(cm->sending);
	pthread_mutex_destroy(&cm->lock);
	free(cm);
}

bool net_cm_idle(struct net_cm *cm)
{
	bool idle;

	/* Held: in use. The caller has the device's lock, which comes after this one elsewhere. */
	if (pthread_mutex_trylock(&cm->lock))
		return false;
	idle = !cm->listens && !cm->conns;
	pthread_mutex_unlock(&cm->lock);
	return idle;
}

void net_cm_local(const struct net_cm *cm, struct srd_ep *ep)
{
	srd_ep_local(&cm->qp, ep);
}

/* ---- send ---- */

/* Who waits for a buffer whose owner went away. */
static struct net_mail gone;

int net_cm_send(struct net_cm *cm, struct net_mail *mail, const struct srd_peer *to,
		const uint8_t *msg, size_t len)
{
	struct srd_wr wr = {.to = to, .op = IBV_WR_SEND, .nsge = 1};
	int i = 0, rc;

	while (i < SENDS && cm->sending[i])
		i++;
	if (i == SENDS)
		return -EAGAIN;
	memcpy(send_buf(cm, i), msg, len);
	wr.wr_id = (uint64_t)i;
	wr.sge[0] = (struct ibv_sge){(uintptr_t)send_buf(cm, i), (uint32_t)len, cm->mr.lkey};
	rc = srd_post(&cm->qp, &wr, 1);
	if (rc)
		return rc;
	cm->sending[i] = mail;
	mail->state = MAIL_SENDING;
	mail->slot = i;
	return 0;
}

void net_cm_drop(struct net_cm *cm, struct net_mail *mail)
{
	if (mail->state == MAIL_SENDING)
		cm->sending[mail->slot] = &gone;
	mail->state = MAIL_IDLE;
}

static void sent(struct net_cm *cm, const struct srd_wc *wc)
{
	struct net_mail *mail = cm->sending[wc->wr_id];

	cm->sending[wc->wr_id] = NULL;
	if (mail == &gone)
		return;
	mail->wc = *wc;
	if (wc->status == IBV_WC_SUCCESS)
		mail->state = MAIL_SENT;
	else
		mail->state = wc->status == IBV_WC_RNR_RETRY_EXC_ERR ? MAIL_REFUSED : MAIL_FAILED;
}

/* ---- receive ---- */

static void received(struct net_cm *cm, const struct srd_wc *wc)
{
	int i = (int)(wc->wr_id & (WR_RECV - 1));

	if (wc->status == IBV_WC_SUCCESS)
		net_conn_message(cm, recv_buf(cm, i), wc->byte_len);
	if (post_recv(cm, i))
		net_warn("NET/EFA: %s: a receive of the connection queue is lost", cm->dev->name);
}

void net_cm_poll(struct net_cm *cm)
{
	struct srd_wc wc[POLL_BATCH];
	int n = srd_cq_poll(&cm->cq, wc, POLL_BATCH);

	for (int i = 0; i < n; i++) {
		if (wc[i].opcode & IBV_WC_RECV)
			received(cm, &wc[i]);
		else
			sent(cm, &wc[i]);
	}
}
