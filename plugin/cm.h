/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management: per device one SRD queue pair on rail 0, which carries the requests and
 * answers of all connections. Whoever has a listen or a connect to poll polls it, under its lock;
 * no thread of its own, no TCP.
 */
#ifndef NET_CM_H
#define NET_CM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "proto.h"
#include "srd.h"

enum net_mail_state { MAIL_IDLE, MAIL_SENDING, MAIL_SENT, MAIL_REFUSED, MAIL_FAILED };

/* A message on its way. REFUSED: the peer had no receive posted, it can be sent again. */
struct net_mail {
	enum net_mail_state state;
	struct srd_wc wc; /* FAILED: why */
	int slot;         /* of the send buffers */
};

struct net_listen;
struct net_conn;
struct net_refusal;

struct net_cm {
	pthread_mutex_t lock; /* of all below */
	struct net_dev *dev;
	struct srd_cq cq;
	struct srd_qp qp;
	uint32_t qkey;
	uint8_t *mem; /* receive buffers, then send buffers */
	struct srd_mr mr;
	struct net_mail **sending; /* by send buffer: NULL, or who waits */
	uint32_t last_id;
	struct net_listen *listens;
	struct net_conn *conns;
	struct net_refusal *refusals;
};

int net_cm_open(struct net_dev *dev, struct net_cm **out);
void net_cm_close(struct net_cm *cm);
/* Nothing listens and nothing connects. */
bool net_cm_idle(struct net_cm *cm);

/* Lock held for these. */
void net_cm_local(const struct net_cm *cm, struct srd_ep *ep);
/* -EAGAIN: no send buffer now. @mail and @to are kept until it is not SENDING any more. */
int net_cm_send(struct net_cm *cm, struct net_mail *mail, const struct srd_peer *to,
		const uint8_t *msg, size_t len);
/* Forget @mail: its owner goes away. */
void net_cm_drop(struct net_cm *cm, struct net_mail *mail);
/* Take what has completed; messages go to net_conn_message(). */
void net_cm_poll(struct net_cm *cm);

#endif
