/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. */
#include "cq.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "fabric.h"
#include "fault.h"
#include "log.h"
#include "program.h"
#include "settings.h"

#define CAP_CQ_NOTIFICATIONS (1u << 2)
#define CAP_CQ_WITH_SGID     (1u << 3)
#define CAP_REQ_ID_64        (1u << 9)
#define STALE_ROUNDS         50   /* of timers, a second: see se_cq_room() */
#define OVERLOOKED_US        1000 /* from arming to looking for what was there before */

static struct se_list with_channel = SE_LIST_INIT(with_channel);

/* The clock of stale(): goes while that is asked, and not while a reader may wait for a core. */
static struct {
	bool asked;
	uint32_t rounds;
} reading;

static int attr_check(const struct se_cq_attr *a)
{
	const struct se_settings *set = se_settings();

	if (a->cqe < 1 || a->cqe > set->max_cqe || a->comp_vector >= set->comp_vectors)
		return -EINVAL;
	if (a->entry_size != 32 && (a->entry_size != 16 || a->sgid))
		return -EINVAL;
	if (a->channel && !(set->caps & CAP_CQ_NOTIFICATIONS))
		return -EOPNOTSUPP;
	if (a->sgid && !(set->caps & CAP_CQ_WITH_SGID))
		return -EOPNOTSUPP;
	if (a->req_id_64 && !(set->caps & CAP_REQ_ID_64))
		return -EOPNOTSUPP;
	return 0;
}

int se_cq_create(struct se_ctx *ctx, const struct se_cq_attr *attr, struct se_cq **out)
{
	struct se_cq *cq;
	int rc = attr_check(attr);

	if (!rc)
		rc = se_fault_refuse(ctx->dev, SE_CQ);
	if (!rc)
		rc = se_fabric_count((int)ctx->dev, SE_COUNT_CQ, se_settings()->max_cq);
	if (rc)
		return rc;
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		se_fabric_uncount((int)ctx->dev, SE_COUNT_CQ);
		return -ENOMEM;
	}
	rc = se_region_init(&cq->ring, &ctx->space, (size_t)attr->cqe * attr->entry_size);
	if (!rc)
		rc = se_doorbell_init(&cq->db, &ctx->space);
	if (!rc)
		rc = se_ctx_add(ctx, &cq->obj, SE_CQ);
	if (rc) {
		se_doorbell_fini(&cq->db, &ctx->space);
		se_region_fini(&cq->ring, &ctx->space);
		se_fabric_uncount((int)ctx->dev, SE_COUNT_CQ);
		free(cq);
		return rc;
	}
	cq->depth = attr->cqe;
	cq->entry_size = attr->entry_size;
	cq->sgid = attr->sgid;
	cq->phase = SE_CQE_PHASE;
	se_list_init(&cq->waiting);
	cq->user = attr->user;
	cq->channel = attr->channel;
	if (cq->channel) {
		cq->channel->users++;
		se_list_append(&with_channel, &cq->with_channel);
	}
	se_async_init(&cq->async, ctx, attr->async, attr->user);
	*out = cq;
	return 0;
}

int se_cq_destroy(struct se_cq *cq, struct se_cq_read *read)
{
	struct se_ctx *ctx = cq->obj.ctx;

	if (cq->obj.users)
		return -EBUSY;
	*read = (struct se_cq_read){0};
	if (cq->channel) {
		/* The library waits until as many are acknowledged: none may be left unread. */
		read->completions = cq->events - se_channel_purge(cq->channel, cq->user);
		cq->channel->users--;
		se_list_remove(&cq->with_channel);
	}
	read->async = se_async_fini(&cq->async);
	se_doorbell_fini(&cq->db, &ctx->space);
	se_region_fini(&cq->ring, &ctx->space);
	se_fabric_uncount((int)ctx->dev, SE_COUNT_CQ);
	se_ctx_del(&cq->obj);
	free(cq);
	return 0;
}

void se_cq_forget(struct se_cq *cq)
{
	se_region_fini(&cq->ring, &cq->obj.ctx->space);
	free(cq);
}

static uint32_t doorbell(const struct se_cq *cq)
{
	return atomic_load_explicit((_Atomic uint32_t *)(void *)cq->db.va, memory_order_acquire);
}

static void overflow(const struct se_cq *cq)
{
	if (!se_fault_holds(SE_FAULT_OVERFLOW, cq->obj.ctx->dev, 0))
		return;
	se_log_line("efa_%u: completion queue %u overflows: %u entries, none of them polled, and "
		    "one more to come",
		    cq->obj.ctx->dev, cq->obj.handle, cq->depth);
	abort();
}

/* Unsolicited receives are bounded by nothing: more than any queue holds. */
static uint64_t posts(uint32_t depth, bool unsolicited)
{
	return unsolicited ? 1ull << 32 : depth;
}

void se_cq_attach(struct se_cq *cq, uint32_t depth, bool unsolicited)
{
	cq->posts += posts(depth, unsolicited);
}

void se_cq_detach(struct se_cq *cq, uint32_t depth, bool unsolicited)
{
	cq->posts -= posts(depth, unsolicited);
}

/* Has the consumer index @cons been the same for so long that it says nothing? */
static bool stale(struct se_cq *cq, uint16_t cons)
{
	reading.asked = true;
	if (!cq->stuck || cq->stuck_at != cons) {
		cq->stuck = true;
		cq->stuck_at = cons;
		cq->stuck_since = reading.rounds;
	}
	return reading.rounds - cq->stuck_since >= STALE_ROUNDS;
}

bool se_cq_room(struct se_cq *cq)
{
	uint16_t cons = SE_CQ_DB_CONS(doorbell(cq));

	if ((uint16_t)(cq->prod - cons) < cq->depth) {
		cq->stuck &= cq->stuck_at == cons;
		return true;
	}
	if (cq->posts <= cq->depth)
		return true;
	overflow(cq);
	return stale(cq, cons);
}

static bool event_unread(const struct se_cq *cq)
{
	return cq->events && se_channel_read_count(cq->channel) < cq->last_event;
}

static void send_event(struct se_cq *cq, uint32_t db)
{
	int rc = se_channel_send(cq->channel, cq->user, 0);

	cq->owed = rc == -EAGAIN;
	if (rc)
		return;
	cq->events++;
	cq->last_event = cq->channel->sent;
	cq->event_db = db;
	cq->event_prod = cq->prod;
}

/*
 * Was the CQ armed since its last event? The arm bit is not enough to go by: "arm, drain, wait"
 * lets the drain's store replace the arming store before anyone here looks. But a doorbell with
 * the number of the last event was written after that event was taken, and most likely armed then.
 */
static bool armed(const struct se_cq *cq, uint32_t db)
{
	return db != cq->event_db && (db & SE_CQ_DB_ARM || SE_CQ_DB_SN(db) == (cq->events & 3));
}

/*
 * An event tells of the entry that was just written. Those that were there when the program armed
 * are not told of: it finds them by itself, and an event for them would wake it for nothing, which
 * perftest, for one, takes for a completion.
 */
static void notify(struct se_cq *cq)
{
	uint32_t db;

	atomic_thread_fence(memory_order_seq_cst); /* the entry before the look at the doorbell */
	db = doorbell(cq);
	if (armed(cq, db) && !event_unread(cq))
		send_event(cq, db);
}

/*
 * Written between the program's arming and our sight of it, and not read since: the program may
 * have looked before, and sleeps.
 */
static bool overlooked(const struct se_cq *cq, uint32_t db, uint64_t now_us)
{
	return cq->prod != cq->event_prod && cq->prod != SE_CQ_DB_CONS(db) && db != cq->event_db &&
	       now_us - cq->seen_us >= OVERLOOKED_US && !event_unread(cq);
}

void se_cq_push(struct se_cq *cq, const struct se_cqe *cqe)
{
	uint8_t *at = (uint8_t *)cq->ring.va + (size_t)cq->next * cq->entry_size;
	struct se_cqe e = *cqe;
	uint64_t first;

	e.flags |= cq->phase;
	memcpy(at + 8, (const uint8_t *)&e + 8, cq->entry_size - 8);
	memcpy(&first, &e, 8);
	/* release: the rest of the entry, and the data it tells of, before the phase bit */
	atomic_store_explicit((_Atomic uint64_t *)(void *)at, first, memory_order_release);
	cq->prod++;
	if (++cq->next == cq->depth) {
		cq->next = 0;
		cq->phase ^= SE_CQE_PHASE;
	}
	if (cq->channel)
		notify(cq);
}

unsigned se_cq_poll_doorbells(uint64_t now_us)
{
	struct se_list *n, *nx;
	unsigned changed = 0;

	se_list_each (n, nx, &with_channel) {
		struct se_cq *cq = se_container(n, struct se_cq, with_channel);
		uint32_t db = doorbell(cq);

		if (db != cq->seen_db) {
			cq->seen_db = db;
			cq->seen_us = now_us;
			changed++;
		} else if (overlooked(cq, db, now_us)) {
			send_event(cq, db);
		}
	}
	return changed;
}

void se_cq_timers(void)
{
	struct se_list *n, *nx;

	if (reading.asked)
		reading.rounds += se_program_ran();
	reading.asked = false;
	se_list_each (n, nx, &with_channel) {
		struct se_cq *cq = se_container(n, struct se_cq, with_channel);
		uint32_t db = doorbell(cq);

		if (cq->owed && cq->prod != SE_CQ_DB_CONS(db))
			send_event(cq, db);
	}
}

void se_cq_forget_all(void)
{
	se_list_init(&with_channel);
}
