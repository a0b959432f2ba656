/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listen, connect and accept: non-blocking, polled by NCCL's service threads, any number pending.
 * All return 0 or -errno; *@out stays NULL when it takes longer, and the call is made again.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "cm.h"
#include "comm.h"
#include "device.h"

int net_listen(struct net_dev *dev, uint8_t handle[PROTO_HANDLE_BYTES], struct net_listen **out);
/* @handle is NCCL's copy, the same memory at each try; the connection's cookie is kept in it. */
int net_connect(struct net_dev *dev, uint8_t handle[PROTO_HANDLE_BYTES], struct net_send **out);
int net_accept(struct net_listen *l, struct net_recv **out);
void net_listen_close(struct net_listen *l);

/* What is to be refused still, now or never. Nobody else uses @cm. */
void net_refusals_close(struct net_cm *cm);

/* A message of a peer; the lock of @cm is held. */
void net_conn_message(struct net_cm *cm, const uint8_t *msg, size_t len);

#endif
