/* SPDX-License-Identifier: BSD-3-Clause */
/* Contention for ownership. No Criterion: the thread sanitizer is to see this. */
#include "contend.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../plugin/owner.h"
#include "bytes.h"

enum { THINGS = 8 };

/* Deliberately not atomic: exclusion is what is tested. */
struct thing {
	_Alignas(128) struct net_owner owner;
	volatile long entries, inside, clashes;
};

struct worker {
	const struct contend *c;
	int number;
	long entries[THINGS];
	pthread_t thread;
};

static struct thing things[THINGS];

static void be_inside(struct thing *t)
{
	if (t->inside++)
		t->clashes++;
	t->entries++;
	if (--t->inside)
		t->clashes++;
}

/* As the data path does: in short where it can, else in full. */
static void enter(struct thing *t, bool in_short)
{
	if (in_short && net_owner_try(&t->owner)) {
		be_inside(t);
		net_owner_leave_own();
		return;
	}
	net_owner_enter(&t->owner);
	be_inside(t);
	net_owner_leave(&t->owner);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t seed = (uint64_t)w->number;

	for (int i = 0; i < w->c->rounds; i++) {
		uint32_t r = bytes_random(&seed);
		int n = w->number;

		if (r % (uint32_t)w->c->visit == 0)
			n = (int)(r >> 16) % w->c->threads;
		enter(&things[n], r >> 31);
		w->entries[n]++;
	}
	return NULL;
}

static void *visit_all(void *arg)
{
	const struct contend *c = arg;

	for (int i = 0; i < c->threads; i++)
		enter(&things[i], i % 2);
	return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
	if (pthread_create(thread, NULL, body, arg))
		abort();
}

long contend(const struct contend *c)
{
	static struct worker w[THINGS];
	pthread_t stranger;
	long wrong = 0;

	for (int i = 0; i < c->threads; i++) {
		net_owner_init(&things[i].owner);
		things[i].entries = things[i].inside = things[i].clashes = 0;
	}
	for (int i = 0; i < c->threads; i++) {
		w[i] = (struct worker){.c = c, .number = i};
		start(&w[i].thread, work, &w[i]);
	}
	for (int i = 0; i < c->strangers; i++) {
		start(&stranger, visit_all, (void *)(uintptr_t)c);
		pthread_join(stranger, NULL);
	}
	for (int i = 0; i < c->threads; i++)
		pthread_join(w[i].thread, NULL);
	for (int n = 0; n < c->threads; n++) {
		long entries = c->strangers;

		for (int i = 0; i < c->threads; i++)
			entries += w[i].entries[n];
		wrong += things[n].clashes + labs(entries - things[n].entries);
		net_owner_fini(&things[n].owner);
	}
	return wrong;
}
