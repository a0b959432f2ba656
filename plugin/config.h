/* SPDX-License-Identifier: BSD-3-Clause */
/* What is in effect, for the log: so that a user sees which of many things is not as it should be.
 */
#ifndef NET_CONFIG_H
#define NET_CONFIG_H

#include "device.h"

/* The libraries in use, and the parameters that the environment sets; at the first init. */
void net_config_say(void);
/* A device that was opened. */
void net_config_say_dev(const struct net_dev *dev);

#endif
