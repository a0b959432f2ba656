/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device thread does when there is nothing to do. The application rings doorbells by plain
 * stores: no store can wake a sleeper, only time and other processes can.
 *
 * While cores are free it spins, with sched_yield(). How long a yield takes tells whether they are:
 * behind threads that spin without yielding it takes a scheduler tick, and then short sleeps are
 * far better (they keep the thread's share small, so that it runs at once when a sleep ends; with
 * sleeps well below 20 us it loses that and waits for the tick again). The longer it had no work,
 * the longer it sleeps: by a hundredth of that time, so that what it costs to wake late stays a
 * hundredth.
 */
#ifndef SE_IDLE_H
#define SE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric.h"

struct se_idle {
	uint64_t last_work_us;
	bool crowded;      /* a yield took long */
	uint64_t retry_us; /* when to try yielding again */
	uint32_t backoff_us;
};

/*
 * Wait a little, until mail arrives, or until mail->wake is not @seen any more (its value before
 * the caller last looked around). @poll false: there is nothing to poll for but these.
 */
void se_idle_wait(struct se_idle *idle, uint64_t now_us, struct se_mail *mail, uint32_t seen,
		  bool poll);

#endif
