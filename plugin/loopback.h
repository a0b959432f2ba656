/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that a NIC makes to itself, of eager messages for memory of a GPU: a fabric may not do
 * that, and nobody can be told when such a copy never ends.
 */
#ifndef NET_LOOPBACK_H
#define NET_LOOPBACK_H

#include "device.h"

/*
 * Do all NICs of @dev, which is open, make them as @mode does? Tried with a few bytes of the host,
 * once for a mode: true also where no GPU is served, for then there are none to make. Device lock
 * held; waits a moment for the first answer, and for one that does not come two seconds.
 */
bool net_loopback_works(struct net_dev *dev, enum proto_mode mode);

#endif
