/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes that several files must agree on. */
#ifndef NET_LIMITS_H
#define NET_LIMITS_H

enum {
	NET_MAX_RAILS = 8,      /* EFA functions of one NCCL device; 3 bits of an immediate */
	NET_MAX_RECVS = 8,      /* buffers of one irecv */
	NET_MAX_REQS = 64,      /* requests of one comm: twice what NCCL may have outstanding */
	NET_MAX_FLUSHES = 32,   /* flushes of one comm */
	NET_RING_ENTRIES = 256, /* buffers of these: 32 receives of 8 */
	NET_RING_MAX = 512,     /* what a peer may have: 9 bits of an immediate */
	NET_EAGER_MOST = 32,    /* eager messages of one comm that may wait for their receives */
	/* messages of one comm, where the peer does not write: see message.h */
	NET_LINES_UNSEEN = 68,
	NET_SENDS_UNREAD = 32, /* as many as NCCL has outstanding */
	NET_FINS_UNSEEN = 40,
	NET_GRANTS_UNSEEN = 10,
	NET_ASKS = 8,
	NET_EARLY_MOST = NET_EAGER_MOST + NET_SENDS_UNREAD, /* what is for no receive yet */
	NET_MAX_COMMS = 1 << 17, /* receive comms of one engine: 17 bits of an immediate */
};

#endif
