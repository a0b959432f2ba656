/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events for NCCL's profiler: one for each message, from the isend or irecv that starts it to the
 * test that says done, or to the end of the comm. They are what NCCL's IB transport tells of its
 * work requests (nccl_net_abi.h): profilers know no others.
 */
#ifndef NET_PROFILE_H
#define NET_PROFILE_H

#include "comm.h"
#include "nccl_net_abi.h"

/*
 * @req has started with @n messages of @sizes; @phandles are NCCL's, one each, and may be NULL. Not
 * entered, as all of these: a comm's requests are its caller's.
 */
void net_profile_start(struct net_req *req, int n, void *const *phandles, const size_t *sizes);
/* @req is done. */
void net_profile_stop(const struct net_req *req);
/* @c is closed: whatever runs is over. NCCL closes before it ends its profiler. */
void net_profile_end(struct net_comm *c);

#endif
