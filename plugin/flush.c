/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushes, by reads or by CUDA. */
#include "flush.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "mem.h"
#include "mrcache.h"
#include "p2p.h"
#include "param.h"
#include "srd_cuda.h"
#include "todo.h"

/* ---- to itself ---- */

static bool all_rails_read(const struct net_engine *e)
{
	for (int i = 0; i < e->dev->nrails; i++)
		if (!(e->dev->nic[i].dev.attr.caps & SRD_CAP_RDMA_READ))
			return false;
	return true;
}

bool net_flush_reads(const struct net_engine *e)
{
	enum net_flush_mode mode = (enum net_flush_mode)net_param()->flush;

	if (mode == NET_FLUSH_OFF || mode == NET_FLUSH_CUDA ||
	    !(net_mem_support() & NCCL_NET_PTR_CUDA))
		return false;
	if (all_rails_read(e))
		return true;
	if (mode == NET_FLUSH_READ)
		net_warn("NET/EFA: NCCL_EFA_FLUSH=read: %s has no RDMA read; CUDA is asked to "
			 "flush",
			 e->dev->name);
	return false;
}

/* ---- by reads ---- */

static struct net_req *flush_at(const struct net_recv *r, uint32_t i)
{
	return &r->flush[i % NET_MAX_FLUSHES];
}

/* A request, or NULL; @rails gets those of flushes under way, which may be for this data as well.
 */
static struct net_req *take_request(struct net_recv *r, uint32_t *rails)
{
	struct net_req *req;

	if (!r->flush) {
		size_t size = NET_MAX_FLUSHES * sizeof(struct net_req);

		r->flush = aligned_alloc(_Alignof(struct net_req), size);
		if (!r->flush)
			return NULL;
		memset(r->flush, 0, size);
	}
	while (r->flush_first != r->flush_next && !flush_at(r, r->flush_first)->in_use)
		r->flush_first++;
	if (r->flush_next - r->flush_first == NET_MAX_FLUSHES)
		return NULL;
	for (uint32_t i = r->flush_first; i != r->flush_next; i++)
		if (flush_at(r, i)->to_come)
			*rails |= flush_at(r, i)->slot;
	req = flush_at(r, r->flush_next);
	req->comm = &r->c;
	req->slot = (uint16_t)*rails;
	return req;
}

/* The read by rail @i, which counts already. -EAGAIN: no room in its send queue. */
static int read_byte(struct net_recv *r, struct net_req *req, int i)
{
	struct net_engine *e = r->c.engine;
	struct net_rail *rail = &e->rail[i];
	const struct srd_wr wr = {
		.wr_id = (uintptr_t)req | WR_DATA,
		.to = &e->self[i],
		.sge[0] = {(uintptr_t)e->scratch->mem, 1, e->scratch->lkey[i]},
		.raddr = (uintptr_t)req->data,
		.rkey = req->mr->rkey[i],
		.op = IBV_WR_RDMA_READ,
		.nsge = 1,
	};
	int rc;

	if (!rail->data_free)
		return -EAGAIN;
	rc = srd_post(&rail->data, &wr, 1);
	if (rc)
		return rc == -EAGAIN ? -EIO : rc; /* the credits say that there is room */
	rail->data_free--;
	r->c.under_way++;
	return 0;
}

/* The reads that are still to be posted, a bit each in lost; likewise. */
static int read_bytes(struct net_recv *r, struct net_req *req)
{
	int rc = 0;

	while (req->lost && !rc) {
		rc = read_byte(r, req, __builtin_ctz(req->lost));
		if (!rc)
			req->lost &= (uint8_t)(req->lost - 1);
	}
	return rc;
}

/* Memory that is gone needs no flush. */
bool net_flush_run(struct net_req *req)
{
	struct net_recv *r = (struct net_recv *)req->comm;
	int rc;

	if (r->c.closed)
		return true;
	if (!req->mr) {
		req->to_come -= (uint32_t)__builtin_popcount(req->lost);
		req->lost = 0;
	}
	rc = read_bytes(r, req);
	if (rc && rc != -EAGAIN)
		net_comm_fail(&r->c, rc, "post of a flush", 0, NULL);
	return rc != -EAGAIN;
}

/* NCCL does not ask again: what finds no room now is posted by a later call. */
static int by_reads(struct net_recv *r, const void *data, const struct net_mr *mr, void **request)
{
	uint32_t rails = r->touched;
	struct net_req *req;

	if (r->c.err)
		return r->c.err;
	req = take_request(r, &rails);
	if (req && !rails)
		return 0;
	r->touched = 0; /* what arrives from here on is for the next one */
	if (!req) {
		net_comm_fail(&r->c, -ENOMEM, "post of a flush", 0, NULL);
		return -ENOMEM;
	}
	req->data = data;
	req->mr = mr;
	req->lost = (uint8_t)rails;
	req->to_come = (uint32_t)__builtin_popcount(rails);
	req->in_use = true;
	r->flush_next++;
	if (!net_flush_run(req))
		net_todo_add(req);
	*request = req;
	return r->c.err;
}

/* ---- which ---- */

static int by_cuda(void)
{
	static atomic_bool warned;
	int rc = srd_flush_gpudirect_writes(SRD_CUDA_OWNER);

	if (rc == -EOPNOTSUPP && !atomic_exchange(&warned, true))
		net_warn("NET/EFA: neither NIC nor CUDA can flush writes to memory of this GPU: "
			 "the NIC has no RDMA read, the GPU no cuFlushGPUDirectRDMAWrites");
	return rc == -EOPNOTSUPP ? 0 : rc;
}

/* The first buffer of @n in which a GPU has something to see, or -1. */
static int first_for_gpu(int n, const int *sizes, void *const *mrs)
{
	for (int i = 0; i < n; i++)
		if (sizes[i] && mrs[i] && ((const struct net_mr *)mrs[i])->gpu)
			return i;
	return -1;
}

int net_iflush(struct net_recv *r, int n, void *const *data, const int *sizes, void *const *mrs,
	       void **request)
{
	int i = first_for_gpu(n, sizes, mrs), rc;

	*request = NULL;
	if (i < 0 || net_param()->flush == NET_FLUSH_OFF)
		return r->c.err;
	if (!r->c.engine->flush_reads)
		return by_cuda();
	net_owner_enter(&r->c.engine->owner);
	rc = by_reads(r, data[i], mrs[i], request);
	net_owner_leave(&r->c.engine->owner);
	return rc;
}

void net_flush_forget(struct net_recv *r, const struct net_mr *mr)
{
	for (uint32_t i = r->flush_first; i != r->flush_next; i++)
		if (flush_at(r, i)->mr == mr)
			flush_at(r, i)->mr = NULL;
}

void net_flush_free(struct net_recv *r)
{
	free(r->flush);
}
