/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that were sent without asking for a buffer, and buffers for them. */
#include "early.h"

#include <string.h>

#include "eager.h"
#include "mover.h"
#include "p2p.h"

static void deliver(struct net_recv *r, const struct net_early *m, struct net_slot *slot,
		    const struct proto_cts *l)
{
	if (m->rail == NET_TO_READ)
		net_read_deliver(r, m->buf, slot);
	else
		net_eager_deliver(r, m, slot, l);
}

static struct net_slot *slot_at(struct net_recv *r, uint32_t seq)
{
	return &r->slot[(seq - 1) & (r->nslots - 1)];
}

/* Those before it have what they need: they are not looked at again. */
static uint32_t first_open(struct net_recv *r)
{
	uint32_t oldest = r->next_seq - r->nslots;

	if (proto_before(r->first_open, oldest))
		r->first_open = oldest;
	while (r->first_open != r->next_seq && !slot_at(r, r->first_open)->open)
		r->first_open++;
	return r->first_open;
}

/* The first line that may be for @m. */
static uint32_t first_for(struct net_recv *r, const struct net_early *m)
{
	uint32_t first = first_open(r);

	if (r->c.engine->mode == PROTO_READ || proto_before(m->head.base, first))
		return first;
	return m->head.base;
}

/* False: there is no buffer for it yet. */
static bool place(struct net_recv *r, const struct net_early *m)
{
	for (uint32_t seq = first_for(r, m); seq != r->next_seq; seq++) {
		const struct proto_cts *l = net_line(r->mirror, seq, r->nslots);

		if (slot_at(r, seq)->open && l->tag == m->head.tag) {
			deliver(r, m, slot_at(r, seq), l);
			return true;
		}
	}
	return false;
}

static void drop(struct net_recv *r, uint32_t i)
{
	r->nearly--;
	memmove(&r->early[i], &r->early[i + 1], (r->nearly - i) * sizeof(r->early[0]));
}

/* Whatever is next in turn. */
static void look(struct net_recv *r, uint32_t i)
{
	while (i < r->nearly && r->early[i].head.seq == r->early_next) {
		r->early_next++;
		if (place(r, &r->early[i]))
			drop(r, i);
		else
			i++;
	}
}

bool net_early_arrived(struct net_recv *r, const struct net_early *m)
{
	uint32_t i = r->nearly;

	if (m->head.seq - r->early_next >= NET_EARLY_MOST || i == NET_EARLY_MOST)
		return false;
	while (i > 0 && !proto_before(r->early[i - 1].head.seq, m->head.seq))
		i--;
	if (i < r->nearly && r->early[i].head.seq == m->head.seq)
		return false;
	memmove(&r->early[i + 1], &r->early[i], (r->nearly - i) * sizeof(r->early[0]));
	r->early[i] = *m;
	r->nearly++;
	look(r, i);
	return true;
}

void net_early_posted(struct net_recv *r, struct net_req *req)
{
	for (uint32_t i = 0; i < req->n; i++) {
		struct net_slot *slot = net_slot_of(r, req, i);
		const struct proto_cts *l = net_line(r->mirror, req->seq + i, r->nslots);
		uint32_t k = 0;

		/* Those that were looked at: what comes behind a gap may be for another. */
		while (k < r->nearly && proto_before(r->early[k].head.seq, r->early_next) &&
		       r->early[k].head.tag != l->tag)
			k++;
		if (k == r->nearly || !proto_before(r->early[k].head.seq, r->early_next))
			continue;
		deliver(r, &r->early[k], slot, l);
		drop(r, k);
	}
}
