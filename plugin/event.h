/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device says of itself, whether or not requests fail: that it is broken, or its port is
 * down. To hear it takes a system call, so it is asked only while something stands still.
 */
#ifndef NET_EVENT_H
#define NET_EVENT_H

#include "engine.h"

/* Rails of devices that are out are taken out of all comms of @e, or else the comms fail. Entered.
 */
void net_event_look(struct net_engine *e);
/* The same, not entered. */
void net_event_tell(struct net_engine *e);
/* A bit per rail of @dev, which is open, that is broken. */
uint8_t net_event_broken(struct net_dev *dev);

#endif
