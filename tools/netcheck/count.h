/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has and should not have more of. */
#ifndef NETCHECK_COUNT_H
#define NETCHECK_COUNT_H

#include <stddef.h>

struct count {
	int fds, threads;
	size_t resident; /* bytes */
};

void count_take(struct count *c);

#endif
