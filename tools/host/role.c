/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service and progress threads. No wait here has a time limit of its own: jobs beat
 * (host_beat()), and the supervisor of the run ends a rank that stops beating.
 */
#include "role.h"

#include <string.h>

static void *role_main(void *arg)
{
	struct host_role *role = arg;
	int rc;

	pthread_mutex_lock(&role->lock);
	for (;;) {
		while (!role->busy && !role->quit)
			pthread_cond_wait(&role->changed, &role->lock);
		if (!role->busy)
			break;
		pthread_mutex_unlock(&role->lock);
		rc = role->job(role->arg);
		pthread_mutex_lock(&role->lock);
		role->rc = rc;
		role->busy = false;
		pthread_cond_broadcast(&role->changed);
	}
	pthread_mutex_unlock(&role->lock);
	return NULL;
}

int host_role_start(struct host_role *role, const char *name)
{
	int rc;

	memset(role, 0, sizeof(*role));
	pthread_mutex_init(&role->lock, NULL);
	pthread_cond_init(&role->changed, NULL);
	rc = pthread_create(&role->thread, NULL, role_main, role);
	if (rc)
		return -rc;
	pthread_setname_np(role->thread, name);
	return 0;
}

void host_role_post(struct host_role *role, int (*job)(void *arg), void *arg)
{
	pthread_mutex_lock(&role->lock);
	role->job = job;
	role->arg = arg;
	role->busy = true;
	pthread_cond_broadcast(&role->changed);
	pthread_mutex_unlock(&role->lock);
}

int host_role_wait(struct host_role *role)
{
	int rc;

	pthread_mutex_lock(&role->lock);
	while (role->busy)
		pthread_cond_wait(&role->changed, &role->lock);
	rc = role->rc;
	pthread_mutex_unlock(&role->lock);
	return rc;
}

int host_role_run(struct host_role *role, int (*job)(void *arg), void *arg)
{
	host_role_post(role, job, arg);
	return host_role_wait(role);
}

void host_role_stop(struct host_role *role)
{
	pthread_mutex_lock(&role->lock);
	role->quit = true;
	pthread_cond_broadcast(&role->changed);
	pthread_mutex_unlock(&role->lock);
	pthread_join(role->thread, NULL);
	pthread_cond_destroy(&role->changed);
	pthread_mutex_destroy(&role->lock);
}
