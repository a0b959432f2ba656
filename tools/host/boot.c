/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' side of the bootstrap: a barrier and an all-gather over one shared mapping. */
#include "boot_shared.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

enum {
	SPINS = 2000,             /* yields before a barrier sleeps: short waits stay in step */
	NAP_NS = 50 * 1000 * 1000 /* longest sleep between two beats */
};

uint64_t host_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool host_over(const struct host_rank *self)
{
	return atomic_load_explicit(&self->boot->over, memory_order_acquire);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
	struct timespec nap = {.tv_nsec = NAP_NS};

	syscall(SYS_futex, word, FUTEX_WAIT, seen, &nap, NULL, 0);
}

void host_boot_wake(struct host_boot *boot)
{
	syscall(SYS_futex, &boot->round, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void host_boot_open(struct host_boot *boot)
{
	/* Reset before anybody can arrive in the next round. */
	atomic_store(&boot->arrived, 0);
	atomic_fetch_add(&boot->round, 1);
	host_boot_wake(boot);
}

/* The barrier, at which the first @bytes of each share become everybody's. */
static int meet(struct host_rank *self, enum host_actor actor, size_t bytes)
{
	struct host_boot *boot = self->boot;
	uint32_t round = atomic_load(&boot->round);

	atomic_store(&boot->bytes, bytes);
	if (atomic_fetch_add(&boot->arrived, 1) + 1 == boot->here) {
		if (boot->bell < 0)
			host_boot_open(boot);
		else
			eventfd_write(boot->bell, 1);
	}
	for (int spins = 0; atomic_load(&boot->round) == round; spins++) {
		if (host_over(self))
			return -ECANCELED;
		host_beat(self, actor);
		if (spins < SPINS)
			sched_yield();
		else
			futex_wait(&boot->round, round);
	}
	return host_over(self) ? -ECANCELED : 0;
}

int host_barrier(struct host_rank *self, enum host_actor actor)
{
	return meet(self, actor, 0);
}

int host_allgather(struct host_rank *self, enum host_actor actor, const void *mine, void *all,
		   size_t bytes)
{
	struct host_boot *boot = self->boot;
	int rc;

	if (bytes > boot->share)
		return -EMSGSIZE;
	memcpy(host_boot_share(boot, self->rank), mine, bytes);
	rc = meet(self, actor, bytes);
	if (rc)
		return rc;
	for (int r = 0; r < self->nranks; r++)
		memcpy((char *)all + (size_t)r * bytes, host_boot_share(boot, r), bytes);
	/* Nobody may overwrite its share before all have read it. */
	return host_barrier(self, actor);
}

/* ---- the mapping ---- */

struct host_boot *host_boot_new(int nranks, size_t share)
{
	size_t rounded = (share + 63) / 64 * 64;
	size_t bytes = sizeof(struct host_boot) + (size_t)nranks * rounded;
	struct host_boot *boot;

	boot = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (boot == MAP_FAILED) {
		host_err("mmap of %zu shared bytes: %s", bytes, strerror(errno));
		return NULL;
	}
	boot->mapped = bytes;
	boot->share = rounded;
	boot->here = (uint32_t)nranks;
	boot->bell = -1;
	for (int r = 0; r < nranks; r++)
		atomic_store(&boot->rank[r].code, -1);
	return boot;
}

void host_boot_free(struct host_boot *boot)
{
	if (boot->bell >= 0)
		close(boot->bell);
	munmap(boot, boot->mapped);
}

struct host_rank host_boot_rank(struct host_boot *boot, int rank, int nranks, int timeout_s)
{
	return (struct host_rank){
		.rank = rank,
		.nranks = nranks,
		.timeout_s = timeout_s,
		.boot = boot,
		.pulse = boot->rank[rank].pulse,
	};
}

void host_boot_off(struct host_boot *boot)
{
	atomic_store_explicit(&boot->over, true, memory_order_release);
	host_boot_wake(boot);
}

void host_boot_calls(struct host_boot *boot, int rank, char *text, size_t size)
{
	static const char *const actor[] = {
		[HOST_MAIN] = "main",
		[HOST_SERVICE] = "service",
		[HOST_PROGRESS] = "progress",
	};
	size_t at = 0;

	snprintf(text, size, "none");
	for (int a = 0; a < HOST_ACTORS && at < size; a++) {
		const char *call = atomic_load(&boot->rank[rank].pulse[a].call);

		if (call)
			at += (size_t)snprintf(text + at, size - at, "%s%s %s", at ? ", " : "",
					       actor[a], call);
	}
}
