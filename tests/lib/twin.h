/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second process for a test, and a socket to it. Fork it before the plugin is loaded: then each
 * has its own. In it, check with need(); a failed check ends it, which fails the test at
 * twin_end(), or when the test waits for word from it.
 */
#ifndef TESTS_TWIN_H
#define TESTS_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct twin {
	pid_t pid; /* 0 in the twin itself */
	int fd;
};

/* @body runs in the new process, then it exits. */
void twin_start(struct twin *t, void (*body)(struct twin *t, void *arg), void *arg);
/* Wait until it has ended; fails the test unless that was well. */
void twin_end(struct twin *t);
/* Let it do nothing more, its adapter included. */
void twin_stop(struct twin *t);
/* End it with SIGKILL. */
void twin_kill(struct twin *t);

/* Both sides. Waits for the other, but not for ever. */
void twin_put(struct twin *t, const void *data, size_t size);
void twin_get(struct twin *t, void *data, size_t size);
/* Is there something to get? */
bool twin_speaks(struct twin *t);
/* Both have come here. */
void twin_meet(struct twin *t);

#endif
