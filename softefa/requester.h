/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending half: fetches work requests behind the doorbell, checks them, sends them to the
 * process that owns the destination, and completes them when the answer is there. Engine lock held.
 */
#ifndef SE_REQUESTER_H
#define SE_REQUESTER_H

#include "tx.h"

/* Forget all requests of @qp (reset, destroy), or complete them as flushed (error state). */
void se_requester_drop(struct se_qp *qp);
void se_requester_flush(struct se_qp *qp);
/* @pd has no address handle with @ahn any more: what went there ends as flushed. */
void se_requester_forsake(const struct se_pd *pd, uint16_t ahn);

/* One round: doorbells, unsent requests, reads, completions that found no room. */
unsigned se_requester_poll(void);
/* Requests that wait for a dead process or for nobody; every few milliseconds. */
void se_requester_timers(uint64_t now_us);
void se_requester_answer(const struct se_msg *msg, int slot);
void se_requester_forget_all(void);

#endif
