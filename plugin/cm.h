/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management: per device one SRD queue pair on rail 0, which carries the requests and
 * answers of all connections, and a spare one on rail 1 for those that get nowhere by the first.
 * Whoever has a listen or a connect to poll polls them, under a lock; no thread of its own, no TCP.
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

enum { NET_PORTS = 2 };

/* To a peer, by each of our queue pairs that it has an equal of. */
struct net_way {
	struct srd_peer to[NET_PORTS];
	int n, at; /* how many; which one is taken now */
};

/*
 * A message on its way. REFUSED: it can be sent again, as the peer had no receive posted, or as
 * there is another way.
 */
struct net_mail {
	enum net_mail_state state;
	struct srd_wc wc; /* FAILED: why */
	int slot;         /* of the send buffers */
	struct net_way *way;
};

struct net_listen;
struct net_conn;
struct net_refusal;

/* One queue pair, with its buffers. */
struct net_port {
	struct net_nic *nic;
	struct srd_cq cq;
	struct srd_qp qp;
	uint8_t *mem; /* receive buffers, then send buffers */
	struct srd_mr mr;
	struct net_mail **sending; /* by send buffer: NULL, or who waits */
	bool out;                  /* nobody is reached by it */
};

struct net_cm {
	pthread_mutex_t lock; /* of all below */
	struct net_dev *dev;
	struct net_port port[NET_PORTS];
	int nports;
	uint32_t qkey; /* of all */
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
void net_cm_local(const struct net_cm *cm, struct srd_ep *ep, uint32_t *spare_qpn);
/* @ep, and, unless @spare_qpn is 0, that of @spare with its key. */
int net_cm_meet(struct net_cm *cm, struct net_way *way, const struct srd_ep *ep,
		const union ibv_gid *spare, uint32_t spare_qpn);
void net_cm_part(struct net_way *way);
/* -EAGAIN: no send buffer now. @mail and @way are kept until it is not SENDING any more. */
int net_cm_send(struct net_cm *cm, struct net_mail *mail, struct net_way *way, const uint8_t *msg,
		size_t len);
/* Forget @mail: its owner goes away. */
void net_cm_drop(struct net_cm *cm, struct net_mail *mail);
/* Take what has completed; messages go to net_conn_message(). */
void net_cm_poll(struct net_cm *cm);

#endif
