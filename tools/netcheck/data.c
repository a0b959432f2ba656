/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: requests, sizes, order. */
#include "check.h"

/* C54 */
static void zero_bytes(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_lane_open(ctx, &lane, 4096);
	for (int i = 0; i < 20; i++)
		check_lane_pass(ctx, &lane, i % 3 ? 0 : 100);
	check_lane_close(ctx, &lane);
}

const struct check data_checks[] = {
	{
		.id = "C54",
		.group = "data",
		.title = "messages of zero bytes arrive, in their place, and touch no memory",
		.rule = "src/transport/net.cc: sendProxyProgress sends slices of size 0 as any "
			"other",
		.run = zero_bytes,
		.flags = CHECK_RANKS,
	},
	{0},
};
