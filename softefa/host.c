/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts and routes. */
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "engine.h"

#define RETRY_US 50000 /* between attempts to connect */
#define MAX_PROC 256   /* processes of one host that this one talks to */

/* What is known of a QPN; from SE_MAX_PROC on: the slot that leads there. */
enum route { UNKNOWN, ASKED, NOWHERE };

_Static_assert(NOWHERE < SE_MAX_PROC, "routes are not slots of this host");

struct proc {
	uint16_t port;
	int slot;
};

struct se_host {
	struct se_host *next;
	uint8_t address[4];
	uint16_t port;
	int desk; /* connection to whoever answers questions; 0: none */
	uint64_t retry_us;
	uint16_t *route[SE_GID_DEVICES]; /* by QPN; NULL: all unknown */
	struct proc proc[MAX_PROC];
	unsigned nproc;
};

static struct se_host *hosts;

struct se_host *se_host_of(const struct se_gid *gid)
{
	uint16_t port = se_gid_port(gid);
	struct se_host *h;

	for (h = hosts; h; h = h->next)
		if (h->port == port && memcmp(h->address, gid->b + 8, 4) == 0)
			return h;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	memcpy(h->address, gid->b + 8, sizeof(h->address));
	h->port = port;
	h->next = hosts;
	hosts = h;
	return h;
}

static uint16_t *route_of(struct se_host *h, uint32_t dev, uint16_t qpn)
{
	if (!h->route[dev])
		h->route[dev] = calloc(1u << 16, sizeof(*h->route[dev]));
	return h->route[dev] ? &h->route[dev][qpn] : NULL;
}

/* ---- asking ---- */

static void ask(struct se_host *h, uint32_t dev, uint16_t qpn, uint16_t *route)
{
	struct se_ask q = {.dev = (uint16_t)dev, .qpn = qpn};
	uint64_t now_us = se_now_us();
	int slot;

	if (!h->desk) {
		if (now_us < h->retry_us)
			return;
		h->retry_us = now_us + RETRY_US;
		slot = se_conn_open(h->address, h->port);
		if (slot < 0)
			return;
		h->desk = slot;
	}
	if (se_conn_send(h->desk, SE_FRAME_ASK, &q, sizeof(q)))
		*route = ASKED;
}

int se_host_route(struct se_host *h, uint32_t dev, uint16_t qpn)
{
	uint16_t *route = route_of(h, dev, qpn);

	if (!route)
		return -EAGAIN;
	switch (*route) {
	case NOWHERE:
		*route = UNKNOWN;
		return -ENOENT;
	case UNKNOWN:
		ask(h, dev, qpn, route);
		return -EAGAIN;
	case ASKED:
		return -EAGAIN;
	default:
		return *route;
	}
}

void se_host_reroute(struct se_host *h, uint32_t dev, uint16_t qpn)
{
	uint16_t *route = route_of(h, dev, qpn);

	if (route && *route != ASKED)
		*route = UNKNOWN;
}

/* ---- answers ---- */

static int connect_to(struct se_host *h, uint16_t port)
{
	struct proc *p = h->proc;
	int slot;

	while (p < h->proc + h->nproc && p->port != port)
		p++;
	if (p == h->proc + MAX_PROC)
		return -ENOSPC;
	if (p < h->proc + h->nproc)
		return p->slot;
	slot = se_conn_open(h->address, port);
	if (slot >= 0) {
		*p = (struct proc){.port = port, .slot = slot};
		h->nproc++;
	}
	return slot;
}

void se_host_told(int slot, const struct se_ask *told)
{
	struct se_host *h = hosts;
	uint16_t *route;
	int to;

	while (h && h->desk != slot)
		h = h->next;
	if (!h || told->dev >= SE_GID_DEVICES)
		return;
	route = route_of(h, told->dev, told->qpn);
	if (!route || *route != ASKED)
		return;
	*route = NOWHERE;
	if (!told->port)
		return;
	to = connect_to(h, told->port);
	*route = to < 0 ? UNKNOWN : (uint16_t)to;
}

/* ---- the ends of connections ---- */

static void replace_routes(struct se_host *h, uint16_t was)
{
	for (unsigned d = 0; d < SE_GID_DEVICES; d++)
		for (unsigned q = 0; h->route[d] && q < 1u << 16; q++)
			if (h->route[d][q] == was)
				h->route[d][q] = UNKNOWN;
}

void se_host_closed(int slot)
{
	for (struct se_host *h = hosts; h; h = h->next) {
		if (h->desk == slot) {
			h->desk = 0;
			replace_routes(h, ASKED);
		}
		for (unsigned i = 0; i < h->nproc; i++) {
			if (h->proc[i].slot != slot)
				continue;
			h->proc[i--] = h->proc[--h->nproc];
			replace_routes(h, (uint16_t)slot);
		}
	}
}

void se_host_forget_all(void)
{
	while (hosts) {
		struct se_host *h = hosts;

		hosts = h->next;
		for (unsigned d = 0; d < SE_GID_DEVICES; d++)
			free(h->route[d]);
		free(h);
	}
}
