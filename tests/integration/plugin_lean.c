/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What isend, irecv and test do without: locks, memory, the kernel. The program's own functions of
 * these names come before the C library's; system calls of the thread are trapped by seccomp.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lib/link.h"
#include "../lib/need.h"

#define SHOWN __attribute__((visibility("default")))

enum { BIG = 1 << 20, WARM = 100, N = 2000 };

/* Of this thread, while it is in a call of the plugin. */
static __thread bool counting;
static __thread int locks, allocations;

/* ---- locks, memory ---- */

#define LOCK(name, type) \
	SHOWN int name(type *lock) \
	{ \
		static int (*next)(type *); \
		locks += counting; \
		if (!next) \
			next = (int (*)(type *))dlsym(RTLD_NEXT, #name); \
		return next(lock); \
	}

LOCK(pthread_mutex_lock, pthread_mutex_t)
LOCK(pthread_mutex_trylock, pthread_mutex_t)
LOCK(pthread_spin_lock, pthread_spinlock_t)
LOCK(pthread_spin_trylock, pthread_spinlock_t)

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

SHOWN void *malloc(size_t size)
{
	allocations += counting;
	return __libc_malloc(size);
}

SHOWN void *calloc(size_t n, size_t size)
{
	allocations += counting;
	return __libc_calloc(n, size);
}

SHOWN void *realloc(void *p, size_t size)
{
	allocations += counting;
	return __libc_realloc(p, size);
}

SHOWN void free(void *p)
{
	allocations += counting;
	__libc_free(p);
}
#endif

/* ---- system calls ---- */

static volatile int calls, call; /* how many, and the newest */

static void trapped(int sig, siginfo_t *info, void *ctx)
{
	(void)sig, (void)ctx;
	calls++;
	call = info->si_syscall;
}

#define ALLOW(nr) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* For the thread that calls: all but what the test itself needs, and the end of a thread. */
static bool trap_calls(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_sched_yield),
		ALLOW(SYS_clock_gettime), /* where the vDSO has no clock */
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_madvise),
		ALLOW(SYS_munmap),
		ALLOW(SYS_exit),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	const struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};
	struct sigaction act = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};

#ifdef __SANITIZE_ADDRESS__
	return false; /* it makes calls of its own */
#endif
	sigaction(SIGSYS, &act, NULL);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* ---- traffic ---- */

struct run {
	struct plug plug;
	struct link l;
	struct mem from, to;
	bool trap, trapped;
	int sends, locks, allocations;
};

/* One message, by calls as NCCL makes them, and nothing else that could be counted. */
static bool move(struct run *r, size_t size)
{
	struct host_net *net = &r->plug.net;
	void *send = NULL, *recv = NULL, *at = r->to.at, *mh = r->to.mh;
	enum nccl_net_result rc = NCCL_NET_OK;
	int tag = 0, sent = 0, received = 0;

	while (!rc && !(sent && received)) {
		counting = true;
		if (!recv)
			rc = net->irecv(net, r->l.recv, 1, &at, &size, &tag, &mh, NULL, &recv);
		if (!rc && !send)
			rc = net->isend(net, r->l.send, r->from.at, size, 0, r->from.mh, NULL,
					&send);
		if (!rc && recv && !received)
			rc = net->test(recv, &received, NULL);
		if (!rc && send && !sent)
			rc = net->test(send, &sent, NULL);
		counting = false;
		sched_yield();
	}
	return rc == NCCL_NET_OK;
}

static void *body(void *arg)
{
	struct run *r = arg;

	link_open(&r->l, &r->plug, 0, 0);
	mem_get(&r->from, &r->plug, r->l.send, BIG, 0);
	mem_get(&r->to, &r->plug, r->l.recv, BIG, 0);
	for (int i = 0; i < WARM; i++)
		need(move(r, i % 2 ? 100 : BIG), "message %d", i);
	locks = allocations = 0;
	r->trapped = r->trap && trap_calls();
	while (r->sends < N && move(r, r->sends % 20 ? 100 : BIG))
		r->sends++;
	r->locks = locks;
	r->allocations = allocations;
	return NULL;
}

static struct way {
	char protocol[8], rails[2];
} ways[] = {{"write", "1"}, {"write", "4"}, {"read", "1"}, {"read", "4"}, {"send", "1"}};

#define WAYS() cr_make_param_array(struct way, ways, sizeof(ways) / sizeof(ways[0]))

static void run(const struct way *w, struct run *r)
{
	pthread_t thread;

	if (!(syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) &
	      MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		cr_skip("no membarrier: threads take turns by a mutex");
	setenv("NCCL_EFA_PROTOCOL", w->protocol, 1);
	setenv("NCCL_EFA_RAILS", w->rails, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "65536", 1);
	plug_open(&r->plug, 0);
	need(!pthread_create(&thread, NULL, body, r), "no thread");
	pthread_join(thread, NULL);
	mem_put(&r->from);
	mem_put(&r->to);
	link_close(&r->l);
	plug_close(&r->plug);
	cr_assert(eq(int, r->sends, N));
}

ParameterizedTestParameters(lean, messages_need_no_lock_and_no_memory)
{
	return WAYS();
}

ParameterizedTest(struct way *w, lean, messages_need_no_lock_and_no_memory, .timeout = 60)
{
	static struct run r;

	run(w, &r);
	cr_assert(eq(int, r.locks, 0));
	cr_assert(eq(int, r.allocations, 0));
}

ParameterizedTestParameters(lean, messages_need_no_system_call)
{
	return WAYS();
}

ParameterizedTest(struct way *w, lean, messages_need_no_system_call, .timeout = 60)
{
	static struct run r = {.trap = true};

	run(w, &r);
	if (!r.trapped)
		cr_skip("system calls cannot be trapped here");
	cr_assert(eq(int, calls, 0), "system call %d", call);
}
