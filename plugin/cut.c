/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for a message, where some rail has none. */
#include "cut.h"

bool net_cut_has_room_now(const struct net_comm *c, const struct net_cut *cut)
{
	int rail = cut->rail;

	for (uint32_t i = 0; i < cut->left; i++, rail = net_next_rail(c, rail))
		if (!c->engine->rail[rail].data_free)
			return false;
	return true;
}
