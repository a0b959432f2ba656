/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks: started, bound together, watched and read. */
#include "world.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/kids.h"
#include "../../lib/plug.h"

struct shared {
	atomic_uint step, met, have_id[WORLD_COMMS];
	ncclUniqueId id[WORLD_COMMS];
};

static struct shared *shared;
atomic_uint *world_step;
static const struct world *current;
static rank_fn *job;
static pid_t pids[WORLD_RANKS];
static int logs[WORLD_RANKS];

void world_nccl(const char *file, int line, const char *what, ncclResult_t rc)
{
	if (rc != ncclSuccess)
		need_failed(file, line, what, "%s; %s", ncclGetErrorString(rc),
			    ncclGetLastError(NULL));
}

void world_cuda(const char *file, int line, const char *what, cudaError_t rc)
{
	if (rc != cudaSuccess)
		need_failed(file, line, what, "%s", cudaGetErrorString(rc));
}

/* ---- environment ---- */

static void set_log(int rank)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", logs[rank]);
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,REG,TUNING", 1);
	setenv("NCCL_DEBUG_FILE", path, 1);
}

static void set_env(const struct world *w, int rank)
{
	char text[24];

	snprintf(text, sizeof(text), "host-%d", rank / (w->per_host ? w->per_host : 1));
	setenv("NCCL_HOSTID", text, 1);
	snprintf(text, sizeof(text), "%d", w->per_host ? w->per_host : 1);
	setenv("FAKE_CUDA_DEVICES", text, 1);
	setenv("NCCL_NET_PLUGIN", plug_path(), 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	setenv("NCCL_IB_DISABLE", "1", 1);
	setenv("NCCL_RAS_ENABLE", "0", 1);
	/* GPUs of a host meet in shared memory: that they see each other's is not played. */
	setenv("NCCL_P2P_DISABLE", "1", 1);
	/* However far from each other the made up buses put them. */
	setenv("NCCL_NET_GDR_LEVEL", "SYS", 1);
	/* Each channel has threads in every rank, and the processors are few. */
	setenv("NCCL_MAX_NCHANNELS", "2", 1);
	set_log(rank);
	for (const char *const *e = w->env; *e; e++)
		putenv((char *)(uintptr_t)*e);
	if (w->softefa)
		plug_softefa(w->softefa);
}

/* ---- ranks ---- */

static void run_rank(void *arg)
{
	struct rank self = {.world = current, .rank = (int)((pid_t *)arg - pids)};
	int per_host = current->per_host ? current->per_host : 1;

	set_env(current, self.rank);
	CUDA(cudaSetDevice(self.rank % per_host));
	CUDA(cudaStreamCreateWithFlags(&self.stream, cudaStreamNonBlocking));
	job(&self);
	CUDA(cudaStreamDestroy(self.stream));
}

void world_start(const struct world *w, rank_fn *fn)
{
	shared = kids_share(sizeof(*shared));
	world_step = &shared->step;
	current = w;
	job = fn;
	for (int r = 0; r < w->nranks; r++) {
		logs[r] = memfd_create("log", 0);
		MUST(logs[r] >= 0, "memfd");
	}
	for (int r = 0; r < w->nranks; r++)
		pids[r] = kids_start(run_rank, &pids[r]);
}

/* What it warned of, for the reader of a failed test. */
static void tell(int rank)
{
	FILE *f = fdopen(dup(logs[rank]), "r");
	char line[512];

	rewind(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "WARN"))
			fprintf(stderr, "rank %d: %s", rank, line);
	fclose(f);
}

void world_join(int rank)
{
	siginfo_t how = {0};
	int64_t end = kids_now_us() + WORLD_LIMIT_MS * INT64_C(1000);

	while (!how.si_pid && kids_now_us() < end) {
		waitid(P_PID, (id_t)pids[rank], &how, WEXITED | WNOHANG | WNOWAIT);
		kids_nap_us(1000);
	}
	if (!how.si_pid || how.si_code != CLD_EXITED || how.si_status)
		for (int r = 0; r < current->nranks; r++)
			tell(r);
	kids_join_within(pids[rank], 0);
}

void world_join_all(void)
{
	for (int r = 0; r < current->nranks; r++)
		world_join(r);
}

void world_kill(int rank)
{
	kids_kill(pids[rank]);
}

static rank_fn *with_comm;

static void run_with_comm(struct rank *self)
{
	self->comm = rank_comm(self, 0);
	with_comm(self);
	NCCL(ncclCommDestroy(self->comm));
}

void world_run(const struct world *w, rank_fn *fn)
{
	with_comm = fn;
	world_start(w, run_with_comm);
	world_join_all();
}

/* ---- in a rank ---- */

ncclUniqueId rank_id(struct rank *self, int nth)
{
	if (self->rank == 0) {
		NCCL(ncclGetUniqueId(&shared->id[nth]));
		atomic_store(&shared->have_id[nth], 1);
	}
	kids_await(&shared->have_id[nth], 1);
	return shared->id[nth];
}

ncclComm_t rank_comm(struct rank *self, int nth)
{
	ncclUniqueId id = rank_id(self, nth);
	ncclComm_t comm;

	NCCL(ncclCommInitRank(&comm, self->world->nranks, id, self->rank));
	return comm;
}

void rank_wait(struct rank *self)
{
	int64_t end = kids_now_us() + WORLD_LIMIT_MS * INT64_C(1000);
	ncclResult_t error = ncclSuccess;
	cudaError_t rc;

	while ((rc = cudaStreamQuery(self->stream)) == cudaErrorNotReady && !error) {
		MUST(kids_now_us() < end, "the stream hangs");
		if (self->comm)
			NCCL(ncclCommGetAsyncError(self->comm, &error));
		kids_nap_us(200);
	}
	NCCL(error);
	CUDA(rc);
}

ncclResult_t rank_await_error(struct rank *self, ncclComm_t comm, unsigned ms)
{
	int64_t end = kids_now_us() + ms * INT64_C(1000);
	ncclResult_t error = ncclSuccess;

	while (!error) {
		MUST(kids_now_us() < end, "rank %d: no error", self->rank);
		NCCL(ncclCommGetAsyncError(comm, &error));
		kids_nap_us(1000);
	}
	return error;
}

void rank_meet(struct rank *self)
{
	unsigned n = (unsigned)self->world->nranks;
	unsigned mine = atomic_fetch_add(&shared->met, 1);

	kids_await(&shared->met, (mine / n + 1) * n);
}

/* ---- logs ---- */

bool world_said(int rank, const char *text)
{
	off_t len = lseek(logs[rank], 0, SEEK_END);
	char *all = malloc((size_t)len + 1);
	bool found;

	MUST(all && pread(logs[rank], all, (size_t)len, 0) == len, "the log of rank %d", rank);
	all[len] = 0;
	found = strstr(all, text);
	free(all);
	return found;
}

/* Ranks may have no neighbour on another host, but not all of them. */
void world_check_net(int nranks, const char *how)
{
	int said = 0;

	for (int r = 0; r < nranks; r++) {
		MUST(world_said(r, "Using network EFA"), "rank %d has another network", r);
		said += world_said(r, how);
	}
	MUST(said, "none of %d ranks says: %s", nranks, how);
}
