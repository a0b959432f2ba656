/* SPDX-License-Identifier: BSD-3-Clause */
/* The idle policy. */
#include "idle.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "link.h"
#include "settings.h"

#define CROWDED_US     20 /* a yield that takes longer did not find a free core */
#define BACKOFF_MIN_US 50000
#define BACKOFF_MAX_US 2000000
#define NAP_SHARE      100 /* sleep this part of the time without work, but within these: */
#define NAP_MIN_US     30
/* To wake from rest takes a virtual machine 20 ... 70 us: at 50 a second, some 0.3 % of a core. */
#define NAP_MAX_US     20000
/* Without queue pairs all comes by mail; but a sender may be killed half-way into its wake-up. */
#define MAIL_S         2

/* Say that we sleep, look once more, sleep: pairs with se_mail_wake(). */
static void nap(struct se_mail *mail, uint32_t seen, const struct timespec *timeout)
{
	atomic_store(&mail->sleeping, 1);
	if (!se_link_mail())
		syscall(SYS_futex, &mail->wake, FUTEX_WAIT, seen, timeout, NULL, 0);
	atomic_store(&mail->sleeping, 0);
}

static void nap_while_idle(struct se_mail *mail, uint32_t seen, uint64_t idle_us)
{
	uint64_t us = idle_us / NAP_SHARE;
	struct timespec ts = {0};

	us = us < NAP_MIN_US ? NAP_MIN_US : us > NAP_MAX_US ? NAP_MAX_US : us;
	ts.tv_nsec = (long)us * 1000;
	nap(mail, seen, &ts);
}

static void yield(struct se_idle *idle, uint64_t now_us)
{
	uint64_t took;

	sched_yield();
	took = se_now_us() - now_us;
	if (took < CROWDED_US) {
		idle->backoff_us = 0;
		return;
	}
	idle->crowded = true;
	idle->backoff_us = idle->backoff_us ? 2 * idle->backoff_us : BACKOFF_MIN_US;
	if (idle->backoff_us > BACKOFF_MAX_US)
		idle->backoff_us = BACKOFF_MAX_US;
	idle->retry_us = now_us + took + idle->backoff_us;
}

void se_idle_wait(struct se_idle *idle, uint64_t now_us, struct se_mail *mail, uint32_t seen,
		  bool poll)
{
	uint64_t since = now_us - idle->last_work_us;

	if (!poll) {
		nap(mail, seen, &(struct timespec){.tv_sec = MAIL_S});
		return;
	}
	if (idle->crowded && now_us >= idle->retry_us)
		idle->crowded = false;
	if (since < se_settings()->spin_us && !idle->crowded)
		yield(idle, now_us);
	else
		nap_while_idle(mail, seen, since);
}
