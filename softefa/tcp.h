/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts talk: listening, and what is done with each frame. Does nothing without an address. */
#ifndef SE_TCP_H
#define SE_TCP_H

#include <stdint.h>

/* A member of the fabric begins or ends to be reachable. Start: 0 or -errno. Lock held. */
int se_tcp_start(void);
void se_tcp_stop(void);

/* One look at all connections; how much there was to do. */
unsigned se_tcp_poll(void);
/* In the child of fork(). */
void se_tcp_forget(void);

#endif
