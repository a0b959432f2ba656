/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for CUDA's runtime and driver, in one library: GPUs whose memory is memfds mapped into
 * the process, whose streams are threads, and whose kernels are functions of the host (kernel.h).
 * It has what NCCL and the plugin call. What it has not fails with words on stderr.
 *
 * FAKE_CUDA_DEVICES  GPUs, 1 to 8; 1
 * FAKE_CUDA_PCI      their addresses, as 0000:53:00.0, with commas between them
 * FAKE_CUDA_CC       compute capability times 10; 90. Below 90 NCCL flushes what arrives.
 */
#ifndef TESTS_NCCL_CUDA_GPU_H
#define TESTS_NCCL_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#define GPU_MAX  8
#define GPU_PAGE 4096u

/* All else is hidden. The numbers of cudaError_t and CUresult are the same. */
#define API __attribute__((visibility("default")))

/* ---- failure.c ---- */

/*
 * Something that no test may survive: told on stderr, and from then on the answer of all that can
 * report an error, and the reason for a bad exit status.
 */
cudaError_t gpu_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What failed, or cudaSuccess. */
cudaError_t gpu_error(void);

/* ---- device.c ---- */

int gpu_count(void);
/* Of the calling thread; makes device 0 current where none is. */
int gpu_current(void);

/* ---- memory.c ---- */

struct handle;

/* Memory that CUDA knows. */
struct range {
	struct range *next;
	uintptr_t at;
	size_t size; /* as asked for */
	bool host;
	int device;
	int fd;                /* of the memory; -1: of the application */
	off_t offset;          /* in it */
	struct handle *handle; /* of what was mapped by cuMemMap(), else NULL */
};

size_t gpu_pages(size_t size);
/* A file of @size bytes, mapped: its address, or NULL. */
void *gpu_file(size_t size, int *fd);
bool range_find(uintptr_t at, struct range *found);
void range_add(const struct range *r);
/* That which begins at @at. */
bool range_remove(uintptr_t at, struct range *removed);

/* ---- stream.c ---- */

/* What a stream does in its turn; @run frees it. */
struct task {
	struct task *next;
	void (*run)(struct task *);
};

struct stream;

struct stream *stream_of(CUstream handle);
int stream_device(const struct stream *s);
void stream_push(struct stream *s, struct task *t);
void stream_wait(struct stream *s);
/* All of @device's; only those that the default stream waits for, if @blocking. */
void stream_wait_all(int device, bool blocking);
/* After the task that the default stream has been given: its order with others is kept by waiting.
 */
bool stream_is_default(CUstream handle);

/* ---- event.c ---- */

struct event;

/* A record that the caller makes complete, by event_done(), from a task. */
uint64_t event_begin(struct event *e);
void event_done(struct event *e, uint64_t nth);

#endif
