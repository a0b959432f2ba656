/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's progress loop: src/transport/net.cc, sendProxyProgress and recvProxyProgress. A pass does
 * one thing for a sub that sends; receives go through four phases, and the first that gets anywhere
 * ends the pass.
 */
#include "loop.h"

#include <string.h>

enum { POOL_STEPS = 16 }; /* slots of a channel that subs share: NCCL_SHARED_STEPS */

int loop_depth(const struct plan *plan, int nsubs)
{
	int depth = POOL_STEPS / nsubs;

	return (depth < PLAN_STEPS ? depth > 0 ? depth : 1 : PLAN_STEPS) / plan->slice;
}

static uint64_t depth(const struct loop_sub *sub)
{
	return (uint64_t)sub->depth;
}

/* ---- senders ---- */

static bool send_post(struct loop *l, struct loop_sub *sub)
{
	if (sub->posted == l->count || sub->posted == sub->done + depth(sub))
		return false;
	sub->posted++;
	return true;
}

static bool send_move(struct loop *l, struct loop_sub *sub)
{
	uint64_t k = sub->moved;
	size_t bytes;
	void *request;

	if (k == sub->tail || k == sub->posted)
		return false;
	bytes = sub->filled[k % depth(sub)]; /* only now it is that of message k */
	if (!plan_filled(sub->plan, loop_slot(sub, k), bytes, k + 1))
		return false;
	request = check_isend(l->ctx, sub->end, loop_slot(sub, k), bytes, sub->tag, sub->mhandle);
	if (!request)
		return false;
	sub->request[k % depth(sub)] = request;
	sub->moved++;
	return true;
}

static bool send_test(struct loop *l, struct loop_sub *sub)
{
	int size = 0;

	if (sub->done == sub->moved ||
	    !check_test(l->ctx, sub->request[sub->done % depth(sub)], &size))
		return false;
	sub->done++;
	return true;
}

static bool send_pass(struct loop *l, struct loop_sub *sub)
{
	return send_post(l, sub) || send_move(l, sub) || send_test(l, sub);
}

/* ---- receivers ---- */

/* The subs of a group that have messages left, which one irecv takes. */
static int group_subs(struct loop *l, int first, struct loop_sub *subs[])
{
	int n = 1;

	subs[0] = &l->sub[first];
	for (int i = first + 1; i < l->nsubs && n < l->max_recvs; i++) {
		struct loop_sub *sub = &l->sub[i];

		if (sub->end->sender || sub->group != l->sub[first].group)
			continue;
		subs[n++] = sub;
	}
	return n;
}

/* The first sub of each group stands for it. */
static bool leads(const struct loop *l, int i)
{
	for (int j = 0; j < i; j++) {
		if (!l->sub[j].end->sender && l->sub[j].group == l->sub[i].group)
			return false;
	}
	return !l->sub[i].end->sender;
}

static bool hinted(const struct loop *l, const struct loop_sub *sub, int parts)
{
	return parts == 1 && sub->plan->proto != PLAN_SIMPLE && l->ctx->abi >= 9;
}

static bool recv_post(struct loop *l, struct loop_sub *subs[], int n)
{
	void *addrs[NCCL_NET_TEST_SIZES], *mhandles[NCCL_NET_TEST_SIZES];
	int tags[NCCL_NET_TEST_SIZES];
	size_t sizes[NCCL_NET_TEST_SIZES];
	void *request = hinted(l, subs[0], n) ? NCCL_NET_EARLY_RECV_HINT : CHECK_STALE_REQUEST;
	uint64_t k = subs[0]->posted;

	for (int i = 0; i < n; i++) {
		if (subs[i]->posted == l->count ||
		    subs[i]->posted == subs[i]->done + depth(subs[i]))
			return false;
		addrs[i] = loop_slot(subs[i], k);
		sizes[i] = subs[i]->plan->step * (size_t)subs[i]->plan->slice;
		tags[i] = subs[i]->tag;
		mhandles[i] = subs[i]->mhandle;
	}
	check_irecv_group(l->ctx, subs[0]->end, n, addrs, sizes, tags, mhandles, &request);
	if (!request)
		return false;
	check_need(l->ctx, request != NCCL_NET_EARLY_RECV_HINT,
		   "expected a request or NULL, saw the hint left in *request");
	subs[0]->request[k % depth(subs[0])] = request;
	for (int i = 0; i < n; i++)
		subs[i]->posted++;
	return true;
}

/* As if the target were a GPU's, for some: for memory of the host it may be done at once. */
static void flush(struct loop *l, struct loop_sub *subs[], int n, uint64_t k, int *sizes)
{
	void *addrs[NCCL_NET_TEST_SIZES], *mhandles[NCCL_NET_TEST_SIZES], *request = NULL;
	int total = 0;

	for (int i = 0; i < n; i++) {
		addrs[i] = loop_slot(subs[i], k);
		mhandles[i] = subs[i]->mhandle;
		total += sizes[i];
	}
	if (subs[0]->plan->proto == PLAN_SIMPLE && total && k % 2) {
		host_entering(l->ctx->self, HOST_PROGRESS, "iflush");
		check_ok(l->ctx,
			 l->ctx->net->iflush(subs[0]->end->comm, n, addrs, sizes, mhandles,
					     &request),
			 "iflush");
	}
	subs[0]->request[k % depth(subs[0])] = request;
}

static bool recv_test(struct loop *l, struct loop_sub *subs[], int n)
{
	uint64_t k = subs[0]->moved;
	int sizes[NCCL_NET_TEST_SIZES] = {0};

	if (k == subs[0]->posted ||
	    !check_test(l->ctx, subs[0]->request[k % depth(subs[0])], sizes))
		return false;
	for (int i = 0; i < n; i++) {
		size_t want = plan_bytes(subs[i]->plan, loop_key(l, subs[i], k));

		/* What is done before its data came has no size. */
		check_need(l->ctx, sizes[i] == (int)want || hinted(l, subs[i], n),
			   "expected message %llu of %zu bytes, saw %d reported",
			   (unsigned long long)k, want, sizes[i]);
		subs[i]->moved++;
	}
	flush(l, subs, n, k, sizes);
	return true;
}

static bool recv_flushed(struct loop *l, struct loop_sub *subs[], int n)
{
	uint64_t k = subs[0]->tested;
	void **request = &subs[0]->request[k % depth(subs[0])];

	if (k == subs[0]->moved || (*request && !check_test(l->ctx, *request, NULL)))
		return false;
	*request = NULL;
	for (int i = 0; i < n; i++)
		subs[i]->tail = ++subs[i]->tested;
	return true;
}

/* What the GPU has used, and the proxy knows to be there. */
static bool recv_free(struct loop_sub *sub)
{
	if (sub->done == sub->head || sub->done == sub->tested)
		return false;
	sub->done++;
	return true;
}

static bool recv_pass(struct loop *l, int first)
{
	struct loop_sub *subs[NCCL_NET_TEST_SIZES];
	int n = group_subs(l, first, subs);
	bool freed = false;

	if (recv_post(l, subs, n) || recv_test(l, subs, n) || recv_flushed(l, subs, n))
		return true;
	for (int i = 0; i < n; i++)
		freed |= recv_free(subs[i]);
	return freed;
}

/* ---- both ---- */

static bool sub_pass(struct loop *l, int i)
{
	if (l->sub[i].end->sender)
		return send_pass(l, &l->sub[i]);
	return leads(l, i) && recv_pass(l, i);
}

/* From one end and from the other in turn: which GPU is first is chance. */
static bool pass(struct loop *l, bool back)
{
	bool moved = false;

	for (int i = 0; i < l->nsubs; i++)
		moved |= sub_pass(l, back ? l->nsubs - 1 - i : i);
	return moved;
}

static bool over(const struct loop *l)
{
	for (int i = 0; i < l->nsubs; i++) {
		if (l->sub[i].done < l->count)
			return false;
	}
	return true;
}

void loop_run(struct loop *l)
{
	uint64_t since = host_now_ns();
	bool back = false;

	gpu_start(l);
	while (!over(l)) {
		back = !back;
		if (pass(l, back))
			since = host_now_ns();
		check_tick(l->ctx, since, "the progress loop to get on");
	}
	gpu_join(l);
	atomic_fetch_add(&l->ctx->note->expected, 1);
}
