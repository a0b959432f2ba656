/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream is a thread with a queue. */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>

/* Never freed: others may be waiting for it, and streams are few. */
struct stream {
	struct stream *next;
	int device;
	bool blocking; /* is in order with the default stream */
	unsigned long long id;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task *first, **last;
	bool busy, closing;
};

static struct stream *streams, *defaults[GPU_MAX];
static unsigned long long ids;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The next task, or NULL when the stream is to end. */
static struct task *take(struct stream *s)
{
	struct task *t;

	pthread_mutex_lock(&s->lock);
	s->busy = false;
	pthread_cond_broadcast(&s->changed);
	while (!s->first && !s->closing)
		pthread_cond_wait(&s->changed, &s->lock);
	t = s->first;
	if (t) {
		s->first = t->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = true;
	}
	pthread_mutex_unlock(&s->lock);
	return t;
}

static void *run(void *arg)
{
	struct stream *s = arg;
	struct task *t;

	cudaSetDevice(s->device);
	while ((t = take(s)))
		t->run(t);
	return NULL;
}

static struct stream *make_locked(bool blocking)
{
	struct stream *s = calloc(1, sizeof(*s));
	pthread_t thread;

	if (!s)
		return NULL;
	s->device = gpu_current();
	s->blocking = blocking;
	s->id = ++ids;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (pthread_create(&thread, NULL, run, s)) {
		free(s);
		return NULL;
	}
	pthread_detach(thread);
	s->next = streams;
	streams = s;
	return s;
}

static struct stream *make(bool blocking)
{
	struct stream *s;

	pthread_mutex_lock(&lock);
	s = make_locked(blocking);
	pthread_mutex_unlock(&lock);
	return s;
}

static struct stream *default_of(int device)
{
	struct stream *s;

	pthread_mutex_lock(&lock);
	if (!defaults[device])
		defaults[device] = make_locked(false);
	s = defaults[device];
	pthread_mutex_unlock(&lock);
	if (!s)
		abort();
	return s;
}

bool stream_is_default(CUstream handle)
{
	return !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
}

struct stream *stream_of(CUstream handle)
{
	return stream_is_default(handle) ? default_of(gpu_current()) : (struct stream *)handle;
}

int stream_device(const struct stream *s)
{
	return s->device;
}

void stream_push(struct stream *s, struct task *t)
{
	t->next = NULL;
	pthread_mutex_lock(&s->lock);
	*s->last = t;
	s->last = &t->next;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static bool is_idle_locked(const struct stream *s)
{
	return !s->first && !s->busy;
}

void stream_wait(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	while (!is_idle_locked(s))
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void stream_wait_all(int device, bool blocking)
{
	struct stream *s;

	pthread_mutex_lock(&lock);
	s = streams;
	pthread_mutex_unlock(&lock);
	for (; s; s = s->next)
		if (s->device == device && (s->blocking || !blocking))
			stream_wait(s);
}

/* ---- the API ---- */

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	(void)priority;
	*stream = (cudaStream_t)make(flags != cudaStreamNonBlocking);
	return *stream ? gpu_error() : cudaErrorMemoryAllocation;
}

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	struct stream *s = (struct stream *)stream;

	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return cudaSuccess;
}

API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	stream_wait(stream_of(stream));
	return gpu_error();
}

API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	struct stream *s = stream_of(stream);
	bool idle;

	pthread_mutex_lock(&s->lock);
	idle = is_idle_locked(s);
	pthread_mutex_unlock(&s->lock);
	return gpu_error() ? gpu_error() : idle ? cudaSuccess : cudaErrorNotReady;
}

API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	*id = stream_of(stream)->id;
	return cudaSuccess;
}

API cudaError_t cudaDeviceSynchronize(void)
{
	stream_wait_all(gpu_current(), false);
	return gpu_error();
}

struct call {
	struct task task;
	cudaHostFn_t fn;
	void *arg;
};

static void run_call(struct task *t)
{
	struct call *c = (struct call *)t;

	c->fn(c->arg);
	free(c);
}

API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
	struct call *c = malloc(sizeof(*c));

	if (!c)
		return cudaErrorMemoryAllocation;
	*c = (struct call){{.run = run_call}, fn, arg};
	stream_push(stream_of(stream), &c->task);
	return gpu_error();
}
