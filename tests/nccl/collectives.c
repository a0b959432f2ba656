/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's collectives over the plugin: every algorithm, protocol, type and operation. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../lib/kids.h"
#include "lib/coll.h"
#include "lib/data.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const ncclDataType_t types[] = {ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,
				       ncclInt64,   ncclUint64,  ncclFloat16, ncclFloat32,
				       ncclFloat64, ncclBfloat16};
static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

/* Nothing, next to nothing, no multiple of anything, and several loops of all channels. */
static const size_t counts[] = {0, 1, 1021, 300007};

/* ---- each algorithm by each protocol ---- */

struct way {
	char algo[16], proto[16], in_order[16];
	int nranks, per_host;
};

/* LL and LL128 need a NIC that keeps order: caps=0x7f is one. PAT wants one rank to a host. */
static struct way ways[] = {
	{"Ring", "Simple", "", 4, 2},         {"Ring", "LL", "caps=0x7f", 4, 1},
	{"Ring", "LL128", "caps=0x7f", 4, 2}, {"Tree", "Simple", "", 4, 1},
	{"Tree", "LL", "caps=0x7f", 4, 2},    {"Tree", "LL128", "caps=0x7f", 4, 1},
	{"PAT", "Simple", "", 4, 1},
};

static void every_type_and_op(struct rank *self, enum coll coll)
{
	for (int t = 0; t < COUNT(types); t++)
		for (int o = 0; o < COUNT(ops); o++) {
			struct coll_call call = {.coll = coll,
						 .type = types[t],
						 .op = ops[o],
						 .count = 1021,
						 .in_place = (t + o) % 2};

			coll_check(self, self->comm, &call);
		}
}

/* Only all-reduce goes by trees. */
static void by_tree(struct rank *self)
{
	every_type_and_op(self, ALL_REDUCE);
	for (int i = 0; i < COUNT(counts); i++)
		coll_check(self, self->comm,
			   &(struct coll_call){ALL_REDUCE, ncclFloat32, ncclSum, counts[i], 0,
					       i % 2, false});
}

static void by_pat(struct rank *self)
{
	for (int i = 0; i < COUNT(counts); i++)
		for (int t = 0; t < COUNT(types); t++) {
			struct coll_call call = {.coll = ALL_GATHER,
						 .type = types[t],
						 .op = ncclSum,
						 .count = counts[i],
						 .in_place = t % 2};

			coll_check(self, self->comm, &call);
			call.coll = REDUCE_SCATTER;
			coll_check(self, self->comm, &call);
		}
}

static void by_ring(struct rank *self)
{
	every_type_and_op(self, ALL_REDUCE);
	every_type_and_op(self, REDUCE_SCATTER);
	coll_check_all(self, self->comm, ncclFloat32, counts, COUNT(counts));
	for (int root = 0; root < self->world->nranks; root++) {
		struct coll_call call = {.coll = BROADCAST,
					 .type = ncclBfloat16,
					 .op = ncclSum,
					 .count = 70001,
					 .root = root,
					 .in_place = root % 2};

		coll_check(self, self->comm, &call);
		call.coll = REDUCE;
		coll_check(self, self->comm, &call);
	}
}

ParameterizedTestParameters(collectives, are_right_by_each_algorithm_and_protocol)
{
	return cr_make_param_array(struct way, ways, COUNT(ways));
}

ParameterizedTest(struct way *way, collectives, are_right_by_each_algorithm_and_protocol,
		  .timeout = 280)
{
	static char algo[40], proto[40];
	struct world w = {.nranks = way->nranks,
			  .per_host = way->per_host,
			  .softefa = way->in_order[0] ? way->in_order : NULL,
			  .env = {algo, proto}};

	snprintf(algo, sizeof(algo), "NCCL_ALGO=%s", way->algo);
	snprintf(proto, sizeof(proto), "NCCL_PROTO=%s", way->proto);
	if (way->algo[0] == 'R')
		world_run(&w, by_ring);
	else
		world_run(&w, way->algo[0] == 'T' ? by_tree : by_pat);
	world_check_net(w.nranks, "via NET/EFA");
}

/* ---- shapes ---- */

struct shape {
	int nranks, per_host;
};

static struct shape shapes[] = {{2, 1}, {5, 1}, {6, 3}, {8, 4}};

/* As NCCL chooses. */
static void all_collectives(struct rank *self)
{
	static const size_t some[] = {1, 4099, 70001};

	coll_check_all(self, self->comm, ncclInt32, some, COUNT(some));
}

ParameterizedTestParameters(collectives, are_right_whatever_the_number_of_ranks)
{
	return cr_make_param_array(struct shape, shapes, COUNT(shapes));
}

ParameterizedTest(struct shape *shape, collectives, are_right_whatever_the_number_of_ranks,
		  .timeout = 280)
{
	struct world w = {.nranks = shape->nranks, .per_host = shape->per_host};

	world_run(&w, all_collectives);
	world_check_net(w.nranks, "Using network EFA");
}

/* ---- groups ---- */

static void start_jobs(struct rank *self, const struct coll_call *calls, int n)
{
	struct coll_job jobs[WORLD_RANKS];

	for (int i = 0; i < n; i++)
		coll_prepare(self, self->comm, &calls[i], &jobs[i]);
	NCCL(ncclGroupStart());
	for (int i = 0; i < n; i++)
		coll_start(self, &jobs[i]);
	NCCL(ncclGroupEnd());
	rank_wait(self);
	for (int i = 0; i < n; i++)
		MUST(coll_finish(&jobs[i]) < 0, "call %d of the group", i);
}

static void groups(struct rank *self)
{
	static const struct coll_call mixed[] = {
		{ALL_REDUCE, ncclFloat32, ncclSum, 70001, 0, false, false},
		{ALL_GATHER, ncclInt8, ncclSum, 1021, 0, false, false},
		{REDUCE_SCATTER, ncclFloat64, ncclMax, 4099, 0, false, false},
		{BROADCAST, ncclInt64, ncclSum, 9, 1, false, false},
		{REDUCE, ncclUint32, ncclProd, 333, 2, false, false},
		{SEND_RECV, ncclFloat16, ncclSum, 50000, 0, false, false},
	};
	struct coll_call roots[WORLD_RANKS];

	start_jobs(self, mixed, COUNT(mixed));
	for (int r = 0; r < self->world->nranks; r++)
		roots[r] = (struct coll_call){.coll = BROADCAST,
					      .type = ncclUint8,
					      .op = ncclSum,
					      .count = 10007 * (size_t)r + 1,
					      .root = r};
	start_jobs(self, roots, self->world->nranks);
}

Test(collectives, of_one_group_are_all_right, .timeout = 280)
{
	world_run(&(struct world){.nranks = 4}, groups);
}

/* A process for all GPUs of a host: its ranks meet in groups. */
enum { GPUS = 2 };

static void one_process(struct rank *self)
{
	struct coll_call call = {ALL_REDUCE, ncclFloat32, ncclSum, 70001, 0, false, false};
	ncclUniqueId id = rank_id(self, 0);
	struct coll_job jobs[GPUS];
	struct rank ranks[GPUS];

	NCCL(ncclGroupStart());
	for (int i = 0; i < GPUS; i++) {
		ranks[i] = (struct rank){.world = self->world, .rank = self->rank * GPUS + i};
		CUDA(cudaSetDevice(i));
		CUDA(cudaStreamCreateWithFlags(&ranks[i].stream, cudaStreamNonBlocking));
		NCCL(ncclCommInitRank(&ranks[i].comm, self->world->nranks * GPUS, id,
				      ranks[i].rank));
	}
	NCCL(ncclGroupEnd());
	for (int i = 0; i < GPUS; i++) {
		CUDA(cudaSetDevice(i));
		coll_prepare(&ranks[i], ranks[i].comm, &call, &jobs[i]);
	}
	NCCL(ncclGroupStart());
	for (int i = 0; i < GPUS; i++)
		coll_start(&ranks[i], &jobs[i]);
	NCCL(ncclGroupEnd());
	for (int i = 0; i < GPUS; i++) {
		rank_wait(&ranks[i]);
		MUST(coll_finish(&jobs[i]) < 0, "GPU %d", i);
		NCCL(ncclCommDestroy(ranks[i].comm));
	}
}

Test(collectives, of_ranks_in_one_process_are_right, .timeout = 280)
{
	world_start(&(struct world){.nranks = 2, .env = {"FAKE_CUDA_DEVICES=2"}}, one_process);
	world_join_all();
	world_check_net(2, "via NET/EFA");
}

/* More than all slots of all connections, many times. */
static void much(struct rank *self)
{
	static const size_t many = 1 << 20;

	coll_check_all(self, self->comm, ncclFloat32, &many, 1);
}

Test(collectives, of_a_million_elements_are_right_in_small_buffers, .timeout = 280)
{
	world_run(&(struct world){.nranks = 3, .env = {"NCCL_BUFFSIZE=131072"}}, much);
}

/* ---- the tests themselves ---- */

/* What the stand-in for the device does not know is not taken for done. */
static void eight_bit_floats(struct rank *self)
{
	int64_t end = kids_now_us() + WORLD_LIMIT_MS * INT64_C(1000);
	cudaError_t rc;
	void *at;

	self->comm = rank_comm(self, 0);
	CUDA(cudaMalloc(&at, 1000));
	/* The kernel may have failed before the call returns. */
	ncclAllReduce(at, at, 1000, ncclFloat8e4m3, ncclSum, self->comm, self->stream);
	while ((rc = cudaStreamQuery(self->stream)) == cudaErrorNotReady && kids_now_us() < end)
		kids_nap_us(1000);
	MUST(rc != cudaSuccess && rc != cudaErrorNotReady, "%s", cudaGetErrorString(rc));
	_exit(0); /* exit() would not be that of a success: tests/nccl/cuda/failure.c */
}

Test(collectives, of_an_unknown_type_fail, .timeout = 280)
{
	world_start(&(struct world){.nranks = 2}, eight_bit_floats);
	world_join_all();
}

/* One byte of what one rank sends is wrong: some rank must see it. */
static void one_byte_is_wrong(struct rank *self)
{
	struct coll_call call = {
		.coll = ALL_REDUCE, .type = ncclFloat32, .op = ncclSum, .count = 5000};
	struct coll_job job;

	coll_prepare(self, self->comm, &call, &job);
	coll_start(self, &job);
	rank_wait(self);
	if (coll_finish(&job) >= 0)
		atomic_fetch_add(world_step, 1);
}

static void spoil_and_check(struct rank *self)
{
	if (self->rank == 1)
		setenv("KERNEL_SPOIL", "1", 1);
	self->comm = rank_comm(self, 0);
	one_byte_is_wrong(self);
	rank_meet(self);
	MUST(atomic_load(world_step) == 2, "%u ranks have seen it", atomic_load(world_step));
	one_byte_is_wrong(self); /* once only */
	rank_meet(self);
	MUST(atomic_load(world_step) == 2, "%u wrong", atomic_load(world_step));
	NCCL(ncclCommDestroy(self->comm));
}

static struct way spoiled[] = {
	{"Ring", "Simple", "", 2, 1},
	{"Ring", "LL", "caps=0x7f", 2, 1},
	{"Tree", "LL128", "caps=0x7f", 2, 1},
};

ParameterizedTestParameters(collectives, with_one_wrong_byte_are_reported)
{
	return cr_make_param_array(struct way, spoiled, COUNT(spoiled));
}

ParameterizedTest(struct way *way, collectives, with_one_wrong_byte_are_reported, .timeout = 280)
{
	static char algo[40], proto[40];
	struct world w = {.nranks = 2,
			  .softefa = way->in_order[0] ? way->in_order : NULL,
			  .env = {algo, proto}};

	snprintf(algo, sizeof(algo), "NCCL_ALGO=%s", way->algo);
	snprintf(proto, sizeof(proto), "NCCL_PROTO=%s", way->proto);
	world_start(&w, spoil_and_check);
	world_join_all();
}
