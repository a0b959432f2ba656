/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path: requests, and which send goes into which buffer. A receiver announces the buffers
 * of a receive as lines in the sender's ring, in the order of its receives. Sends go into those of
 * the oldest receive that has buffers left, each into the first free one with its tag, as NCCL's
 * contract wants it; a send that finds none waits.
 */
#include "p2p.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "complete.h"
#include "cut.h"
#include "eager.h"
#include "event.h"
#include "failover.h"
#include "flush.h"
#include "message.h"
#include "mover.h"
#include "profile.h"
#include "segment.h"
#include "stall.h"
#include "todo.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* What is written once for the usual case and once for all. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Of size classes and all bytes. */
static void count_message(uint64_t *sizes, uint64_t *total, uint32_t bytes)
{
	net_count(&sizes[net_size_class(bytes)], 1);
	net_count(total, bytes);
}

/* Now and then, and at each test while something waits for credits. */
static __attribute__((noinline, cold)) void look_around(struct net_engine *e)
{
	if (net_stall_look(e))
		net_event_look(e);
	if (e->doubtful && net_engine_idle(e))
		net_eager_resolve(e);
	e->patience = e->todo || e->doubtful ? 1 : NET_STALL_CALLS;
}

/* No credits: whatever has completed may have some. */
static __attribute__((noinline)) int later(struct net_comm *c)
{
	if (c->engine->counting)
		net_count(&c->engine->counts.refused, 1);
	net_complete(c->engine);
	return c->err;
}

/* ---- send ---- */

static const struct proto_cts *line(const struct net_send *s, uint32_t seq)
{
	return net_line(s->ring, seq, NET_RING_ENTRIES);
}

static bool is_here(const struct net_send *s, uint32_t seq)
{
	const struct proto_cts *l = line(s, seq);

	/* acquire: seq is the last word that lands, the rest is read after it */
	return __atomic_load_n(&l->seq, __ATOMIC_ACQUIRE) == seq && l->conn_id == s->conn_id;
}

/* All lines of the group that comes next: they land in any order. */
static __attribute__((noinline)) bool see_group(struct net_send *s)
{
	uint32_t n = line(s, s->next_seq)->n;

	if (unlikely(n == 0 || n > NET_MAX_RECVS)) {
		net_comm_fail(&s->c, -EPROTO, "a clear-to-send line", 0, NULL);
		return false;
	}
	for (uint32_t i = 1; i < n; i++)
		if (!is_here(s, s->next_seq + i))
			return false;
	s->group = (uint8_t)n;
	s->taken = 0;
	net_eager_promised(s, line(s, s->next_seq + n - 1)->eager);
	return true;
}

/* Which line of the group a send with @tag goes to, or -1. */
static int match(const struct net_send *s, int tag)
{
	for (int i = 0; i < s->group; i++)
		if (!(s->taken & 1u << i) &&
		    line(s, s->next_seq + (uint32_t)i)->tag == (uint32_t)tag)
			return i;
	return -1;
}

static void take(struct net_send *s, int i)
{
	s->taken |= (uint8_t)(1u << i);
	if (s->taken == (1u << s->group) - 1) {
		s->next_seq += s->group;
		s->group = 0;
	}
}

/* Lines whose messages are with the peer already. */
static __attribute__((noinline)) void take_ahead(struct net_send *s)
{
	uint32_t left = 0;

	for (uint32_t k = 0; k < s->nahead; k++) {
		int i = match(s, (int)s->ahead[k]);

		if (i >= 0)
			take(s, i);
		else
			s->ahead[left++] = s->ahead[k];
	}
	s->nahead = (uint8_t)left;
}

/* The oldest group with lines left; false: it is not here. */
static bool find_group(struct net_send *s)
{
	while (!s->group) {
		if (!is_here(s, s->next_seq) || !see_group(s))
			return false;
		if (unlikely(s->nahead))
			take_ahead(s);
	}
	return true;
}

static inline void begin(struct net_send *s, struct net_req *req, void **request)
{
	s->free &= s->free - 1;
	req->in_use = true;
	if (unlikely(s->c.engine->counting))
		count_message(s->c.engine->counts.sends, &s->c.engine->counts.send_bytes,
			      req->bytes);
	*request = req;
}

static int start_ahead(struct net_send *s, void *data, size_t size, int tag,
		       const struct net_mr *mr, void **request)
{
	struct net_req *req = &s->req[__builtin_ctzll(s->free)];
	int rc = net_eager_send(s, req, data, (uint32_t)size, tag, mr);

	if (rc == -EAGAIN)
		return rc;
	if (unlikely(rc)) {
		net_comm_fail(&s->c, rc, "post of a send", 0, NULL);
		return rc;
	}
	if (unlikely(s->c.engine->counting))
		net_count(&s->c.engine->counts.eager_sends, 1);
	begin(s, req, request);
	return 0;
}

/* To line @l, number @seq. */
static ALWAYS_INLINE int start_send(struct net_send *s, const struct proto_cts *l, uint32_t seq,
				    void *data, size_t size, const struct net_mr *mr,
				    void **request)
{
	struct net_req *req = &s->req[__builtin_ctzll(s->free)];
	int rc;

	req->bytes = size < l->len ? (uint32_t)size : l->len;
	req->to_come = 0;
	rc = s->c.mover->send(s, req, l, seq, data, mr);
	if (likely(rc == 0))
		begin(s, req, request);
	else if (rc != -EAGAIN)
		net_comm_fail(&s->c, rc, "post of a send", 0, NULL);
	return rc;
}

/* There is none for it. */
static __attribute__((noinline)) int no_line(struct net_send *s)
{
	if (--s->c.engine->patience <= 0) {
		net_stall_waits(s);
		look_around(s->c.engine);
	}
	return s->c.err;
}

/* No credits, which need no request: eager messages are the peer's now. */
static __attribute__((noinline, cold)) int send_later(struct net_send *s)
{
	later(&s->c);
	return no_line(s);
}

/* Whatever the next group is, and if there is none. */
static __attribute__((noinline)) int send_any(struct net_send *s, void *data, size_t size, int tag,
					      const struct net_mr *mr, void **request)
{
	int i, rc = -EAGAIN;

	if (find_group(s)) {
		i = match(s, tag);
		if (i < 0)
			return no_line(s);
		if (likely(s->free)) {
			uint32_t seq = s->next_seq + (uint32_t)i;

			rc = start_send(s, line(s, seq), seq, data, size, mr, request);
		}
		if (likely(rc == 0))
			take(s, i);
	} else {
		if (s->c.err || !net_eager_may(s, size))
			return no_line(s);
		if (likely(s->free))
			rc = start_ahead(s, data, size, tag, mr, request);
	}
	return rc;
}

/* A line alone, and for this send. */
static bool is_usual(const struct net_send *s, const struct proto_cts *l, int tag)
{
	return !s->group && is_here(s, s->next_seq) && l->n == 1 && l->tag == (uint32_t)tag &&
	       !s->nahead && s->free;
}

static int send_entered(struct net_send *s, void *data, size_t size, int tag,
			const struct net_mr *mr, void **request)
{
	const struct proto_cts *l = line(s, s->next_seq);
	int rc;

	if (unlikely(s->c.err))
		return s->c.err;
	if (unlikely(s->c.engine->mode != PROTO_WRITE) && !s->group)
		net_complete(s->c.engine);
	if (likely(is_usual(s, l, tag))) {
		rc = start_send(s, l, s->next_seq, data, size, mr, request);
		if (likely(rc == 0)) {
			net_eager_promised(s, l->eager);
			s->next_seq++;
		}
	} else {
		rc = send_any(s, data, size, tag, mr, request);
	}
	if (unlikely(s->c.engine->todo))
		net_todo_run(s->c.engine);
	return unlikely(rc == -EAGAIN) ? send_later(s) : rc;
}

/* Entered, and left. */
static __attribute__((noinline)) int send_and_leave(struct net_send *s, void *data, size_t size,
						    int tag, const struct net_mr *mr,
						    void **request)
{
	int rc = send_entered(s, data, size, tag, mr, request);

	net_owner_leave(&s->c.engine->owner);
	return rc;
}

static __attribute__((noinline)) int send_taking(struct net_send *s, void *data, size_t size,
						 int tag, const struct net_mr *mr, void **request)
{
	net_owner_take(&s->c.engine->owner);
	return send_and_leave(s, data, size, tag, mr, request);
}

/* Entered by the owner, which it is not any more then. */
static __attribute__((noinline, cold)) int look_instead(struct net_send *s)
{
	int rc;

	net_stall_waits(s);
	look_around(s->c.engine);
	rc = s->c.err;
	net_owner_leave_own();
	net_stats_refresh(); /* takes locks: not in the engine */
	return rc;
}

/* Lines are written, or else come as messages. */
static bool may_have_come(const struct net_send *s)
{
	return is_here(s, s->next_seq) ||
	       (unlikely(s->c.engine->mode != PROTO_WRITE) && !net_engine_idle(s->c.engine));
}

/* First the look that NCCL makes far more often than there is something to do. */
int net_isend(struct net_send *s, void *data, size_t size, int tag, const struct net_mr *mr,
	      void **request)
{
	*request = NULL;
	if (unlikely(!net_owner_try(&s->c.engine->owner)))
		return send_taking(s, data, size, tag, mr, request);
	if (s->c.err || s->group || may_have_come(s) || net_eager_may(s, size))
		return send_and_leave(s, data, size, tag, mr, request);
	if (unlikely(--s->c.engine->patience <= 0))
		return look_instead(s);
	net_owner_leave_own();
	return 0;
}

/* ---- receive ---- */

__attribute__((noinline)) void net_reclaim(struct net_recv *r)
{
	uint32_t oldest = r->next_seq;

	for (; r->req_first != r->req_next; r->req_first++) {
		const struct net_req *req = &r->req[r->req_first % NET_MAX_REQS];

		/* A line is not written again before its last write has completed. */
		if (req->in_use || req->busy || req->lost) {
			oldest = req->seq;
			break;
		}
		/* Nor before the peer has done with it, which eager messages do not tell. */
		if (req->eager < req->n && proto_before(r->seen, req->seq + req->n))
			r->seen = req->seq + req->n;
	}
	if (proto_before(r->seen, oldest))
		oldest = r->seen;
	r->slots_free = r->nslots - (r->next_seq - oldest);
}

/* For @n buffers: a request, and slots. */
static ALWAYS_INLINE bool has_slots(struct net_recv *r, uint32_t n)
{
	if (unlikely(r->slots_free < n || r->req_next - r->req_first == NET_MAX_REQS)) {
		net_reclaim(r);
		return r->slots_free >= n && r->req_next - r->req_first != NET_MAX_REQS;
	}
	return true;
}

/* And promised room for the immediates to come. */
static ALWAYS_INLINE bool has_room(struct net_recv *r, uint32_t n)
{
	return has_slots(r, n) && r->reserve + r->c.engine->imm_free >= n;
}

static void promise(struct net_recv *r, struct net_req *req, uint32_t n)
{
	uint32_t own = r->reserve < n ? r->reserve : n;

	req->from_reserve = (uint8_t)own;
	r->reserve -= own;
	r->c.engine->imm_free -= n - own;
}

static void promise_kept(struct net_recv *r, struct net_req *req)
{
	if (req->from_reserve) {
		req->from_reserve--;
		r->reserve++;
	} else {
		r->c.engine->imm_free++;
	}
}

void net_slot_filled(struct net_recv *r, struct net_slot *slot)
{
	struct net_req *req = &r->req[slot->req];

	slot->open = false;
	req->to_come--;
	promise_kept(r, req);
	if (unlikely(r->c.engine->counting))
		count_message(r->c.engine->counts.recvs, &r->c.engine->counts.recv_bytes,
			      slot->bytes);
}

static ALWAYS_INLINE void open_slot(struct net_recv *r, const struct net_req *req, int i,
				    void *data, size_t size, int tag, const struct net_mr *mr)
{
	uint32_t seq = r->next_seq + (uint32_t)i;
	struct proto_cts *l = net_line(r->mirror, seq, r->nslots);

	*net_slot_of(r, req, (uint32_t)i) = (struct net_slot){
		.req = (uint8_t)(req - r->req),
		.open = true,
		.mr = mr,
	};
	if (r->eager)
		net_eager_promise(r, mr);
	l->addr = (uintptr_t)data;
	l->len = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	l->tag = (uint32_t)tag;
	memcpy(l->rkey, mr->rkey, sizeof(l->rkey)); /* 0 for rails that are not there */
	l->n = req->n;
	l->flags = 0;
	l->rail0 = r->next_rail;
	l->eager = (uint8_t)r->eager_limit;
	l->seq = seq;
}

/* In two parts: the group goes round the end. */
static __attribute__((noinline)) int announce_parts(struct net_recv *r, struct net_req *req,
						    uint32_t to_end)
{
	int rc = r->c.mover->lines(r, req, req->seq, to_end);

	return rc ? rc : r->c.mover->lines(r, req, req->seq + to_end, req->n - to_end);
}

int net_announce(struct net_recv *r, struct net_req *req)
{
	uint32_t to_end = r->nslots - req->slot;

	if (unlikely(r->c.engine->rail[r->next_rail].ctrl_free < 2))
		return -EAGAIN;
	if (unlikely(req->n > to_end))
		return announce_parts(r, req, to_end);
	return r->c.mover->lines(r, req, req->seq, req->n);
}

/* Its lines are on their way. */
static ALWAYS_INLINE void begin_recv(struct net_recv *r, struct net_req *req, uint32_t n,
				     void **request)
{
	r->next_rail = (uint8_t)net_next_rail(&r->c, r->next_rail);
	r->next_seq += n;
	r->slots_free -= n;
	r->req_next++;
	req->in_use = true;
	*request = req;
}

static ALWAYS_INLINE int recv_entered(struct net_recv *r, int n, void *const *data,
				      const size_t *sizes, const int *tags, void *const *mrs,
				      void **request)
{
	struct net_req *req = &r->req[r->req_next % NET_MAX_REQS];
	int rc;

	if (unlikely(r->c.err))
		return r->c.err;
	if (unlikely(!has_room(r, (uint32_t)n)))
		return later(&r->c);
	req->n = req->to_come = (uint8_t)n;
	req->eager = 0;
	req->slot = (uint16_t)((r->next_seq - 1) & (r->nslots - 1));
	for (int i = 0; i < n; i++)
		open_slot(r, req, i, data[i], sizes[i], tags[i], mrs[i]);
	req->seq = r->next_seq;
	rc = net_announce(r, req);
	if (unlikely(rc == -EAGAIN))
		goto close_slots;
	if (unlikely(rc)) {
		net_comm_fail(&r->c, rc, "post of a clear-to-send", r->next_rail, NULL);
		return rc;
	}
	promise(r, req, (uint32_t)n);
	begin_recv(r, req, (uint32_t)n, request);
	if (unlikely(r->nearly))
		net_eager_posted(r, req);
	return 0;
close_slots:
	for (int i = 0; i < n; i++)
		net_slot_of(r, req, (uint32_t)i)->open = false;
	return later(&r->c);
}

/*
 * Quiet receives: NCCL's hint says that whoever waits for the data looks for them in the buffer (LL
 * and LL128). Their lines ask for writes without immediates, which cost this side nothing, and they
 * are done when the lines are there: not earlier, so that a peer that is gone is noticed.
 *
 * Nothing tells then that the peer has seen such a line. There are at most quiet_most in a row,
 * half of the ring, and what comes for the next one tells of all before it: net_reclaim() gives no
 * slot away before. So lines are never overrun, and there is always one in a full ring that will
 * tell: before the first quiet one are at most NET_EAGER_MOST whose messages went ahead and told
 * nothing, and NET_EAGER_MOST + quiet_most leave room for a group.
 *
 * A message that went ahead must be copied by a later call, and after a receive that is done there
 * may be none. So none is quiet while any may have gone ahead, and none that comes with a promise:
 * for small messages into memory of the host, these save more.
 */
static __attribute__((noinline)) bool may_be_quiet(struct net_recv *r, int n,
						   const struct net_mr *mr)
{
	if (r->next_seq != r->quiet_end)
		r->nquiet = 0; /* another was posted since */
	if (n > 1 || r->nquiet == r->quiet_most)
		return false;
	return !r->eager || (mr->gpu && r->eager_next == r->eager_limit && !r->nearly);
}

void net_quiet_expect(struct net_recv *r)
{
	if (r->nslots >= 2 * (NET_EAGER_MOST + NET_MAX_RECVS))
		r->quiet_most = r->nslots / 2 - 1;
}

static __attribute__((noinline)) int recv_quiet(struct net_recv *r, void *data, size_t size,
						int tag, const struct net_mr *mr, void **request)
{
	struct net_req *req = &r->req[r->req_next % NET_MAX_REQS];
	int rc;

	if (unlikely(r->c.err))
		return r->c.err;
	if (unlikely(!has_slots(r, 1)))
		return later(&r->c);
	req->n = req->to_come = 1;
	req->slot = (uint16_t)((r->next_seq - 1) & (r->nslots - 1));
	open_slot(r, req, 0, data, size, tag, mr);
	net_slot_of(r, req, 0)->open = false;
	net_line(r->mirror, r->next_seq, r->nslots)->flags = PROTO_QUIET;
	req->seq = r->next_seq;
	rc = net_announce(r, req);
	if (unlikely(rc == -EAGAIN))
		return later(&r->c);
	if (unlikely(rc)) {
		net_comm_fail(&r->c, rc, "post of a clear-to-send", r->next_rail, NULL);
		return rc;
	}
	req->quiet = true;
	req->eager = 1; /* as little as an eager message does what comes for it tell */
	begin_recv(r, req, 1, request);
	r->nquiet++;
	r->quiet_end = r->next_seq;
	return 0;
}

void net_quiet_told(struct net_req *req)
{
	struct net_engine *e = req->comm->engine;

	req->quiet = false;
	req->to_come = 0;
	if (unlikely(e->counting))
		net_count(&e->counts.quiet_recvs, 1);
}

static __attribute__((noinline)) int recv_group(struct net_recv *r, int n, void *const *data,
						const size_t *sizes, const int *tags,
						void *const *mrs, void **request)
{
	return recv_entered(r, n, data, sizes, tags, mrs, request);
}

int net_irecv(struct net_recv *r, int n, void *const *data, const size_t *sizes, const int *tags,
	      void *const *mrs, void **request)
{
	bool quiet;
	int rc;

	net_owner_enter(&r->c.engine->owner);
	quiet = unlikely(*request == NCCL_NET_EARLY_RECV_HINT) && may_be_quiet(r, n, mrs[0]);
	*request = NULL;
	/* Twice: the usual one without loops. */
	if (unlikely(quiet))
		rc = recv_quiet(r, data[0], sizes[0], tags[0], mrs[0], request);
	else if (likely(n == 1))
		rc = recv_entered(r, 1, data, sizes, tags, mrs, request);
	else
		rc = recv_group(r, n, data, sizes, tags, mrs, request);
	net_owner_leave(&r->c.engine->owner);
	return rc;
}

static void recv_forget(struct net_recv *r, const struct net_mr *mr)
{
	net_flush_forget(r, mr);
	if (r->c.engine->mode == PROTO_WRITE && !r->eager)
		return; /* the device refuses the peer */
	for (uint32_t i = 0; i < r->nslots; i++) {
		if ((!r->slot[i].open && !r->slot[i].copy) || r->slot[i].mr != mr)
			continue;
		r->slot[i].mr = NULL;
		if (r->c.engine->mode != PROTO_SEND)
			continue;
		r->slot[i].open = false;
		r->c.err = -ECANCELED;
	}
	if (r->c.err)
		net_message_over(&r->c);
}

static void send_forget(struct net_send *s, const struct net_mr *mr)
{
	for (int i = 0; i < NET_MAX_REQS; i++)
		if (s->req[i].mr == mr)
			s->req[i].mr = NULL;
}

void net_forget(struct net_comm *c, const struct net_mr *mr)
{
	net_owner_enter(&c->engine->owner);
	if (c->kind == NET_SEND)
		send_forget((struct net_send *)c, mr);
	else
		recv_forget((struct net_recv *)c, mr);
	net_owner_leave(&c->engine->owner);
}

void net_forgotten(struct net_comm *c)
{
	net_comm_fail(c, -ECANCELED, "a request for memory that is no longer registered", 0, NULL);
	net_message_over(c);
}

/* ---- test ---- */

static void finish(struct net_req *req, int *sizes)
{
	req->in_use = false;
	if (unlikely(req->comm->events))
		net_profile_stop(req);
	if (req->comm->kind == NET_SEND) {
		struct net_send *s = (struct net_send *)req->comm;

		s->free |= 1ull << (req - s->req);
		if (unlikely(s->eager))
			s->eager &= ~(1ull << (req - s->req));
		if (sizes)
			sizes[0] = (int)req->bytes;
	} else if (sizes) {
		struct net_recv *r = (struct net_recv *)req->comm;

		for (uint32_t i = 0; i < req->n; i++)
			sizes[i] = (int)net_slot_of(r, req, i)->bytes;
	}
}

/* Entered, and left. */
static __attribute__((noinline)) int not_done(struct net_comm *c)
{
	struct net_engine *e = c->engine;
	bool look = e->patience <= 1 || e->todo;
	int rc;

	if (look)
		look_around(e);
	else
		e->patience--;
	rc = c->err;
	net_owner_leave(&e->owner);
	/* It takes locks: not in the engine. */
	if (look)
		net_stats_refresh();
	return rc;
}

int net_test_entered(struct net_req *req, int *done, int *sizes)
{
	struct net_engine *e = req->comm->engine;

	if (req->to_come)
		net_complete(e);
	else if (unlikely(e->todo))
		net_todo_run(e);
	if (unlikely(req->to_come))
		return not_done(req->comm);
	*done = 1;
	finish(req, sizes);
	net_owner_leave(&e->owner);
	return 0;
}

int net_test_taking(struct net_req *req, int *done, int *sizes)
{
	net_owner_take(&req->comm->engine->owner);
	return net_test_entered(req, done, sizes);
}
