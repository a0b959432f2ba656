/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions: each is of a request of ours, or of what a peer sent, and goes to whose it is. */
#ifndef NET_COMPLETE_H
#define NET_COMPLETE_H

#include "engine.h"

/* Take what has completed, on all rails, and go on with what waited for it. Entered. */
void net_complete(struct net_engine *e);

#endif
