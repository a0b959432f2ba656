/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a host has no device to offer, said so that a user can do something about it. */
#ifndef NET_ABSENT_H
#define NET_ABSENT_H

/*
 * @found: what srd_dev_list() returned; @unopened: how many of those could not be opened. A warning
 * where there are EFAs nevertheless: NCCL goes on without them, at a fraction of the speed.
 */
void net_absent_say(int found, int unopened);

#endif
