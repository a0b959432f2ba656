/* SPDX-License-Identifier: BSD-3-Clause */
/* The device thread. */
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "cq.h"
#include "fabric.h"
#include "fault.h"
#include "idle.h"
#include "link.h"
#include "log.h"
#include "mr.h"
#include "requester.h"
#include "responder.h"
#include "scratch.h"
#include "settings.h"
#include "tcp.h"

#define RECEIVE_BUDGET 64 /* messages per ring and round */
#define TIMER_US       20000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint commands; /* that want the lock: the thread lets them in */
static pthread_t thread;
static bool running; /* lock held */
static atomic_bool stop;
static atomic_bool ready; /* the thread holds its mutex in the fabric */

/* ---- lock ---- */

/* What a thread of the application gets back when its command is done. */
static _Thread_local struct {
	sigset_t mask;
	int cancel;
} caller;

/*
 * A signal handler may leave by exit(), which needs the lock, and a cancelled thread would take it
 * along: both wait until the command is done. Not the signals of faults, which cannot wait.
 */
static void hold_signals(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t set, was;

	sigfillset(&set);
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&set, faults[i]);
	pthread_sigmask(SIG_BLOCK, &set, &was);
	caller.mask = was;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &caller.cancel);
}

static void release_signals(void)
{
	sigset_t mask = caller.mask;
	int cancel = caller.cancel;

	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_setcancelstate(cancel, NULL);
}

void se_engine_lock(void)
{
	hold_signals();
	atomic_fetch_add(&commands, 1);
	pthread_mutex_lock(&lock);
	atomic_fetch_sub(&commands, 1);
}

void se_engine_unlock(void)
{
	pthread_mutex_unlock(&lock);
	release_signals();
}

/* A mutex is not fair: without this the thread would take it again before a waiter runs. */
static void lock_for_round(void)
{
	while (atomic_load_explicit(&commands, memory_order_relaxed))
		sched_yield();
	pthread_mutex_lock(&lock);
}

uint64_t se_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* ---- rounds ---- */

static bool deliver(const struct se_msg *msg, int slot)
{
	switch (msg->type) {
	case SE_MSG_REQUEST:
		if (msg->flags & SE_MSG_INLINE && msg->len > SE_MSG_DATA) {
			se_log(SE_LOG_ERROR, "%u inline bytes from slot %d", msg->len, slot);
			return true;
		}
		return se_responder_request(msg, msg->flags & SE_MSG_INLINE ? msg->data : NULL,
					    slot);
	case SE_MSG_RESPONSE:
		se_requester_answer(msg, slot);
		return true;
	default:
		se_log(SE_LOG_ERROR, "message of type %u from slot %d", msg->type, slot);
		return true;
	}
}

/* One look at everything; returns how much there was to do. Lock held. */
static unsigned work(uint64_t now_us)
{
	static uint64_t next_timer;
	unsigned did;

	se_fault_round(now_us);
	did = se_link_receive(RECEIVE_BUDGET, deliver);
	did += se_tcp_poll();
	did += se_requester_poll();
	did += se_responder_poll(now_us);
	did += se_cq_poll_doorbells(now_us);
	if (now_us >= next_timer) {
		se_requester_timers(now_us);
		se_responder_timers(now_us);
		se_conn_timers(now_us);
		se_cq_timers();
		se_link_timers();
		se_control_check();
		se_fault_timers(now_us);
		next_timer = now_us + TIMER_US;
	}
	se_link_flush();
	return did;
}

static void loop(void)
{
	struct se_mail *mail = se_fabric_mail(se_fabric_self());
	struct se_idle idle = {0};

	lock_for_round();
	for (;;) {
		uint32_t seen = atomic_load(&mail->wake); /* before stop and all else */
		uint64_t now_us = se_now_us();
		bool did = work(now_us) != 0;
		bool poll = !se_list_empty(&se_qps) || se_responder_busy() || se_settings()->port;

		pthread_mutex_unlock(&lock);
		if (atomic_load(&stop))
			return;
		if (did)
			idle.last_work_us = now_us;
		else
			se_idle_wait(&idle, now_us, mail, seen, poll);
		lock_for_round();
	}
}

/*
 * The thread has little to do and should do it at once. A short slice gets it ahead of threads
 * that spin (Linux 6.12); a better nice value does, too, where it is allowed.
 */
static void set_priority(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .runtime = 100000};
	id_t tid = (id_t)syscall(SYS_gettid);

	if (setpriority(PRIO_PROCESS, tid, -10) == 0)
		attr.nice = -10;
	syscall(SYS_sched_setattr, tid, &attr, 0);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

static void *thread_main(void *arg)
{
	pthread_mutex_t *held;

	(void)arg;
	prctl(PR_SET_NAME, "softefa", 0, 0, 0);
	set_priority();
	held = se_fabric_hold();
	atomic_store(&ready, true);
	loop();
	/* While the mutex is held nobody takes the slot for one whose owner died. */
	se_engine_lock();
	se_tcp_stop();
	se_link_close();
	se_fabric_leave();
	se_engine_unlock();
	pthread_mutex_unlock(held);
	return NULL;
}

/* ---- start, stop ---- */

static int thread_start(void)
{
	sigset_t all, before;
	int rc;

	atomic_store(&stop, false);
	atomic_store(&ready, false);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, thread_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return -rc;
	while (!atomic_load(&ready))
		sched_yield();
	running = true;
	return 0;
}

static int start(void)
{
	int rc = se_tcp_start();

	if (rc)
		return rc;
	rc = thread_start();
	if (rc)
		se_tcp_stop();
	return rc;
}

int se_engine_start(void)
{
	return running ? 0 : se_fabric_join(start);
}

void se_engine_kick(void)
{
	if (running)
		se_mail_kick(se_fabric_mail(se_fabric_self()));
}

void se_engine_stop(void)
{
	bool was;

	se_engine_lock();
	was = running;
	running = false;
	atomic_store(&stop, true);
	if (was)
		se_mail_kick(se_fabric_mail(se_fabric_self()));
	se_engine_unlock();
	if (was)
		pthread_join(thread, NULL);
}

void se_engine_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&commands, 0);
	running = false;
	se_control_forget();
	se_requester_forget_all();
	se_responder_forget_all();
	se_qp_forget_all();
	se_cq_forget_all();
	se_mr_forget_all();
	se_tcp_forget();
	se_scratch_forget();
	se_link_close();
	se_fabric_forget();
}
