/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: level from SRD_LOG, lines to stderr or to the caller's function. */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "settings.h"

enum { LINE_BYTES = 512 };

/* Held while the sink runs, so that it is out of use once srd_log_to() has replaced it. */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static srd_log_fn sink;
static void *sink_arg;

void srd_log_to(srd_log_fn fn, void *arg)
{
	pthread_mutex_lock(&sink_lock);
	sink = fn;
	sink_arg = arg;
	pthread_mutex_unlock(&sink_lock);
}

static void emit(enum srd_log_level level, const char *line)
{
	static const char *const names[] = {"ERROR", "WARN", "INFO"};

	pthread_mutex_lock(&sink_lock);
	if (sink)
		sink(sink_arg, level, line);
	else
		fprintf(stderr, "srd %s %s\n", names[level], line);
	pthread_mutex_unlock(&sink_lock);
}

static void vlog(enum srd_log_level level, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void vlog(enum srd_log_level level, const char *fmt, va_list ap)
{
	int saved = errno;
	char line[LINE_BYTES];

	vsnprintf(line, sizeof(line), fmt, ap);
	emit(level, line);
	errno = saved;
}

static bool wanted(enum srd_log_level level)
{
	return (int64_t)level <= srd_settings()->log;
}

void srd_log(enum srd_log_level level, const char *fmt, ...)
{
	va_list ap;

	if (!wanted(level))
		return;
	va_start(ap, fmt);
	vlog(level, fmt, ap);
	va_end(ap);
}

void srd_log_always(enum srd_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vlog(level, fmt, ap);
	va_end(ap);
}

int srd_failed(const struct ibv_context *ctx, const char *call, int err, const char *fmt, ...)
{
	char detail[LINE_BYTES / 2], reason[64];
	va_list ap;

	if (err == 0)
		err = EIO;
	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	srd_err("%s: %s: %s (%d)%s", ctx->device->name, call,
		strerror_r(err, reason, sizeof(reason)), err, detail);
	return -err;
}
