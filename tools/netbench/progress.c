/* SPDX-License-Identifier: BSD-3-Clause */
/* A line on stderr about how far a long run is. */
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "host/boot.h"

static void show(struct nb_progress *p)
{
	fprintf(stderr, "%snetbench: %ssize %" PRIu64 " (%d of %d), %.0f s%s", p->tty ? "\r" : "",
		p->stage, p->size, p->at, p->of, (double)(host_now_ns() - p->start_ns) / 1e9,
		p->tty ? "\033[K" : "\n");
	p->shown = true;
}

static void *progress_main(void *arg)
{
	struct nb_progress *p = arg;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_sec++;
	pthread_mutex_lock(&p->lock);
	while (!p->quit) {
		if (pthread_cond_timedwait(&p->changed, &p->lock, &next) != ETIMEDOUT)
			continue;
		if (p->of)
			show(p);
		clock_gettime(CLOCK_MONOTONIC, &next);
		next.tv_sec++;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int nb_progress_start(struct nb_progress *p, const char *stage)
{
	pthread_condattr_t attr;
	int rc;

	p->stage = stage;
	p->tty = isatty(STDERR_FILENO);
	p->start_ns = host_now_ns();
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	rc = pthread_create(&p->thread, NULL, progress_main, p);
	p->running = !rc;
	return -rc;
}

void nb_progress_size(struct nb_progress *p, uint64_t size, int at, int of)
{
	if (!p->running)
		return;
	pthread_mutex_lock(&p->lock);
	p->size = size;
	p->at = at;
	p->of = of;
	pthread_mutex_unlock(&p->lock);
}

void nb_progress_hide(struct nb_progress *p)
{
	if (!p->running)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->shown && p->tty)
		fputs("\r\033[K", stderr);
	p->shown = false;
	pthread_mutex_unlock(&p->lock);
}

void nb_progress_stop(struct nb_progress *p)
{
	if (!p->running)
		return;
	nb_progress_hide(p);
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->running = false;
}
