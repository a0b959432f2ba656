/* SPDX-License-Identifier: BSD-3-Clause */
/* What is particular to the tables of single versions. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

#define ABIS() cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS)

ParameterizedTestParameters(tables, version_carries_messages_both_ways_for_several_comms)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, tables,
		  version_carries_messages_both_ways_for_several_comms)
{
	enum { LINKS = 4 };
	struct link l[LINKS];
	struct plug p;

	plug_open(&p, abi->v);
	for (int i = 0; i < LINKS; i++)
		link_open(&l[i], &p, i % p.ndev, (i + 1) % p.ndev);
	for (int i = 0; i < 10 * LINKS; i++)
		link_message(&l[i % LINKS], 1000 * (size_t)i, (uint32_t)i);
	for (int i = 0; i < LINKS; i++)
		link_close(&l[i]);
	plug_close(&p);
}

ParameterizedTestParameters(tables, version_leaves_out_what_a_host_device_has_not)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, tables, version_leaves_out_what_a_host_device_has_not)
{
	struct plug p;

	plug_load(&p, abi->v);
	cr_assert(eq(int, p.net.abi, abi->v));
	cr_assert(eq(int, p.net.get_device_mr == NULL, 1));
	cr_assert(eq(int, p.net.irecv_consumed == NULL, 1));
	cr_assert(eq(int, p.net.make_vdevice == NULL, 1));
	host_net_close(&p.net);
}

/* Every pair of versions in one process: a training script may load two copies of NCCL. */
ParameterizedTestParameters(tables, version_talks_to_every_other)
{
	return ABIS();
}

static void message_between(struct plug *from, struct plug *to, uint32_t seed)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	void *listen, *send, *recv, *r;
	struct mem a, b;

	listen = plug_listen(to, 0, handle);
	plug_connect_once(from, 0, handle);
	recv = plug_accept(to, listen);
	send = plug_connect(from, 0, handle);
	plug_close_listen(to, listen);
	mem_get(&a, from, send, 5000, 0);
	mem_get(&b, to, recv, 5000, 0);
	bytes_fill(a.at, 5000, seed);
	r = plug_recv(to, recv, b.at, 5000, 0, b.mh);
	plug_wait(from, plug_send(from, send, a.at, 5000, 0, a.mh));
	cr_assert(eq(int, plug_wait(to, r), 5000));
	cr_assert(eq(long, bytes_differ(b.at, 5000, seed), -1));
	mem_put(&a);
	mem_put(&b);
	plug_close_send(from, send);
	plug_close_recv(to, recv);
}

ParameterizedTest(struct plug_abi *abi, tables, version_talks_to_every_other)
{
	struct plug one, other;

	plug_open(&one, abi->v);
	for (int i = 0; i < PLUG_ABIS; i++) {
		plug_open(&other, plug_abis[i].v);
		message_between(&one, &other, (uint32_t)i);
		plug_close(&other);
	}
	plug_close(&one);
}

/* ---- sizes that are int ---- */

static struct plug_abi narrow[] = {{6}, {7}, {8}};

ParameterizedTestParameters(tables, negative_size_is_an_error_and_the_comm_lives)
{
	return cr_make_param_array(struct plug_abi, narrow, 3);
}

ParameterizedTest(struct plug_abi *abi, tables, negative_size_is_an_error_and_the_comm_lives)
{
	void *request = &request;
	struct plug p;
	struct link l;
	struct mem m;
	int size = -1, tag = 0;
	void *at;

	plug_open(&p, abi->v);
	link_open(&l, &p, 0, 0);
	mem_get(&m, &p, l.recv, 100, 0);
	at = m.at;
	cr_assert(ne(int, p.net.raw.isend_v6(l.send, at, size, tag, m.mh, &request), 0));
	cr_assert(eq(ptr, request, NULL));
	request = &request;
	cr_assert(ne(int, p.net.raw.irecv_v6(l.recv, 1, &at, &size, &tag, &m.mh, &request), 0));
	cr_assert(eq(ptr, request, NULL));
	mem_put(&m);
	link_message(&l, 100, 1);
	link_close(&l);
	plug_close(&p);
}

ParameterizedTestParameters(tables, registration_of_a_negative_size_is_an_error)
{
	return cr_make_param_array(struct plug_abi, narrow, 2);
}

ParameterizedTest(struct plug_abi *abi, tables, registration_of_a_negative_size_is_an_error)
{
	uint8_t memory[64];
	void *mh = &mh;
	struct plug p;
	struct link l;

	plug_open(&p, abi->v);
	link_open(&l, &p, 0, 0);
	cr_assert(ne(int, p.net.raw.reg_mr_v6(l.send, memory, INT_MIN, NCCL_NET_PTR_HOST, &mh), 0));
	cr_assert(eq(ptr, mh, NULL));
	cr_assert(eq(int, plug_warned(), 1));
	plug_forget();
	link_close(&l);
	plug_close(&p);
}

/* ---- profiler ---- */

static struct plug_abi with_profiler[] = {{10}, {11}, {12}};

static enum nccl_net_result called(void **ehandle, int type, void *phandle, int64_t plugin_id,
				   void *ext_data)
{
	(void)ehandle, (void)type, (void)plugin_id, (void)ext_data;
	need(phandle, "a handle that NCCL has not given");
	return NCCL_NET_OK;
}

ParameterizedTestParameters(tables, profiler_and_its_handles_are_taken)
{
	return cr_make_param_array(struct plug_abi, with_profiler, 3);
}

ParameterizedTest(struct plug_abi *abi, tables, profiler_and_its_handles_are_taken)
{
	struct nccl_net_config config = {.traffic_class = -1};
	void *ctx = NULL, *send = NULL, *recv = NULL, *at, *mh, *handle = &config;
	size_t size = 5000;
	struct mem from, to;
	struct plug p;
	struct link l;
	int tag = 3;

	plug_open(&p, abi->v);
	plug_close(&p);
	plug_load(&p, abi->v);
	need(!p.net.init(&p.net, &ctx, 1, &config, NULL, called), "init");
	p.ctx = ctx;
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, size, 0);
	mem_get(&to, &p, l.recv, size, 0);
	bytes_fill(from.at, size, 1);
	at = to.at;
	mh = to.mh;
	need(!p.net.irecv(&p.net, l.recv, 1, &at, &size, &tag, &mh, &handle, &recv) && recv,
	     "irecv");
	while (!send)
		need(!p.net.isend(&p.net, l.send, from.at, size, tag, from.mh, handle, &send),
		     "isend");
	plug_wait(&p, send);
	plug_wait(&p, recv);
	cr_assert(eq(long, bytes_differ(to.at, size, 1), -1));
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

/* ---- the configuration of a communicator ---- */

struct class
{
	int abi, value;
};

ParameterizedTestParameters(tables, traffic_class_changes_nothing)
{
	static struct class classes[] = {{10, -1},      {10, 0},   {10, 105},    {11, 8},
					 {12, INT_MIN}, {12, 255}, {12, INT_MAX}};

	return cr_make_param_array(struct class, classes, sizeof(classes) / sizeof(classes[0]));
}

ParameterizedTest(struct class *c, tables, traffic_class_changes_nothing)
{
	struct nccl_net_config config = {.traffic_class = c->value};
	void *ctx = NULL;
	struct plug p;
	struct link l;

	plug_open(&p, c->abi);
	plug_close(&p);
	plug_load(&p, c->abi);
	need(!p.net.init(&p.net, &ctx, 1, &config, NULL, NULL), "init");
	p.ctx = ctx;
	link_open(&l, &p, 0, 0);
	link_message(&l, 5000, 1);
	link_close(&l);
	plug_close(&p);
}

/* ---- contexts ---- */

static struct plug_abi with_context[] = {{11}, {12}};

ParameterizedTestParameters(tables, failed_init_may_be_finalized)
{
	return cr_make_param_array(struct plug_abi, with_context, 2);
}

/* NCCL 2.28.3 to 2.29.3 call finalize(NULL) when they think that init has failed. */
ParameterizedTest(struct plug_abi *abi, tables, failed_init_may_be_finalized)
{
	struct plug p;

	plug_load(&p, abi->v);
	cr_assert(eq(int, p.net.raw.finalize_v11(NULL), NCCL_NET_OK));
	plug_init(&p);
	cr_assert(eq(int, p.net.raw.finalize_v11(NULL), NCCL_NET_OK));
	plug_close(&p);
}

/* NCCL 2.22 and 2.23 load a fresh image and do not initialise it again. */
Test(tables, calls_before_init_work)
{
	struct nccl_net_props_v12 props;
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	void *listen = NULL;
	struct plug p;
	int ndev = -1;

	plug_load(&p, 8);
	cr_assert(eq(int, p.net.devices(&ndev), NCCL_NET_OK));
	if (!ndev)
		cr_skip("no EFA here: run below softefa");
	cr_assert(eq(int, p.net.get_properties(&p.net, 0, &props), NCCL_NET_OK));
	cr_assert(eq(int, p.net.listen(&p.net, NULL, 0, handle, &listen), NCCL_NET_OK));
	cr_assert(eq(int, p.net.close_listen(listen), NCCL_NET_OK));
	host_net_close(&p.net);
}
