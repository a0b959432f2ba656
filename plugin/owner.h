/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutual exclusion for something that one thread uses all the time and others hardly ever: no
 * atomic read-modify-write and no fence for the owner.
 *
 * The owner writes the thing's address into its own record and then looks whether it is still the
 * owner. Another thread takes ownership away, makes every thread pass a full barrier (membarrier),
 * and waits until the former owner's record no longer names the thing: either the owner saw that
 * it is none any more, or the newcomer sees its record. Records are never freed, so a thread that
 * ended is no danger. Where membarrier is missing, and under the thread sanitizer, which does not
 * know it, a mutex is held instead.
 *
 * Not recursive.
 */
#ifndef NET_OWNER_H
#define NET_OWNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A thread's record. */
struct net_thread {
	_Atomic(const void *) in; /* what it is working on; written by its thread only */
	struct net_thread *next;  /* free list */
};

struct net_owner {
	_Atomic(struct net_thread *) owner; /* written under the mutex */
	bool locked;                        /* this section holds the mutex: the fallback */
	pthread_mutex_t mutex;
};

extern __thread struct net_thread *net_self __attribute__((tls_model("initial-exec")));

void net_owner_init(struct net_owner *o);
void net_owner_fini(struct net_owner *o);
/* Enter, whoever is the owner. */
void net_owner_take(struct net_owner *o);

/* Enter as the owner; false: another thread is, or nobody. */
static inline bool net_owner_try(struct net_owner *o)
{
	struct net_thread *me = net_self;

	atomic_store_explicit(&me->in, o, memory_order_relaxed);
	/* Compiler barrier; the processor's is in net_owner_take() of the other thread. */
	atomic_signal_fence(memory_order_seq_cst);
	return __builtin_expect(atomic_load_explicit(&o->owner, memory_order_acquire) == me, 1);
}

/* Leave after a net_owner_try() that succeeded. */
static inline void net_owner_leave_own(void)
{
	/* release: what was done here is seen by the next owner */
	atomic_store_explicit(&net_self->in, NULL, memory_order_release);
}

static inline void net_owner_enter(struct net_owner *o)
{
	if (!net_owner_try(o))
		net_owner_take(o);
}

static inline void net_owner_leave(struct net_owner *o)
{
	if (__builtin_expect(o->locked, 0)) {
		o->locked = false;
		pthread_mutex_unlock(&o->mutex);
	}
	net_owner_leave_own();
}

#endif
