/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes of what has arrived in memory of a GPU: how often which NIC reads, when CUDA is asked,
 * and when nothing is done. Needs softefa with four devices.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../cuda/fake.h"
#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"

TestSuite(flush, .timeout = 120);

enum { SIZE = 1 << 20, SMALL = 4096 };

/* From host memory into a GPU's. */
struct rig {
	struct fake_cuda *fake;
	struct plug plug;
	struct link link;
	struct mem from;
	uint8_t *gpu;
	void *mh;
	struct counters before;
};

static void use_cuda(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	counters_apart();
	r->fake = fake_cuda_load();
}

static void rig_open(struct rig *r, int abi)
{
	struct nccl_net_props_v12 props;
	struct plug *p = &r->plug;

	plug_open(p, abi);
	cr_assert(eq(int, p->net.get_properties(&p->net, 0, &props), NCCL_NET_OK));
	link_open(&r->link, p, 0, 0);
	mem_get(&r->from, p, r->link.send, SIZE, 0);
	r->gpu = fake_cuda_alloc(SIZE);
	need(p->net.reg_mr(&p->net, r->link.recv, r->gpu, SIZE, NCCL_NET_PTR_CUDA, &r->mh) ==
		     NCCL_NET_OK,
	     "%s", plug_warning());
	counters_get(&r->before, "read");
}

static void rig_close(struct rig *r)
{
	mem_put(&r->from);
	plug_dereg(&r->plug, r->link.recv, r->mh);
	link_close(&r->link);
	plug_close(&r->plug);
}

/* One message of @size to @at, until it is done. */
static void arrive(struct rig *r, void *at, void *mh, size_t size, uint32_t seed)
{
	void *recv = plug_recv(&r->plug, r->link.recv, at, size, 0, mh);

	bytes_fill(r->from.at, size, seed);
	plug_wait(&r->plug, plug_send(&r->plug, r->link.send, r->from.at, size, 0, r->from.mh));
	need((size_t)plug_wait(&r->plug, recv) == size, "not %zu bytes", size);
}

/* What NCCL calls when a receive is done; NULL: it is flushed already. */
static void *flush(struct rig *r, int n, void **data, int *sizes, void **mhs)
{
	enum nccl_net_result rc;
	void *request = r; /* no one's */

	rc = r->plug.net.iflush(r->link.recv, n, data, sizes, mhs, &request);
	need(rc == NCCL_NET_OK, "%d: %s", (int)rc, plug_warning());
	need(request != r, "the request was not written");
	return request;
}

static void *flush_gpu(struct rig *r, int size)
{
	void *at = r->gpu;

	return flush(r, 1, &at, &size, &r->mh);
}

/* As NCCL tests a flush: without sizes. */
static void finish(struct rig *r, void *request)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;

	while (!plug_test(&r->plug, request, NULL)) {
		need(now_ms() < end, "a flush is not done within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
}

/* Reads since the rig was opened. */
static long long reads(struct rig *r)
{
	struct counters c;

	counters_since(&c, "read", &r->before);
	return counters_sum(&c);
}

/* ---- one rail ---- */

ParameterizedTestParameters(flush, buffer_of_a_gpu_is_read_once_by_the_nic)
{
	return cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS);
}

ParameterizedTest(struct plug_abi *abi, flush, buffer_of_a_gpu_is_read_once_by_the_nic)
{
	struct counters c;
	struct rig r;

	use_cuda(&r);
	rig_open(&r, abi->v);
	for (uint32_t i = 0; i < 100; i++) {
		void *request;

		arrive(&r, r.gpu, r.mh, SMALL, i);
		request = flush_gpu(&r, SMALL);
		cr_assert(ne(ptr, request, NULL));
		finish(&r, request);
		cr_assert(eq(long, bytes_differ(r.gpu, SMALL, i), -1));
	}
	counters_since(&c, "read", &r.before);
	cr_assert(eq(llong, counters_sum(&c), 100));
	cr_assert(eq(llong, c.bytes[0] + c.bytes[1] + c.bytes[2] + c.bytes[3], 100));
	cr_assert(zero(uint, r.fake->flushes));
	rig_close(&r);
}

/*
 * Public report 34: of several GPUs that share a NIC, the one that got the data. The other's is
 * gone, which the NIC says when it reads there.
 */
Test(flush, memory_that_got_the_data_is_what_is_read)
{
	struct plug *p;
	uint8_t *other;
	void *mh, *request;
	struct rig r;
	int size = SMALL;

	plug_softefa("log=0");
	use_cuda(&r);
	r.fake->dmabuf = false; /* or what is unmapped stays there, as a file */
	rig_open(&r, 0);
	p = &r.plug;
	other = fake_cuda_alloc(SIZE);
	need(!p->net.reg_mr(&p->net, r.link.recv, other, SIZE, NCCL_NET_PTR_CUDA, &mh), "%s",
	     plug_warning());
	arrive(&r, other, mh, SMALL, 1);
	finish(&r, flush(&r, 1, (void *[]){other}, &size, &mh));
	munmap(other, SIZE);
	arrive(&r, r.gpu, r.mh, SMALL, 2);
	finish(&r, flush_gpu(&r, SMALL));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	arrive(&r, r.gpu, r.mh, SMALL, 3);
	munmap(r.gpu, SIZE);
	request = flush_gpu(&r, SMALL);
	cr_assert(ne(int, plug_test_fails(p, request, PLUG_WAIT_MS), NCCL_NET_OK));
	plug_forget();
	plug_dereg(p, r.link.recv, mh);
	rig_close(&r);
}

Test(flush, memory_of_the_host_needs_none)
{
	struct mem host;
	void *at, *mh;
	struct rig r;
	int size = SMALL;

	use_cuda(&r);
	rig_open(&r, 0);
	mem_get(&host, &r.plug, r.link.recv, SMALL, 0);
	arrive(&r, host.at, host.mh, SMALL, 1);
	at = host.at;
	mh = host.mh;
	cr_assert(eq(ptr, flush(&r, 1, &at, &size, &mh), NULL));
	cr_assert(zero(llong, reads(&r)));
	mem_put(&host);
	rig_close(&r);
}

Test(flush, message_of_nothing_needs_none)
{
	struct rig r;

	use_cuda(&r);
	rig_open(&r, 0);
	arrive(&r, r.gpu, r.mh, 0, 1);
	cr_assert(eq(ptr, flush_gpu(&r, 0), NULL));
	cr_assert(zero(llong, reads(&r)));
	rig_close(&r);
}

/* NCCL compacts pointers, but not sizes: those of a group need not belong together. */
Test(flush, group_is_flushed_by_one_of_its_buffers)
{
	enum { N = 3 };
	int sizes[N] = {0, SMALL, SMALL}, tags[N] = {1, 2, 3};
	size_t room[N] = {SMALL, SMALL, SMALL};
	void *at[N], *mh[N], *recv = NULL, *request, *send[N];
	struct plug *p;
	struct rig r;

	use_cuda(&r);
	rig_open(&r, 0);
	p = &r.plug;
	for (int i = 0; i < N; i++) {
		at[i] = r.gpu + i * SMALL;
		mh[i] = r.mh;
	}
	need(!p->net.irecv(&p->net, r.link.recv, N, at, room, tags, mh, NULL, &recv) && recv, "%s",
	     plug_warning());
	for (int i = 0; i < N; i++)
		send[i] =
			plug_send(p, r.link.send, r.from.at, (size_t)sizes[i], tags[i], r.from.mh);
	for (int i = 0; i < N; i++)
		plug_wait(p, send[i]);
	finish(&r, recv);
	request = flush(&r, N, at, sizes, mh);
	cr_assert(ne(ptr, request, NULL));
	finish(&r, request);
	cr_assert(eq(llong, reads(&r), 1));
	rig_close(&r);
}

/* What a flush does not say yet is no news, but what it is for was there before. */
Test(flush, data_that_a_flush_under_way_covers_wait_for_it)
{
	void *first, *second, *third;
	struct rig r;

	plug_softefa("fault=delay 300000 op=read nth=1");
	use_cuda(&r);
	rig_open(&r, 0);
	arrive(&r, r.gpu, r.mh, SMALL, 1);
	arrive(&r, r.gpu + SMALL, r.mh, SMALL, 2);
	first = flush_gpu(&r, SMALL);
	second = flush_gpu(&r, SMALL);
	cr_assert(ne(ptr, first, NULL));
	cr_assert(ne(ptr, second, NULL), "the read for the first is under way yet");
	cr_assert(ne(ptr, first, second));
	finish(&r, second);
	finish(&r, first);
	third = flush_gpu(&r, SMALL);
	cr_assert(eq(ptr, third, NULL), "nothing has arrived since");
	rig_close(&r);
}

/* The sends of a second connection fill the send queue and stay there for two seconds. */
Test(flush, call_does_not_wait_for_room_in_the_send_queue)
{
	enum { N = 64 };
	void *recv[N], *send[N], *request;
	struct mem from, to;
	struct link other;
	int64_t start;
	struct rig r;
	int n = 0;

	plug_softefa("max_sq_wr=64");
	setenv("NCCL_EFA_RAILS", "1", 1);
	use_cuda(&r);
	faults_init();
	rig_open(&r, 0);
	link_open(&other, &r.plug, 0, 0);
	mem_get(&from, &r.plug, other.send, SMALL, 0);
	for (int i = 0; i < N; i++)
		recv[i] = plug_recv(&r.plug, other.recv, r.gpu + SMALL, SMALL, 0, r.mh);
	arrive(&r, r.gpu, r.mh, SMALL, 1);
	faults_put("delay 2000000 op=write");
	mem_get(&to, &r.plug, other.recv, SMALL, 0); /* from this command on */
	while (n < N && (send[n] = plug_isend(&r.plug, other.send, from.at, SMALL, 0, from.mh)))
		n++;
	need(n == N, "%d sends", n);
	start = now_ms();
	request = flush_gpu(&r, SMALL);
	cr_assert(lt(i64, now_ms() - start, 1000));
	cr_assert(ne(ptr, request, NULL), "it is not flushed yet");
	need(!plug_test(&r.plug, request, NULL), "it cannot have been read yet");
	cr_assert(zero(llong, reads(&r)));
	faults_put("");
	finish(&r, request);
	cr_assert(eq(llong, reads(&r), 1));
	for (int i = 0; i < N; i++) {
		plug_wait(&r.plug, send[i]);
		plug_wait(&r.plug, recv[i]);
	}
	mem_put(&from);
	mem_put(&to);
	link_close(&other);
	rig_close(&r);
}

Test(flush, as_many_flushes_as_nccl_may_have_outstanding)
{
	enum { N = NCCL_NET_OUTSTANDING, ROUNDS = 20 };
	void *request[N];
	struct rig r;

	use_cuda(&r);
	rig_open(&r, 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < N; i++) {
			arrive(&r, r.gpu + i * SMALL, r.mh, SMALL, (uint32_t)i);
			request[i] = flush_gpu(&r, SMALL);
			need(request[i], "round %d, flush %d", round, i);
		}
		for (int i = N - 1; i >= 0; i--)
			finish(&r, request[i]);
	}
	rig_close(&r);
}

/* ---- rails ---- */

Test(flush, only_rails_that_data_came_by_read)
{
	struct counters c, before;
	struct rig r;

	setenv("NCCL_EFA_RAILS", "4", 1);
	setenv("NCCL_EFA_MIN_STRIPE", "65536", 1);
	use_cuda(&r);
	rig_open(&r, 0);
	if (r.plug.ndev != 1)
		cr_skip("needs four devices");
	arrive(&r, r.gpu, r.mh, SIZE, 1);
	finish(&r, flush_gpu(&r, SIZE));
	counters_since(&c, "read", &r.before);
	for (int i = 0; i < COUNTERS_DEVS; i++)
		cr_assert(eq(llong, c.n[i], 1), "device %d", i);
	for (uint32_t k = 0; k < 8; k++) {
		counters_get(&before, "read");
		arrive(&r, r.gpu, r.mh, SMALL, k);
		finish(&r, flush_gpu(&r, SMALL));
		counters_since(&c, "read", &before);
		cr_assert(eq(llong, counters_sum(&c), 1));
	}
	rig_close(&r);
}

/* What this side's own reads have put there has come the same way. */
Test(flush, data_that_the_nic_has_read_are_flushed_too)
{
	enum { N = 10 };
	struct rig r;

	setenv("NCCL_EFA_PROTOCOL", "read", 1);
	use_cuda(&r);
	rig_open(&r, 0);
	for (uint32_t i = 0; i < N; i++) {
		void *request;

		arrive(&r, r.gpu, r.mh, SMALL, i);
		request = flush_gpu(&r, SMALL);
		cr_assert(ne(ptr, request, NULL));
		finish(&r, request);
	}
	cr_assert(eq(llong, reads(&r), 2 * N), "one for the data, one to flush");
	rig_close(&r);
}

/* ---- the choice ---- */

struct choice {
	char env[24], softefa[24];
	bool cuda; /* the GPU has a call to flush */
	long long reads;
	unsigned calls;
	int warnings;
};

enum { MESSAGES = 5 };

ParameterizedTestParameters(flush, is_done_as_asked_and_as_can_be)
{
	static struct choice choices[] = {
		{"auto", "", true, MESSAGES, 0, 0},
		{"auto", "", false, MESSAGES, 0, 0},
		{"read", "", true, MESSAGES, 0, 0},
		{"cuda", "", true, 0, MESSAGES, 0},
		{"cuda", "", false, 0, 0, 1},
		{"off", "", true, 0, 0, 0},
		/* RDMA write, but no read */
		{"auto", "caps=0x6e", true, 0, MESSAGES, 0},
		{"auto", "caps=0x6e", false, 0, 0, 1},
		{"read", "caps=0x6e", true, 0, MESSAGES, 1},
		/* not a choice: one warning, and auto */
		{"sometimes", "", true, MESSAGES, 0, 1},
	};

	return cr_make_param_array(struct choice, choices, sizeof(choices) / sizeof(choices[0]));
}

ParameterizedTest(struct choice *c, flush, is_done_as_asked_and_as_can_be)
{
	struct rig r;

	setenv("NCCL_EFA_FLUSH", c->env, 1);
	if (c->softefa[0])
		plug_softefa(c->softefa);
	use_cuda(&r);
	r.fake->flush = c->cuda;
	rig_open(&r, 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		void *request;

		arrive(&r, r.gpu, r.mh, SMALL, i);
		request = flush_gpu(&r, SMALL);
		cr_assert(eq(int, request != NULL, c->reads != 0));
		if (request)
			finish(&r, request);
	}
	cr_assert(eq(llong, reads(&r), c->reads));
	cr_assert(eq(uint, r.fake->flushes, c->calls));
	if (c->calls)
		cr_assert(eq(int, r.fake->scope, 100), "to the device that has the memory");
	cr_assert(eq(int, plug_warned(), c->warnings), "%s", plug_warning());
	plug_forget();
	rig_close(&r);
}

/* ---- trouble ---- */

Test(flush, read_that_fails_is_an_error_of_its_comm_alone)
{
	struct link other;
	struct rig r;
	void *request;

	plug_softefa("fault=status 7 op=read nth=1");
	use_cuda(&r);
	rig_open(&r, 0);
	link_open(&other, &r.plug, 0, 0);
	arrive(&r, r.gpu, r.mh, SMALL, 1);
	request = flush_gpu(&r, SMALL);
	cr_assert(eq(int, plug_test_fails(&r.plug, request, PLUG_WAIT_MS), NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, plug_warned(), 1));
	need(strstr(plug_warning(), "a flush failed"), "%s", plug_warning());
	plug_forget();
	link_message(&other, 10000, 1);
	link_close(&other);
	rig_close(&r);
}

/* A message over all rails of a comm that finds one dead: both ends are worked, as NCCL does. */
static void go_on(struct link *l, struct mem *from, struct mem *to, uint32_t seed)
{
	struct plug *p = l->plug;
	void *recv = plug_recv(p, l->recv, to->at, SIZE, 0, to->mh), *send;
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned rest = 0;

	bytes_fill(from->at, SIZE, seed);
	while (!(send = plug_isend(p, l->send, from->at, SIZE, 0, from->mh))) {
		need(!plug_test(p, recv, NULL), "done before it was sent");
		need(now_ms() < end, "the other comm does not go on");
		relax(&rest);
	}
	cr_assert(eq(int, plug_wait(p, recv), SIZE));
	cr_assert(eq(int, plug_wait(p, send), SIZE));
	cr_assert(eq(long, bytes_differ(to->at, SIZE, seed), -1));
}

static struct death {
	char protocol[8], rule[40], says[24];
} deaths[] = {
	{"write", "dead dev=1", "status 13"},
	{"read", "dead dev=1", "status 13"},
	{"write", "status 15 dev=1 op=read", "status 15"},
	{"read", "status 15 dev=1 op=read", "status 15"},
	{"write", "status 2 dev=1 op=read", "status 2"},
	{"read", "status 2 dev=1 op=read", "status 2"},
};

ParameterizedTestParameters(flush, rail_that_dies_before_its_flush_is_an_error_of_the_comm)
{
	return cr_make_param_array(struct death, deaths, sizeof(deaths) / sizeof(deaths[0]));
}

/*
 * No other NIC can make sure that what this one wrote is seen, so that it does not help that there
 * are rails left. A comm without a flush there goes on by these. By messages, nothing is flushed.
 */
ParameterizedTest(struct death *d, flush, rail_that_dies_before_its_flush_is_an_error_of_the_comm)
{
	void *request, *next = NULL, *at, *mh;
	size_t size = SMALL;
	struct mem from, to;
	struct link other;
	struct rig r;
	int tag = 0;

	plug_softefa("timeout_ms=300");
	setenv("NCCL_EFA_PROTOCOL", d->protocol, 1);
	setenv("NCCL_EFA_RAILS", "4", 1);
	setenv("NCCL_EFA_MIN_STRIPE", "65536", 1);
	use_cuda(&r);
	faults_init();
	rig_open(&r, 0);
	link_open(&other, &r.plug, 0, 0);
	mem_get(&from, &r.plug, other.send, SIZE, 0);
	arrive(&r, r.gpu, r.mh, SIZE, 1);
	faults_put(d->rule);
	mem_get(&to, &r.plug, other.recv, SIZE, 0); /* from this command on */
	request = flush_gpu(&r, SIZE);
	cr_assert(ne(ptr, request, NULL));
	cr_assert(eq(int, plug_test_fails(&r.plug, request, PLUG_WAIT_MS), NCCL_NET_REMOTE_ERROR));
	need(plug_said("a flush failed") && plug_said(d->says), "%s", plug_warning());
	at = r.gpu;
	mh = r.mh;
	cr_assert(ne(
		int,
		r.plug.net.irecv(&r.plug.net, r.link.recv, 1, &at, &size, &tag, &mh, NULL, &next),
		NCCL_NET_OK));
	for (uint32_t i = 0; i < 3; i++)
		go_on(&other, &from, &to, i);
	plug_forget();
	faults_put("");
	mem_put(&from);
	mem_put(&to);
	link_close(&other);
	rig_close(&r);
}

/* An abort: the buffer is gone when the read comes by. */
Test(flush, comm_is_closed_with_a_flush_under_way)
{
	struct link other;
	struct rig r;

	plug_softefa("fault=delay 100000 op=read");
	use_cuda(&r);
	rig_open(&r, 0);
	link_open(&other, &r.plug, 0, 0);
	arrive(&r, r.gpu, r.mh, SMALL, 1);
	cr_assert(ne(ptr, flush_gpu(&r, SMALL), NULL));
	plug_dereg(&r.plug, r.link.recv, r.mh);
	link_close(&r.link);
	for (uint32_t i = 0; i < 20; i++) {
		link_message(&other, 1000, i);
		nap_ms(10);
	}
	link_close(&other);
	plug_close(&r.plug);
}

/* ---- beside events of a profiler ---- */

static int running;

static enum nccl_net_result count(void **ehandle, int type, void *phandle, int64_t plugin_id,
				  void *ext_data)
{
	(void)phandle, (void)plugin_id, (void)ext_data;
	running += type == NCCL_NET_EVENT_START ? 1 : -1;
	*ehandle = &running;
	return NCCL_NET_OK;
}

static void *recv_with_event(struct rig *r)
{
	void *request = NULL, *at = r->gpu, *mh = r->mh, *phandle = r;
	struct host_net *net = &r->plug.net;
	size_t size = SMALL;
	int tag = 0;

	need(!net->irecv(net, r->link.recv, 1, &at, &size, &tag, &mh, &phandle, &request) &&
		     request,
	     "irecv");
	return request;
}

Test(flush, is_no_event_and_ends_none)
{
	struct nccl_net_config config = {.traffic_class = -1};
	void *first, *second = NULL, *recv[2];
	struct link plain;
	struct rig r;

	use_cuda(&r);
	rig_open(&r, 0);
	need(!r.plug.net.init(&r.plug.net, &second, 2, &config, NULL, count), "init");
	first = r.plug.ctx;
	plain = r.link;
	r.plug.ctx = second;
	link_open(&r.link, &r.plug, 0, 0);
	for (int i = 0; i < 2; i++)
		recv[i] = recv_with_event(&r);
	for (int i = 0; i < 2; i++) {
		void *request;

		plug_send(&r.plug, r.link.send, r.from.at, SMALL, 0, r.from.mh);
		plug_wait(&r.plug, recv[i]);
		cr_assert(eq(int, running, 1 - i));
		request = flush_gpu(&r, SMALL);
		cr_assert(ne(ptr, request, NULL));
		finish(&r, request);
		cr_assert(eq(int, running, 1 - i));
	}
	link_close(&r.link);
	need(!r.plug.net.finalize(&r.plug.net, second), "finalize");
	r.plug.ctx = first;
	r.link = plain;
	rig_close(&r);
}
