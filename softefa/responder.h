/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving half: takes requests for QPs of this process, in no particular order, checks them
 * against the rules of the destination, moves the bytes, completes and answers. Engine lock held.
 */
#ifndef SE_RESPONDER_H
#define SE_RESPONDER_H

#include "qp.h"
#include "msg.h"

/* A request arrived; false: no room for it now. */
bool se_responder_request(const struct se_msg *msg, int slot);
unsigned se_responder_poll(uint64_t now_us);
/* Drop what waits for a receive when its sender does not; every few milliseconds. */
void se_responder_timers(void);
/* The QP resets or goes away; or fails: receives complete as flushed. */
void se_responder_drop(struct se_qp *qp);
void se_responder_flush(struct se_qp *qp);
void se_responder_forget_all(void);
bool se_responder_busy(void);

#endif
