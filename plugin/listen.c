/* SPDX-License-Identifier: BSD-3-Clause */
/* The side that listens, and accepts. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "event.h"
#include "log.h"
#include "order.h"

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

enum { ASKERS = 64 };

/* Who has asked: a connect of one process. */
struct asker {
	struct srd_ep cm;
	uint32_t conn_id;
};

struct net_listen {
	struct net_listen *next;
	struct net_cm *cm;
	uint32_t id;
	uint64_t token;
	nccl_net_profiler_fn profiler;
	struct waiting *first, **last;
	/* the connection being accepted */
	enum answer_state state;
	struct proto_req req;
	struct net_way way;
	struct net_mail mail;
	struct net_recv *recv;
	/* requests that have come, the newest: one whose answer was lost comes again */
	struct asker asker[ASKERS];
	uint32_t naskers;
};

/* ---- requests ---- */

static struct net_listen *find_listen(struct net_cm *cm, uint32_t id, uint64_t token)
{
	struct net_listen *l = cm->listens;

	while (l && (l->id != id || l->token != token))
		l = l->next;
	return l;
}

/* Once for each request. */
static bool is_new(struct net_listen *l, const struct proto_req *req)
{
	for (uint32_t i = 0; i < ASKERS; i++)
		if (l->asker[i].conn_id == req->conn_id && l->asker[i].cm.qpn == req->cm.qpn &&
		    memcmp(&l->asker[i].cm.gid, &req->cm.gid, sizeof(req->cm.gid)) == 0)
			return false;
	l->asker[l->naskers++ % ASKERS] = (struct asker){req->cm, req->conn_id};
	return true;
}

void net_listen_request(struct net_cm *cm, const uint8_t *msg, size_t len)
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
	if (l && !is_new(l, &req))
		return;
	w = l ? malloc(sizeof(*w)) : NULL;
	if (!w) {
		net_refuse(cm, &req, l ? -ENOMEM : -ECONNREFUSED);
		return;
	}
	w->next = NULL;
	w->req = req;
	*l->last = w;
	l->last = &w->next;
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
	net_cm_local(l->cm, &h.cm, &h.spare_qpn);
	for (int i = 0; i < dev->nrails; i++)
		h.iid[i] = be64toh(dev->nic[i].dev.attr.gid.global.interface_id);
	proto_handle_pack(handle, &h);
}

int net_listen(struct net_dev *dev, uint8_t handle[PROTO_HANDLE_BYTES], struct net_listen **out)
{
	struct net_listen *l;
	int rc = net_dev_open(dev, &dev);

	if (rc)
		return rc;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->cm = dev->cm;
	l->last = &l->first;
	rc = net_random(&l->token);
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

void net_listen_profiler(struct net_listen *l, nccl_net_profiler_fn profiler)
{
	l->profiler = profiler;
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
		net_refuse(cm, &w->req, -ECONNREFUSED);
		free(w);
	}
	net_cm_drop(cm, &l->mail);
	net_cm_part(&l->way);
	net_conn_poll(cm);
	pthread_mutex_unlock(&cm->lock);
	if (l->recv)
		net_comm_close(&l->recv->c);
	free(l);
}

/* ---- accept ---- */

static int make_recv(struct net_listen *l)
{
	struct net_dev *dev = l->cm->dev;
	bool unsolicited = l->req.mode == PROTO_WRITE && l->req.caps & PROTO_CAP_UNSOLICITED;
	struct net_engine *e;
	int rc;

	if ((l->req.caps & dev->caps) != l->req.caps ||
	    (net_mode_needs(l->req.mode) & l->req.caps) != net_mode_needs(l->req.mode))
		return -EPROTO;
	rc = net_engine_get(dev, l->req.mode, unsolicited, true, &e);
	if (rc)
		return rc;
	rc = net_recv_open(e, &l->req, &l->recv);
	if (rc) {
		net_engine_put(e, true);
		return rc;
	}
	return net_cm_meet(l->cm, &l->way, &l->req.cm, &l->req.rail[l->req.nrails > 1].gid,
			   l->req.spare_qpn);
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
	if (!rc) {
		l->state = ANSWER_SEND;
		return 0;
	}
	if (net_event_broken(l->cm->dev))
		net_warn("NET/EFA: %s: a connection is refused: an EFA has broken since this "
			 "listen began. A new one serves by those that are left",
			 l->cm->dev->name);
	net_refuse(l->cm, &l->req, rc);
	net_refusals_sweep(l->cm, false); /* nobody may call again */
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
		.eager = l->recv->eager ? e->eager_max : 0,
		.scratch_addr = (uintptr_t)e->scratch->mem,
	};
	uint8_t msg[PROTO_MSG_BYTES];
	int rc;

	net_engine_rails(e, resp.rail);
	memcpy(resp.scratch_rkey, e->scratch->rkey, sizeof(resp.scratch_rkey));
	rc = net_cm_send(l->cm, &l->mail, &l->way, msg, proto_resp_pack(msg, &resp));
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
	net_conn_poll(l->cm);
	rc = accept_step(l);
	if (rc != -EAGAIN) {
		net_cm_part(&l->way);
		l->state = ANSWER_IDLE;
		recv = l->recv;
		l->recv = NULL;
	}
	pthread_mutex_unlock(&l->cm->lock);
	if (rc == 0) {
		if (recv)
			recv->c.profiler = l->profiler;
		*out = recv;
	} else if (recv)
		net_comm_close(&recv->c);
	return rc == -EAGAIN ? 0 : rc;
}
