/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines: facts with numbers, errno preserved. */
#ifndef SRD_CORE_LOG_H
#define SRD_CORE_LOG_H

#include <stdbool.h>

#include "srd.h"

#define srd_err(...)  srd_log(SRD_LOG_ERROR, __VA_ARGS__)
#define srd_warn(...) srd_log(SRD_LOG_WARN, __VA_ARGS__)
#define srd_info(...) srd_log(SRD_LOG_INFO, __VA_ARGS__)

void srd_log(enum srd_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As srd_log(), whatever SRD_LOG says: for what is found wrong while SRD_LOG itself is read. */
void srd_log_always(enum srd_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * A foreign call failed: log "DEVICE: CALL: REASON (errno)FMT..." and return -errno. @err is a
 * positive errno; 0, which some verbs leave behind, becomes EIO.
 */
int srd_failed(const struct ibv_context *ctx, const char *call, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
