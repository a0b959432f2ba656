/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between comms from a peer that may say anything: lines, where data are,
 * that they were read, segments. They
 * are written nowhere but where they may be, and a request is done at most once. Input: how data
 * move; then messages: what each is, and changes to one that makes sense.
 */
#include "../../plugin/message.h"

#include <stdlib.h>
#include <string.h>

#include "../../plugin/eager.h"
#include "../../plugin/mover.h"
#include "../../plugin/segment.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	LINES = 64,
	OPEN = 40, /* buffers posted, line numbers 1 ... OPEN */
	BUFFER = 1500,
	SEGMENT = 512,
	SEND_ID = 1,
	RECV_ID = 2,
	CONN = 77,
	MOST = 600,                   /* bytes of a message */
	BUFFERS = NET_EAGER_MOST + 1, /* for those that go ahead */
};

struct world {
	struct net_engine e;
	struct net_comm *page[NET_ID_PAGE];
	struct net_send s;
	struct net_recv r;
	struct net_block ring, mirror, notes;
	uint8_t *buffer[OPEN]; /* each on its own, as the lines are */
	uint8_t *rx;
};

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* On its own, so that a byte behind it is noticed. */
static void *lines(size_t n)
{
	void *mem = aligned_alloc(64, n * sizeof(struct proto_cts));

	need(mem != NULL);
	return memset(mem, 0, n * sizeof(struct proto_cts));
}

static void set_comm(struct world *w, struct net_comm *c, enum net_comm_kind kind, uint32_t id)
{
	c->kind = kind;
	c->engine = &w->e;
	c->mover = w->e.mode == PROTO_READ ? &net_read : &net_segment;
	c->id = id;
	c->nrails = c->nalive = 2;
	c->segment = SEGMENT;
	w->page[id] = c;
}

static void open_buffers(struct world *w)
{
	for (uint32_t seq = 1; seq <= OPEN; seq++) {
		struct net_req *req = &w->r.req[seq - 1];

		*((struct proto_cts *)w->mirror.mem + seq - 1) = (struct proto_cts){
			.addr = (uintptr_t)w->buffer[seq - 1],
			.len = BUFFER,
			.conn_id = CONN,
			.seq = seq,
		};
		w->r.slot[seq - 1] = (struct net_slot){.open = true, .req = (uint8_t)(seq - 1)};
		*req = (struct net_req){.comm = &w->r.c,
					.in_use = true,
					.to_come = 1,
					.n = 1,
					.slot = (uint16_t)(seq - 1)};
		w->s.req[seq - 1] =
			(struct net_req){.comm = &w->s.c, .in_use = true, .to_come = 1, .seq = seq};
	}
}

/* The peer was told of these data. */
static void open_reads(struct world *w)
{
	w->s.next_ready = NET_SENDS_UNREAD;
	for (int i = 0; i < NET_SENDS_UNREAD; i++)
		w->s.reading[i] = (uint8_t)i;
}

/* All that the peer may send of these buffers was granted to it. */
static void open_segments(struct world *w)
{
	need(net_segment_open_send(&w->s) == 0 && net_segment_open_recv(&w->r) == 0);
	w->r.own = NET_SEGMENT_RESERVE;
	w->r.wanted = w->r.granted = OPEN * ((BUFFER - 1) / SEGMENT + 1);
	for (int i = 0; i < OPEN; i++) {
		w->r.slot[i].state = 1;
		w->r.slot[i].most = (BUFFER - 1) / SEGMENT + 1;
	}
}

static struct world *world_new(enum proto_mode mode)
{
	struct world *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);

	need(w != NULL);
	memset(w, 0, sizeof(*w));
	w->e.mode = mode;
	w->e.todo_end = &w->e.todo;
	w->e.by_id[0] = w->page;
	w->ring.mem = lines(NET_RING_ENTRIES);
	w->mirror.mem = lines(LINES);
	w->notes.mem = lines(LINES);
	for (int i = 0; i < OPEN; i++) {
		w->buffer[i] = malloc(BUFFER);
		need(w->buffer[i] != NULL);
	}
	set_comm(w, &w->s.c, NET_SEND, SEND_ID);
	set_comm(w, &w->r.c, NET_RECV, RECV_ID);
	w->s.conn_id = CONN;
	w->s.ring = &w->ring;
	w->r.mirror = &w->mirror;
	w->r.ready = &w->notes;
	w->r.fin.conn_id = CONN;
	w->r.nslots = LINES;
	w->r.ring_mask = LINES - 1;
	w->r.next_seq = OPEN + 1;
	w->rx = malloc((size_t)BUFFERS * MOST);
	need(w->rx != NULL);
	w->e.rail[0].data_rx = (struct net_rx){.mem = w->rx, .n = BUFFERS, .bytes = MOST};
	w->r.eager = true;
	w->r.held = w->r.eager_limit = NET_EAGER_MOST;
	open_buffers(w);
	open_reads(w);
	open_segments(w);
	return w;
}

static void world_free(struct world *w)
{
	free(w->s.flight);
	free(w->r.window);
	free(w->ring.mem);
	free(w->mirror.mem);
	free(w->notes.mem);
	free(w->rx);
	for (int i = 0; i < OPEN; i++)
		free(w->buffer[i]);
	free(w);
}

/* What a good peer would send as such a message; returns its length. */
static uint32_t good(uint8_t *msg, unsigned type, uint32_t seq)
{
	const struct proto_cts line = {.addr = 64,
				       .len = BUFFER / 2,
				       .tag = seq % NET_MAX_REQS,
				       .conn_id = CONN,
				       .n = 1,
				       .seq = seq};

	switch (type) {
	case PROTO_LINES:
		memcpy(msg, &line, sizeof(line));
		return sizeof(line);
	case PROTO_READY:
		memcpy(msg,
		       &(struct proto_ready){.len = BUFFER / 2,
					     .tag = seq % 5 % 2,
					     .conn_id = CONN,
					     .seq = seq,
					     .number = seq},
		       sizeof(struct proto_ready));
		return sizeof(struct proto_ready);
	case PROTO_FIN:
		memcpy(msg, &(struct proto_fin){.conn_id = CONN, .read = seq, .eager = seq},
		       sizeof(struct proto_fin));
		return sizeof(struct proto_fin);
	case PROTO_SEGMENT:
	case PROTO_LAST_SEGMENT:
		memcpy(msg, &(uint32_t){seq % 3}, 4);
		return 4 + (seq % 3 == 2 ? BUFFER - 2 * SEGMENT : SEGMENT);
	case PROTO_EAGER:
		memcpy(msg,
		       &(struct proto_eager){.seq = seq % (NET_EAGER_MOST + 2),
					     .base = seq % 7,
					     .tag = seq % 5 % 2,
					     .len = seq},
		       sizeof(struct proto_eager));
		return (uint32_t)sizeof(struct proto_eager) + seq;
	default:
		return 0;
	}
}

static bool is_kept(const struct net_recv *r, uint32_t buf)
{
	for (int i = 0; i < r->nearly; i++)
		if (r->early[i].rail != NET_TO_READ && r->early[i].buf == buf)
			return true;
	return false;
}

/* In a buffer that holds none; the promise of one that comes back is renewed. */
static void ahead(struct world *w, uint32_t comm, const uint8_t *msg, uint32_t len)
{
	uint8_t held = w->r.held;
	uint32_t buf = 0;

	while (is_kept(&w->r, buf))
		buf++;
	need(buf < BUFFERS);
	memcpy(w->rx + buf * MOST, msg, len);
	net_eager_arrived(&w->e, comm, 0, (uint64_t)buf << 8, w->rx + buf * MOST, len);
	w->r.eager_limit += (uint32_t)(held - w->r.held);
	w->r.held = held;
	w->e.rail[0].data_rx.nback = 0;
}

static void one(struct world *w, struct input *in)
{
	unsigned type = u8(in) % 8, changes = u8(in) % 8;
	uint32_t seq = 1 + u8(in) % (OPEN + 4), comm = u8(in) % 4;
	uint8_t msg[MOST] = {0}, *exact;
	uint32_t len = good(msg, type, seq);

	for (; changes; changes--) {
		uint16_t at = u16(in);

		if (at & 0x8000)
			len = at % MOST;
		else
			msg[at % MOST] = u8(in);
	}
	if (type == PROTO_EAGER) {
		ahead(w, comm, msg, len);
		return;
	}
	exact = malloc(len ? len : 1);
	need(exact != NULL);
	memcpy(exact, msg, len);
	net_message(&w->e, proto_note_pack((enum proto_note_type)type, comm, seq - 1, seq), exact,
		    len);
	free(exact);
}

static void check(const struct world *w)
{
	for (int i = 0; i < NET_MAX_REQS; i++) {
		need(w->r.req[i].to_come <= 1 && w->s.req[i].to_come <= 1);
		need(i < OPEN || !w->r.req[i].in_use);
	}
	need(w->r.nearly <= NET_EARLY_MOST);
	need(w->r.arrived <= w->r.granted && w->r.wanted <= w->r.granted - w->r.arrived);
	for (int i = 0; i < LINES; i++)
		need(!w->r.slot[i].open || w->r.req[w->r.slot[i].req].to_come == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct world *w = world_new(u8(&in) & 1 ? PROTO_READ : PROTO_SEND);

	while (in.left) {
		one(w, &in);
		check(w);
	}
	world_free(w);
	return 0;
}
