/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA itself: what it does not know must fail, and what it does must be as CUDA says. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"

TestSuite(runtime, .timeout = 60);

enum { SPOILT = 86 }; /* the exit status: failure.c */

#define OK(call) cr_assert(eq(int, (int)(call), 0))

static cudaStream_t new_stream(void)
{
	cudaStream_t s;

	OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	return s;
}

/* ---- kernels ---- */

static const char entry; /* a handle: any address */

static const char *refuse(const struct kernel_launch *launch)
{
	(void)launch;
	return "not interpreted";
}

static const char *add(const struct kernel_launch *launch)
{
	int *const *where = launch->args;

	**where += (int)(launch->grid * 100 + launch->block * 10) + launch->device;
	return NULL;
}

static CUresult launch(cudaStream_t s, const void *args, size_t size)
{
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)args,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CUlaunchConfig config = {.gridDimX = 2,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 3,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = s};
	cudaFunction_t fn;

	if (cudaGetFuncBySymbol(&fn, &entry))
		return CUDA_ERROR_NOT_FOUND;
	return cuLaunchKernelEx(&config, fn, NULL, extra);
}

Test(runtime, kernel_is_run_with_a_copy_of_its_arguments)
{
	cudaStream_t s = new_stream();
	int sum = 0, *where = &sum;

	kernel_add(&entry, "add", add);
	OK(launch(s, &where, sizeof(where)));
	where = NULL;
	OK(cudaStreamSynchronize(s));
	cr_assert(eq(int, sum, 230));
}

/* In a process of its own: how does it end? */
static int status_of(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		body();
		exit(0);
	}
	cr_assert(eq(int, waitpid(pid, &status, 0), pid));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void launch_refused(void)
{
	cudaStream_t s = new_stream();
	int arg = 0;

	kernel_add(&entry, "refuse", refuse);
	launch(s, &arg, sizeof(arg)); /* which may tell of it already */
	if (!cudaStreamSynchronize(s) || !cudaGetLastError() || !cudaStreamSynchronize(s))
		_exit(1);
}

static void launch_unknown(void)
{
	int arg = 0;

	if (!launch(new_stream(), &arg, sizeof(arg)))
		_exit(1);
}

static void nothing(void)
{
	OK(cudaStreamSynchronize(new_stream()));
}

Test(runtime, what_is_not_known_spoils_all_that_follows_and_the_exit_status)
{
	cr_assert(eq(int, status_of(launch_refused), SPOILT));
	cr_assert(eq(int, status_of(launch_unknown), SPOILT));
	cr_assert(eq(int, status_of(nothing), 0));
}

/* ---- streams ---- */

static void await(void *flag)
{
	while (!atomic_load((atomic_int *)flag))
		usleep(1000);
}

Test(runtime, pageable_source_is_read_before_the_copy_returns)
{
	cudaStream_t s = new_stream();
	int src = 1, *dst, got;
	atomic_int go = 0;

	OK(cudaMalloc((void **)&dst, sizeof(*dst)));
	OK(cudaLaunchHostFunc(s, await, &go));
	OK(cudaMemcpyAsync(dst, &src, sizeof(src), cudaMemcpyHostToDevice, s));
	src = 2;
	cr_assert(eq(int, (int)cudaStreamQuery(s), (int)cudaErrorNotReady));
	atomic_store(&go, 1);
	OK(cudaStreamSynchronize(s));
	OK(cudaMemcpy(&got, dst, sizeof(got), cudaMemcpyDeviceToHost));
	cr_assert(eq(int, got, 1));
}

Test(runtime, stream_waits_for_an_event_of_another)
{
	cudaStream_t a = new_stream(), b = new_stream();
	atomic_int go = 0;
	cudaEvent_t e;
	char *p, got;

	OK(cudaMalloc((void **)&p, 1));
	OK(cudaEventCreate(&e));
	OK(cudaLaunchHostFunc(a, await, &go));
	OK(cudaMemsetAsync(p, 1, 1, a));
	OK(cudaEventRecord(e, a));
	OK(cudaStreamWaitEvent(b, e, 0));
	OK(cudaMemsetAsync(p, 2, 1, b));
	OK(cudaEventDestroy(e));
	usleep(20000);
	cr_assert(eq(int, (int)cudaStreamQuery(b), (int)cudaErrorNotReady));
	atomic_store(&go, 1);
	OK(cudaStreamSynchronize(b));
	OK(cudaMemcpy(&got, p, 1, cudaMemcpyDeviceToHost));
	cr_assert(eq(int, got, 2));
}

/* ---- memory ---- */

Test(runtime, export_of_a_part_is_that_part)
{
	enum { PAGE = 4096, PAGES = 8, FIRST = 3, COUNT = 2 };
	char *p, *view;
	int fd;

	OK(cudaMalloc((void **)&p, (size_t)PAGES * PAGE));
	for (int i = 0; i < PAGES; i++)
		memset(p + i * PAGE, i, PAGE);
	OK(cuMemGetHandleForAddressRange(&fd, (CUdeviceptr)(p + FIRST * PAGE), (size_t)COUNT * PAGE,
					 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	view = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, lseek(fd, 0, SEEK_CUR));
	cr_assert(ne(ptr, view, MAP_FAILED));
	cr_assert(eq(int, view[0], FIRST));
	view[1] = 99;
	cr_assert(eq(int, p[FIRST * PAGE + 1], 99));
	cr_assert(ne(int,
		     (int)cuMemGetHandleForAddressRange(&fd, (CUdeviceptr)(p + PAGE),
							(size_t)PAGES * PAGE,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		     0));
}

Test(runtime, handle_maps_the_same_memory_twice)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemGenericAllocationHandle made, got;
	CUdeviceptr a, b;
	size_t size;
	int fd;

	OK(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemCreate(&made, size, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemImportFromShareableHandle(&got, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(cuMemAddressReserve(&a, size, 0, 0, 0));
	OK(cuMemAddressReserve(&b, size, 0, 0, 0));
	OK(cuMemMap(a, size, 0, made, 0));
	OK(cuMemMap(b, size, 0, got, 0));
	OK(cuMemRelease(made));
	OK(cuMemRelease(got));
	*(char *)a = 77;
	cr_assert(eq(int, *(char *)b, 77));
	OK(cuMemUnmap(a, size));
	cr_assert(eq(int, *(char *)b, 77));
	OK(cuMemUnmap(b, size));
}
