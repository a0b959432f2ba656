/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's protocols LL and LL128, whose receivers look into the buffer for flags that arrive with
 * the data: right only where the NIC places each aligned 128 bytes in order. Where it does not
 * promise that, they are forbidden, by NCCL's tuner interface (tuner.c) or by NCCL_PROTO. All ranks
 * of a job must come to the same answer; with different instance types NCCL_EFA_IN_ORDER says it.
 */
#ifndef NET_ORDER_H
#define NET_ORDER_H

#include <stdbool.h>

/* Found out with the first device, once. Without devices: yes, nothing of ours is used. */
bool net_order_kept(void);
/* Is NCCL to be kept from these protocols? Only when it has initialised the net plugin. */
bool net_order_forbids(void);

/*
 * At each init, when devices were found. @tuner: NCCL is of a version that takes the tuner from
 * this library. NCCL_PROTO is set only here, and only when it was not.
 */
void net_order_init(bool tuner);

/* Say so, once, if a peer has come to another answer: NCCL would wait for ever, or be wrong. */
void net_order_meet(bool peer_kept);

/* What a value of NCCL_PROTO allows: bits 1 << NCCL_TUNER_PROTO_*. */
unsigned net_order_allowed(const char *nccl_proto);

#endif
