/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking for bytes, and sending those that were asked for. */
#include "pull.h"

#include <string.h>

#include "away.h"
#include "conn.h"
#include "log.h"
#include "responder.h"

#define MAX_MOVES 4096
#define AHEAD     8 /* pieces of one move that are asked for */

/* Moves by the low bits of their ids. */
static struct se_move *moves[MAX_MOVES];
static uint64_t last_id;

/* Of each connection: what we asked and have no answer to, what they asked and have none. */
static struct desk {
	unsigned unanswered;
	unsigned first, n;
	struct se_pull asked[SE_PULLS];
} desks[SE_MAX_CONN];
static unsigned asked; /* all n together */

static struct desk *desk_of(int slot)
{
	return &desks[slot - SE_MAX_PROC];
}

/* ---- asking ---- */

static struct se_move *find(uint64_t id, int slot)
{
	struct se_move *m = moves[id % MAX_MOVES];

	return m && m->pull.id == id && m->slot == slot ? m : NULL;
}

static bool enter(struct se_move *m)
{
	for (unsigned i = 0; i < MAX_MOVES; i++) {
		uint64_t id = ++last_id;

		if (!id || moves[id % MAX_MOVES])
			continue;
		moves[id % MAX_MOVES] = m;
		m->pull.id = id;
		return true;
	}
	return false;
}

void se_pull_cancel(struct se_move *m)
{
	if (m->pull.id)
		moves[m->pull.id % MAX_MOVES] = NULL;
	m->pull.id = 0;
}

static uint32_t piece(const struct se_move *m, uint32_t from)
{
	return m->len - from < SE_PULL_MAX ? m->len - from : SE_PULL_MAX;
}

/* Even of no bytes one is asked for: does the other side still want it? */
static bool more_to_ask(const struct se_move *m)
{
	return m->asked < m->len ? m->asked - m->done < AHEAD * SE_PULL_MAX : !m->asked_any;
}

static void ask(struct se_move *m)
{
	struct desk *d = desk_of(m->slot);

	while (more_to_ask(m) && d->unanswered < SE_PULLS) {
		m->pull.off = m->asked;
		m->pull.len = piece(m, m->asked);
		if (!se_conn_send(m->slot, SE_FRAME_PULL, &m->pull, sizeof(m->pull)))
			return;
		d->unanswered++;
		m->asked += m->pull.len;
		m->asked_any = true;
	}
}

enum se_move_result se_pull_step(struct se_move *m)
{
	if (m->result != SE_MOVE_WAIT) {
		se_pull_cancel(m);
		return m->result;
	}
	if (se_conn_incarnation(m->slot) != m->incarnation) {
		se_pull_cancel(m);
		return SE_MOVE_GONE;
	}
	if (m->pull.id || enter(m))
		ask(m);
	return SE_MOVE_WAIT;
}

bool se_pull_data(int slot, const void *payload, uint32_t len)
{
	struct desk *d = desk_of(slot);
	struct se_move *m;
	struct se_data h;

	if (len < sizeof(h) || !d->unanswered)
		return false;
	d->unanswered--;
	memcpy(&h, payload, sizeof(h));
	len -= (uint32_t)sizeof(h);
	m = find(h.id, slot);
	if (!m || m->result != SE_MOVE_WAIT)
		return true; /* given up meanwhile */
	if (h.status) {
		m->result = h.status == SE_DATA_VOID ? SE_MOVE_GONE : SE_MOVE_BAD_SRC;
		return true;
	}
	if (len != piece(m, m->done))
		return false;
	m->result = se_move_place(m, (const uint8_t *)payload + sizeof(h), len);
	return true;
}

/* ---- answering ---- */

bool se_pull_asked(int slot, const struct se_pull *p)
{
	struct desk *d = desk_of(slot);

	if (d->n == SE_PULLS || p->len > SE_PULL_MAX)
		return false;
	d->asked[(d->first + d->n++) % SE_PULLS] = *p;
	asked++;
	return true;
}

static enum se_data_status read_asked(int slot, const struct se_pull *p, void *out)
{
	switch (p->kind) {
	case SE_PULL_REQUEST:
		return se_away_source(slot, p, out);
	case SE_PULL_MEMORY:
		return se_responder_source(p, out);
	default:
		return SE_DATA_BAD;
	}
}

static bool answer(int slot, const struct se_pull *p)
{
	struct se_data h = {.id = p->id};
	uint32_t len = p->len;
	uint8_t *out = se_conn_reserve(slot, (uint32_t)sizeof(h) + len);

	if (!out)
		return false;
	h.status = read_asked(slot, p, out + sizeof(h));
	if (h.status)
		len = 0;
	memcpy(out, &h, sizeof(h));
	se_conn_commit(slot, SE_FRAME_DATA, 0, (uint32_t)sizeof(h) + len);
	return true;
}

unsigned se_pull_serve(void)
{
	unsigned did = 0;

	for (unsigned i = 0; asked && i < SE_MAX_CONN; i++) {
		struct desk *d = &desks[i];

		while (d->n && answer(SE_MAX_PROC + (int)i, &d->asked[d->first])) {
			d->first = (d->first + 1) % SE_PULLS;
			d->n--;
			asked--;
			did++;
		}
	}
	return did;
}

void se_pull_closed(int slot)
{
	struct desk *d = desk_of(slot);

	asked -= d->n;
	memset(d, 0, sizeof(*d));
}

void se_pull_forget_all(void)
{
	memset(moves, 0, sizeof(moves));
	memset(desks, 0, sizeof(desks));
	asked = 0;
}
