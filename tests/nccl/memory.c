/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose memory the plugin is given, how, and by which protocol: what NCCL and the plugin agree on.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "../lib/counters.h"
#include "../lib/kids.h"
#include "lib/coll.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const size_t counts[] = {13, 70001};

static void all_collectives(struct rank *self)
{
	coll_check_all(self, self->comm, ncclFloat32, counts, COUNT(counts));
}

/* What all ranks' devices read so far: flushes are reads, and nothing else is. */
static long long flushes(struct rank *self)
{
	struct counters c = {0};

	rank_meet(self);
	if (self->rank == 0)
		counters_get(&c, "read");
	rank_meet(self);
	return counters_sum(&c);
}

/* ---- GPUs ---- */

static void without_flush(struct rank *self)
{
	all_collectives(self);
	MUST(flushes(self) == 0, "a GPU of compute capability 9.0 needs no flush");
}

Test(memory, of_gpus_is_carried_from_and_to_them, .timeout = 280)
{
	counters_apart();
	world_run(&(struct world){.nranks = 2}, without_flush);
	world_check_net(2, "/GDRDMA");
	world_check_net(2, "memory of host and GPU");
	world_check_net(2, "dma-buf");
}

/* Older GPUs may show a flag before the data that came before it. */
static void with_flush(struct rank *self)
{
	all_collectives(self);
	MUST(flushes(self) > 0 || self->rank, "nothing was flushed");
}

Test(memory, of_old_gpus_is_flushed, .timeout = 280)
{
	counters_apart();
	world_run(&(struct world){.nranks = 2, .env = {"FAKE_CUDA_CC=80"}}, with_flush);
	world_check_net(2, "/GDRDMA");
}

Test(memory, of_gpus_goes_by_way_of_hosts_where_nccl_is_told_so, .timeout = 280)
{
	struct world w = {.nranks = 2, .env = {"NCCL_NET_GDR_LEVEL=LOC"}};

	world_run(&w, all_collectives);
	world_check_net(2, "via NET/EFA");
	for (int r = 0; r < 2; r++)
		cr_assert(!world_said(r, "/GDRDMA"), "rank %d", r);
}

/* ---- the user's own ---- */

static void in_place_of_the_user(struct rank *self)
{
	static const enum coll colls[] = {ALL_REDUCE, ALL_GATHER, BROADCAST, SEND_RECV, ALL_TO_ALL};

	for (int i = 0; i < COUNT(colls); i++)
		for (int k = 0; k < COUNT(counts); k++) {
			struct coll_call call = {.coll = colls[i],
						 .type = ncclFloat32,
						 .op = ncclSum,
						 .count = counts[k] * 10,
						 .registered = true};

			coll_check(self, self->comm, &call);
		}
}

/* Where each rank is a host of its own the NICs do all of it; where not, GPUs of a host do a part.
 */
struct spread {
	int nranks, per_host;
};

static struct spread spreads[] = {{3, 1}, {4, 2}};

ParameterizedTestParameters(memory, that_users_registered_is_not_copied)
{
	return cr_make_param_array(struct spread, spreads, COUNT(spreads));
}

ParameterizedTest(struct spread *s, memory, that_users_registered_is_not_copied, .timeout = 280)
{
	struct world w = {.nranks = s->nranks,
			  .per_host = s->per_host,
			  .env = {"NCCL_ALGO=Ring", "NCCL_PROTO=Simple"}};

	world_run(&w, in_place_of_the_user);
	for (int r = 0; r < w.nranks; r++)
		cr_assert(world_said(r, "NET register userbuff"), "rank %d", r);
}

/* ---- LL and LL128 ---- */

static void small(struct rank *self)
{
	struct coll_call call = {ALL_REDUCE, ncclFloat32, ncclSum, 16, 0, false, false};

	coll_check(self, self->comm, &call);
}

/* NCCL would choose LL for little data. Only rank 0 tells what it chose. */
Test(memory, is_sent_by_simple_where_the_nic_keeps_no_order, .timeout = 280)
{
	world_run(&(struct world){.nranks = 2}, small);
	world_check_net(2, "LL and LL128 are forbidden");
	cr_assert(world_said(0, "proto SIMPLE"));
	cr_assert(!world_said(0, "proto LL"));
}

Test(memory, is_sent_by_ll_where_the_nic_keeps_order, .timeout = 280)
{
	world_run(&(struct world){.nranks = 2, .softefa = "caps=0x7f"}, small);
	cr_assert(world_said(0, "proto LL"));
}
