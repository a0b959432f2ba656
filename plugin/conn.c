/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: who asks, who answers. */
#include "conn.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "log.h"
#include "order.h"
#include "param.h"

enum {
	REFUSE_MS = 5,     /* at the end, for refusals that have not left yet */
	REFUSE_TRIES = 20, /* who has asked has receives posted, unless it is no plugin of ours */
};

enum conn_state {
	CONN_ASK,   /* the request is to be sent */
	CONN_ASKED, /* the answer is awaited */
};

/* A connect that has not returned a comm yet. */
struct net_conn {
	struct net_conn *next;
	uint64_t cookie; /* in the caller's copy of the handle */
	uint32_t id;
	enum conn_state state;
	uint64_t deadline_ms; /* 0: none */
	uint8_t caps;
	struct proto_handle peer;
	struct srd_peer to;
	struct net_mail mail;
	struct net_send *send;
	bool answered;
	struct proto_resp resp;
};

enum answer_state {
	ANSWER_IDLE,
	ANSWER_SEND, /* the comm is made, the answer to be sent */
	ANSWER_SENT, /* on its way */
};

/* A request that waits for accept. */
struct waiting {
	struct waiting *next;
	struct proto_req req;
};

struct net_listen {
	struct net_listen *next;
	struct net_cm *cm;
	uint32_t id;
	uint64_t token;
	struct waiting *first, **last;
	/* the connection being accepted */
	enum answer_state state;
	struct proto_req req;
	struct srd_peer to;
	struct net_mail mail;
	struct net_recv *recv;
};

/* A request that is turned down; kept until that is sent. */
struct net_refusal {
	struct net_refusal *next;
	struct srd_peer to;
	struct net_mail mail;
	struct proto_resp resp;
	int tries;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int random_u64(uint64_t *v)
{
	do {
		if (getrandom(v, sizeof(*v), 0) != sizeof(*v))
			return -EIO;
	} while (*v == 0);
	return 0;
}

/* ---- refuse ---- */

/* Best effort: a peer that is not told runs into its own timeout. */
static void refuse(struct net_cm *cm, const struct proto_req *req, int err)
{
	struct net_refusal *r = calloc(1, sizeof(*r));

	if (!r)
		return;
	if (srd_peer_init(&r->to, &cm->dev->nic[0].pd, &req->cm)) {
		free(r);
		return;
	}
	r->resp = (struct proto_resp){
		.token = req->token, .conn_id = req->conn_id, .refused = (uint32_t)-err};
	r->next = cm->refusals;
	cm->refusals = r;
}

/* True when it is done with. */
static bool refusal_step(struct net_cm *cm, struct net_refusal *r)
{
	uint8_t msg[PROTO_MSG_BYTES];
	int rc;

	if (r->mail.state == MAIL_IDLE || r->mail.state == MAIL_REFUSED) {
		if (r->mail.state == MAIL_REFUSED && ++r->tries == REFUSE_TRIES)
			return true;
		rc = net_cm_send(cm, &r->mail, &r->to, msg, proto_resp_pack(msg, &r->resp));
		return rc && rc != -EAGAIN;
	}
	return r->mail.state != MAIL_SENDING;
}

/* Forget those that are done with, or all. */
static void refusals_sweep(struct net_cm *cm, bool all)
{
	struct net_refusal **p = &cm->refusals, *r;

	while ((r = *p)) {
		if (!all && !refusal_step(cm, r)) {
			p = &r->next;
			continue;
		}
		*p = r->next;
		net_cm_drop(cm, &r->mail);
		srd_peer_fini(&r->to);
		free(r);
	}
}

static void poll_cm(struct net_cm *cm)
{
	net_cm_poll(cm);
	refusals_sweep(cm, false);
}

void net_refusals_close(struct net_cm *cm)
{
	const struct timespec ms = {0, 1000000};

	for (int i = 0; i < REFUSE_MS && cm->refusals; i++) {
		poll_cm(cm);
		if (cm->refusals)
			nanosleep(&ms, NULL);
	}
	refusals_sweep(cm, true);
}

/* ---- messages ---- */

static struct net_listen *find_listen(struct net_cm *cm, uint32_t id, uint64_t token)
{
	struct net_listen *l = cm->listens;

	while (l && (l->id != id || l->token != token))
		l = l->next;
	return l;
}

static void got_request(struct net_cm *cm, const uint8_t *msg, size_t len)
{
	struct proto_req req;
	struct net_listen *l;
	struct waiting *w;

	if (proto_req_unpack(&req, msg, len)) {
		net_info("NET/EFA: %s: a connection request makes no sense, %zu bytes",
			 cm->dev->name, len);
		return;
	}
	l = find_listen(cm, req.listen_id, req.token);
	w = l ? malloc(sizeof(*w)) : NULL;
	if (!w) {
		refuse(cm, &req, l ? -ENOMEM : -ECONNREFUSED);
		return;
	}
	w->next = NULL;
	w->req = req;
	*l->last = w;
	l->last = &w->next;
}

static void got_answer(struct net_cm *cm, const uint8_t *msg, size_t len)
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

void net_conn_message(struct net_cm *cm, const uint8_t *msg, size_t len)
{
	int type = proto_type(msg, len);

	if (type == PROTO_REQ)
		got_request(cm, msg, len);
	else if (type == PROTO_RESP)
		got_answer(cm, msg, len);
	else
		net_info("NET/EFA: %s: a message of %zu bytes is none of ours (%d)", cm->dev->name,
			 len, type);
}

/* ---- listen ---- */

static void fill_handle(const struct net_listen *l, uint8_t handle[PROTO_HANDLE_BYTES])
{
	const struct net_dev *dev = l->cm->dev;
	struct proto_handle h = {.listen_id = l->id,
				 .token = l->token,
				 .caps = dev->caps,
				 .nrails = (uint8_t)dev->nrails};

	h.caps |= net_order_kept() ? PROTO_SAYS_ORDER : 0;
	net_cm_local(l->cm, &h.cm);
	for (int i = 0; i < dev->nrails; i++)
		h.iid[i] = be64toh(dev->nic[i].dev.attr.gid.global.interface_id);
	proto_handle_pack(handle, &h);
}

int net_listen(struct net_dev *dev, uint8_t handle[PROTO_HANDLE_BYTES], struct net_listen **out)
{
	struct net_listen *l;
	int rc = net_dev_open(dev);

	if (rc)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->cm = dev->cm;
	l->last = &l->first;
	rc = random_u64(&l->token);
	if (rc) {
		free(l);
		return rc;
	}
	pthread_mutex_lock(&l->cm->lock);
	l->id = ++l->cm->last_id;
	l->next = l->cm->listens;
	l->cm->listens = l;
	fill_handle(l, handle);
	pthread_mutex_unlock(&l->cm->lock);
	*out = l;
	return 0;
}

void net_listen_close(struct net_listen *l)
{
	struct net_cm *cm = l->cm;
	struct net_listen **p = &cm->listens;

	pthread_mutex_lock(&cm->lock);
	while (*p != l)
		p = &(*p)->next;
	*p = l->next;
	while (l->first) {
		struct waiting *w = l->first;

		l->first = w->next;
		refuse(cm, &w->req, -ECONNREFUSED);
		free(w);
	}
	net_cm_drop(cm, &l->mail);
	srd_peer_fini(&l->to);
	poll_cm(cm);
	pthread_mutex_unlock(&cm->lock);
	if (l->recv)
		net_comm_close(&l->recv->c);
	free(l);
}

/* PROTO_CAP_* that both sides must have. */
static uint8_t mode_needs(enum proto_mode mode)
{
	return mode == PROTO_WRITE ? PROTO_CAP_WRITE : mode == PROTO_READ ? PROTO_CAP_READ : 0;
}

/* ---- accept ---- */

static int make_recv(struct net_listen *l)
{
	struct net_dev *dev = l->cm->dev;
	bool unsolicited = l->req.mode == PROTO_WRITE && l->req.caps & PROTO_CAP_UNSOLICITED;
	struct net_engine *e;
	int rc;

	if ((l->req.caps & dev->caps) != l->req.caps ||
	    (mode_needs(l->req.mode) & l->req.caps) != mode_needs(l->req.mode))
		return -EPROTO;
	rc = net_engine_get(dev, l->req.mode, unsolicited, true, &e);
	if (rc)
		return rc;
	rc = net_recv_open(e, &l->req, &l->recv);
	if (rc) {
		net_engine_put(e, true);
		return rc;
	}
	return srd_peer_init(&l->to, &dev->nic[0].pd, &l->req.cm);
}

static int accept_take(struct net_listen *l)
{
	struct waiting *w = l->first;
	int rc;

	if (!w)
		return -EAGAIN;
	l->first = w->next;
	if (!l->first)
		l->last = &l->first;
	l->req = w->req;
	free(w);
	rc = make_recv(l);
	if (rc)
		refuse(l->cm, &l->req, rc);
	else
		l->state = ANSWER_SEND;
	return rc;
}

static int accept_send(struct net_listen *l)
{
	const struct net_engine *e = l->recv->c.engine;
	struct proto_resp resp = {
		.token = l->token,
		.conn_id = l->req.conn_id,
		.nrails = (uint8_t)l->recv->c.nrails,
		.comm_id = l->recv->c.id,
		.segment = e->segment,
		.scratch_addr = (uintptr_t)e->scratch->mem,
	};
	uint8_t msg[PROTO_MSG_BYTES];
	int rc;

	net_engine_rails(e, resp.rail);
	memcpy(resp.scratch_rkey, e->scratch->rkey, sizeof(resp.scratch_rkey));
	rc = net_cm_send(l->cm, &l->mail, &l->to, msg, proto_resp_pack(msg, &resp));
	if (!rc)
		l->state = ANSWER_SENT;
	return rc;
}

static int accept_sent(struct net_listen *l)
{
	switch (l->mail.state) {
	case MAIL_SENDING:
		return -EAGAIN;
	case MAIL_SENT:
		return 0;
	case MAIL_REFUSED:
		l->state = ANSWER_SEND;
		return -EAGAIN;
	default:
		net_comm_fail(&l->recv->c, srd_wc_err(&l->mail.wc), "the answer to a connection", 0,
			      &l->mail.wc);
		return srd_wc_err(&l->mail.wc);
	}
}

static int accept_step(struct net_listen *l)
{
	int rc = 0;

	if (l->state == ANSWER_IDLE)
		rc = accept_take(l);
	if (!rc && l->state == ANSWER_SEND)
		rc = accept_send(l);
	if (!rc && l->state == ANSWER_SENT)
		rc = accept_sent(l);
	return rc;
}

int net_accept(struct net_listen *l, struct net_recv **out)
{
	struct net_recv *recv = NULL;
	int rc;

	*out = NULL;
	pthread_mutex_lock(&l->cm->lock);
	poll_cm(l->cm);
	rc = accept_step(l);
	if (rc != -EAGAIN) {
		srd_peer_fini(&l->to);
		l->state = ANSWER_IDLE;
		recv = l->recv;
		l->recv = NULL;
	}
	pthread_mutex_unlock(&l->cm->lock);
	if (rc == 0)
		*out = recv;
	else if (recv)
		net_comm_close(&recv->c);
	return rc == -EAGAIN ? 0 : rc;
}

/* ---- connect ---- */

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
	if ((caps & mode_needs(*mode)) == mode_needs(*mode))
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
	struct net_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->peer = *peer;
	net_order_meet(peer->caps & PROTO_SAYS_ORDER);
	c->id = ++cm->last_id;
	if (net_param()->connect_timeout_s)
		c->deadline_ms = now_ms() + (uint64_t)net_param()->connect_timeout_s * 1000;
	rc = random_u64(&c->cookie);
	if (!rc)
		rc = make_send(cm, c);
	if (!rc)
		rc = srd_peer_init(&c->to, &cm->dev->nic[0].pd, &peer->cm);
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
	srd_peer_fini(&c->to);
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

	net_cm_local(cm, &req.cm);
	net_engine_rails(e, req.rail);
	memcpy(req.ring_rkey, ring->rkey, sizeof(req.ring_rkey));
	rc = net_cm_send(cm, &c->mail, &c->to, msg, proto_req_pack(msg, &req));
	if (!rc)
		c->state = CONN_ASKED;
	return rc;
}

static int connect_asked(struct net_conn *c)
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
		rc = connect_asked(c);
	if (rc == -EAGAIN && c->deadline_ms && now_ms() > c->deadline_ms) {
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

	poll_cm(cm);
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

int net_connect(struct net_dev *dev, uint8_t handle[PROTO_HANDLE_BYTES], struct net_send **out)
{
	struct net_send *send = NULL;
	int rc = net_dev_open(dev);

	*out = NULL;
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
