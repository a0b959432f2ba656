/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of several processes: the test forks, parent and children meet in shared memory, and what
 * fails in a child fails the test.
 */
#ifndef TESTS_KIDS_H
#define TESTS_KIDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "need.h"

enum { KIDS_WAIT_MS = 20000 }; /* for anything; far more than any of it takes */

#define MUST(cond, ...) need(cond, __VA_ARGS__)
/* The call returns 0, or else -errno. */
#define MUST_0(call)    kids_zero(__FILE__, __LINE__, #call, (call))

void kids_zero(const char *file, int line, const char *what, int rc);

/* Zeroed memory that children share. */
void *kids_share(size_t len);
/* Wait until *step >= n. */
void kids_await(atomic_uint *step, unsigned n);
/* True when *step >= n within @ms. */
bool kids_reached(atomic_uint *step, unsigned n, unsigned ms);
void kids_nap_us(long us);
int64_t kids_now_us(void);

/* A child that runs fn(arg) and exits with 0. */
pid_t kids_start(void (*fn)(void *arg), void *arg);
/* It ended, and well. */
void kids_join(pid_t pid);
void kids_join_within(pid_t pid, unsigned ms);
/* It was killed with SIGKILL by us. */
void kids_kill(pid_t pid);

#endif
