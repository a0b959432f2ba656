/* SPDX-License-Identifier: BSD-3-Clause */
/* The address handle cache: a chained hash under one lock. */
#include "ah.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libs.h"
#include "log.h"

enum { BUCKETS = 256 };

struct entry {
	struct entry *next;
	union ibv_gid gid;
	struct ibv_ah *ah;
	unsigned long users;
};

struct srd_ah_cache {
	struct ibv_pd *pd;
	pthread_mutex_t lock; /* of all below, and held while the kernel makes an AH */
	struct entry *buckets[BUCKETS];
	unsigned long entries;
};

int srd_ah_cache_open(struct srd_ah_cache **out, struct ibv_pd *pd)
{
	struct srd_ah_cache *cache = calloc(1, sizeof(*cache));
	int rc;

	if (!cache)
		return srd_failed(pd->context, "calloc", ENOMEM, ": %zu bytes", sizeof(*cache));
	rc = pthread_mutex_init(&cache->lock, NULL);
	if (rc) {
		free(cache);
		return srd_failed(pd->context, "pthread_mutex_init", rc, "%s", "");
	}
	cache->pd = pd;
	*out = cache;
	return 0;
}

static struct entry **find_locked(struct srd_ah_cache *cache, const union ibv_gid *gid)
{
	uint32_t hash = 2166136261u; /* FNV-1a: peers differ in a few bytes anywhere */
	struct entry **link;

	for (size_t i = 0; i < sizeof(gid->raw); i++)
		hash = (hash ^ gid->raw[i]) * 16777619u;
	link = &cache->buckets[(hash ^ hash >> 16) % BUCKETS];
	while (*link && memcmp(&(*link)->gid, gid, sizeof(*gid)))
		link = &(*link)->next;
	return link;
}

static struct ibv_ah *create(struct ibv_pd *pd, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {
		.grh = {.dgid = *gid, .hop_limit = 1},
		.is_global = 1,
		.port_num = 1,
	};

	errno = 0;
	return srd_ibv.create_ah(pd, &attr);
}

static int add_locked(struct srd_ah_cache *cache, const union ibv_gid *gid, struct entry **link)
{
	struct entry *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return srd_failed(cache->pd->context, "calloc", ENOMEM, ": %zu bytes", sizeof(*e));
	e->ah = create(cache->pd, gid);
	if (!e->ah) {
		rc = srd_failed(cache->pd->context, "ibv_create_ah", errno,
				": %lu handles in use here", cache->entries);
		free(e);
		return rc;
	}
	e->gid = *gid;
	*link = e;
	cache->entries++;
	return 0;
}

static void remove_locked(struct srd_ah_cache *cache, struct entry **link)
{
	struct entry *e = *link;
	int rc = srd_ibv.destroy_ah(e->ah);

	if (rc)
		srd_warn("ibv_destroy_ah: %s (%d)", strerror(rc), rc);
	*link = e->next;
	cache->entries--;
	free(e);
}

int srd_ah_get(struct srd_ah_cache *cache, const union ibv_gid *gid, struct ibv_ah **ah)
{
	struct entry **link;
	int rc = 0;

	pthread_mutex_lock(&cache->lock);
	link = find_locked(cache, gid);
	if (!*link)
		rc = add_locked(cache, gid, link);
	if (rc == 0) {
		(*link)->users++;
		*ah = (*link)->ah;
	}
	pthread_mutex_unlock(&cache->lock);
	return rc;
}

void srd_ah_put(struct srd_ah_cache *cache, const union ibv_gid *gid)
{
	struct entry **link;

	pthread_mutex_lock(&cache->lock);
	link = find_locked(cache, gid);
	if (*link && --(*link)->users == 0)
		remove_locked(cache, link);
	pthread_mutex_unlock(&cache->lock);
}

void srd_ah_cache_close(struct srd_ah_cache *cache)
{
	if (!cache)
		return;
	if (cache->entries)
		srd_warn("%s: PD finished before the peers of %lu address handles",
			 cache->pd->context->device->name, cache->entries);
	for (int i = 0; i < BUCKETS; i++) {
		while (cache->buckets[i])
			remove_locked(cache, &cache->buckets[i]);
	}
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}
