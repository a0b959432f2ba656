/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tool and the plugin it drives say on stderr. */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/say.h"

/* Set by host_log_init() before any thread exists, read by all. */
static struct {
	const char *program;
	int rank;
	char host[64];
	enum nccl_net_log_level level;
	unsigned long subsys;
} log_cfg = {.program = "host", .rank = -1, .level = NCCL_NET_LOG_WARN};

static const struct {
	const char *name;
	enum nccl_net_log_level level;
} level_names[] = {
	{"VERSION", NCCL_NET_LOG_VERSION}, {"WARN", NCCL_NET_LOG_WARN},
	{"INFO", NCCL_NET_LOG_INFO},       {"ABORT", NCCL_NET_LOG_ABORT},
	{"TRACE", NCCL_NET_LOG_TRACE},
};

static const struct {
	const char *name;
	unsigned long bits;
} subsys_names[] = {
	{"INIT", NCCL_NET_SUBSYS_INIT},
	{"COLL", NCCL_NET_SUBSYS_COLL},
	{"P2P", NCCL_NET_SUBSYS_P2P},
	{"SHM", NCCL_NET_SUBSYS_SHM},
	{"NET", NCCL_NET_SUBSYS_NET},
	{"GRAPH", NCCL_NET_SUBSYS_GRAPH},
	{"TUNING", NCCL_NET_SUBSYS_TUNING},
	{"ENV", NCCL_NET_SUBSYS_ENV},
	{"ALLOC", NCCL_NET_SUBSYS_ALLOC},
	{"CALL", NCCL_NET_SUBSYS_CALL},
	{"PROXY", NCCL_NET_SUBSYS_PROXY},
	{"NVLS", NCCL_NET_SUBSYS_NVLS},
	{"BOOTSTRAP", NCCL_NET_SUBSYS_BOOTSTRAP},
	{"REG", NCCL_NET_SUBSYS_REG},
	{"PROFILE", NCCL_NET_SUBSYS_PROFILE},
	{"RAS", NCCL_NET_SUBSYS_RAS},
	{"DESTROY", NCCL_NET_SUBSYS_DESTROY},
	{"ALL", NCCL_NET_SUBSYS_ALL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static enum nccl_net_log_level level_parse(const char *text)
{
	for (size_t i = 0; text && i < COUNT(level_names); i++) {
		if (!strcasecmp(text, level_names[i].name))
			return level_names[i].level;
	}
	return NCCL_NET_LOG_WARN;
}

/* "INIT,NET" is a set, "^NET" everything else. */
static unsigned long subsys_parse(const char *text)
{
	bool invert = text && *text == '^';
	unsigned long bits = 0;

	if (!text)
		return NCCL_NET_SUBSYS_INIT | NCCL_NET_SUBSYS_BOOTSTRAP | NCCL_NET_SUBSYS_ENV;
	for (text += invert; *text;) {
		size_t len = strcspn(text, ",");

		for (size_t i = 0; i < COUNT(subsys_names); i++) {
			if (strlen(subsys_names[i].name) == len &&
			    !strncasecmp(text, subsys_names[i].name, len))
				bits |= subsys_names[i].bits;
		}
		text += len + (text[len] == ',');
	}
	return invert ? ~bits : bits;
}

void host_log_init(const char *program, int rank)
{
	say_init(program);
	log_cfg.program = program;
	log_cfg.rank = rank;
	log_cfg.level = level_parse(getenv("NCCL_DEBUG"));
	log_cfg.subsys = subsys_parse(getenv("NCCL_DEBUG_SUBSYS"));
	if (gethostname(log_cfg.host, sizeof(log_cfg.host) - 1))
		strcpy(log_cfg.host, "?");
	log_cfg.host[strcspn(log_cfg.host, ".")] = 0;
}

void host_err(const char *fmt, ...)
{
	char head[64], rank[24] = "";
	va_list args;

	if (log_cfg.rank >= 0)
		snprintf(rank, sizeof(rank), "rank %d: ", log_cfg.rank);
	snprintf(head, sizeof(head), "%s: %s", log_cfg.program, rank);
	va_start(args, fmt);
	say_line(head, fmt, args);
	va_end(args);
}

void host_nccl_log(enum nccl_net_log_level level, unsigned long subsys, const char *where, int line,
		   const char *fmt, ...)
{
	char head[512], from[256] = "";
	va_list args;

	/* NCCL filters WARN and VERSION by level only. */
	if (level > log_cfg.level || level == NCCL_NET_LOG_NONE)
		return;
	if (level > NCCL_NET_LOG_WARN && !(subsys & log_cfg.subsys))
		return;
	if (level == NCCL_NET_LOG_WARN || level == NCCL_NET_LOG_TRACE)
		snprintf(from, sizeof(from), "%s:%d ", where ? where : "?", line);
	snprintf(head, sizeof(head), "%s:%d:%ld [%d] %sNCCL %s ", log_cfg.host, (int)getpid(),
		 (long)syscall(SYS_gettid), log_cfg.rank, from,
		 level == NCCL_NET_LOG_WARN    ? "WARN"
		 : level == NCCL_NET_LOG_TRACE ? "TRACE"
					       : "INFO");
	va_start(args, fmt);
	say_line(head, fmt, args);
	va_end(args);
}

const char *host_result_str(enum nccl_net_result rc)
{
	static const char *const text[] = {
		[NCCL_NET_OK] = "success",
		[NCCL_NET_UNHANDLED_CUDA] = "unhandled CUDA error",
		[NCCL_NET_SYSTEM_ERROR] = "system error",
		[NCCL_NET_INTERNAL_ERROR] = "internal error",
		[NCCL_NET_INVALID_ARGUMENT] = "invalid argument",
		[NCCL_NET_INVALID_USAGE] = "invalid usage",
		[NCCL_NET_REMOTE_ERROR] = "remote error",
		[NCCL_NET_IN_PROGRESS] = "in progress",
	};

	return (size_t)rc < COUNT(text) ? text[rc] : "no such result code";
}
