/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's log. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "settings.h"

int se_log_enabled(enum se_log_level level)
{
	return se_settings()->log >= (unsigned)level;
}

void se_log_line(const char *fmt, ...)
{
	int err = errno, n;
	char line[512];
	va_list ap;

	n = snprintf(line, sizeof(line), "softefa[%d]: ", (int)getpid());
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* nobody to tell */
	}
	errno = err;
}
