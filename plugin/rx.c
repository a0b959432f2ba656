/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive buffers. */
#include "rx.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "log.h"

int net_rx_init(struct net_rx *rx, struct srd_pd *pd, struct srd_qp *qp, uint32_t n, uint32_t bytes,
		uint64_t tag, int access)
{
	void *mem = mmap(NULL, (size_t)n * bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (mem == MAP_FAILED)
		return -errno;
	*rx = (struct net_rx){.qp = qp, .mem = mem, .n = n, .bytes = bytes, .tag = tag};
	rc = srd_mr_init(&rx->mr, pd, mem, (size_t)n * bytes, IBV_ACCESS_LOCAL_WRITE | access);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < n; i++)
		net_rx_put(rx, (uint64_t)i << 8);
	net_rx_post(rx);
	return rx->nback ? -EIO : 0;
}

void net_rx_fini(struct net_rx *rx)
{
	srd_mr_fini(&rx->mr);
	if (rx->mem)
		munmap(rx->mem, (size_t)rx->n * rx->bytes);
	memset(rx, 0, sizeof(*rx));
}

void net_rx_put(struct net_rx *rx, uint64_t wr_id)
{
	rx->back[rx->nback++] = (uint16_t)(wr_id >> 8);
	if (rx->nback == NET_RX_BATCH)
		net_rx_post(rx);
}

void net_rx_post(struct net_rx *rx)
{
	struct ibv_recv_wr wr[NET_RX_BATCH];
	struct ibv_sge sge[NET_RX_BATCH];
	int rc;

	if (!rx->nback)
		return;
	for (uint32_t i = 0; i < rx->nback; i++) {
		sge[i] = (struct ibv_sge){rx->mr.addr + (uint64_t)rx->back[i] * rx->bytes,
					  rx->bytes, rx->mr.lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)rx->back[i] << 8 | rx->tag,
					     .next = i + 1 < rx->nback ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	/* There was a place for each of them before it was received. */
	rc = srd_post_recv(rx->qp, wr, NULL);
	if (rc)
		net_warn("NET/EFA: %u receive buffers are lost: %s", rx->nback, strerror(-rc));
	rx->nback = 0;
}
