/* SPDX-License-Identifier: BSD-3-Clause */
/* The registration cache. */
#include "mrcache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uintptr_t page_size(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

void net_mrcache_init(struct net_mrcache *c, struct srd_pd *const *pd, int npds)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	for (int i = 0; i < npds; i++)
		c->pd[i] = pd[i];
	c->npds = npds;
}

static void mr_free(struct net_mr *mr)
{
	for (int i = 0; i < mr->n; i++)
		srd_mr_fini(&mr->mr[i]);
	free(mr);
}

void net_mrcache_fini(struct net_mrcache *c)
{
	for (size_t i = 0; i < c->count; i++)
		mr_free(c->by_addr[i]);
	free(c->by_addr);
	pthread_mutex_destroy(&c->lock);
	memset(c, 0, sizeof(*c));
}

/* What a device of these capabilities can be asked to do with the memory. */
static int access_flags(const struct srd_dev *dev)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (dev->attr.caps & SRD_CAP_RDMA_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (dev->attr.caps & SRD_CAP_RDMA_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	return access;
}

static int mr_new(struct net_mrcache *c, uintptr_t addr, uintptr_t end, struct net_mr **out)
{
	struct net_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->addr = addr;
	mr->end = end;
	for (; mr->n < c->npds; mr->n++) {
		struct srd_mr *m = &mr->mr[mr->n];
		int rc = srd_mr_init(m, c->pd[mr->n], (void *)addr, end - addr,
				     access_flags(c->pd[mr->n]->dev));

		if (rc) {
			mr_free(mr);
			return rc;
		}
		mr->lkey[mr->n] = m->lkey;
		mr->rkey[mr->n] = m->rkey;
	}
	*out = mr;
	return 0;
}

/* The first entry that does not come before (@addr, @end). */
static size_t lower_bound(const struct net_mrcache *c, uintptr_t addr, uintptr_t end)
{
	size_t lo = 0, hi = c->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct net_mr *m = c->by_addr[mid];

		if (m->addr < addr || (m->addr == addr && m->end < end))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int insert(struct net_mrcache *c, size_t at, struct net_mr *mr)
{
	if (c->count == c->room) {
		size_t room = c->room ? 2 * c->room : 64;
		struct net_mr **p = realloc(c->by_addr, room * sizeof(*p));

		if (!p)
			return -ENOMEM;
		c->by_addr = p;
		c->room = room;
	}
	memmove(&c->by_addr[at + 1], &c->by_addr[at], (c->count - at) * sizeof(c->by_addr[0]));
	c->by_addr[at] = mr;
	c->count++;
	return 0;
}

static int get_locked(struct net_mrcache *c, uintptr_t addr, uintptr_t end, struct net_mr **out)
{
	size_t at = lower_bound(c, addr, end);
	int rc;

	/*
	 * Only the same pages are shared: in a larger range the rest would outlive its own users.
	 */
	if (at < c->count && c->by_addr[at]->addr == addr && c->by_addr[at]->end == end) {
		c->by_addr[at]->users++;
		*out = c->by_addr[at];
		return 0;
	}
	rc = mr_new(c, addr, end, out);
	if (rc)
		return rc;
	rc = insert(c, at, *out);
	if (rc)
		mr_free(*out);
	else
		(*out)->users = 1;
	return rc;
}

int net_mr_get(struct net_mrcache *c, void *addr, size_t len, struct net_mr **out)
{
	uintptr_t page = page_size(), start = (uintptr_t)addr, end = start + len;
	int rc;

	if (len == 0 || end < start || end > UINTPTR_MAX - page)
		return -EINVAL;
	start &= ~(page - 1);
	end = (end + page - 1) & ~(page - 1);
	pthread_mutex_lock(&c->lock);
	rc = get_locked(c, start, end, out);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void net_mr_put(struct net_mrcache *c, struct net_mr *mr)
{
	pthread_mutex_lock(&c->lock);
	if (--mr->users == 0) {
		size_t at = lower_bound(c, mr->addr, mr->end);

		c->count--;
		memmove(&c->by_addr[at], &c->by_addr[at + 1],
			(c->count - at) * sizeof(c->by_addr[0]));
		mr_free(mr);
	}
	pthread_mutex_unlock(&c->lock);
}
