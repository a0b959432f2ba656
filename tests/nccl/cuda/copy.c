/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying and filling. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

struct copy {
	struct task task;
	void *dst;
	const void *src; /* NULL: filled with @value */
	size_t size;
	int value;
	char staged[];
};

static void run_copy(struct task *t)
{
	struct copy *c = (struct copy *)t;

	if (c->src)
		memmove(c->dst, c->src, c->size);
	else
		memset(c->dst, c->value, c->size);
	free(c);
}

/* The default stream is in order with those that block: by waiting, for what came and what goes. */
static cudaError_t push(cudaStream_t stream, struct copy *c, bool wait)
{
	struct stream *s = stream_of(stream);

	c->task.run = run_copy;
	if (stream_is_default(stream)) {
		stream_wait_all(stream_device(s), true);
		wait = true;
	}
	stream_push(s, &c->task);
	if (wait)
		stream_wait(s);
	return gpu_error();
}

static bool is_known(const void *ptr)
{
	struct range r;

	return range_find((uintptr_t)ptr, &r);
}

/*
 * Memory that CUDA does not know is the caller's again when the call returns: it is read at once,
 * and waited for where it is written.
 */
API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
				cudaStream_t stream)
{
	bool stage = !is_known(src);
	struct copy *c = malloc(sizeof(*c) + (stage ? size : 0));

	(void)kind;
	if (!c)
		return cudaErrorMemoryAllocation;
	*c = (struct copy){.dst = dst, .src = src, .size = size};
	if (stage)
		c->src = memcpy(c->staged, src, size);
	return push(stream, c, !is_known(dst));
}

API cudaError_t cudaMemcpy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	return cudaMemcpyAsync(dst, src, size, kind, cudaStreamLegacy);
}

API cudaError_t cudaMemsetAsync(void *dst, int value, size_t size, cudaStream_t stream)
{
	struct copy *c = malloc(sizeof(*c));

	if (!c)
		return cudaErrorMemoryAllocation;
	*c = (struct copy){.dst = dst, .value = value, .size = size};
	return push(stream, c, false);
}

API cudaError_t cudaMemset(void *dst, int value, size_t size)
{
	return cudaMemsetAsync(dst, value, size, cudaStreamLegacy);
}
