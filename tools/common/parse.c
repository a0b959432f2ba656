/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of a command line. */
#include "parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Digits; *@rest is what follows them. */
static int digits(const char *text, uint64_t *value, char **rest)
{
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*value = strtoull(text, rest, 10);
	return errno ? -ERANGE : 0;
}

int parse_number(const char *text, uint64_t *value)
{
	char *rest;
	int rc = digits(text, value, &rest);

	return rc ? rc : *rest ? -EINVAL : 0;
}

int parse_size(const char *text, uint64_t *value)
{
	static const char units[] = "KMG";
	unsigned shift = 0;
	const char *unit;
	char *rest;
	int rc = digits(text, value, &rest);

	if (rc)
		return rc;
	if (*rest) {
		unit = strchr(units, *rest & ~0x20);
		if (!unit || rest[1])
			return -EINVAL;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (*value > UINT64_MAX >> shift)
		return -ERANGE;
	*value <<= shift;
	return 0;
}
