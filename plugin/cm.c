/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pairs of connections. */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "conn.h"
#include "event.h"
#include "failover.h"
#include "log.h"
#include "param.h"

enum {
	RECVS = 256,
	SENDS = 64,
	POLL_BATCH = 16,
	RNR_RETRY = 3,
	WR_RECV = 1 << 16, /* in wr_id, above the buffer's number */
};

static uint8_t *recv_buf(const struct net_port *p, int i)
{
	return p->mem + (size_t)i * PROTO_MSG_BYTES;
}

static uint8_t *send_buf(const struct net_port *p, int i)
{
	return recv_buf(p, RECVS + i);
}

/* ---- open, close ---- */

static int post_recv(struct net_port *p, int i)
{
	struct ibv_sge sge = {(uintptr_t)recv_buf(p, i), PROTO_MSG_BYTES, p->mr.lkey};
	struct ibv_recv_wr wr = {.wr_id = WR_RECV | (uint64_t)i, .sg_list = &sge, .num_sge = 1};

	return srd_post_recv(&p->qp, &wr, NULL);
}

static int qp_open(struct net_port *p, uint32_t qkey)
{
	const struct srd_cq_attr cq = {.cqe = RECVS + SENDS};
	const struct srd_qp_attr qp = {
		.send_cq = &p->cq,
		.recv_cq = &p->cq,
		.max_send_wr = SENDS,
		.max_recv_wr = RECVS,
		.ops = IBV_QP_EX_WITH_SEND,
	};
	/* A peer that does not listen must not keep the send buffers: others need them, too. */
	int rnr = p->nic->dev.attr.caps & SRD_CAP_RNR_RETRY ? RNR_RETRY : SRD_RNR_DEFAULT;
	int rc = srd_cq_init(&p->cq, &p->nic->dev, &cq);

	if (!rc)
		rc = srd_qp_init(&p->qp, &p->nic->pd, &qp);
	return rc ? rc : srd_qp_prepare(&p->qp, qkey, rnr);
}

static int mem_open(struct net_port *p)
{
	const size_t bytes = (RECVS + SENDS) * PROTO_MSG_BYTES;
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (mem == MAP_FAILED)
		return -errno;
	p->mem = mem;
	p->sending = calloc(SENDS, sizeof(*p->sending));
	if (!p->sending)
		return -ENOMEM;
	rc = srd_mr_init(&p->mr, &p->nic->pd, mem, bytes, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < RECVS && !rc; i++)
		rc = post_recv(p, i);
	return rc;
}

static int port_open(struct net_cm *cm)
{
	struct net_port *p = &cm->port[cm->nports];
	int rc;

	p->nic = &cm->dev->nic[cm->nports++];
	rc = qp_open(p, cm->qkey);
	return rc ? rc : mem_open(p);
}

static void port_close(struct net_port *p)
{
	srd_qp_fini(&p->qp);
	srd_cq_fini(&p->cq);
	srd_mr_fini(&p->mr);
	if (p->mem)
		munmap(p->mem, (RECVS + SENDS) * PROTO_MSG_BYTES);
	free(p->sending);
}

static int ports_open(struct net_cm *cm)
{
	int n = net_param()->failover && cm->dev->nrails >= NET_PORTS ? NET_PORTS : 1, rc = 0;

	if (getrandom(&cm->qkey, sizeof(cm->qkey), 0) != sizeof(cm->qkey) ||
	    getrandom(&cm->last_id, sizeof(cm->last_id), 0) != sizeof(cm->last_id))
		return -EIO;
	while (cm->nports < n && !rc)
		rc = port_open(cm);
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
	rc = ports_open(cm);
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
	for (int i = 0; i < cm->nports; i++)
		port_close(&cm->port[i]);
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

/* ---- peers ---- */

void net_cm_local(const struct net_cm *cm, struct srd_ep *ep, uint32_t *spare_qpn)
{
	srd_ep_local(&cm->port[0].qp, ep);
	*spare_qpn = cm->nports > 1 ? cm->port[1].qp.ibv->qp_num : 0;
}

int net_cm_meet(struct net_cm *cm, struct net_way *way, const struct srd_ep *ep,
		const union ibv_gid *spare, uint32_t spare_qpn)
{
	const struct srd_ep eps[NET_PORTS] = {*ep,
					      {.gid = *spare, .qpn = spare_qpn, .qkey = ep->qkey}};
	uint8_t broken = net_event_broken(cm->dev);
	int n = spare_qpn ? cm->nports : 1, rc = 0;

	/* Those make no address handle any more. */
	*way = (struct net_way){.n = 0};
	while (n && broken & 1u << (n - 1))
		n--;
	while (way->at < n && broken & 1u << way->at)
		way->at++;
	if (!n)
		rc = -EIO;
	for (way->n = way->at; way->n < n && !rc; way->n += rc == 0)
		rc = srd_peer_init(&way->to[way->n], &cm->port[way->n].nic->pd, &eps[way->n]);
	while (way->at + 1 < way->n && cm->port[way->at].out)
		way->at++;
	if (rc)
		net_cm_part(way);
	return rc;
}

void net_cm_part(struct net_way *way)
{
	for (int i = 0; i < way->n; i++)
		srd_peer_fini(&way->to[i]);
	way->n = 0;
}

/* ---- send ---- */

/* Who waits for a buffer whose owner went away. */
static struct net_mail gone;

int net_cm_send(struct net_cm *cm, struct net_mail *mail, struct net_way *way, const uint8_t *msg,
		size_t len)
{
	struct net_port *p = &cm->port[way->at];
	struct srd_wr wr = {.to = &way->to[way->at], .op = IBV_WR_SEND, .nsge = 1};
	int i = 0, rc;

	while (i < SENDS && p->sending[i])
		i++;
	if (i == SENDS)
		return -EAGAIN;
	memcpy(send_buf(p, i), msg, len);
	wr.wr_id = (uint64_t)i;
	wr.sge[0] = (struct ibv_sge){(uintptr_t)send_buf(p, i), (uint32_t)len, p->mr.lkey};
	rc = srd_post(&p->qp, &wr, 1);
	if (rc)
		return rc;
	p->sending[i] = mail;
	mail->state = MAIL_SENDING;
	mail->slot = i;
	mail->way = way;
	return 0;
}

void net_cm_drop(struct net_cm *cm, struct net_mail *mail)
{
	if (mail->state == MAIL_SENDING)
		cm->port[mail->way->at].sending[mail->slot] = &gone;
	mail->state = MAIL_IDLE;
}

/* The next messages to anybody take it at once, if it is this side that is out. */
static bool other_way(struct net_port *p, struct net_way *way, const struct srd_wc *wc)
{
	if (!net_failover_is_of_the_rail(wc->efa_status) || way->at + 1 >= way->n)
		return false;
	way->at++;
	if (wc->status == IBV_WC_WR_FLUSH_ERR || atomic_load(&p->nic->state) != NET_NIC_UP)
		p->out = true;
	net_info("NET/EFA: a message of a connection did not get through by %s: %s; it takes the "
		 "next rail",
		 p->nic->name, srd_status_str(wc->efa_status));
	return true;
}

static void sent(struct net_port *p, const struct srd_wc *wc)
{
	struct net_mail *mail = p->sending[wc->wr_id];

	p->sending[wc->wr_id] = NULL;
	if (mail == &gone)
		return;
	mail->wc = *wc;
	if (wc->status == IBV_WC_SUCCESS)
		mail->state = MAIL_SENT;
	else if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR || other_way(p, mail->way, wc))
		mail->state = MAIL_REFUSED;
	else
		mail->state = MAIL_FAILED;
}

/* ---- receive ---- */

static void received(struct net_cm *cm, struct net_port *p, const struct srd_wc *wc)
{
	int i = (int)(wc->wr_id & (WR_RECV - 1));

	if (wc->status == IBV_WC_SUCCESS)
		net_conn_message(cm, recv_buf(p, i), wc->byte_len);
	/* A queue pair in error would give it back at once. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		p->out = true;
	else if (post_recv(p, i))
		net_warn("NET/EFA: %s: a receive of the connection queue is lost", cm->dev->name);
}

static void port_poll(struct net_cm *cm, struct net_port *p)
{
	struct srd_wc wc[POLL_BATCH];
	int n = srd_cq_poll(&p->cq, wc, POLL_BATCH);

	for (int i = 0; i < n; i++) {
		if (wc[i].opcode & IBV_WC_RECV)
			received(cm, p, &wc[i]);
		else
			sent(p, &wc[i]);
	}
}

void net_cm_poll(struct net_cm *cm)
{
	for (int i = 0; i < cm->nports; i++)
		port_poll(cm, &cm->port[i]);
}
