/* SPDX-License-Identifier: BSD-3-Clause */
/* The bridge to NCCL's logger. */
#include "log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "srd.h"

static _Atomic(nccl_net_log_fn) logger;
static atomic_int probing;
static char reason[256]; /* written while probing: one thread at a time */

static __thread struct {
	char *buf; /* NULL: nothing is captured */
	size_t size;
} capture;

nccl_net_log_fn net_log_fn(void)
{
	return atomic_load_explicit(&logger, memory_order_relaxed);
}

void net_log_capture(char *buf, size_t size)
{
	capture.buf = buf;
	capture.size = size;
	if (buf)
		buf[0] = '\0';
}

static void captured(const char *line)
{
	size_t len = strlen(capture.buf);

	snprintf(capture.buf + len, capture.size - len, "%s%s", len ? "; " : "", line);
}

static void from_srd(void *arg, enum srd_log_level level, const char *line)
{
	(void)arg;
	if (capture.buf)
		captured(line);
	else if (atomic_load(&probing) && level == SRD_LOG_ERROR)
		snprintf(reason, sizeof(reason), "%s", line);
	else if (atomic_load(&probing) || level > SRD_LOG_WARN)
		net_info("NET/EFA: %s", line);
	else
		net_warn("NET/EFA: %s", line);
}

void net_log_to(nccl_net_log_fn fn)
{
	atomic_store(&logger, fn);
	srd_log_to(from_srd, NULL);
}

void net_log_probing(int yes)
{
	if (yes)
		reason[0] = '\0';
	atomic_store(&probing, yes);
}

const char *net_log_reason(void)
{
	return reason;
}
