/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that are split, many, made again, aborted, and that lose a peer or the network. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "../lib/kids.h"
#include "lib/coll.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const size_t counts[] = {7, 30011};

static void check(struct rank *self, ncclComm_t comm)
{
	coll_check_all(self, comm, ncclFloat32, counts, COUNT(counts));
}

/* ---- that live well ---- */

/* The halves use the connections of the whole, also after it. */
static void split(struct rank *self)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t half;
	int size;

	check(self, self->comm);
	config.splitShare = 1;
	NCCL(ncclCommSplit(self->comm, self->rank % 2, self->rank, &half, &config));
	NCCL(ncclCommCount(half, &size));
	MUST(size == 2, "%d ranks", size);
	check(self, half);
	check(self, self->comm);
	check(self, half);
	NCCL(ncclCommDestroy(half));
	check(self, self->comm);
}

Test(lives, comms_that_share_with_the_one_they_were_split_from, .timeout = 280)
{
	world_run(&(struct world){.nranks = 4}, split);
	world_check_net(4, "via NET/EFA");
}

static void several(struct rank *self)
{
	ncclComm_t comms[3] = {self->comm, rank_comm(self, 1), rank_comm(self, 2)};
	struct coll_call call = {ALL_REDUCE, ncclInt32, ncclSum, 100003, 0, false, false};
	struct coll_job jobs[3];

	/* One after the other in the stream, while all are under way. */
	for (int i = 0; i < 3; i++)
		coll_prepare(self, comms[i], &call, &jobs[i]);
	for (int i = 0; i < 3; i++)
		coll_start(self, &jobs[i]);
	rank_wait(self);
	for (int i = 0; i < 3; i++)
		MUST(coll_finish(&jobs[i]) < 0, "comm %d", i);
	NCCL(ncclCommDestroy(comms[1]));
	check(self, comms[2]);
	NCCL(ncclCommDestroy(comms[2]));
	check(self, self->comm);
}

Test(lives, several_at_once, .timeout = 280)
{
	world_run(&(struct world){.nranks = 2}, several);
}

/* The plugin is told to end, and to begin, each time. */
static void again(struct rank *self)
{
	for (int i = 0; i < 3; i++) {
		self->comm = rank_comm(self, i);
		check(self, self->comm);
		NCCL(ncclCommDestroy(self->comm));
	}
}

Test(lives, again_after_the_last_was_destroyed, .timeout = 280)
{
	world_start(&(struct world){.nranks = 2}, again);
	world_join_all();
}

/* ---- that end badly ---- */

enum {
	ABORT_MS = 20000, /* no abort takes so long */
	ERROR_MS = 60000, /* no peer's end is unknown for so long */
	TRAFFIC = 1 << 20,
};

static void *buffer(void)
{
	void *at;

	CUDA(cudaMalloc(&at, TRAFFIC * sizeof(float)));
	return at;
}

static void keep_busy(struct rank *self, void *at, int calls)
{
	for (int i = 0; i < calls; i++)
		NCCL(ncclAllReduce(at, at, TRAFFIC, ncclFloat32, ncclSum, self->comm,
				   self->stream));
}

static void abort_in_time(struct rank *self)
{
	int64_t start = kids_now_us();

	NCCL(ncclCommAbort(self->comm));
	MUST(kids_now_us() - start < ABORT_MS * INT64_C(1000), "the abort took too long");
	CUDA(cudaStreamSynchronize(self->stream)); /* the kernels have ended, too */
}

/* In the midst of it; and where one waits for peers that never come. */
static void abort_and_go_on(struct rank *self)
{
	void *at = buffer();

	self->comm = rank_comm(self, 0);
	keep_busy(self, at, 20);
	kids_nap_us(100000);
	abort_in_time(self);

	self->comm = rank_comm(self, 1);
	check(self, self->comm);
	if (self->rank == 0)
		keep_busy(self, at, 1);
	rank_meet(self);
	abort_in_time(self);

	self->comm = rank_comm(self, 2);
	check(self, self->comm);
	NCCL(ncclCommDestroy(self->comm));
	CUDA(cudaFree(at));
}

Test(lives, of_aborted_comms_leave_room_for_others, .timeout = 280)
{
	world_start(&(struct world){.nranks = 3}, abort_and_go_on);
	world_join_all();
}

/* Steps that ranks and the test wait for. */
enum {
	READY = 3,      /* each of the ranks adds 1 */
	DEAD = 10,      /* the last one is */
	HEARD_OF = 100, /* one has an error; as frameworks do, it has all others abort */
};

/* Collectives until NCCL reports an error to this rank or to another. */
static void work_until_heard(struct rank *self)
{
	int64_t end = kids_now_us() + ERROR_MS * INT64_C(1000);
	ncclResult_t error = ncclSuccess;
	void *at = buffer();

	while (!error && atomic_load(world_step) < HEARD_OF) {
		MUST(kids_now_us() < end, "rank %d hears nothing", self->rank);
		if (cudaStreamQuery(self->stream) == cudaSuccess)
			keep_busy(self, at, 1);
		NCCL(ncclCommGetAsyncError(self->comm, &error));
		kids_nap_us(1000);
	}
	atomic_store(world_step, HEARD_OF);
	abort_in_time(self);
	CUDA(cudaFree(at));
}

static void outlive(struct rank *self)
{
	self->comm = rank_comm(self, 0);
	check(self, self->comm);
	atomic_fetch_add(world_step, 1);
	if (self->rank == 2)
		pause();
	kids_await(world_step, DEAD);
	work_until_heard(self);
}

Test(lives, of_ranks_whose_peer_is_killed_go_on, .timeout = 280)
{
	world_start(&(struct world){.nranks = 3}, outlive);
	kids_await(world_step, READY);
	world_kill(2);
	atomic_store(world_step, DEAD);
	world_join(0);
	world_join(1);
	cr_assert(world_said(0, "WARN NET/EFA") || world_said(1, "WARN NET/EFA"));
}

static void outlive_in_traffic(struct rank *self)
{
	self->comm = rank_comm(self, 0);
	check(self, self->comm);
	atomic_fetch_add(world_step, 1);
	work_until_heard(self);
}

/* Whatever they wait for then: nothing may be under way to it. */
Test(lives, of_ranks_whose_peer_is_killed_in_traffic_go_on, .timeout = 280)
{
	world_start(&(struct world){.nranks = 3}, outlive_in_traffic);
	kids_await(world_step, READY);
	kids_nap_us(300000);
	world_kill(2);
	world_join(0);
	world_join(1);
	cr_assert(world_said(0, "WARN NET/EFA") || world_said(1, "WARN NET/EFA"));
}

static void lose_the_network(struct rank *self)
{
	self->comm = rank_comm(self, 0);
	work_until_heard(self);
}

/* A request ends with an error that no retransmission mends. */
Test(lives, of_ranks_whose_network_fails_go_on, .timeout = 280)
{
	world_start(&(struct world){.nranks = 2, .softefa = "fault=status 8 op=write nth=200"},
		    lose_the_network);
	world_join_all();
	cr_assert(world_said(0, "WARN NET/EFA") || world_said(1, "WARN NET/EFA"));
}
