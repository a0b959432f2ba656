/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms: opened, failed, closed. */
#include "comm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "complete.h"
#include "eager.h"
#include "failover.h"
#include "flush.h"
#include "log.h"
#include "message.h"
#include "mover.h"
#include "param.h"
#include "segment.h"

/* ---- open ---- */

static const struct net_mover *mover_of(enum proto_mode mode)
{
	return mode == PROTO_WRITE ? &net_write : mode == PROTO_READ ? &net_read : &net_segment;
}

static void link_in(struct net_engine *e, struct net_comm *c)
{
	c->engine = e;
	c->mover = mover_of(e->mode);
	c->prev = NULL;
	c->next = e->comms;
	if (e->comms)
		e->comms->prev = c;
	e->comms = c;
}

static void unlink_from(struct net_engine *e, struct net_comm *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		e->comms = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

static void *comm_new(size_t size, enum net_comm_kind kind)
{
	struct net_comm *c = aligned_alloc(_Alignof(struct net_req), size);

	if (!c)
		return NULL;
	memset(c, 0, size);
	c->kind = kind;
	c->id = NET_NO_ID;
	c->min_stripe = (uint32_t)net_param()->min_stripe;
	return c;
}

/* There is no memory for it. */
static int no_comm(struct net_engine *e, bool recv)
{
	net_owner_enter(&e->owner);
	net_engine_unreserve(e, recv);
	net_owner_leave(&e->owner);
	return -ENOMEM;
}

/*
 * Address handles for all rails of the peer. Both sides need them before either may read or write:
 * the device refuses requests from an address it does not know.
 */
static int meet(struct net_comm *c, int i, const union ibv_gid *gid, uint32_t qpn, uint32_t qkey)
{
	const struct srd_ep ep = {.gid = *gid, .qpn = qpn, .qkey = qkey};
	int rc = srd_peer_init(&c->peer[i], &c->engine->dev->nic[i].pd, &ep);

	if (!rc)
		c->nrails = c->nalive = i + 1;
	return rc;
}

static int ring_get(struct net_engine *e, struct net_send *s)
{
	if (e->mode != PROTO_READ)
		return net_block_get(&e->rings, &s->ring);
	s->ring = e->scratch;
	return 0;
}

int net_send_open(struct net_engine *e, uint32_t conn_id, const struct proto_handle *peer,
		  struct net_send **out)
{
	int nrails = e->nrails < peer->nrails ? e->nrails : peer->nrails, rc;
	struct net_send *s = comm_new(sizeof(*s), NET_SEND);

	if (!s)
		return no_comm(e, false);
	s->conn_id = conn_id;
	s->next_seq = 1;
	s->free = ~0ull;
	for (int i = 0; i < NET_MAX_REQS; i++)
		s->req[i].comm = &s->c;
	net_owner_enter(&e->owner);
	link_in(e, &s->c);
	rc = ring_get(e, s);
	if (!rc && e->mode != PROTO_WRITE)
		rc = net_engine_add(e, &s->c);
	if (!rc && (e->mode == PROTO_READ || (e->eager_max && peer->caps & PROTO_CAP_EAGER)))
		rc = net_block_get(&e->notes, &s->notes);
	if (!rc && e->mode == PROTO_SEND)
		rc = net_segment_open_send(s);
	for (int i = 0; i < nrails && !rc; i++) {
		union ibv_gid gid = proto_handle_gid(peer, i);

		rc = meet(&s->c, i, &gid, peer->cm.qpn, 0); /* the answer tells the rest */
	}
	if (rc)
		net_comm_free(&s->c);
	net_owner_leave(&e->owner);
	if (!rc)
		*out = s;
	return rc;
}

int net_send_start(struct net_send *s, const struct proto_resp *resp)
{
	const struct net_engine *e = s->c.engine;

	if (resp->nrails > s->c.nrails)
		return -EPROTO;
	for (int i = 0; i < resp->nrails; i++) {
		if (memcmp(&resp->rail[i].gid, &s->c.peer[i].gid, sizeof(union ibv_gid)))
			return -EPROTO;
		s->c.peer[i].qpn =
			e->mode == PROTO_WRITE ? resp->rail[i].data_qpn : resp->rail[i].ctrl_qpn;
		s->c.peer[i].qkey = resp->rail[i].qkey;
		s->scratch_rkey[i] = resp->scratch_rkey[i];
	}
	while (s->c.nrails > resp->nrails)
		srd_peer_fini(&s->c.peer[--s->c.nrails]);
	s->c.nalive = s->c.nrails;
	net_failover_allow(&s->c);
	s->c.peer_id = resp->comm_id;
	s->c.segment = resp->segment < e->segment ? resp->segment : e->segment;
	s->scratch_addr = resp->scratch_addr;
	s->wr = (struct srd_wr){.op = IBV_WR_RDMA_WRITE_WITH_IMM, .nsge = 1};
	net_eager_start(s, resp);
	s->started = true;
	return 0;
}

/* What is the same in all words to the peer. */
static void prepare_words(struct net_recv *r, const struct proto_req *req)
{
	struct proto_cts *line = r->mirror->mem;

	for (int i = 0; i < NET_RING_ENTRIES; i++)
		line[i].conn_id = req->conn_id;
	memcpy(r->ring_rkey, req->ring_rkey, sizeof(r->ring_rkey));
	r->wr = (struct srd_wr){.op = IBV_WR_RDMA_WRITE, .nsge = 1};
	r->fin.conn_id = req->conn_id;
}

static int recv_setup(struct net_engine *e, struct net_recv *r, const struct proto_req *req)
{
	int nrails = e->nrails < req->nrails ? e->nrails : req->nrails;
	int rc = net_block_get(&e->mirrors, &r->mirror);

	for (int i = 0; i < nrails && !rc; i++)
		rc = meet(&r->c, i, &req->rail[i].gid, req->rail[i].ctrl_qpn, req->rail[i].qkey);
	if (!rc)
		rc = net_engine_add(e, &r->c);
	if (!rc && e->mode == PROTO_READ)
		rc = net_block_get(&e->notes, &r->ready);
	if (!rc && e->mode == PROTO_SEND)
		rc = net_segment_open_recv(r);
	if (!rc)
		prepare_words(r, req);
	if (req->caps & PROTO_CAP_EAGER)
		net_eager_expect(r);
	if (e->mode == PROTO_WRITE && req->caps & PROTO_CAP_QUIET)
		net_quiet_expect(r);
	net_failover_allow(&r->c);
	return rc;
}

int net_recv_open(struct net_engine *e, const struct proto_req *req, struct net_recv **out)
{
	struct net_recv *r = comm_new(sizeof(*r), NET_RECV);
	int rc;

	if (!r)
		return no_comm(e, true);
	r->c.peer_id = req->comm_id;
	r->c.segment = req->segment < e->segment ? req->segment : e->segment;
	r->next_seq = r->seen = r->first_open = 1;
	r->ring_mask = req->ring_entries - 1u;
	r->ring_addr = req->ring_addr;
	r->nslots = req->ring_entries < NET_RING_ENTRIES ? req->ring_entries : NET_RING_ENTRIES;
	r->slots_free = r->nslots;
	for (int i = 0; i < NET_MAX_REQS; i++)
		r->req[i].comm = &r->c;
	net_owner_enter(&e->owner);
	link_in(e, &r->c);
	r->reserve = NET_RECV_RESERVE;
	r->own = NET_SEGMENT_RESERVE;
	rc = recv_setup(e, r, req);
	if (rc)
		net_comm_free(&r->c);
	net_owner_leave(&e->owner);
	if (!rc)
		*out = r;
	return rc;
}

/* ---- fail ---- */

/* The queue pair that what failed was posted to: until its answer came, a send comm has none. */
static uint32_t local_qpn(const struct net_comm *c, int r)
{
	const struct net_rail *rail = &c->engine->rail[r];

	if (c->kind == NET_RECV)
		return rail->ctrl.ibv->qp_num;
	return ((const struct net_send *)c)->started ? rail->data.ibv->qp_num
						     : c->engine->dev->cm->port[0].qp.ibv->qp_num;
}

/* "device GID qp 17" */
static void side_text(char *out, size_t len, const char *dev, const union ibv_gid *gid,
		      uint32_t qpn)
{
	char text[INET6_ADDRSTRLEN];

	if (!inet_ntop(AF_INET6, gid->raw, text, sizeof(text)))
		text[0] = '\0';
	snprintf(out, len, "%s %s qp %u", dev, text, qpn);
}

void net_comm_sides(const struct net_comm *c, int rail, char here[NET_SIDE_TEXT],
		    char there[NET_SIDE_TEXT])
{
	const struct srd_peer *peer = &c->peer[rail];
	const struct net_nic *nic = &c->engine->dev->nic[rail];

	side_text(here, NET_SIDE_TEXT, nic->name, &nic->dev.attr.gid, local_qpn(c, rail));
	side_text(there, NET_SIDE_TEXT, "remote", &peer->gid, peer->qpn);
}

void net_comm_fail(struct net_comm *c, int err, const char *what, int rail, const struct srd_wc *wc)
{
	char here[NET_SIDE_TEXT], there[NET_SIDE_TEXT];

	if (c->err)
		return;
	c->err = err;
	if (c->closed)
		return; /* nobody is interested any more */
	net_comm_sides(c, rail, here, there);
	if (wc)
		net_warn("NET/EFA: %s failed: %s (status %u); %s, %s. %s", what,
			 srd_status_str(wc->efa_status), wc->efa_status, here, there,
			 srd_status_hint(wc->efa_status));
	else
		net_warn("NET/EFA: %s failed: %s; %s, %s", what, strerror(-err), here, there);
	/* The user asks for it. */
	if (net_param()->abort_on_error)
		abort();
}

/* ---- close ---- */

static bool any_open(const struct net_req *req)
{
	for (int i = 0; i < NET_MAX_REQS; i++)
		if (req[i].in_use && req[i].to_come)
			return true;
	return false;
}

static bool aborted(const struct net_comm *c)
{
	if (c->err)
		return true;
	return any_open(c->kind == NET_SEND ? ((const struct net_send *)c)->req
					    : ((const struct net_recv *)c)->req);
}

/* What the peer of an aborted comm may still send has its receives: they are no other's. */
static void give_back_receives(struct net_engine *e, const struct net_comm *c)
{
	if (!aborted(c))
		e->messages_free += net_message_share(e->mode, c->kind);
}

static void recv_fini(struct net_engine *e, struct net_recv *r)
{
	give_back_receives(e, &r->c);
	e->imm_free += r->reserve;
	e->segments_free += r->own;
	free(r->window);
	if (r->mirror)
		net_block_put(&e->mirrors, r->mirror);
	if (r->ready)
		net_block_put(&e->notes, r->ready);
	net_flush_free(r);
	net_eager_forget(r, aborted(&r->c));
}

/*
 * The ring is not used again: the peer may not have heard of the end, and its lines would hide
 * those for the next comm there. They end with the queue pairs; after many rings those go, too.
 */
static void send_fini(struct net_engine *e, const struct net_send *s)
{
	give_back_receives(e, &s->c);
	free(s->flight);
	if (s->notes)
		net_block_put(&e->notes, s->notes);
	if (s->ring && s->ring != e->scratch && ++e->rings_retired == NET_RINGS_RETIRED)
		e->worn = true;
}

void net_comm_free(struct net_comm *c)
{
	struct net_engine *e = c->engine;

	unlink_from(e, c);
	net_engine_del(e, c);
	if (c->kind == NET_RECV)
		recv_fini(e, (struct net_recv *)c);
	else
		send_fini(e, (struct net_send *)c);
	for (int i = 0; i < c->nrails; i++)
		srd_peer_fini(&c->peer[i]);
	free(c);
}

void net_comm_close(struct net_comm *c)
{
	struct net_engine *e = c->engine;
	bool recv = c->kind == NET_RECV;

	net_owner_enter(&e->owner);
	net_complete(e);
	c->closed = true;
	/*
	 * The peer of an aborted comm may still write: promises made to it are lost, and lines for
	 * it may land late. The engine goes on, but is not kept when its last comm has left.
	 */
	if (aborted(c)) {
		e->worn = true;
		net_message_over(c);
	} else if (recv) {
		struct net_recv *r = (struct net_recv *)c;

		/* Nothing is asked for: what was granted will not be used. */
		r->own += r->granted - r->arrived;
		/* Words that failed are not said again, and the peer may wait for them. */
		if (c->doubtful && !c->under_way)
			net_message_over(c);
	}
	if (!c->under_way)
		net_comm_free(c);
	net_owner_leave(&e->owner);
	net_engine_put(e, recv);
}
