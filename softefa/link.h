/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the processes of a host: for each ordered pair a ring in shared memory with one
 * writer and one reader. The ring towards oneself is a ring like the others. Engine lock held.
 */
#ifndef SE_LINK_H
#define SE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "msg.h"

/*
 * Send @msg to the member @slot. 0, -EAGAIN (ring full, or cannot be made now) or -ESRCH (the
 * member with @incarnation is gone).
 */
int se_link_send(int slot, uint64_t incarnation, const struct se_msg *msg);
/* Make what was committed visible and wake who sleeps: once per pass. */
void se_link_flush(void);

/* Hand up to @budget received messages per ring to @deliver; false from it leaves the message. */
unsigned se_link_receive(unsigned budget, bool (*deliver)(const struct se_msg *, int slot));

/* For @deliver: who sent the message from @slot. Its place may have another by now, or nobody. */
uint64_t se_link_sender(int slot);

/* Try again what the lack of files or memory prevented; every few milliseconds. */
void se_link_timers(void);

/* Has anything arrived that was not looked at yet? */
bool se_link_mail(void);
/* Close all rings. After fork() the shared memory is only forgotten. */
void se_link_close(void);

#endif
