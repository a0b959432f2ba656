/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that nothing happens to. NCCL waits for ever and says nothing, and so does the device
 * where no request of its own is under way. So the peer is asked for a sign of life, which fails
 * the comm if it is gone, and one line tells who waits for whom. Looked at now and then by tests
 * that find nothing.
 */
#ifndef NET_STALL_H
#define NET_STALL_H

#include "engine.h"

enum { NET_STALL_TESTS = 1 << 14 }; /* that find nothing, between two looks at the clock */

/* Is there a request that nothing has happened to since the last look? Entered. */
bool net_stall_look(struct net_engine *e);

#endif
