/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that may fault. */
#include "guard.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * How old a look at the handlers may be. A scheduler tick: a round that is preempted after its look
 * trusts it for as long.
 */
#define LOOK_US 1000

static const int faults[] = {SIGSEGV, SIGBUS};

#define NFAULTS (sizeof(faults) / sizeof(faults[0]))

/* initial-exec: the handler must not allocate, and the library is loaded with the program. */
static _Thread_local sigjmp_buf *landing __attribute__((tls_model("initial-exec")));
static _Thread_local bool device_thread __attribute__((tls_model("initial-exec")));

/* Of the device thread: what it found when it looked last, in which round. */
static bool looked, up;
static uint64_t round_us, looked_us;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const struct sigaction def = {.sa_handler = SIG_DFL};

	(void)context;
	if (landing && info->si_code > 0)
		siglongjmp(*landing, 1);
	/* As if we were not there: the instruction faults once more, what was sent is sent again.
	 */
	sigaction(sig, &def, NULL);
	if (info->si_code <= 0)
		raise(sig);
}

static bool is_default(const struct sigaction *sa)
{
	return !(sa->sa_flags & SA_SIGINFO) && sa->sa_handler == SIG_DFL;
}

static bool is_ours(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == on_fault;
}

void se_guard_install(void)
{
	/* NODEFER: siglongjmp() leaves the mask as it is in the handler. */
	const struct sigaction ours = {.sa_sigaction = on_fault,
				       .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sigaction was;

	for (unsigned i = 0; i < NFAULTS; i++)
		if (sigaction(faults[i], NULL, &was) == 0 && is_default(&was))
			sigaction(faults[i], &ours, NULL);
}

void se_guard_enter(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < NFAULTS; i++)
		sigaddset(&set, faults[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	device_thread = true;
	looked = false;
}

void se_guard_round(uint64_t now_us)
{
	round_us = now_us;
	if (now_us - looked_us >= LOOK_US)
		looked = false;
}

static bool look(void)
{
	struct sigaction now;

	for (unsigned i = 0; i < NFAULTS; i++)
		if (sigaction(faults[i], NULL, &now) || !is_ours(&now))
			return false;
	return true;
}

bool se_guard_up(void)
{
	if (!device_thread)
		return false;
	if (!looked) {
		up = look();
		looked = true;
		looked_us = round_us;
	}
	return up;
}

/* Not inlined: what it changes need not survive siglongjmp(). */
static __attribute__((noinline)) void copy(const struct iovec *dst, unsigned ndst,
					   const struct iovec *src, unsigned nsrc)
{
	size_t at = 0; /* in *src */

	for (unsigned i = 0; i < ndst; i++) {
		uint8_t *to = dst[i].iov_base;
		size_t left = dst[i].iov_len;

		while (left && nsrc) {
			size_t n = src->iov_len - at < left ? src->iov_len - at : left;

			memmove(to, (const uint8_t *)src->iov_base + at, n);
			to += n;
			left -= n;
			at += n;
			if (at == src->iov_len) {
				src++;
				nsrc--;
				at = 0;
			}
		}
		/* This span before the next: pairs with the application, which polls memory. */
		atomic_thread_fence(memory_order_release);
	}
}

int se_guard_copy(const struct iovec *dst, unsigned ndst, const struct iovec *src, unsigned nsrc)
{
	sigjmp_buf here;

	if (sigsetjmp(here, 0)) {
		landing = NULL;
		return -EFAULT;
	}
	landing = &here;
	atomic_signal_fence(memory_order_seq_cst);
	copy(dst, ndst, src, nsrc);
	atomic_signal_fence(memory_order_seq_cst);
	landing = NULL;
	return 0;
}
