/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive buffers. */
#include "rx.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "log.h"

int net_rx_init(struct net_rx *rx, struct srd_pd *pd, struct srd_qp *qp, uint32_t most,
		uint32_t bytes, uint64_t tag, int access)
{
	/* What is not written takes no memory. */
	void *mem = mmap(NULL, (size_t)most * bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED)
		return -errno;
	*rx = (struct net_rx){
		.qp = qp,
		.pd = pd,
		.access = IBV_ACCESS_LOCAL_WRITE | access,
		.mem = mem,
		.most = most,
		.bytes = bytes,
		.tag = tag,
	};
	return 0;
}

static int add_chunk(struct net_rx *rx)
{
	uint32_t left = rx->most - rx->n, n = left < NET_RX_CHUNK ? left : NET_RX_CHUNK;
	int rc =
		srd_mr_init(&rx->mr[rx->n / NET_RX_CHUNK], rx->pd,
			    rx->mem + (size_t)rx->n * rx->bytes, (size_t)n * rx->bytes, rx->access);

	if (rc)
		return rc;
	for (uint32_t end = rx->n + n; rx->n < end; rx->n++)
		net_rx_put(rx, (uint64_t)rx->n << 8);
	net_rx_post(rx);
	return 0;
}

int net_rx_grow(struct net_rx *rx, uint32_t n)
{
	int rc = 0;

	while (rx->n < n && !rc)
		rc = rx->n < rx->most ? add_chunk(rx) : -ENOSPC;
	return rc;
}

void net_rx_fini(struct net_rx *rx)
{
	for (int i = 0; i < NET_RX_MOST / NET_RX_CHUNK; i++)
		srd_mr_fini(&rx->mr[i]);
	if (rx->mem)
		munmap(rx->mem, (size_t)rx->most * rx->bytes);
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
		sge[i] = (struct ibv_sge){(uintptr_t)rx->mem + (uint64_t)rx->back[i] * rx->bytes,
					  rx->bytes, rx->mr[rx->back[i] / NET_RX_CHUNK].lkey};
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
