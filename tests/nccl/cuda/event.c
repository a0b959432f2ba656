/* SPDX-License-Identifier: BSD-3-Clause */
/* Points in the work of streams. */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct event {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t recorded, done; /* how often */
	double ms;               /* when it was last done */
	unsigned refs;           /* of the application and of tasks */
};

static void put(struct event *e)
{
	bool last;

	pthread_mutex_lock(&e->lock);
	last = --e->refs == 0;
	pthread_mutex_unlock(&e->lock);
	if (last)
		free(e);
}

uint64_t event_begin(struct event *e)
{
	uint64_t nth;

	pthread_mutex_lock(&e->lock);
	nth = ++e->recorded;
	e->refs++;
	pthread_mutex_unlock(&e->lock);
	return nth;
}

void event_done(struct event *e, uint64_t nth)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	pthread_mutex_lock(&e->lock);
	if (e->done < nth)
		e->done = nth;
	e->ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	put(e);
}

static void wait_for(struct event *e, uint64_t nth)
{
	pthread_mutex_lock(&e->lock);
	while (e->done < nth)
		pthread_cond_wait(&e->changed, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

/* What a stream does with the nth record. */
struct point {
	struct task task;
	struct event *event;
	uint64_t nth;
};

static cudaError_t push(cudaStream_t stream, void (*run)(struct task *), struct event *e,
			uint64_t nth)
{
	struct point *p = malloc(sizeof(*p));

	if (!p)
		abort();
	*p = (struct point){{.run = run}, e, nth};
	stream_push(stream_of(stream), &p->task);
	return gpu_error();
}

static void run_record(struct task *t)
{
	struct point *p = (struct point *)t;

	event_done(p->event, p->nth);
	free(p);
}

static void run_wait(struct task *t)
{
	struct point *p = (struct point *)t;

	wait_for(p->event, p->nth);
	put(p->event);
	free(p);
}

/* ---- the API ---- */

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	struct event *e = calloc(1, sizeof(*e));

	(void)flags;
	if (!e)
		return cudaErrorMemoryAllocation;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	e->refs = 1;
	*event = (cudaEvent_t)e;
	return gpu_error();
}

API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	put((struct event *)event);
	return cudaSuccess;
}

API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct event *e = (struct event *)event;

	return push(stream, run_record, e, event_begin(e));
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	struct event *e = (struct event *)event;
	uint64_t nth;

	(void)flags;
	pthread_mutex_lock(&e->lock);
	nth = e->recorded;
	e->refs++;
	pthread_mutex_unlock(&e->lock);
	return push(stream, run_wait, e, nth);
}

API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	struct event *e = (struct event *)event;
	bool done;

	pthread_mutex_lock(&e->lock);
	done = e->done == e->recorded;
	pthread_mutex_unlock(&e->lock);
	return gpu_error() ? gpu_error() : done ? cudaSuccess : cudaErrorNotReady;
}

API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	struct event *e = (struct event *)event;
	uint64_t nth;

	pthread_mutex_lock(&e->lock);
	nth = e->recorded;
	pthread_mutex_unlock(&e->lock);
	wait_for(e, nth);
	return gpu_error();
}

API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	*ms = (float)(((struct event *)end)->ms - ((struct event *)start)->ms);
	return gpu_error();
}
