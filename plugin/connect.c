/* SPDX-License-Identifier: BSD-3-Clause */
/* The side that connects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "clock.h"
#include "log.h"
#include "order.h"
#include "param.h"

enum conn_state {
	CONN_ASK,   /* the request is to be sent */
	CONN_ASKED, /* the answer is awaited */
};

enum { ALIVE_MS = 2000 }; /* without an answer, then twice as long each time */

/* A connect that has not returned a comm yet. */
struct net_conn {
	struct net_conn *next;
	uint64_t cookie; /* in the caller's copy of the handle */
	uint32_t id;
	enum conn_state state;
	int64_t deadline_ms; /* 0: none */
	uint8_t caps;
	struct proto_handle peer;
	struct net_way way;
	struct net_mail mail;
	/* the request has arrived: when to see whether the peer is there still, after how long */
	bool arrived;
	int64_t alive_ms, wait_ms;
	struct net_send *send;
	bool answered;
	struct proto_resp resp;
};

void net_connect_answer(struct net_cm *cm, const uint8_t *msg, size_t len)
{
	struct proto_resp resp;
	struct net_conn *c = cm->conns;

	if (proto_resp_unpack(&resp, msg, len)) {
		net_info("NET/EFA: %s: a connection answer makes no sense, %zu bytes",
			 cm->dev->name, len);
		return;
	}
	while (c && (c->id != resp.conn_id || c->peer.token != resp.token))
		c = c->next;
	if (!c || c->answered)
		return;
	c->resp = resp;
	c->answered = true;
}

static struct net_conn *find_conn(struct net_cm *cm, uint64_t cookie)
{
	struct net_conn *c = cookie ? cm->conns : NULL;

	while (c && c->cookie != cookie)
		c = c->next;
	return c;
}

/* The best that both sides can do, or what the user wants. */
static int choose_mode(const char *dev, uint8_t caps, enum proto_mode *mode)
{
	int64_t wanted = net_param()->protocol;

	if (wanted)
		*mode = (enum proto_mode)wanted;
	else if (caps & PROTO_CAP_WRITE)
		*mode = PROTO_WRITE;
	else
		*mode = caps & PROTO_CAP_READ ? PROTO_READ : PROTO_SEND;
	if ((caps & net_mode_needs(*mode)) == net_mode_needs(*mode))
		return 0;
	net_warn("NET/EFA: %s or its peer has no RDMA %s, which NCCL_EFA_PROTOCOL asks for", dev,
		 *mode == PROTO_WRITE ? "write" : "read");
	return -EOPNOTSUPP;
}

static int make_send(struct net_cm *cm, struct net_conn *c)
{
	enum proto_mode mode;
	struct net_engine *e;
	int rc;

	c->caps = c->peer.caps & cm->dev->caps;
	rc = choose_mode(cm->dev->name, c->caps, &mode);
	if (rc)
		return rc;
	rc = net_engine_get(cm->dev, mode, mode == PROTO_WRITE && c->caps & PROTO_CAP_UNSOLICITED,
			    false, &e);
	if (rc)
		return rc;
	rc = net_send_open(e, c->id, &c->peer, &c->send);
	if (rc)
		net_engine_put(e, false);
	return rc;
}

/* Lock held. On error nothing is left. */
static int conn_new(struct net_cm *cm, const struct proto_handle *peer, struct net_conn **out)
{
	const union ibv_gid spare = proto_handle_gid(peer, peer->nrails > 1);
	struct net_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->peer = *peer;
	net_order_meet(peer->caps & PROTO_SAYS_ORDER);
	c->id = ++cm->last_id;
	if (net_param()->connect_timeout_s)
		c->deadline_ms = net_now_ms() + net_param()->connect_timeout_s * 1000;
	rc = net_random(&c->cookie);
	if (!rc)
		rc = make_send(cm, c);
	if (!rc)
		rc = net_cm_meet(cm, &c->way, &peer->cm, &spare, peer->spare_qpn);
	if (rc) {
		if (c->send)
			net_comm_close(&c->send->c);
		free(c);
		return rc;
	}
	c->next = cm->conns;
	cm->conns = c;
	*out = c;
	return 0;
}

/* Lock held. The comm is the caller's. */
static void conn_free(struct net_cm *cm, struct net_conn *c)
{
	struct net_conn **p = &cm->conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	net_cm_drop(cm, &c->mail);
	net_cm_part(&c->way);
	free(c);
}

static int connect_ask(struct net_cm *cm, struct net_conn *c)
{
	const struct net_engine *e = c->send->c.engine;
	const struct net_block *ring = c->send->ring;
	struct proto_req req = {
		.listen_id = c->peer.listen_id,
		.token = c->peer.token,
		.conn_id = c->id,
		.caps = c->caps,
		.nrails = (uint8_t)c->send->c.nrails,
		.ring_addr = (uintptr_t)ring->mem,
		.ring_entries = NET_RING_ENTRIES,
		.mode = (uint8_t)e->mode,
		.comm_id = c->send->c.id == NET_NO_ID ? 0 : c->send->c.id,
		.segment = e->segment,
	};
	uint8_t msg[PROTO_MSG_BYTES];
	int rc;

	net_cm_local(cm, &req.cm, &req.spare_qpn);
	net_engine_rails(e, req.rail);
	memcpy(req.ring_rkey, ring->rkey, sizeof(req.ring_rkey));
	rc = net_cm_send(cm, &c->mail, &c->way, msg, proto_req_pack(msg, &req));
	if (!rc)
		c->state = CONN_ASKED;
	return rc;
}

/*
 * Who has the request may end without a word, and nothing that was sent fails. Not the request
 * again: who has accepted it already, and many others since, might accept it twice.
 */
static int see_if_alive(struct net_cm *cm, struct net_conn *c)
{
	uint8_t msg[PROTO_MSG_BYTES];
	int64_t now = net_now_ms();

	if (!c->wait_ms) {
		c->wait_ms = ALIVE_MS;
		c->alive_ms = now + ALIVE_MS;
	}
	if (now < c->alive_ms || c->mail.state == MAIL_SENDING)
		return -EAGAIN;
	c->wait_ms *= 2;
	c->alive_ms = now + c->wait_ms;
	net_cm_send(cm, &c->mail, &c->way, msg, proto_ask_pack(msg)); /* or else the next time */
	return -EAGAIN;
}

static int connect_asked(struct net_cm *cm, struct net_conn *c)
{
	struct net_comm *comm = &c->send->c;

	if (c->answered && c->resp.refused) {
		net_comm_fail(comm, -(int)c->resp.refused, "connect, refused by the peer:", 0,
			      NULL);
		return -ECONNREFUSED;
	}
	if (c->answered)
		return net_send_start(c->send, &c->resp);
	if (c->mail.state == MAIL_FAILED) {
		net_comm_fail(comm, srd_wc_err(&c->mail.wc), "connect", 0, &c->mail.wc);
		return srd_wc_err(&c->mail.wc);
	}
	c->arrived |= c->mail.state == MAIL_SENT;
	if (c->arrived)
		return see_if_alive(cm, c);
	if (c->mail.state == MAIL_REFUSED)
		c->state = CONN_ASK;
	return -EAGAIN;
}

static int connect_step(struct net_cm *cm, struct net_conn *c)
{
	int rc = 0;

	if (c->state == CONN_ASK)
		rc = connect_ask(cm, c);
	if (!rc && c->state == CONN_ASKED)
		rc = connect_asked(cm, c);
	if (rc == -EAGAIN && c->deadline_ms && net_now_ms() > c->deadline_ms) {
		net_comm_fail(&c->send->c, -ETIMEDOUT, "connect, no answer:", 0, NULL);
		return -ETIMEDOUT;
	}
	return rc;
}

/* Lock held. @send is set when the connection is there, or what is left of it to be closed. */
static int connect_locked(struct net_cm *cm, uint8_t handle[PROTO_HANDLE_BYTES],
			  struct net_send **send)
{
	struct net_conn *c = find_conn(cm, proto_cookie_get(handle));
	struct proto_handle peer;
	int rc;

	net_conn_poll(cm);
	if (!c) {
		rc = proto_handle_unpack(&peer, handle);
		if (rc) {
			net_warn("NET/EFA: connect: %s",
				 rc == -EPROTO ? "the peer has another version of this plugin"
					       : "this is no handle of this plugin's listen");
			return rc;
		}
		rc = conn_new(cm, &peer, &c);
		if (rc)
			return rc;
		proto_cookie_set(handle, c->cookie);
	}
	rc = connect_step(cm, c);
	if (rc != -EAGAIN) {
		*send = c->send;
		conn_free(cm, c);
		proto_cookie_set(handle, 0);
	}
	return rc;
}

/* What it was opened as when the connection was begun; -ENOENT: there is none such. */
static int find_dev(uint64_t cookie, struct net_dev **dev)
{
	struct net_conn *c = NULL;

	for (struct net_dev *d = *dev; d && !c; d = atomic_load(&d->again)) {
		bool open;

		pthread_mutex_lock(&d->lock);
		open = d->open;
		pthread_mutex_unlock(&d->lock);
		if (!open)
			continue;
		pthread_mutex_lock(&d->cm->lock);
		c = find_conn(d->cm, cookie);
		pthread_mutex_unlock(&d->cm->lock);
		if (c)
			*dev = d;
	}
	return c ? 0 : -ENOENT;
}

int net_connect(struct net_dev *dev, uint8_t handle[PROTO_HANDLE_BYTES], struct net_send **out)
{
	uint64_t cookie = proto_cookie_get(handle);
	struct net_send *send = NULL;
	int rc = cookie ? find_dev(cookie, &dev) : -ENOENT;

	*out = NULL;
	if (rc)
		rc = net_dev_open(dev, &dev);
	if (rc)
		return rc;
	pthread_mutex_lock(&dev->cm->lock);
	rc = connect_locked(dev->cm, handle, &send);
	pthread_mutex_unlock(&dev->cm->lock);
	if (rc == 0)
		*out = send;
	else if (send)
		net_comm_close(&send->c);
	return rc == -EAGAIN ? 0 : rc;
}
