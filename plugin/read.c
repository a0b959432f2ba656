/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by RDMA reads of the receiver, for EFAs that cannot write. There are no lines: a send says
 * where its data are as soon as NCCL makes it, the receiver finds the buffer, as for an eager
 * message, reads them straight into it, and says when the sender's may be used again: for all that
 * one poll has found to be over, in one message.
 */
#include <errno.h>
#include <string.h>

#include "cut.h"
#include "doubt.h"
#include "eager.h"
#include "early.h"
#include "message.h"
#include "mover.h"
#include "p2p.h"
#include "todo.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* What becomes of a slot. */
enum {
	SLOT_WAITS, /* for the sender */
	SLOT_READY, /* the data can be read */
	SLOT_READING,
	SLOT_READING_AGAIN, /* a piece was lost: when the others are over, all is read once more */
	SLOT_READ,          /* the sender is to be told */
	SLOT_OVER,
};

/*
 * Promises that are news, so many that a message is worth it; fewer go with others, or when the
 * sender has none left.
 */
enum { PROMISES_NEWS = NET_EAGER_MOST / 2 };

static_assert((int)NET_FINS_UNSEEN > NET_SENDS_UNREAD + NET_EAGER_MOST / PROMISES_NEWS + 1,
	      "each is of a read more, of as many promises, or of the first");

static uint32_t bit_of(uint32_t number)
{
	return 1u << number % NET_SENDS_UNREAD;
}

/* ---- sender ---- */

static struct proto_ready *word_of(const struct net_send *s, const struct net_req *req)
{
	return (struct proto_ready *)s->notes->mem + (req - s->req);
}

static int post_ready(struct net_send *s, struct net_req *req)
{
	const struct proto_ready *ready = word_of(s, req);
	int rail = net_live_rail(&s->c, s->ahead_rail), rc;
	struct ibv_sge sge = {(uintptr_t)ready, sizeof(*ready), s->notes->lkey[rail]};

	rc = net_message_send(&s->c, rail, proto_note_pack(PROTO_READY, s->c.peer_id, 0, 0), &sge,
			      1, (uintptr_t)req | WR_LINES);
	if (rc == 0) {
		req->busy++;
		s->ahead_rail = (uint8_t)net_next_rail(&s->c, rail);
	}
	return rc;
}

int net_read_send(struct net_send *s, struct net_req *req, const void *data, uint32_t size, int tag,
		  const struct net_mr *mr)
{
	struct proto_ready *ready = word_of(s, req);
	int rc;

	/* The last that was said there has not left yet; or there is no receive for one more. */
	if (unlikely(req->busy || s->next_ready - s->unread == NET_SENDS_UNREAD))
		return -EAGAIN;
	*ready = (struct proto_ready){
		.addr = (uintptr_t)data,
		.len = size,
		.tag = (uint32_t)tag,
		.conn_id = s->conn_id,
		.seq = s->next_ahead,
		.number = s->next_ready,
	};
	for (int i = 0; i < s->c.nrails && size; i++)
		ready->rkey[i] = mr->rkey[i];
	req->bytes = size;
	req->to_come = 1;
	rc = post_ready(s, req);
	if (unlikely(rc))
		return rc;
	s->reading[s->next_ready++ % NET_SENDS_UNREAD] = (uint8_t)(req - s->req);
	s->next_ahead++;
	return 0;
}

/* All that is said to be read, and was not known to be. */
static void were_read(struct net_send *s, const struct proto_fin *fin)
{
	for (uint32_t k = s->unread; k != s->next_ready; k++) {
		if (s->read & bit_of(k) || !proto_fin_has(fin, k))
			continue;
		s->read |= bit_of(k);
		s->req[s->reading[k % NET_SENDS_UNREAD]].to_come = 0;
	}
	for (; s->read & bit_of(s->unread); s->unread++)
		s->read &= ~bit_of(s->unread);
}

static void got_fin(struct net_send *s, const uint8_t *data, uint32_t len)
{
	struct proto_fin fin;

	if (len != sizeof(fin))
		return;
	memcpy(&fin, data, sizeof(fin));
	if (fin.conn_id != s->conn_id || proto_before(s->next_ready, fin.read) ||
	    proto_before(s->eager_sent + NET_EAGER_MOST, fin.eager))
		return;
	were_read(s, &fin);
	if (proto_before(s->eager_limit, fin.eager))
		s->eager_limit = fin.eager;
}

/* ---- receiver ---- */

static struct proto_ready *ready_of(const struct net_recv *r, uint32_t number)
{
	return (struct proto_ready *)r->ready->mem + number % NET_SENDS_UNREAD;
}

static void got_ready(struct net_recv *r, const uint8_t *data, uint32_t len)
{
	struct proto_ready ready;
	struct net_early m = {.rail = NET_TO_READ};

	if (len != sizeof(ready))
		return;
	memcpy(&ready, data, sizeof(ready));
	/* Each once, whatever is sent again. */
	if (ready.conn_id != r->fin.conn_id || proto_fin_has(&r->fin, ready.number) ||
	    ready.number - r->fin.read >= NET_SENDS_UNREAD || r->known & bit_of(ready.number))
		return;
	m.buf = ready.number;
	m.head = (struct proto_eager){.seq = ready.seq, .tag = ready.tag, .len = ready.len};
	*ready_of(r, ready.number) = ready;
	if (net_early_arrived(r, &m))
		r->known |= bit_of(ready.number);
}

void net_read_deliver(struct net_recv *r, uint32_t number, struct net_slot *slot)
{
	slot->open = false;
	slot->state = SLOT_READY;
	slot->total = number;
	net_todo_add(&r->req[slot->req]);
}

static void all_read(struct net_recv *r, struct net_slot *slot, uint32_t bytes)
{
	struct proto_fin *fin = &r->fin;

	slot->bytes = bytes;
	slot->state = SLOT_READ;
	r->known &= ~bit_of(slot->total);
	fin->beyond |= 1u << (slot->total - fin->read);
	for (; fin->beyond & 1; fin->beyond >>= 1)
		fin->read++;
	r->fin_untold = true;
}

/* What is read into buffer @i of @req, whose line is @l: a longer message is cut off. */
static uint32_t bytes_of(const struct net_recv *r, const struct net_slot *slot,
			 const struct proto_cts *l)
{
	uint32_t len = ready_of(r, slot->total)->len;

	return len < l->len ? len : l->len;
}

/* False: no credits for it. */
static bool start_reads(struct net_recv *r, struct net_req *req, uint32_t i, struct net_slot *slot)
{
	const struct proto_cts *l = net_line(r->mirror, req->seq + i, r->nslots);
	const struct proto_ready *ready = ready_of(r, slot->total);
	struct net_cut cut = net_cut(&r->c, bytes_of(r, slot, l), l->rail0);
	struct srd_wr wr = {
		.wr_id = (uintptr_t)req | i << WR_BUF_SHIFT | WR_READ,
		.op = IBV_WR_RDMA_READ,
		.nsge = 1,
	};
	int rc;

	if (cut.bytes == 0) {
		all_read(r, slot, 0);
		return true;
	}
	if (unlikely(!slot->mr)) {
		net_forgotten(&r->c);
		return true;
	}
	if (!net_cut_has_room(&r->c, &cut))
		return false;
	slot->state = SLOT_READING;
	slot->left = cut.left;
	do {
		wr.to = &r->c.peer[cut.rail];
		wr.sge[0].addr = l->addr + cut.off;
		wr.sge[0].length = cut.len;
		wr.sge[0].lkey = slot->mr->lkey[cut.rail];
		wr.raddr = ready->addr + cut.off;
		wr.rkey = ready->rkey[cut.rail];
		rc = net_data_post(&r->c, cut.rail, &wr, cut.len);
		if (unlikely(rc))
			net_comm_fail(&r->c, rc, "post of a read", cut.rail, NULL);
	} while (!rc && net_cut_next(&r->c, &cut));
	return true;
}

/* Tell the sender all; false: no credits. */
static bool tell(struct net_recv *r, struct net_req *req)
{
	struct ibv_sge sge = {(uintptr_t)&r->fin, sizeof(r->fin), 0};
	int rail = net_live_rail(&r->c, r->next_rail), rc;

	r->fin.eager = r->eager_limit;
	rc = net_message_send(&r->c, rail, proto_note_pack(PROTO_FIN, r->c.peer_id, 0, 0), &sge, 1,
			      (uintptr_t)req | WR_NOTE);
	if (rc == -EAGAIN)
		return false;
	if (unlikely(rc))
		net_comm_fail(&r->c, rc, "post of a message", rail, NULL);
	r->fin_untold = false;
	r->eager_told = r->eager_limit;
	return true;
}

/*
 * Reads that can begin; senders that are to be told. Only then buffers are filled: who has nothing
 * more to wait for does not look any more, and the sender would wait.
 */
static bool run_recv(struct net_recv *r, struct net_req *req)
{
	for (uint32_t i = 0; i < req->n; i++) {
		struct net_slot *slot = net_slot_of(r, req, i);

		/* Nothing is read any more into what may not be there any more. */
		if (slot->state == SLOT_READY && r->c.closed)
			slot->state = SLOT_OVER;
		if (slot->state == SLOT_READY && !start_reads(r, req, i, slot))
			return false;
	}
	if (r->fin_untold && !tell(r, req))
		return false;
	for (uint32_t i = 0; i < req->n; i++) {
		struct net_slot *slot = net_slot_of(r, req, i);

		if (slot->state == SLOT_READ) {
			slot->state = SLOT_OVER;
			net_slot_filled(r, slot);
		}
	}
	return true;
}

static bool run(struct net_req *req)
{
	struct net_comm *c = req->comm;
	int rc;

	if (c->kind == NET_RECV)
		return run_recv((struct net_recv *)c, req);
	if (c->closed || !req->lost || !req->to_come)
		return true;
	rc = post_ready((struct net_send *)c, req);
	if (rc == -EAGAIN)
		return false;
	if (unlikely(rc))
		net_comm_fail(c, rc, "post on another rail", 0, NULL);
	req->lost = 0;
	return true;
}

void net_read_completed(struct net_req *req, uint32_t i, int rail)
{
	struct net_recv *r = (struct net_recv *)req->comm;
	struct net_slot *slot = net_slot_of(r, req, i);

	r->touched |= 1u << rail;
	if (--slot->left)
		return;
	if (unlikely(slot->state == SLOT_READING_AGAIN))
		slot->state = SLOT_READY;
	else
		all_read(r, slot, bytes_of(r, slot, net_line(r->mirror, req->seq + i, r->nslots)));
	net_todo_add(req);
}

void net_read_lost(struct net_req *req, uint32_t i)
{
	struct net_slot *slot = net_slot_of((struct net_recv *)req->comm, req, i);

	slot->state = SLOT_READING_AGAIN;
	if (--slot->left)
		return;
	slot->state = SLOT_READY;
	net_todo_add(req);
}

void net_read_tell(struct net_req *req)
{
	((struct net_recv *)req->comm)->fin_untold = true;
	net_todo_add(req);
}

/* ---- eager messages ---- */

/* Have so many promises not been told that a message is worth it? */
static bool are_news(const struct net_recv *r)
{
	uint32_t news = r->eager_limit - r->eager_told;

	return news >= PROMISES_NEWS || (news && r->eager_came == r->eager_told);
}

void net_read_renew(struct net_recv *r, const struct net_slot *slot)
{
	net_eager_promise(r, slot->mr);
	if (are_news(r))
		net_read_tell(&r->req[slot->req]);
}

/* Where lines would be sent. */
static int no_lines(struct net_recv *r, struct net_req *req, uint32_t seq, uint32_t n)
{
	(void)seq;
	(void)n;
	if (are_news(r))
		tell(r, req); /* without credits later */
	if (unlikely(r->c.doubtful))
		net_doubt_again(r->c.engine);
	return 0;
}

/* ---- both ---- */

static void message(struct net_comm *c, const struct proto_note *note, const uint8_t *data,
		    uint32_t len)
{
	if (c->kind == NET_RECV && note->type == PROTO_READY)
		got_ready((struct net_recv *)c, data, len);
	else if (c->kind == NET_SEND && note->type == PROTO_FIN)
		got_fin((struct net_send *)c, data, len);
}

const struct net_mover net_read = {
	.lines = no_lines,
	.run = run,
	.message = message,
};
