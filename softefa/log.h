/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines on stderr, by level: the setting log. */
#ifndef SE_LOG_H
#define SE_LOG_H

enum se_log_level { SE_LOG_ERROR = 1, SE_LOG_COMMAND = 2, SE_LOG_ALL = 3 };

/* Keeps errno. */
void se_log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int se_log_enabled(enum se_log_level level);

#define se_log(level, ...) \
	do { \
		if (se_log_enabled(level)) \
			se_log_line(__VA_ARGS__); \
	} while (0)

#endif
