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
/* For the comms that it accepts. */
void net_listen_profiler(struct net_listen *l, nccl_net_profiler_fn profiler);
void net_listen_close(struct net_listen *l);

/* ---- the lock of @cm is held for what follows ---- */

/* A message of a peer: for anybody, a request, an answer. */
void net_conn_message(struct net_cm *cm, const uint8_t *msg, size_t len);
void net_listen_request(struct net_cm *cm, const uint8_t *msg, size_t len);
void net_connect_answer(struct net_cm *cm, const uint8_t *msg, size_t len);
/* Take messages, go on with refusals. */
void net_conn_poll(struct net_cm *cm);

/* Best effort: a peer that is not told runs into its own timeout. */
void net_refuse(struct net_cm *cm, const struct proto_req *req, int err);
/* Forget those that are done with, or all. */
void net_refusals_sweep(struct net_cm *cm, bool all);
/* What is to be refused still, now or never. Nobody else uses @cm. */
void net_refusals_close(struct net_cm *cm);

/* ---- what both sides need ---- */

/* Not 0. */
int net_random(uint64_t *v);
/* PROTO_CAP_* that both sides must have. */
uint8_t net_mode_needs(enum proto_mode mode);

#endif
