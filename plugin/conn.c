/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: their messages, and what both sides need. */
#include "conn.h"

#include <errno.h>
#include <sys/random.h>

#include "log.h"

int net_random(uint64_t *v)
{
	do {
		if (getrandom(v, sizeof(*v), 0) != sizeof(*v))
			return -EIO;
	} while (*v == 0);
	return 0;
}

uint8_t net_mode_needs(enum proto_mode mode)
{
	return mode == PROTO_WRITE ? PROTO_CAP_WRITE : mode == PROTO_READ ? PROTO_CAP_READ : 0;
}

void net_conn_poll(struct net_cm *cm)
{
	net_cm_poll(cm);
	net_refusals_sweep(cm, false);
}

void net_conn_message(struct net_cm *cm, const uint8_t *msg, size_t len)
{
	int type = proto_type(msg, len);

	if (type == PROTO_REQ)
		net_listen_request(cm, msg, len);
	else if (type == PROTO_RESP)
		net_connect_answer(cm, msg, len);
	else if (type != PROTO_ASK)
		net_info("NET/EFA: %s: a message of %zu bytes is none of ours (%d)", cm->dev->name,
			 len, type);
}
