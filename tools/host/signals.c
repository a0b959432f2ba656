/* SPDX-License-Identifier: BSD-3-Clause */
#include "signals.h"

void host_signals_block(sigset_t *mask, sigset_t *old)
{
	signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would make wait lose the status */
	sigemptyset(mask);
	sigaddset(mask, SIGCHLD);
	sigaddset(mask, SIGINT);
	sigaddset(mask, SIGTERM);
	sigaddset(mask, SIGHUP);
	sigprocmask(SIG_BLOCK, mask, old);
}
