/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that does what the GPU's blocks do: fill slots, use them. */
#include <stdlib.h>
#include <string.h>

#include "common/payload.h"
#include "loop.h"

uint64_t loop_key(const struct loop *l, const struct loop_sub *sub, uint64_t k)
{
	int rank = l->ctx->self->rank;

	return sub->end->sender ? payload_key(rank, sub->end->peer, sub->channel, k)
				: payload_key(sub->end->peer, rank, sub->channel, k);
}

char *loop_slot(const struct loop_sub *sub, uint64_t k)
{
	return sub->slots + k % (uint64_t)sub->depth * sub->stride;
}

static bool produce(struct loop *l, struct loop_sub *sub)
{
	uint64_t k = sub->tail, key;
	size_t bytes;

	if (k == l->count || k == sub->posted)
		return false;
	key = loop_key(l, sub, k);
	bytes = plan_bytes(sub->plan, key);
	/* With LL the proxy may see the size before the lines: it looks at their flags. */
	sub->filled[k % (uint64_t)sub->depth] = bytes;
	if (sub->plan->proto != PLAN_SIMPLE)
		sub->tail = k + 1;
	plan_fill(sub->plan, loop_slot(sub, k), bytes, key, k + 1, sub->scratch);
	sub->tail = k + 1;
	return true;
}

/* Published by the proxy: all is there. */
static bool consume_simple(struct loop *l, struct loop_sub *sub)
{
	uint64_t k = sub->head, key = loop_key(l, sub, k);
	size_t bytes = plan_bytes(sub->plan, key), first = 0, wrong;
	char *at = loop_slot(sub, k);

	if (k == sub->tail)
		return false;
	wrong = payload_check(at, bytes, key, key, &first);
	check_need(l->ctx, !wrong,
		   "expected the %zu bytes of message %llu from rank %d, saw %zu wrong, at %zu "
		   "first",
		   bytes, (unsigned long long)k, sub->end->peer, wrong, first);
	memset(at, PAYLOAD_POISON, bytes);
	sub->head = k + 1;
	return true;
}

/* Polled: true as soon as a line was there. */
static bool consume_lines(struct loop *l, struct loop_sub *sub)
{
	uint64_t k = sub->head, key = loop_key(l, sub, k);
	size_t bytes = plan_bytes(sub->plan, key), lines = bytes / sub->plan->unit;
	size_t before = sub->line;
	int seen = 1;

	if (k == sub->posted)
		return false;
	if (!sub->begun)
		payload_fill(sub->scratch, plan_data(sub->plan, bytes), key);
	sub->begun = true;
	while (sub->line < lines && seen > 0) {
		seen = plan_look(sub->plan, loop_slot(sub, k), sub->line, k + 1, sub->scratch);
		check_need(l->ctx, seen >= 0,
			   "expected the data of line %zu of message %llu with its flag, saw the "
			   "flag alone",
			   sub->line, (unsigned long long)k);
		sub->line += seen > 0;
	}
	l->lines += sub->line - before;
	if (sub->line < lines)
		return sub->line > before;
	sub->line = 0;
	sub->begun = false;
	sub->head = k + 1;
	return true;
}

static bool work(struct loop *l, struct loop_sub *sub)
{
	if (sub->end->sender)
		return produce(l, sub);
	if (sub->head == l->count)
		return false;
	return sub->plan->proto == PLAN_SIMPLE ? consume_simple(l, sub) : consume_lines(l, sub);
}

static bool at_end(const struct loop *l)
{
	for (int i = 0; i < l->nsubs; i++) {
		const struct loop_sub *sub = &l->sub[i];

		if ((sub->end->sender ? sub->tail : sub->head) < l->count)
			return false;
	}
	return true;
}

/* The proxy's loop knows whether this takes too long. */
static void *gpu_main(void *arg)
{
	struct loop *l = arg;

	while (!at_end(l)) {
		bool worked = false;

		for (int i = 0; i < l->nsubs; i++)
			worked |= work(l, &l->sub[i]);
		if (!worked)
			check_yield();
	}
	return NULL;
}

void gpu_start(struct loop *l)
{
	for (int i = 0; i < l->nsubs; i++) {
		size_t most = l->sub[i].plan->step * (size_t)l->sub[i].plan->slice;

		l->sub[i].scratch = malloc(most);
		if (!l->sub[i].scratch)
			check_skip(l->ctx, "no memory for %zu bytes", most);
	}
	if (pthread_create(&l->gpu, NULL, gpu_main, l))
		check_skip(l->ctx, "no thread can be started");
}

void gpu_join(struct loop *l)
{
	pthread_join(l->gpu, NULL);
	for (int i = 0; i < l->nsubs; i++)
		free(l->sub[i].scratch);
}
