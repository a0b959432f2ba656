/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections, made and ended in NCCL's order by the service role. */
#include "conn.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "host/log.h"

/* ---- which connections there are ---- */

int nb_conns_init(struct nb *nb)
{
	int rank = nb->self->rank, nranks = nb->self->nranks;
	int channels = (int)nb->opt->channels;

	nb->conns = calloc(2 * (size_t)(nranks * channels), sizeof(*nb->conns));
	if (!nb->conns)
		return -ENOMEM;
	for (int i = 0; i < nranks * channels; i++) {
		int peer = i / channels, channel = i % channels;

		if (peer == rank)
			continue;
		if (nb->pattern->sends(rank, peer, nranks))
			nb->conns[nb->nconns++] =
				(struct nb_conn){.peer = peer, .channel = channel, .sender = true};
		if (nb->pattern->sends(peer, rank, nranks))
			nb->conns[nb->nconns++] =
				(struct nb_conn){.peer = peer, .channel = channel, .sender = false};
	}
	return 0;
}

void nb_conns_fini(struct nb *nb)
{
	free(nb->conns);
	nb->conns = NULL;
	nb->nconns = 0;
}

struct nb_conn *nb_conn_find(struct nb *nb, int peer, int channel, bool sender)
{
	for (int i = 0; i < nb->nconns; i++) {
		struct nb_conn *c = &nb->conns[i];

		if (c->peer == peer && c->channel == channel && c->sender == sender)
			return c;
	}
	return NULL;
}

unsigned nb_conn_bufs(const struct nb *nb, const struct nb_conn *c)
{
	return c->sender ? nb->pattern->send_bufs : nb->pattern->recv_bufs;
}

/* ---- listen, connect, accept ---- */

int nb_conns_listen(void *arg)
{
	struct nb *nb = arg;

	for (int i = 0; i < nb->nconns; i++) {
		struct nb_conn *c = &nb->conns[i];
		enum nccl_net_result rc;

		if (c->sender)
			continue;
		host_beat(nb->self, HOST_SERVICE);
		host_entering(nb->self, HOST_SERVICE, "listen");
		rc = nb->net.listen(&nb->net, nb->ctx, nb->dev, c->handle, &c->listen_comm);
		if (rc)
			return nb_call_failed(nb, c, "listen", rc);
		if (!c->listen_comm)
			return nb_call_broken(nb, c, "listen", "gave no listen comm");
	}
	return 0;
}

/* A rank's share: the handles it listens on, by sender and channel. */
size_t nb_conns_share(const struct nb_options *opt)
{
	return opt->ranks * opt->channels * NCCL_NET_HANDLE_BYTES;
}

int nb_conns_swap_handles(struct nb *nb)
{
	int channels = (int)nb->opt->channels, nranks = nb->self->nranks;
	size_t share = nb_conns_share(nb->opt);
	char *mine = calloc(1, share), *all = calloc((size_t)nranks, share);
	int rc = mine && all ? 0 : -ENOMEM;

	for (int i = 0; !rc && i < nb->nconns; i++) {
		struct nb_conn *c = &nb->conns[i];
		size_t at = (size_t)(c->peer * channels + c->channel);

		if (!c->sender)
			memcpy(mine + at * NCCL_NET_HANDLE_BYTES, c->handle, sizeof(c->handle));
	}
	if (!rc)
		rc = host_allgather(nb->self, HOST_MAIN, mine, all, share);
	for (int i = 0; !rc && i < nb->nconns; i++) {
		struct nb_conn *c = &nb->conns[i];
		size_t at = (size_t)(nb->self->rank * channels + c->channel);

		if (c->sender)
			memcpy(c->handle,
			       all + (size_t)c->peer * share + at * NCCL_NET_HANDLE_BYTES,
			       sizeof(c->handle));
	}
	free(mine);
	free(all);
	return rc;
}

int nb_conn_hint(struct nb *nb, const struct nb_conn *c, enum host_actor actor)
{
	struct nccl_net_attr attr = host_net_attr((int)nb->opt->channels);
	enum nccl_net_result rc;

	if (!nb->net.set_net_attr)
		return 0;
	host_entering(nb->self, actor, "setNetAttr");
	rc = nb->net.set_net_attr(&nb->net, nb->ctx, &attr);
	return rc ? nb_call_failed(nb, c, "setNetAttr", rc) : 0;
}

static int try_connect(struct nb *nb, struct nb_conn *c)
{
	struct nccl_net_device_handle *dev_comm = NULL;
	enum nccl_net_result rc;

	host_entering(nb->self, HOST_SERVICE, "connect");
	rc = nb->net.connect(&nb->net, nb->ctx, nb->dev, c->handle, &c->comm, &dev_comm);
	return rc ? nb_call_failed(nb, c, "connect", rc) : c->comm != NULL;
}

/* NCCL closes the listen comm as soon as it has the receive comm. */
static int try_accept(struct nb *nb, struct nb_conn *c)
{
	struct nccl_net_device_handle *dev_comm = NULL;
	enum nccl_net_result rc;

	host_entering(nb->self, HOST_SERVICE, "accept");
	rc = nb->net.accept(&nb->net, c->listen_comm, &c->comm, &dev_comm);
	if (rc)
		return nb_call_failed(nb, c, "accept", rc);
	if (!c->comm)
		return 0;
	host_entering(nb->self, HOST_SERVICE, "closeListen");
	rc = nb->net.close_listen(c->listen_comm);
	c->listen_comm = NULL;
	return rc ? nb_call_failed(nb, c, "closeListen", rc) : 1;
}

static int say_pending(const struct nb *nb)
{
	int pending = 0;

	for (int i = 0; i < nb->nconns; i++)
		pending += !nb->conns[i].comm;
	for (int i = 0; i < nb->nconns; i++) {
		const struct nb_conn *c = &nb->conns[i];

		if (c->comm)
			continue;
		host_err("no progress for %d s: %d of %d connections pending, first %s rank %d",
			 nb->self->timeout_s, pending, nb->nconns,
			 c->sender ? "connect to" : "accept from", c->peer);
		break;
	}
	return -ETIME;
}

/* Round robin without sleep, as NCCL's service loop. */
int nb_conns_connect(void *arg)
{
	struct nb *nb = arg;
	uint64_t limit = (uint64_t)nb->self->timeout_s * 1000000000u;
	uint64_t moved_ns = host_now_ns();
	int left = nb->nconns;

	while (left) {
		int before = left;

		for (int i = 0; i < nb->nconns; i++) {
			struct nb_conn *c = &nb->conns[i];
			int rc;

			if (c->comm)
				continue;
			rc = nb_conn_hint(nb, c, HOST_SERVICE);
			if (!rc)
				rc = c->sender ? try_connect(nb, c) : try_accept(nb, c);
			if (rc < 0)
				return rc;
			left -= rc;
		}
		host_beat(nb->self, HOST_SERVICE);
		if (host_over(nb->self))
			return -ECANCELED;
		if (left < before)
			moved_ns = host_now_ns();
		else if (host_now_ns() - moved_ns > limit)
			return say_pending(nb);
		else
			sched_yield();
	}
	return 0;
}

/* ---- registration, end ---- */

int nb_conns_register(void *arg)
{
	struct nb *nb = arg;

	for (int i = 0; i < nb->nconns * NB_BUFS; i++) {
		struct nb_conn *c = &nb->conns[i / NB_BUFS];
		unsigned b = (unsigned)i % NB_BUFS;
		const struct host_buf *buf = &nb->buf[b];
		enum nccl_net_result rc;

		if (!(nb_conn_bufs(nb, c) & 1u << b))
			continue;
		host_beat(nb->self, HOST_SERVICE);
		host_entering(nb->self, HOST_SERVICE, "regMr");
		rc = nb->net.reg_mr(&nb->net, c->comm, buf->addr, buf->size, NCCL_NET_PTR_HOST,
				    &c->mhandle[b]);
		if (rc)
			return nb_call_failed(nb, c, "regMr", rc);
		if (!c->mhandle[b])
			return nb_call_broken(nb, c, "regMr", "gave no mhandle");
	}
	return 0;
}

int nb_conns_deregister(void *arg)
{
	struct nb *nb = arg;

	for (int i = 0; i < nb->nconns * NB_BUFS; i++) {
		struct nb_conn *c = &nb->conns[i / NB_BUFS];
		void **mhandle = &c->mhandle[i % NB_BUFS];
		enum nccl_net_result rc;

		if (!*mhandle)
			continue;
		host_beat(nb->self, HOST_SERVICE);
		host_entering(nb->self, HOST_SERVICE, "deregMr");
		rc = nb->net.dereg_mr(c->comm, *mhandle);
		*mhandle = NULL;
		if (rc)
			return nb_call_failed(nb, c, "deregMr", rc);
	}
	return 0;
}

int nb_conns_close(void *arg)
{
	struct nb *nb = arg;

	for (int i = 0; i < nb->nconns; i++) {
		struct nb_conn *c = &nb->conns[i];
		const char *call = c->sender ? "closeSend" : "closeRecv";
		enum nccl_net_result rc;

		host_beat(nb->self, HOST_SERVICE);
		host_entering(nb->self, HOST_SERVICE, call);
		rc = c->sender ? nb->net.close_send(c->comm) : nb->net.close_recv(c->comm);
		c->comm = NULL;
		if (rc)
			return nb_call_failed(nb, c, call, rc);
	}
	return 0;
}
