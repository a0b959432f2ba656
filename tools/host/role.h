/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread with a part to play: NCCL calls a plugin from a service thread (connections,
 * registration, tear-down) and a progress thread (the data path), and so do the tools.
 */
#ifndef HOST_ROLE_H
#define HOST_ROLE_H

#include <pthread.h>
#include <stdbool.h>

struct host_role {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* All below under lock. */
	int (*job)(void *arg);
	void *arg;
	int rc;
	bool busy;
	bool quit;
};

/* @name (15 bytes at most) is what debuggers show. 0 or -errno. */
int host_role_start(struct host_role *role, const char *name);

/* Hand over a job; one at a time. The wait returns what the job returned. */
void host_role_post(struct host_role *role, int (*job)(void *arg), void *arg);
int host_role_wait(struct host_role *role);

/* Post and wait. */
int host_role_run(struct host_role *role, int (*job)(void *arg), void *arg);

/* End the thread once it is idle, and join it. */
void host_role_stop(struct host_role *role);

#endif
