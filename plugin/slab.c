/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of registered memory. */
#include "slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 64 }; /* per chunk */

struct net_slab_chunk {
	struct net_slab_chunk *next;
	void *mem;
	size_t bytes;
	int n;
	struct srd_mr mr[NET_MAX_RAILS];
	struct net_block block[BLOCKS];
};

void net_slab_init(struct net_slab *s, size_t block_bytes, int access, struct srd_pd *const *pd,
		   int npds)
{
	memset(s, 0, sizeof(*s));
	s->block_bytes = block_bytes;
	s->access = access;
	for (int i = 0; i < npds; i++)
		s->pd[i] = pd[i];
	s->npds = npds;
}

static void chunk_free(struct net_slab_chunk *c)
{
	for (int i = 0; i < c->n; i++)
		srd_mr_fini(&c->mr[i]);
	if (c->mem)
		munmap(c->mem, c->bytes);
	free(c);
}

void net_slab_fini(struct net_slab *s)
{
	while (s->chunks) {
		struct net_slab_chunk *c = s->chunks;

		s->chunks = c->next;
		chunk_free(c);
	}
	s->first = s->last = NULL;
}

static int chunk_fill(struct net_slab *s, struct net_slab_chunk *c)
{
	c->bytes = s->block_bytes * BLOCKS;
	c->mem = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->mem == MAP_FAILED) {
		c->mem = NULL;
		return -errno;
	}
	for (; c->n < s->npds; c->n++) {
		int rc = srd_mr_init(&c->mr[c->n], s->pd[c->n], c->mem, c->bytes, s->access);

		if (rc)
			return rc;
	}
	return 0;
}

static int grow(struct net_slab *s)
{
	struct net_slab_chunk *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	rc = chunk_fill(s, c);
	if (rc) {
		chunk_free(c);
		return rc;
	}
	c->next = s->chunks;
	s->chunks = c;
	for (int i = 0; i < BLOCKS; i++) {
		struct net_block *b = &c->block[i];

		b->mem = (char *)c->mem + s->block_bytes * (size_t)i;
		for (int r = 0; r < c->n; r++) {
			b->lkey[r] = c->mr[r].lkey;
			b->rkey[r] = c->mr[r].rkey;
		}
		net_block_put(s, b);
	}
	return 0;
}

int net_block_get(struct net_slab *s, struct net_block **out)
{
	int rc = s->first ? 0 : grow(s);

	if (rc)
		return rc;
	*out = s->first;
	s->first = (*out)->next;
	memset((*out)->mem, 0, s->block_bytes);
	return 0;
}

void net_block_put(struct net_slab *s, struct net_block *b)
{
	b->next = NULL;
	if (s->first)
		s->last->next = b;
	else
		s->first = b;
	s->last = b;
}
