/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of the plugin: NCCL_EFA_*, one table. */
#ifndef NET_PARAM_H
#define NET_PARAM_H

#include <stdint.h>

/* How writes to memory of a GPU become visible to it. */
enum net_flush_mode { NET_FLUSH_AUTO, NET_FLUSH_READ, NET_FLUSH_CUDA, NET_FLUSH_OFF };

/* Does the NIC place aligned 128 bytes in order? */
enum net_in_order { NET_IN_ORDER_AUTO, NET_IN_ORDER_YES, NET_IN_ORDER_NO };

struct net_param {
	int64_t connect_timeout_s; /* 0: none */
	int64_t eager_max;         /* bytes; 0 or less: off */
	int64_t failover;          /* 0 or 1 */
	int64_t min_stripe;        /* bytes */
	int64_t protocol;          /* enum proto_mode; 0: the best */
	int64_t rails;             /* 0: by topology */
	int64_t dmabuf, mr_cache;  /* 0 or 1 */
	int64_t flush;             /* enum net_flush_mode */
	int64_t in_order;          /* enum net_in_order */
	int64_t set_nccl_env;      /* 0 or 1 */
	int64_t stall_warn_s;      /* 0: never */
	int64_t abort_on_error;    /* 0 or 1 */
	char stats[256];           /* file name, or empty */
};

/* Read once, by the first caller. */
const struct net_param *net_param(void);

#endif
