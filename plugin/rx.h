/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers of a queue pair that messages are sent to, where data are not written by the
 * peer. All are posted but those that hold a message being looked at. They are registered in
 * chunks, when there is somebody to send to them.
 */
#ifndef NET_RX_H
#define NET_RX_H

#include <stdint.h>

#include "srd.h"

enum {
	NET_RX_BATCH = 16,
	NET_RX_CHUNK = 1024, /* buffers */
	NET_RX_MOST = 32 * NET_RX_CHUNK,
};

struct net_rx {
	struct srd_qp *qp;
	struct srd_pd *pd;
	struct srd_mr mr[NET_RX_MOST / NET_RX_CHUNK]; /* by chunk */
	int access;
	uint8_t *mem;
	uint32_t n, most, bytes; /* buffers that there are, and may be; of each */
	uint64_t tag;            /* low 8 bits of wr_id, with the buffer's number above */
	uint32_t nback;
	uint16_t back[NET_RX_BATCH]; /* to be posted again */
};

/*
 * For @most buffers, up to NET_RX_MOST, of which there are none yet. @pd is kept until the end, and
 * @qp, which is after its own. @access: IBV_ACCESS_*, besides receives.
 */
int net_rx_init(struct net_rx *rx, struct srd_pd *pd, struct srd_qp *qp, uint32_t most,
		uint32_t bytes, uint64_t tag, int access);
/* Have @n buffers at least. On error there are as many as before, or more. */
int net_rx_grow(struct net_rx *rx, uint32_t n);
void net_rx_fini(struct net_rx *rx);

/* What a completion with @wr_id has filled; until net_rx_put(). */
static inline uint8_t *net_rx_get(const struct net_rx *rx, uint64_t wr_id)
{
	return rx->mem + (size_t)(wr_id >> 8) * rx->bytes;
}

void net_rx_put(struct net_rx *rx, uint64_t wr_id);
/* Post what was put back; net_rx_put() does it by itself only now and then. */
void net_rx_post(struct net_rx *rx);

#endif
