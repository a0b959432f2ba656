/* SPDX-License-Identifier: BSD-3-Clause */
/* The time, to measure spans with. */
#ifndef NET_CLOCK_H
#define NET_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t net_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#endif
