/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of numbers. */
#include "numbers.h"

#include <errno.h>
#include <stdlib.h>

struct net_numbers *net_numbers_new(uint32_t n, struct srd_pd *const *pd, int npds)
{
	struct net_numbers *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (!t)
		return NULL;
	t->n = n;
	t->mem = malloc(n * sizeof(*t->mem));
	if (!t->mem)
		rc = -ENOMEM;
	for (uint32_t i = 0; i < n && !rc; i++)
		t->mem[i] = i;
	for (int i = 0; i < npds && !rc; i++)
		rc = srd_mr_init(&t->mr[i], pd[i], t->mem, n * sizeof(*t->mem), 0);
	if (rc) {
		net_numbers_free(t);
		errno = -rc;
		return NULL;
	}
	return t;
}

void net_numbers_free(struct net_numbers *t)
{
	if (!t)
		return;
	for (int i = 0; i < NET_MAX_RAILS; i++)
		srd_mr_fini(&t->mr[i]);
	free(t->mem);
	free(t);
}
