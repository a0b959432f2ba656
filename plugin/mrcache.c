/* SPDX-License-Identifier: BSD-3-Clause */
/* The registration cache. */
#include "mrcache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "stats.h"
#include "param.h"

void net_mrcache_init(struct net_mrcache *c, struct srd_pd *const *pd, int npds)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	for (int i = 0; i < npds; i++)
		c->pd[i] = pd[i];
	c->npds = npds;
	c->share = net_param()->mr_cache;
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

/* -ENODEV: none of them is whole. */
static int with_whole(const struct net_mrcache *c, uint8_t broken, struct srd_pd *pd[NET_MAX_RAILS])
{
	int n = 0;

	for (int i = 0; i < c->npds; i++) {
		pd[i] = broken >> i & 1 ? NULL : c->pd[i];
		n += pd[i] != NULL;
	}
	if (n)
		return 0;
	net_warn("NET/EFA: memory cannot be registered: all EFAs of the device are broken");
	return -ENODEV;
}

static int mr_new(struct net_mrcache *c, const struct net_range *r, uintptr_t addr, uintptr_t end,
		  uint8_t broken, struct net_mr **out)
{
	struct srd_pd *pd[NET_MAX_RAILS];
	struct net_mr *mr;
	char others[96];
	int rc = with_whole(c, broken, pd);

	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	snprintf(others, sizeof(others), "; %zu other ranges are registered", c->count);
	rc = net_mem_register(mr->mr, pd, c->npds, r, others);
	if (rc) {
		free(mr);
		return rc;
	}
	mr->addr = addr;
	mr->end = end;
	mr->gpu = r->gpu;
	for (; mr->n < c->npds; mr->n++) {
		mr->lkey[mr->n] = mr->mr[mr->n].lkey;
		mr->rkey[mr->n] = mr->mr[mr->n].rkey;
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

/* Only the same pages are shared: in a larger range the rest would outlive its own users. */
static struct net_mr *find(const struct net_mrcache *c, size_t at, uintptr_t addr, uintptr_t end,
			   bool gpu)
{
	for (; at < c->count && c->by_addr[at]->addr == addr && c->by_addr[at]->end == end; at++)
		if (c->by_addr[at]->gpu == gpu)
			return c->by_addr[at];
	return NULL;
}

static int get_locked(struct net_mrcache *c, const struct net_range *r, uintptr_t addr,
		      uintptr_t end, uint8_t broken, struct net_mr **out)
{
	size_t at = lower_bound(c, addr, end);
	struct net_mr *mr = c->share ? find(c, at, addr, end, r->gpu) : NULL;
	int rc = 0;

	if (!mr) {
		rc = mr_new(c, r, addr, end, broken, &mr);
		if (rc)
			return rc;
		rc = insert(c, at, mr);
	}
	if (rc) {
		mr_free(mr);
		return rc;
	}
	net_count(mr->users++ ? &c->shared : &c->made, 1);
	*out = mr;
	return 0;
}

int net_mr_get(struct net_mrcache *c, const struct net_range *r, uint8_t broken,
	       struct net_mr **out)
{
	uintptr_t addr, end;
	int rc = net_range_pages(r, &addr, &end);

	if (rc) {
		net_warn("NET/EFA: %zu bytes at %#zx are no range of memory", r->len,
			 (size_t)r->addr);
		return rc;
	}
	pthread_mutex_lock(&c->lock);
	rc = get_locked(c, r, addr, end, broken, out);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void net_mr_put(struct net_mrcache *c, struct net_mr *mr)
{
	pthread_mutex_lock(&c->lock);
	if (--mr->users == 0) {
		size_t at = lower_bound(c, mr->addr, mr->end);

		while (c->by_addr[at] != mr)
			at++;
		c->count--;
		memmove(&c->by_addr[at], &c->by_addr[at + 1],
			(c->count - at) * sizeof(c->by_addr[0]));
		mr_free(mr);
	}
	pthread_mutex_unlock(&c->lock);
}
