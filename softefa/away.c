/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to other hosts. */
#include "away.h"

#include <errno.h>
#include <string.h>

#include "conn.h"
#include "copy.h"
#include "engine.h"
#include "fabric.h"
#include "host.h"
#include "settings.h"

#define EAGER_WRITE 16384 /* bytes that a write brings along */

static struct se_list routing = SE_LIST_INIT(routing);

static bool source_live(const struct se_msg *m)
{
	for (unsigned i = 0; i < m->nseg; i++)
		if (!se_fabric_key_live(m->src_dev, m->seg[i].key, se_fabric_self()))
			return false;
	return true;
}

/* @len bytes of a request from @off on, as they are now. 0, or -EFAULT: not (all) registered. */
static int source(const struct se_tx *tx, uint32_t off, uint32_t len, uint8_t *out)
{
	const struct se_msg *m = &tx->msg;

	if (!source_live(m))
		return -EFAULT;
	if (m->flags & SE_MSG_INLINE) {
		memcpy(out, m->data + off, len);
		return 0;
	}
	for (unsigned i = 0; i < m->nseg && len; i++) {
		const struct se_seg *s = &m->seg[i];
		uint32_t n = off < s->len ? s->len - off : 0;

		if (n > len)
			n = len;
		if (n && se_copy_in(out, s->addr + off, n))
			return -EFAULT;
		off -= n ? off : s->len;
		out += n;
		len -= n;
	}
	return len ? -EFAULT : 0;
}

enum se_data_status se_away_source(int slot, const struct se_pull *p, void *out)
{
	struct se_tx *tx = se_tx_find(p->what);

	if (!tx || tx->state != SE_TX_SENT || tx->slot != slot || tx->msg.op == SE_OP_READ)
		return SE_DATA_VOID;
	if (p->off > tx->msg.len || p->len > tx->msg.len - p->off)
		return SE_DATA_BAD;
	return source(tx, p->off, p->len, out) ? SE_DATA_BAD : 0;
}

void se_away_route(struct se_tx *tx)
{
	if (tx->state == SE_TX_ROUTING)
		return;
	if (!tx->route_by_us)
		tx->route_by_us = se_now_us() + se_settings()->timeout_ms * 1000ull;
	se_tx_set(tx, SE_TX_ROUTING, &routing);
}

void se_away_send(struct se_tx *tx)
{
	int slot = se_host_route(tx->host, tx->msg.dst_dev, tx->msg.dst_qpn);
	bool brings = tx->msg.op == SE_OP_SEND || tx->msg.flags & SE_MSG_INLINE ||
		      (tx->msg.op == SE_OP_WRITE && tx->msg.len <= EAGER_WRITE);
	uint32_t len = brings ? tx->msg.len : 0;
	struct se_msg head;
	uint8_t *p;

	if (slot == -ENOENT) {
		se_tx_refuse(tx, SE_REM_BAD_QPN);
		return;
	}
	p = slot < 0 ? NULL : se_conn_reserve(slot, (uint32_t)SE_MSG_HEAD + len);
	if (!p) {
		se_away_route(tx);
		return;
	}
	memcpy(&head, &tx->msg, SE_MSG_HEAD);
	head.flags &= (uint8_t)~SE_MSG_INLINE;
	head.nseg = 0; /* addresses and keys are nobody else's business */
	memset(head.seg, 0, sizeof(head.seg));
	memcpy(p, &head, SE_MSG_HEAD);
	if (source(tx, 0, len, p + SE_MSG_HEAD)) {
		se_tx_complete(tx, SE_INVALID_LKEY);
		return;
	}
	se_conn_commit(slot, SE_FRAME_MESSAGE, brings ? SE_FRAME_PAYLOAD : 0,
		       (uint32_t)SE_MSG_HEAD + len);
	se_tx_sent(tx, slot, se_conn_incarnation(slot));
}

static void send_routing(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &routing)
		se_away_send(se_container(n, struct se_tx, node));
}

void se_away_poll(void)
{
	if (!se_list_empty(&routing) && se_conn_news())
		send_routing();
}

void se_away_check(struct se_tx *tx, uint64_t now_us)
{
	switch (se_conn_end(tx->slot, tx->incarnation)) {
	case SE_CONN_NONE:
		se_conn_touch(tx->slot, now_us);
		break;
	case SE_CONN_REFUSED:
		se_away_route(tx);
		break;
	case SE_CONN_LOST:
		se_tx_refuse(tx, SE_UNRESP_REMOTE);
		break;
	case SE_CONN_BYE:
		se_tx_refuse(tx, se_tx_lost(tx));
		break;
	}
}

void se_away_timers(uint64_t now_us)
{
	struct se_list *n, *nx;

	send_routing();
	se_list_each (n, nx, &routing) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (now_us >= tx->route_by_us)
			se_tx_refuse(tx, se_tx_silent(tx));
	}
	se_list_each (n, nx, &se_tx_moving) {
		struct se_tx *tx = se_container(n, struct se_tx, node);

		if (tx->host)
			se_conn_touch(tx->slot, now_us);
	}
}

void se_away_forget_all(void)
{
	se_list_init(&routing);
}
