/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving half: takes requests for QPs of this process, in no particular order, checks them
 * against the rules of the destination, moves the bytes, completes and answers. Engine lock held.
 */
#ifndef SE_RESPONDER_H
#define SE_RESPONDER_H

#include "qp.h"
#include "frame.h"

/* A request arrived, with its bytes at @payload or without (NULL); false: no room for it now. */
bool se_responder_request(const struct se_msg *msg, const void *payload, int slot);
/* Memory that a requester of another host may read. */
enum se_data_status se_responder_source(const struct se_pull *p, void *out);
unsigned se_responder_poll(uint64_t now_us);
/* Drop what waits for a receive when its sender does not; every few milliseconds. */
void se_responder_timers(uint64_t now_us);
/* The QP resets or goes away; or fails: receives complete as flushed. */
void se_responder_drop(struct se_qp *qp);
void se_responder_flush(struct se_qp *qp);
void se_responder_forget_all(void);
bool se_responder_busy(void);

#endif
