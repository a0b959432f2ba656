/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: their requests, the slots of their buffers, and the lines that announce these. */
#include <errno.h>
#include <string.h>

#include "cut.h"
#include "eager.h"
#include "early.h"
#include "flush.h"
#include "message.h"
#include "mover.h"
#include "nccl_net_abi.h"
#include "p2p.h"
#include "todo.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* What is written once for the usual case and once for all. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

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
		net_count_message(r->c.engine->counts.recvs, &r->c.engine->counts.recv_bytes,
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

/* The buffer of @req is not waited for, and its line says so. */
static inline void hush(struct net_recv *r, struct net_req *req)
{
	net_slot_of(r, req, 0)->open = false;
	net_line(r->mirror, r->next_seq, r->nslots)->flags = PROTO_QUIET;
}

static ALWAYS_INLINE int recv_entered(struct net_recv *r, int n, void *const *data,
				      const size_t *sizes, const int *tags, void *const *mrs,
				      bool quiet, void **request)
{
	struct net_req *req = &r->req[r->req_next % NET_MAX_REQS];
	int rc;

	if (unlikely(r->c.err))
		return r->c.err;
	if (unlikely(!(quiet ? has_slots(r, 1) : has_room(r, (uint32_t)n))))
		return net_later(&r->c);
	req->n = req->to_come = (uint8_t)n;
	req->eager = quiet; /* as little as an eager message does what comes for it tell */
	req->slot = (uint16_t)((r->next_seq - 1) & (r->nslots - 1));
	for (int i = 0; i < n; i++)
		open_slot(r, req, i, data[i], sizes[i], tags[i], mrs[i]);
	if (quiet)
		hush(r, req);
	req->seq = r->next_seq;
	rc = net_announce(r, req);
	if (unlikely(rc == -EAGAIN))
		goto close_slots;
	if (unlikely(rc)) {
		net_comm_fail(&r->c, rc, "post of a clear-to-send", r->next_rail, NULL);
		return rc;
	}
	if (!quiet)
		promise(r, req, (uint32_t)n);
	begin_recv(r, req, (uint32_t)n, request);
	if (unlikely(r->nearly)) {
		net_early_posted(r, req);
		net_todo_run(r->c.engine);
	}
	return 0;
close_slots:
	for (int i = 0; i < n; i++)
		net_slot_of(r, req, (uint32_t)i)->open = false;
	return net_later(&r->c);
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
	return !r->eager || (mr->gpu && r->eager_came == r->eager_limit && !r->nearly);
}

void net_quiet_expect(struct net_recv *r)
{
	if (r->nslots >= 2 * (NET_EAGER_MOST + NET_MAX_RECVS))
		r->quiet_most = r->nslots / 2 - 1;
}

static __attribute__((noinline)) int recv_quiet(struct net_recv *r, void *const *data,
						const size_t *sizes, const int *tags,
						void *const *mrs, void **request)
{
	int rc = recv_entered(r, 1, data, sizes, tags, mrs, true, request);

	if (*request) {
		((struct net_req *)*request)->quiet = true;
		r->nquiet++;
		r->quiet_end = r->next_seq;
	}
	return rc;
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
	return recv_entered(r, n, data, sizes, tags, mrs, false, request);
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
		rc = recv_quiet(r, data, sizes, tags, mrs, request);
	else if (likely(n == 1))
		rc = recv_entered(r, 1, data, sizes, tags, mrs, false, request);
	else
		rc = recv_group(r, n, data, sizes, tags, mrs, request);
	net_owner_leave(&r->c.engine->owner);
	return rc;
}

void net_recv_forget(struct net_recv *r, const struct net_mr *mr)
{
	net_flush_forget(r, mr);
	if (r->c.engine->mode == PROTO_WRITE && !r->eager)
		return; /* the device refuses the peer */
	for (uint32_t i = 0; i < r->nslots; i++) {
		if (r->slot[i].mr != mr)
			continue;
		r->slot[i].mr = NULL;
		if (r->c.engine->mode != PROTO_SEND || !(r->slot[i].open || r->slot[i].copy))
			continue;
		r->slot[i].open = false;
		r->c.err = -ECANCELED;
	}
	if (r->c.err)
		net_message_over(&r->c);
}
