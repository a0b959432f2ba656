/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends, and which buffer each goes into. A receiver announces the buffers of a receive as lines in
 * the sender's ring, in the order of its receives. Sends go into those of the oldest receive that
 * has buffers left, each into the first free one with its tag, as NCCL's contract wants it; a send
 * that finds none waits. By reads, where it is the receiver that looks for the buffer, none does.
 */
#include <errno.h>
#include <string.h>

#include "complete.h"
#include "eager.h"
#include "mover.h"
#include "p2p.h"
#include "stall.h"
#include "todo.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* What is written once for the usual case and once for all. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

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
		net_count_message(s->c.engine->counts.sends, &s->c.engine->counts.send_bytes,
				  req->bytes);
	*request = req;
}

static bool may_go_ahead(const struct net_send *s, size_t size)
{
	return net_eager_may(s, size) || s->c.engine->mode == PROTO_READ;
}

/* Without a line. */
static int start_ahead(struct net_send *s, void *data, size_t size, int tag,
		       const struct net_mr *mr, void **request)
{
	struct net_req *req = &s->req[__builtin_ctzll(s->free)];
	bool eager = net_eager_may(s, size);
	int rc;

	req->lost = 0; /* the last that was said there was heard, or it would not be free */
	if (eager)
		rc = net_eager_send(s, req, data, (uint32_t)size, tag, mr);
	else
		rc = net_read_send(s, req, data, (uint32_t)size, tag, mr);
	if (rc == -EAGAIN)
		return rc;
	if (unlikely(rc)) {
		net_comm_fail(&s->c, rc, "post of a send", 0, NULL);
		return rc;
	}
	if (unlikely(eager && s->c.engine->counting))
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

static void look_around(struct net_send *s)
{
	net_stall_no_line(s);
	net_look_around(s->c.engine);
}

/* There is none for it. */
static __attribute__((noinline)) int no_line(struct net_send *s)
{
	if (--s->c.engine->patience <= 0)
		look_around(s);
	return s->c.err;
}

/* No credits, which need no request: eager messages are the peer's now. */
static __attribute__((noinline, cold)) int send_later(struct net_send *s)
{
	net_later(&s->c);
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
		if (s->c.err || !may_go_ahead(s, size))
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

	look_around(s);
	rc = s->c.err;
	net_owner_leave_own();
	net_stats_refresh(); /* takes locks: not in the engine */
	return rc;
}

/* Lines are written, or else come as messages, or are not needed. */
static bool may_have_come(const struct net_send *s)
{
	const struct net_engine *e = s->c.engine;

	return is_here(s, s->next_seq) ||
	       (unlikely(e->mode != PROTO_WRITE) && (e->mode == PROTO_READ || !net_engine_idle(e)));
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

void net_send_forget(struct net_send *s, const struct net_mr *mr)
{
	for (int i = 0; i < NET_MAX_REQS; i++)
		if (s->req[i].mr == mr)
			s->req[i].mr = NULL;
}
