/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of an engine that wait for credits, gone on with in the order in which they came. */
#ifndef NET_TODO_H
#define NET_TODO_H

#include "engine.h"

/* Call the mover's run() for @req at the end of this poll or isend, and until it says true. */
void net_todo_add(struct net_req *req);
/* Once for all that there is. Entered. */
void net_todo_run(struct net_engine *e);

#endif
