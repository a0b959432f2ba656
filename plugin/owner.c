/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking ownership. */
#include "owner.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#endif

/* A thread that was never here: its record is nobody's, and nobody owns anything. */
static struct net_thread nobody;
__thread struct net_thread *net_self __attribute__((tls_model("initial-exec"))) = &nobody;

static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_thread *free_records;
static pthread_key_t at_thread_end;
static bool have_membarrier;

/* Ownership stays with the record: its next user inherits it, which is as good. */
static void record_put(void *arg)
{
	struct net_thread *t = arg;

	pthread_mutex_lock(&records_lock);
	t->next = free_records;
	free_records = t;
	pthread_mutex_unlock(&records_lock);
	net_self = &nobody;
}

static void setup(void)
{
	pthread_key_create(&at_thread_end, record_put);
#ifndef TSAN
	have_membarrier =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

/* The calling thread's record; NULL when there is no memory for one. */
static struct net_thread *record_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct net_thread *t;

	if (net_self != &nobody)
		return net_self;
	pthread_once(&once, setup);
	pthread_mutex_lock(&records_lock);
	t = free_records;
	if (t)
		free_records = t->next;
	pthread_mutex_unlock(&records_lock);
	if (!t)
		t = calloc(1, sizeof(*t));
	if (t && pthread_setspecific(at_thread_end, t)) {
		record_put(t);
		t = NULL;
	}
	if (t)
		net_self = t;
	return t;
}

void net_owner_init(struct net_owner *o)
{
	atomic_init(&o->owner, NULL);
	o->locked = false;
	pthread_mutex_init(&o->mutex, NULL);
}

void net_owner_fini(struct net_owner *o)
{
	pthread_mutex_destroy(&o->mutex);
}

/* Nobody's from here on, and nobody is inside. Mutex held. */
static void evict_locked(struct net_owner *o)
{
	struct net_thread *old = atomic_load_explicit(&o->owner, memory_order_relaxed);

	atomic_store_explicit(&o->owner, NULL, memory_order_relaxed);
	if (!old)
		return;
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	/* acquire: pairs with net_owner_leave() */
	while (atomic_load_explicit(&old->in, memory_order_acquire) == o)
		sched_yield();
}

void net_owner_take(struct net_owner *o)
{
	struct net_thread *me;

	atomic_store_explicit(&net_self->in, NULL, memory_order_relaxed);
	me = record_get();
	pthread_mutex_lock(&o->mutex);
	if (!me || !have_membarrier) {
		/* The section runs under the mutex; without owner everybody comes here. */
		evict_locked(o);
		o->locked = true;
		return;
	}
	if (atomic_load_explicit(&o->owner, memory_order_relaxed) != me)
		evict_locked(o);
	/* Inside before anyone can look: the mutex is still ours. */
	atomic_store_explicit(&me->in, o, memory_order_relaxed);
	atomic_store_explicit(&o->owner, me, memory_order_release);
	pthread_mutex_unlock(&o->mutex);
}
