/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration: who may be written to, and through which mapping. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tcpnet.h"

enum { CACHED = 64 << 10 }; /* bytes that fault mr-cache remembers */

/* Fault mr-cache: what the last deregistered memory held. */
static struct {
	char *data;
	char was[CACHED];
} cache;

/* The data path makes way: it locks so often that who waits would wait for long. */
static void reg_lock(struct comm *c)
{
	c->regs++;
	pthread_mutex_lock(&c->lock);
	c->regs--;
}

static enum nccl_net_result mr_add(struct comm *c, struct mr *mr, void **mhandle)
{
	reg_lock(c);
	if (fault_is("reg-wedges") && c->posted != c->moved)
		c->wedged = true;
	mr->next = c->mrs;
	c->mrs = mr;
	pthread_mutex_unlock(&c->lock);
	*mhandle = mr;
	return NCCL_NET_OK;
}

static struct mr *mr_new(struct comm *c, void *data, size_t size)
{
	struct mr *mr = calloc(1, sizeof(*mr));

	if (mr)
		*mr = (struct mr){.comm = c, .data = data, .size = size};
	if (mr && fault_is("mr-cache") && cache.data == data)
		mr->old = cache.was;
	return mr;
}

enum nccl_net_result tcpnet_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	struct mr *mr;

	if ((type != NCCL_NET_PTR_HOST && !fault_is("any-type")) || !size)
		return test_plugin_usage("regMr of an empty range or of device memory");
	if (fault("reg-error"))
		return NCCL_NET_SYSTEM_ERROR;
	if (fault_is("reg-pages") && ((uintptr_t)data % 4096 || size % 4096))
		return NCCL_NET_SYSTEM_ERROR;
	if (fault("no-mhandle"))
		return NCCL_NET_OK;
	mr = mr_new(comm, data, size);
	return mr ? mr_add(comm, mr, mhandle) : NCCL_NET_SYSTEM_ERROR;
}

enum nccl_net_result tcpnet_reg_mr_dma_buf(void *comm, void *data, size_t size, int type,
					   uint64_t offset, int fd, void **mhandle)
{
	uint64_t page = offset / 4096 * 4096;
	struct mr *mr;

	if (!size || (type != NCCL_NET_PTR_CUDA && type != NCCL_NET_PTR_HOST))
		return test_plugin_usage("regMrDmaBuf of an empty range");
	mr = mr_new(comm, data, size);
	if (!mr)
		return NCCL_NET_SYSTEM_ERROR;
	mr->map_bytes = (size_t)(offset - page) + size;
	mr->map = mmap(NULL, mr->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)page);
	if (mr->map == MAP_FAILED) {
		free(mr);
		return test_plugin_errno("mmap of a dma-buf");
	}
	mr->map += offset - page;
	if (fault_is("keep-fd"))
		fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return mr_add(comm, mr, mhandle);
}

/* What is under way to or from @mr: a receive goes on without its data, a send cannot. */
static void mr_cancel(struct comm *c, const struct mr *mr)
{
	for (int i = 0; i < SENDS; i++) {
		struct request *q = &c->slot[i];

		for (int p = 0; q->busy && !q->done && p < q->n; p++) {
			if (q->part[p].mr != mr)
				continue;
			q->part[p].data = NULL;
			q->part[p].mr = NULL;
			if (c->sender)
				c->broken = true;
		}
	}
}

static bool overlap(const struct mr *a, const struct mr *b)
{
	return a->data < b->data + b->size && b->data < a->data + a->size;
}

static void mr_spoil(struct comm *c, const struct mr *mr)
{
	if (fault_is("mr-cache")) {
		cache.data = mr->data;
		memcpy(cache.was, mr->data, mr->size < CACHED ? mr->size : CACHED);
	}
	for (struct mr *m = c->mrs; fault_is("dereg-overlap") && m; m = m->next)
		if (overlap(m, mr))
			m->size = 0;
}

enum nccl_net_result tcpnet_dereg_mr(void *comm, void *mhandle)
{
	struct mr *mr = mhandle, **at;
	struct comm *c = comm;

	if (mr->comm != comm)
		return test_plugin_usage("deregMr on another comm");
	reg_lock(c);
	for (at = &c->mrs; *at != mr; at = &(*at)->next)
		;
	*at = mr->next;
	if (!fault_is("late-write"))
		mr_cancel(c, mr);
	mr_spoil(c, mr);
	pthread_mutex_unlock(&c->lock);
	if (mr->map)
		munmap((char *)((uintptr_t)mr->map & ~(uintptr_t)4095), mr->map_bytes);
	free(mr);
	return NCCL_NET_OK;
}

char *mr_at(const struct mr *mr, const struct comm *c, const char *data, size_t size)
{
	if (!mr || mr->comm != c || data < mr->data || size > mr->size ||
	    (size_t)(data - mr->data) > mr->size - size)
		return NULL;
	if (mr->old && mr->size <= CACHED)
		return mr->old + (data - mr->data);
	return (mr->map ? mr->map : mr->data) + (data - mr->data);
}
