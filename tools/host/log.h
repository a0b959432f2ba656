/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tool and the plugin it drives say on stderr. */
#ifndef HOST_LOG_H
#define HOST_LOG_H

#include "nccl_net_abi.h"

/*
 * Name this process in what follows; @rank < 0 while there is none. Reads NCCL_DEBUG and
 * NCCL_DEBUG_SUBSYS. @program is kept.
 */
void host_log_init(const char *program, int rank);

/* One line "program: rank N: text" in one write, so that ranks do not cut into each other. */
void host_err(const char *fmt, ...) NCCL_NET_PRINTF(1, 2);

/*
 * The logger given to plugins. WARN is always shown, the other levels as NCCL_DEBUG asks, in
 * NCCL's format. NCCL's default is to hide WARN as well; a test tool that does so hides the cause
 * of what it reports.
 */
void host_nccl_log(enum nccl_net_log_level level, unsigned long subsys, const char *where, int line,
		   const char *fmt, ...) NCCL_NET_PRINTF(5, 6);

/* "remote error" for NCCL_NET_REMOTE_ERROR and so on; never NULL. */
const char *host_result_str(enum nccl_net_result rc);

#endif
