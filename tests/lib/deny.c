/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters of seccomp: each is one more, none takes another back. */
#include "deny.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "need.h"

#define LOAD(field)           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_IF(value, n)     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (n), 0)
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, (n))
#define ANSWER(what)          BPF_STMT(BPF_RET | BPF_K, (uint32_t)(what))

static void install(struct sock_filter *code, unsigned short n)
{
	const struct sock_fprog prog = {n, code};

	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "errno %d", errno);
	need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) == 0,
	     "errno %d", errno);
}

void deny_call(long nr, int error)
{
	struct sock_filter code[] = {
		LOAD(nr),
		SKIP_UNLESS(nr, 1),
		ANSWER(SECCOMP_RET_ERRNO | error),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	install(code, sizeof(code) / sizeof(code[0]));
}

void deny_call_to_others(long nr, int error)
{
	struct sock_filter code[] = {
		LOAD(nr),
		SKIP_UNLESS(nr, 3),
		LOAD(args[0]),
		SKIP_IF(getpid(), 1),
		ANSWER(SECCOMP_RET_ERRNO | error),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	install(code, sizeof(code) / sizeof(code[0]));
}
