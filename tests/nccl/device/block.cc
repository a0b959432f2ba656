/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that wait, and that fail. */
#include "block.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum {
	TURNS_AWAKE = 16,
	NAP_NS = 20000,
	NAP_DOUBLINGS = 4,
};

struct ncclKernelCommAndChannels *block_home(const struct ncclDevKernelArgs *args)
{
	return (struct ncclKernelCommAndChannels *)args->comm;
}

bool patience::more()
{
	if (block_aborted(block))
		return false;
	if (turns++ < TURNS_AWAKE) {
		sched_yield();
		return true;
	}
	struct timespec nap = {0, NAP_NS << std::min(turns / TURNS_AWAKE, (unsigned)NAP_DOUBLINGS)};

	nanosleep(&nap, NULL);
	return true;
}

static std::mutex writing;
static std::atomic<bool> failed;
static char text[256];

bool fail(const char *fmt, ...)
{
	std::lock_guard<std::mutex> hold(writing);
	va_list ap;

	if (failed)
		return false;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	failed = true;
	return false;
}

const char *failure(void)
{
	return failed ? text : NULL;
}
