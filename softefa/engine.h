/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device thread: one per process, started with its first object. It holds the engine lock while
 * it works; commands of the application take it in between, so that a destroyed object is never
 * in use and a deregistered region never written.
 */
#ifndef SE_ENGINE_H
#define SE_ENGINE_H

#include <stdint.h>

/* Around a command of the application: its signals and its cancellation wait. No nesting. */
void se_engine_lock(void);
void se_engine_unlock(void);

/* Join the fabric and start the thread, once. Lock held. 0 or -errno. */
int se_engine_start(void);
/* There is new work to look for (an object was made or changed). Lock held. */
void se_engine_kick(void);
/* Stop the thread and leave the fabric: at exit. */
void se_engine_stop(void);
/* In the child of fork(): the engine stayed with the parent. */
void se_engine_forget(void);

uint64_t se_now_us(void);

#endif
