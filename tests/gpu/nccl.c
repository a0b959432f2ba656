/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stock NCCL over the plugin: two ranks, each a process, on one GPU. Each has an NCCL_HOSTID of
 * its own, so NCCL believes in two hosts, lets the GPU be shared, and gives the network all data.
 * scripts/gpu-nccl.sh sets the rest of the environment, and starts it on software EFAs.
 *
 *	nccl collectives    sizes, in and out of place, every element compared; registered memory,
 *	                    a communicator that shares another's resources, init after destroy
 *	nccl abort          a rank aborts what its peer never joins
 *
 * Exit code 0: all right, 1: not so, 77: there is no GPU.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Two contexts share the GPU by turns of milliseconds: limits are far above what is needed. */
enum { RANKS = 2, WAIT_S = 60, ABORT_S = 10, NO_GPU = 77, LARGEST = (33 << 20) + 3 };

static int rank;
static int link_fd; /* to the other rank */
static unsigned right;
static cudaStream_t stream;
static ncclComm_t comm;
static int8_t *sent, *got; /* on the GPU: room for two shares of the largest */
static int8_t *host;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((format(printf, 1, 2))) static _Noreturn void wrong(const char *fmt, ...)
{
	va_list ap;

	printf("WRONG  rank %d: ", rank);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

static void cuda(cudaError_t rc, const char *what)
{
	if (rc)
		wrong("%s: %s", what, cudaGetErrorString(rc));
}

static void nccl(ncclResult_t rc, const char *what)
{
	if (rc)
		wrong("%s: %s (%s)", what, ncclGetErrorString(rc), ncclGetLastError(NULL));
}

/* ---- a communicator ---- */

static void send_all(const void *data, size_t bytes)
{
	if (write(link_fd, data, bytes) != (ssize_t)bytes)
		wrong("the other rank is gone");
}

static void recv_all(void *data, size_t bytes)
{
	if (recv(link_fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
		wrong("the other rank is gone");
}

static void come_up(void)
{
	ncclUniqueId id;

	if (rank == 0) {
		nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
		send_all(&id, sizeof(id));
	} else {
		recv_all(&id, sizeof(id));
	}
	nccl(ncclCommInitRank(&comm, RANKS, id, rank), "ncclCommInitRank");
}

/* Until all that was given to the stream is done. */
static void finish(ncclComm_t c, const char *what)
{
	int64_t end = now_ms() + WAIT_S * 1000;
	ncclResult_t async = ncclSuccess;
	cudaError_t rc;

	while ((rc = cudaStreamQuery(stream)) == cudaErrorNotReady) {
		nccl(ncclCommGetAsyncError(c, &async), "ncclCommGetAsyncError");
		nccl(async, what);
		if (now_ms() > end)
			wrong("%s: not done after %d s", what, WAIT_S);
		usleep(100);
	}
	cuda(rc, what);
}

/* ---- data: of rank @r, small, so that sums stay in range ---- */

static int8_t element(int r, size_t i)
{
	return (int8_t)((i * 7 + i / 251 + (size_t)r * 13 + 1) % 50);
}

static int8_t sum(size_t i)
{
	return (int8_t)(element(0, i) + element(1, i));
}

/* Elements 0 ... @n of this rank's to @to; those at @skip ... are first. */
static void put(int8_t *to, size_t n, size_t skip)
{
	for (size_t i = 0; i < n; i++)
		host[i] = element(rank, skip + i);
	cuda(cudaMemcpy(to, host, n, cudaMemcpyHostToDevice), "cudaMemcpy");
}

static void poison(int8_t *to, size_t n)
{
	cuda(cudaMemset(to, 0x77, n), "cudaMemset");
}

/* What a result must be: that of rank @from, or the sum of both for -1. */
static void compare(const int8_t *at, size_t n, int from, size_t skip, const char *what)
{
	cuda(cudaMemcpy(host, at, n, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (size_t i = 0; i < n; i++) {
		int8_t want = from < 0 ? sum(skip + i) : element(from, skip + i);

		if (host[i] != want)
			wrong("%s of %zu: element %zu is %d, must be %d", what, n, i, host[i],
			      want);
	}
	right++;
}

/* ---- collectives of @n bytes ---- */

static void all_reduce(ncclComm_t c, size_t n, bool in_place)
{
	int8_t *out = in_place ? sent : got;

	poison(got, n);
	put(sent, n, 0);
	nccl(ncclAllReduce(sent, out, n, ncclInt8, ncclSum, c, stream), "ncclAllReduce");
	finish(c, "all-reduce");
	compare(out, n, -1, 0, "all-reduce");
}

static void all_gather(size_t n, bool in_place)
{
	int8_t *in = in_place ? got + n * (size_t)rank : sent;

	poison(got, 2 * n);
	put(in, n, 0);
	nccl(ncclAllGather(in, got, n, ncclInt8, comm, stream), "ncclAllGather");
	finish(comm, "all-gather");
	for (int r = 0; r < RANKS; r++)
		compare(got + n * (size_t)r, n, r, 0, "all-gather");
}

static void reduce_scatter(size_t n, bool in_place)
{
	size_t mine = n * (size_t)rank;
	int8_t *out = in_place ? sent + mine : got;

	poison(got, n);
	put(sent, n, 0);
	put(sent + n, n, n);
	nccl(ncclReduceScatter(sent, out, n, ncclInt8, ncclSum, comm, stream), "ncclReduceScatter");
	finish(comm, "reduce-scatter");
	compare(out, n, -1, mine, "reduce-scatter");
}

static void broadcast(size_t n, bool in_place)
{
	int8_t *out = in_place ? sent : got;

	poison(got, n);
	put(sent, n, 0);
	nccl(ncclBroadcast(sent, out, n, ncclInt8, 1, comm, stream), "ncclBroadcast");
	finish(comm, "broadcast");
	compare(out, n, 1, 0, "broadcast");
}

static void exchange(size_t n)
{
	poison(got, n);
	put(sent, n, 0);
	nccl(ncclGroupStart(), "ncclGroupStart");
	nccl(ncclSend(sent, n, ncclInt8, 1 - rank, comm, stream), "ncclSend");
	nccl(ncclRecv(got, n, ncclInt8, 1 - rank, comm, stream), "ncclRecv");
	nccl(ncclGroupEnd(), "ncclGroupEnd");
	finish(comm, "send and receive");
	compare(got, n, 1 - rank, 0, "send and receive");
}

static void all_sizes(void)
{
	static const size_t sizes[] = {0, 1, 8, 1 << 10, 64 << 10, 1 << 20, LARGEST};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int in_place = 0; in_place < 2; in_place++) {
			all_reduce(comm, sizes[i], in_place);
			all_gather(sizes[i], in_place);
			reduce_scatter(sizes[i], in_place);
			broadcast(sizes[i], in_place);
		}
		exchange(sizes[i]);
	}
}

static void registered(void)
{
	void *in, *out;

	nccl(ncclCommRegister(comm, sent, LARGEST, &in), "ncclCommRegister");
	nccl(ncclCommRegister(comm, got, LARGEST, &out), "ncclCommRegister");
	all_reduce(comm, 1 << 20, false);
	exchange(1 << 20);
	nccl(ncclCommDeregister(comm, in), "ncclCommDeregister");
	nccl(ncclCommDeregister(comm, out), "ncclCommDeregister");
}

static void shared(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t part;

	config.splitShare = 1;
	nccl(ncclCommSplit(comm, 0, rank, &part, &config), "ncclCommSplit");
	all_reduce(part, 1 << 20, false);
	all_reduce(comm, 1 << 20, false);
	nccl(ncclCommDestroy(part), "ncclCommDestroy");
	all_reduce(comm, 8, false);
}

static void collectives(void)
{
	come_up();
	all_sizes();
	registered();
	shared();
	nccl(ncclCommDestroy(comm), "ncclCommDestroy");
	come_up();
	all_reduce(comm, 1 << 20, false);
	nccl(ncclCommDestroy(comm), "ncclCommDestroy");
}

/* Rank 1 never joins; both abort. */
static void aborted(void)
{
	int64_t start;
	char word = 0;

	come_up();
	all_reduce(comm, 1 << 20, false);
	if (rank == 0) {
		nccl(ncclAllReduce(sent, got, LARGEST, ncclInt8, ncclSum, comm, stream),
		     "ncclAllReduce");
		usleep(500000);
		if (cudaStreamQuery(stream) != cudaErrorNotReady)
			wrong("an all-reduce ended without the peer");
		send_all(&word, 1);
	} else {
		recv_all(&word, 1);
	}
	start = now_ms();
	nccl(ncclCommAbort(comm), "ncclCommAbort");
	if (now_ms() - start > ABORT_S * 1000)
		wrong("ncclCommAbort took %lld ms", (long long)(now_ms() - start));
	right++;
	come_up();
	all_reduce(comm, 1 << 20, false);
	nccl(ncclCommDestroy(comm), "ncclCommDestroy");
}

/* ---- processes ---- */

static _Noreturn void rank_main(int r, int fd, void (*what)(void))
{
	char name[32];

	rank = r;
	link_fd = fd;
	snprintf(name, sizeof(name), "fake-node-%d", r);
	setenv("NCCL_HOSTID", name, 1);
	cuda(cudaSetDevice(0), "cudaSetDevice");
	cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	cuda(cudaMalloc((void **)&sent, 2 * (size_t)LARGEST), "cudaMalloc");
	cuda(cudaMalloc((void **)&got, 2 * (size_t)LARGEST), "cudaMalloc");
	host = malloc(LARGEST);
	if (!host)
		wrong("no memory");
	what();
	printf("right  rank %d: %u results\n", r, right);
	fflush(stdout);
	_exit(0);
}

/* In a process of its own: CUDA does not survive a fork. */
static bool gpu_is_there(void)
{
	pid_t pid = fork();
	int status = 0, n = 0;

	if (pid == 0) {
		cudaError_t rc = cudaGetDeviceCount(&n);

		if (rc || !n)
			printf("not run: no GPU: %s\n",
			       rc ? cudaGetErrorString(rc) : "none is visible");
		fflush(stdout);
		_exit(rc || !n);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* One that fails takes the other along; alarm() ends what hangs. */
static int run(void (*what)(void))
{
	int fd[2], status, left = RANKS, bad = 0;
	pid_t pid[RANKS], gone;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		return 1;
	for (int r = 0; r < RANKS; r++) {
		pid[r] = fork();
		if (pid[r] == 0) {
			close(fd[1 - r]);
			alarm(2 * WAIT_S);
			rank_main(r, fd[r], what);
		}
	}
	close(fd[0]);
	close(fd[1]);
	while (left && (gone = waitpid(-1, &status, 0)) > 0) {
		left--;
		if (status == 0)
			continue;
		if (WIFSIGNALED(status))
			printf("WRONG  rank %d: signal %d\n", gone == pid[1], WTERMSIG(status));
		bad = 1;
		for (int r = 0; r < RANKS; r++)
			if (pid[r] != gone)
				kill(pid[r], SIGKILL);
	}
	return bad || left;
}

int main(int argc, char **argv)
{
	bool abort = argc == 2 && strcmp(argv[1], "abort") == 0;

	if (!abort && (argc != 2 || strcmp(argv[1], "collectives"))) {
		fprintf(stderr, "usage: nccl collectives|abort\n");
		return 2;
	}
	if (!gpu_is_there())
		return NO_GPU;
	return run(abort ? aborted : collectives);
}
