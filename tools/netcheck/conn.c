/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections. */
#include "check.h"

/* C28: the receive comm must not depend on the listen comm, which check_connect() closes at once.
 */
static void close_listen_at_once(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_lane_open(ctx, &lane, 100000);
	for (int i = 0; i < 10; i++)
		check_lane_pass(ctx, &lane, 10000 * (size_t)i);
	check_lane_close(ctx, &lane);
}

const struct check conn_checks[] = {
	{
		.id = "C28",
		.group = "conn",
		.title = "a connection works after closeListen, which comes right after accept",
		.rule = "src/transport/net.cc: recvProxyConnect closes the listen comm as soon as "
			"accept gave a comm",
		.run = close_listen_at_once,
		.flags = CHECK_RANKS,
	},
	{0},
};
