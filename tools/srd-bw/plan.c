/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides of a run do. */
#include "plan.h"

#include <string.h>

/* Of a side and a direction. Where messages are large they share it. */
static const uint64_t memory_bytes = UINT64_C(512) << 20;

static const char *const names[BW_OPS] = {"write", "write-imm", "read", "send"};

const char *bw_op_name(enum bw_op op)
{
	return op < BW_OPS ? names[op] : NULL;
}

enum bw_op bw_op_find(const char *name)
{
	enum bw_op op = 0;

	while (op < BW_OPS && strcmp(name, names[op]))
		op++;
	return op;
}

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Twice the window: memory is not used again right behind what still uses it. */
static uint64_t slots_wanted(const struct bw_plan *plan)
{
	return 2 * (uint64_t)plan->window;
}

void bw_plan_room(struct bw_plan *plan)
{
	uint64_t one = bw_stride(plan->largest);
	uint64_t most = memory_bytes / ((uint64_t)plan->rails * plan->qps);

	plan->room = min(slots_wanted(plan) * one, most > one ? most : one);
}

uint64_t bw_slots(const struct bw_plan *plan, uint64_t size)
{
	return min(slots_wanted(plan), plan->room / bw_stride(size));
}

uint64_t bw_receive_count(const struct bw_plan *plan)
{
	return plan->op == BW_SEND ? bw_slots(plan, plan->largest) : slots_wanted(plan);
}

const char *bw_plan_wrong(const struct bw_plan *plan)
{
	if (plan->op >= BW_OPS)
		return "no such operation";
	if (plan->rails < 1 || plan->rails > BW_MAX_RAILS)
		return "rails must be 1 to 32";
	if (plan->qps < 1 || plan->qps > BW_MAX_QPS)
		return "queue pairs must be 1 to 64";
	if (plan->window < 1 || plan->window > BW_MAX_WINDOW)
		return "window must be 1 to 4096";
	if (plan->largest < 1 || plan->largest > BW_MAX_SIZE)
		return "sizes must be 1 to 16G";
	if (plan->room < bw_stride(plan->largest) ||
	    plan->room > BW_MAX_MEMORY / ((uint64_t)plan->rails * plan->qps))
		return "memory must hold a message, and be at most 1024G";
	return NULL;
}

const char *bw_pass_wrong(const struct bw_pass *pass, const struct bw_plan *plan)
{
	if (pass->size < 1 || pass->size > plan->largest)
		return "a size beyond the largest";
	if (!pass->messages == !pass->ns)
		return "neither or both of messages and time";
	if (pass->messages > BW_MAX_ITERS || pass->ns > BW_MAX_S * UINT64_C(1000000000))
		return "too many messages or too long a time";
	if (plan->check && (!pass->messages || pass->messages > bw_slots(plan, pass->size)))
		return "more messages to check than have a place";
	return NULL;
}
