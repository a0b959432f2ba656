/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an srd-bw is told by another: a plan, passes and cards that are taken keep within the limits
 * on which memory depends, and are packed to what they were.
 */
#include "srd-bw/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* Bytes of @data, then zeroes; returns what is left of it. */
static const uint8_t *take(uint8_t *to, size_t n, const uint8_t *data, size_t *left)
{
	size_t have = *left < n ? *left : n;

	memset(to, 0, n);
	memcpy(to, data, have);
	*left -= have;
	return data + have;
}

/* Most numbers at random are refused; make the plan one that is likely to be taken. */
static void tame(uint8_t hello[BW_HELLO_BYTES])
{
	memset(hello, 0, 4);
	hello[3] = 1;
	for (int word = 1; word < 7; word++)
		memset(hello + 4 * word, 0, word == 4 ? 2 : 3);
	memset(hello + 28, 0, 3);
	memset(hello + 36, 0, 3);
}

static void check_plan(const struct bw_plan *plan)
{
	uint64_t lanes = (uint64_t)plan->rails * plan->qps;

	need(bw_op_name(plan->op) && lanes >= 1 && lanes <= BW_LANES);
	need(plan->room <= BW_MAX_MEMORY / lanes);
	need(bw_slots(plan, plan->largest) >= 1);
	need(bw_slots(plan, plan->largest) * bw_stride(plan->largest) <= plan->room);
	need(bw_receive_count(plan) >= 1 && bw_receive_count(plan) <= 2 * BW_MAX_WINDOW);
	if (plan->op == BW_SEND)
		need(bw_receive_count(plan) * bw_stride(plan->largest) <= plan->room);
}

static void check_pass(const struct bw_plan *plan, const struct bw_pass *pass)
{
	uint64_t slots = bw_slots(plan, pass->size);

	need(slots >= 1 && slots <= 2 * BW_MAX_WINDOW);
	need(slots * bw_stride(pass->size) <= plan->room);
	need(!plan->check || (pass->messages && pass->messages <= slots));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t hello[BW_HELLO_BYTES], body[BW_PASS_BYTES], card[BW_CARD_BYTES], again[64];
	struct bw_plan plan;
	struct bw_pass pass;
	struct bw_card known;

	data = take(hello, sizeof(hello), data, &size);
	if (size & 1)
		tame(hello);
	if (bw_hello_unpack(hello, &plan))
		return 0;
	check_plan(&plan);
	while (size) {
		data = take(body, sizeof(body), data, &size);
		if (size & 1)
			memset(body, 0, 5);
		bw_pass_unpack(body, &pass);
		bw_pass_pack(again, &pass);
		need(!memcmp(again, body, sizeof(body)));
		if (!bw_pass_wrong(&pass, &plan))
			check_pass(&plan, &pass);
		data = take(card, sizeof(card), data, &size);
		if (bw_card_unpack(card, &known))
			continue;
		bw_card_pack(again, &known);
		need(!memcmp(again, card, sizeof(card)));
	}
	return 0;
}
