/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines to NCCL's logger. WARN is for what a user must act on, once: NCCL keeps it as the text of
 * its last error. Never from the data path of a healthy comm: the logger locks and formats.
 */
#ifndef NET_LOG_H
#define NET_LOG_H

#include <stddef.h>

#include "nccl_net_abi.h"

/* Each init brings a logger; the newest is used, NULL silences. libsrd's lines go the same way. */
void net_log_to(nccl_net_log_fn fn);
nccl_net_log_fn net_log_fn(void);

/*
 * While devices are looked for, what libsrd calls an error is only the reason why there are none:
 * between these two calls it is kept for net_log_reason(), and its other lines are INFO.
 */
void net_log_probing(int yes);
const char *net_log_reason(void);

/*
 * Lines that libsrd writes in this thread go to @buf, joined by "; ", and no further, until this is
 * called with NULL: what fails need not matter when there is another way.
 */
void net_log_capture(char *buf, size_t size);

#define net_log(level, subsys, where, ...) \
	do { \
		nccl_net_log_fn net_log_fn_ = net_log_fn(); \
\
		if (net_log_fn_) \
			net_log_fn_(level, subsys, where, __LINE__, __VA_ARGS__); \
	} while (0)

#define net_warn(...) net_log(NCCL_NET_LOG_WARN, NCCL_NET_SUBSYS_ALL, __FILE__, __VA_ARGS__)
#define net_info(...) \
	net_log(NCCL_NET_LOG_INFO, NCCL_NET_SUBSYS_INIT | NCCL_NET_SUBSYS_NET, __func__, \
		__VA_ARGS__)

#endif
