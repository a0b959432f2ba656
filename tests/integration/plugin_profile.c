/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL's profiler is told of messages: a profiler of the test keeps the events. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { SIZE = 20000, EVENTS = 512, SOON_MS = 10000 };

/* ---- profilers ---- */

struct event {
	int stops;
	void *phandle;
	struct nccl_net_event_ib told;
};

static struct event events[EVENTS];
static int nevents, nothers;
static bool wanted = true;

/* As NCCL: a start has all, of the rest only the handle counts. */
static enum nccl_net_result profile(void **ehandle, int type, void *phandle, int64_t plugin_id,
				    void *ext_data)
{
	struct event *e;

	if (type == NCCL_NET_EVENT_STOP) {
		e = *ehandle;
		need(e >= events && e < events + nevents, "a stop of %p", *ehandle);
		e->stops++;
		return NCCL_NET_OK;
	}
	need(type == NCCL_NET_EVENT_START, "type %d", type);
	need(plugin_id == (1 << 16 | 1), "of plugin %#llx", (long long)plugin_id);
	need(phandle && ext_data && !*ehandle, "%p, %p, %p", phandle, ext_data, *ehandle);
	need(nevents < EVENTS, "too many events");
	e = &events[nevents++];
	*e = (struct event){.phandle = phandle};
	memcpy(&e->told, ext_data, sizeof(e->told));
	if (wanted)
		*ehandle = e;
	return NCCL_NET_OK;
}

/* That of another copy of NCCL. */
static enum nccl_net_result profile_other(void **ehandle, int type, void *phandle,
					  int64_t plugin_id, void *ext_data)
{
	(void)ehandle, (void)type, (void)phandle, (void)plugin_id, (void)ext_data;
	nothers++;
	return NCCL_NET_OK;
}

static void all_stopped(int n)
{
	cr_assert(eq(int, nevents, n));
	for (int i = 0; i < n; i++)
		need(events[i].stops == 1, "event %d of %d was stopped %d times", i, n,
		     events[i].stops);
}

/* ---- a link of a plugin that has it ---- */

static char send_op, recv_op[8]; /* what NCCL's handles are the addresses of */

static void *init(struct plug *p, int abi, nccl_net_profiler_fn profiler)
{
	struct nccl_net_config config = {.traffic_class = -1};
	void *ctx = NULL;

	plug_open(p, abi);
	plug_close(p);
	plug_load(p, abi);
	need(!p->net.init(&p->net, &ctx, 1, &config, NULL, profiler), "init");
	p->ctx = ctx;
	return ctx;
}

static void *start_recv(struct link *l, struct mem *to, size_t bytes, void *phandle)
{
	void *request = NULL, *at = to->at, *mh = to->mh;
	struct host_net *net = &l->plug->net;
	int tag = 0;

	need(!net->irecv(net, l->recv, 1, &at, &bytes, &tag, &mh, &phandle, &request) && request,
	     "irecv");
	return request;
}

static void *start_send(struct link *l, struct mem *from, size_t bytes, void *phandle)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	struct host_net *net = &l->plug->net;
	void *request = NULL;

	while (!request) {
		need(now_ms() < end, "isend starts nothing");
		need(!net->isend(net, l->send, from->at, bytes, 0, from->mh, phandle, &request),
		     "isend");
	}
	return request;
}

struct ends {
	struct link l;
	struct mem from, to;
};

static void ends_open(struct ends *e, struct plug *p)
{
	link_open(&e->l, p, 0, 0);
	mem_get(&e->from, p, e->l.send, SIZE, 0);
	mem_get(&e->to, p, e->l.recv, SIZE, 0);
}

static void ends_close(struct ends *e)
{
	mem_put(&e->from);
	mem_put(&e->to);
	link_close(&e->l);
}

/* ---- messages ---- */

static struct plug_abi with_profiler[] = {{10}, {11}, {12}};

#define ABIS() cr_make_param_array(struct plug_abi, with_profiler, 3)

ParameterizedTestParameters(profile, message_is_an_event_at_either_end)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, profile, message_is_an_event_at_either_end)
{
	struct ends e;
	struct plug p;

	init(&p, abi->v, profile);
	ends_open(&e, &p);
	for (int i = 0; i < 100; i++) {
		void *recv = start_recv(&e.l, &e.to, SIZE, recv_op);
		void *send = start_send(&e.l, &e.from, 5000, &send_op);
		const struct event *in = &events[nevents - 2], *out = &events[nevents - 1];

		cr_assert(eq(int, nevents, 2 * i + 2));
		cr_assert(zero(int, in->stops + out->stops));
		cr_assert(eq(ptr, in->phandle, recv_op));
		cr_assert(eq(ptr, out->phandle, &send_op));
		cr_assert(eq(sz, in->told.qp.length, SIZE));
		cr_assert(eq(sz, out->told.qp.length, 5000));
		cr_assert(eq(int, in->told.type, 1));
		cr_assert(eq(int, out->told.type, 1));
		cr_assert(zero(int, in->told.qp.device));
		cr_assert(zero(int, out->told.qp.device));
		cr_assert(ne(u64, in->told.qp.wr_id, out->told.qp.wr_id));
		cr_assert(gt(int, in->told.qp.qp_num, 0));
		cr_assert(gt(int, out->told.qp.qp_num, 0));
		cr_assert(ne(int, in->told.qp.qp_num, out->told.qp.qp_num));
		cr_assert(eq(int, in->told.qp.opcode, IBV_WR_RDMA_WRITE));
		cr_assert(eq(int, out->told.qp.opcode, IBV_WR_RDMA_WRITE_WITH_IMM));
		plug_wait(&p, send);
		cr_assert(eq(int, out->stops, 1));
		plug_wait(&p, recv);
		cr_assert(eq(int, in->stops, 1));
	}
	ends_close(&e);
	all_stopped(200);
	plug_close(&p);
}

Test(profile, buffer_of_a_group_is_an_event_if_it_has_a_handle)
{
	void *at[8], *mh[8], *handle[8], *recv = NULL, *send[8];
	size_t size[8];
	struct ends e;
	struct plug p;
	int tag[8], sizes[8];

	init(&p, 0, profile);
	ends_open(&e, &p);
	for (int i = 0; i < 8; i++) {
		at[i] = e.to.at + 1000 * i;
		mh[i] = e.to.mh;
		size[i] = 100 + (size_t)i;
		tag[i] = 0;
		handle[i] = i == 3 ? NULL : &recv_op[i];
	}
	need(!p.net.irecv(&p.net, e.l.recv, 8, at, size, tag, mh, handle, &recv) && recv, "irecv");
	cr_assert(eq(int, nevents, 7));
	for (int i = 0; i < 7; i++) {
		const int buffer = i < 3 ? i : i + 1;

		cr_assert(eq(ptr, events[i].phandle, &recv_op[buffer]));
		cr_assert(eq(sz, events[i].told.qp.length, size[buffer]));
	}
	for (int i = 0; i < 8; i++)
		send[i] = start_send(&e.l, &e.from, 50, NULL);
	for (int i = 0; i < 8; i++)
		plug_wait(&p, send[i]);
	plug_wait_group(&p, recv, 8, sizes);
	all_stopped(7);
	ends_close(&e);
	plug_close(&p);
}

/* ---- none ---- */

struct none {
	bool profiler, handles, wanted;
	int starts;
};

ParameterizedTestParameters(profile, nobody_is_told_who_does_not_want_it)
{
	static struct none nones[] = {
		{false, true, true, 0}, {true, false, true, 0}, {true, true, false, 2}};

	return cr_make_param_array(struct none, nones, 3);
}

ParameterizedTest(struct none *none, profile, nobody_is_told_who_does_not_want_it)
{
	void *recv, *send;
	struct ends e;
	struct plug p;

	wanted = none->wanted;
	init(&p, 0, none->profiler ? profile : NULL);
	ends_open(&e, &p);
	recv = start_recv(&e.l, &e.to, SIZE, none->handles ? recv_op : NULL);
	send = start_send(&e.l, &e.from, SIZE, none->handles ? &send_op : NULL);
	plug_wait(&p, send);
	plug_wait(&p, recv);
	ends_close(&e);
	cr_assert(eq(int, nevents, none->starts));
	for (int i = 0; i < nevents; i++)
		cr_assert(zero(int, events[i].stops));
	plug_close(&p);
}

/* ---- ends that are none of success ---- */

Test(profile, event_of_a_send_that_fails_is_stopped)
{
	struct ends e;
	struct plug p;
	void *send;

	init(&p, 0, profile);
	ends_open(&e, &p);
	start_recv(&e.l, &e.to, SIZE, recv_op);
	plug_dereg(&p, e.l.recv, e.to.mh);
	send = start_send(&e.l, &e.from, SIZE, &send_op);
	cr_assert(ne(int, plug_test_fails(&p, send, SOON_MS), NCCL_NET_OK));
	plug_dereg(&p, e.l.send, e.from.mh);
	link_close(&e.l);
	all_stopped(2);
	plug_forget();
	plug_close(&p);
}

Test(profile, events_of_an_abort_are_stopped)
{
	struct ends e;
	struct plug p;

	init(&p, 0, profile);
	ends_open(&e, &p);
	for (int i = 0; i < 32; i++)
		start_recv(&e.l, &e.to, SIZE, recv_op);
	for (int i = 0; i < 16; i++)
		start_send(&e.l, &e.from, SIZE, &send_op);
	ends_close(&e);
	all_stopped(48);
	plug_forget();
	plug_close(&p);
}

/* ---- two copies of NCCL ---- */

Test(profile, comm_tells_the_profiler_of_its_context)
{
	struct nccl_net_config config = {.traffic_class = -1};
	void *recv, *send, *second = NULL;
	struct ends e, other;
	struct plug p;

	init(&p, 0, profile);
	need(!p.net.init(&p.net, &second, 2, &config, NULL, profile_other), "init");
	ends_open(&e, &p);
	recv = start_recv(&e.l, &e.to, SIZE, recv_op);
	send = start_send(&e.l, &e.from, SIZE, &send_op);
	plug_wait(&p, send);
	plug_wait(&p, recv);
	all_stopped(2);
	cr_assert(zero(int, nothers));
	void *first = p.ctx;
	p.ctx = second;
	ends_open(&other, &p);
	recv = start_recv(&other.l, &other.to, SIZE, recv_op);
	send = start_send(&other.l, &other.from, SIZE, &send_op);
	cr_assert(eq(int, nothers, 2));
	all_stopped(2);
	plug_wait(&p, send);
	plug_wait(&p, recv);
	ends_close(&other);
	ends_close(&e);
	need(!p.net.finalize(&p.net, second), "finalize");
	p.ctx = first;
	plug_close(&p);
}
