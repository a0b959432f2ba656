/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory through the plugin, with a stand-in for CUDA whose memory softefa can reach. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cuda/fake.h"
#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { HOST = NCCL_NET_PTR_HOST, CUDA = NCCL_NET_PTR_CUDA, DMABUF = NCCL_NET_PTR_DMABUF };

/* A link of device 0 to itself. */
struct rig {
	struct fake_cuda *fake;
	struct plug plug;
	struct link link;
};

static void rig_open(struct rig *r, int abi)
{
	r->fake = fake_cuda_load();
	plug_open(&r->plug, abi);
	link_open(&r->link, &r->plug, 0, 0);
}

static void rig_close(struct rig *r)
{
	link_close(&r->link);
	plug_close(&r->plug);
}

static int support(struct plug *p)
{
	struct nccl_net_props_v12 props;

	need(p->net.get_properties(&p->net, 0, &props) == NCCL_NET_OK, "properties");
	return props.ptr_support;
}

/* ---- registration ---- */

/* NCCL's ways to have GPU memory registered. */
enum way { BY_FD, BY_ADDRESS };

static int export_of(void *at, size_t size)
{
	int (*export)(void *fd, uint64_t ptr, size_t size, int type, unsigned long long flags);
	uint64_t page = 4096, start = (uintptr_t)at & ~(page - 1);
	uint64_t end = ((uintptr_t)at + size + page - 1) & ~(page - 1);
	int fd = -1;

	*(void **)&export = dlsym(RTLD_DEFAULT, "cuMemGetHandleForAddressRange");
	need(export && !export(&fd, start, end - start, 1, 0), "%zu bytes", size);
	return fd;
}

static enum nccl_net_result try_fd(struct rig *r, void *comm, void *at, size_t size, int fd,
				   uint64_t offset, void **mh)
{
	*mh = mh;
	return r->plug.net.reg_mr_dma_buf(comm, at, size, CUDA, offset, fd, mh);
}

static enum nccl_net_result try_address(struct rig *r, void *comm, void *at, size_t size, void **mh)
{
	*mh = mh;
	return r->plug.net.reg_mr(&r->plug.net, comm, at, size, CUDA, mh);
}

static void *reg(struct rig *r, void *comm, void *at, size_t size, enum way way)
{
	enum nccl_net_result rc;
	void *mh;

	if (way == BY_FD) {
		int fd = export_of(at, size);

		rc = try_fd(r, comm, at, size, fd, (uintptr_t)at % 4096, &mh);
		close(fd);
	} else {
		rc = try_address(r, comm, at, size, &mh);
	}
	need(rc == NCCL_NET_OK, "%d: %s", (int)rc, plug_warning());
	need(mh && mh != &mh, "no memory handle");
	return mh;
}

/* One message between registered ranges; all of it arrives. */
static void carry(struct rig *r, uint8_t *from, void *from_mh, uint8_t *to, void *to_mh,
		  size_t size, uint32_t seed)
{
	struct plug *p = &r->plug;
	void *recv;
	long bad;

	bytes_fill(from, size, seed);
	memset(to, 0, size);
	recv = plug_recv(p, r->link.recv, to, size, 0, to_mh);
	plug_wait(p, plug_send(p, r->link.send, from, size, 0, from_mh));
	need((size_t)plug_wait(p, recv) == size, "not %zu bytes", size);
	bad = bytes_differ(to, size, seed);
	need(bad < 0, "byte %ld of %zu", bad, size);
}

/* ---- what is supported ---- */

struct machine {
	bool dmabuf;
	char env[24], softefa[48]; /* may be empty */
	int support;
	int warnings;
};

ParameterizedTestParameters(cuda, properties_say_what_was_tried_with_success)
{
	static struct machine machines[] = {
		{true, "", "", HOST | CUDA | DMABUF, 0},
		{false, "", "", HOST | CUDA, 0},
		{true, "NCCL_EFA_DMABUF=0", "", HOST | CUDA, 0},
		{true, "", "fault=refuse mr error=14", HOST, 1},
		{false, "", "fault=refuse mr error=95", HOST, 1},
		/* the dma-buf only: its registration comes first */
		{true, "", "fault=refuse mr nth=1 error=95", HOST | CUDA, 0},
	};

	return cr_make_param_array(struct machine, machines,
				   sizeof(machines) / sizeof(machines[0]));
}

ParameterizedTest(struct machine *m, cuda, properties_say_what_was_tried_with_success)
{
	struct fake_cuda *fake;
	struct plug p;

	if (m->env[0])
		putenv(m->env);
	if (m->softefa[0])
		plug_softefa(m->softefa);
	fake = fake_cuda_load();
	fake->dmabuf = m->dmabuf;
	plug_open(&p, 0);
	for (int i = 0; i < 3; i++)
		cr_assert(eq(int, support(&p), m->support), "%s", plug_warning());
	cr_assert(eq(uint, fake->freed, 1), "what is tried with is given back, and once");
	cr_assert(eq(int, plug_warned(), m->warnings), "%s", plug_warning());
	if (m->warnings)
		need(strstr(plug_warning(), "GPU memory cannot be registered") &&
			     strstr(plug_warning(), "ibv_reg_mr"),
		     "%s", plug_warning());
	plug_forget();
	plug_close(&p);
}

ParameterizedTestParameters(cuda, all_versions_say_the_same)
{
	return cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS);
}

ParameterizedTest(struct plug_abi *abi, cuda, all_versions_say_the_same)
{
	struct plug p;

	fake_cuda_load();
	plug_open(&p, abi->v);
	cr_assert(eq(int, support(&p), HOST | CUDA | DMABUF));
	cr_assert(ne(ptr, (void *)(uintptr_t)p.net.reg_mr_dma_buf, NULL));
	plug_close(&p);
}

/* NCCL asks from threads that have one; a tool may ask first. */
Test(cuda, thread_without_a_context_is_no_answer_for_others)
{
	struct fake_cuda *fake = fake_cuda_load();
	struct plug p;

	fake->context = false;
	plug_open(&p, 0);
	cr_assert(eq(int, support(&p), HOST));
	cr_assert(eq(int, support(&p), HOST));
	fake->context = true;
	cr_assert(eq(int, support(&p), HOST | CUDA | DMABUF));
	fake->context = false;
	cr_assert(eq(int, support(&p), HOST | CUDA | DMABUF));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_close(&p);
}

Test(cuda, without_cuda_there_is_no_gpu_memory_and_no_warning)
{
	struct plug p;

	if (dlopen("libcuda.so.1", RTLD_NOW))
		cr_skip("there is a real one");
	plug_open(&p, 0);
	cr_assert(eq(int, support(&p), HOST));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_close(&p);
}

/* ---- data ---- */

struct place {
	enum way way;
	bool dmabuf;
	size_t skew, size;
};

static struct place places[] = {
	{BY_FD, true, 0, 1},       {BY_FD, true, 0, 4096},        {BY_FD, true, 100, 5000},
	{BY_FD, true, 4095, 2},    {BY_FD, true, 0, 1 << 20},     {BY_FD, true, 8192, 3 << 20},
	{BY_ADDRESS, true, 0, 1},  {BY_ADDRESS, true, 100, 5000}, {BY_ADDRESS, true, 0, 70000},
	{BY_ADDRESS, false, 0, 1}, {BY_ADDRESS, false, 17, 5000}, {BY_ADDRESS, false, 0, 1 << 20},
};

ParameterizedTestParameters(cuda, message_moves_between_gpu_buffers)
{
	return cr_make_param_array(struct place, places, sizeof(places) / sizeof(places[0]));
}

ParameterizedTest(struct place *pl, cuda, message_moves_between_gpu_buffers)
{
	uint8_t *from, *to;
	void *a, *b;
	struct rig r;

	rig_open(&r, 0);
	from = (uint8_t *)fake_cuda_alloc(4 << 20) + pl->skew;
	to = (uint8_t *)fake_cuda_alloc(4 << 20) + pl->skew;
	r.fake->dmabuf = pl->dmabuf;
	a = reg(&r, r.link.send, from, pl->size, pl->way);
	b = reg(&r, r.link.recv, to, pl->size, pl->way);
	for (uint32_t i = 0; i < 3; i++)
		carry(&r, from, a, to, b, pl->size, i);
	plug_dereg(&r.plug, r.link.send, a);
	plug_dereg(&r.plug, r.link.recv, b);
	rig_close(&r);
}

static struct place in_pieces[] = {
	{BY_FD, true, 0, 65536},         {BY_FD, true, 100, 200000},
	{BY_FD, true, 0, 1 << 18},       {BY_ADDRESS, true, 0, 65536},
	{BY_ADDRESS, true, 100, 200000}, {BY_ADDRESS, true, 0, 1 << 18},
	{BY_ADDRESS, false, 0, 65536},   {BY_ADDRESS, false, 100, 200000},
};

ParameterizedTestParameters(cuda, message_moves_between_memory_mapped_in_pieces)
{
	return cr_make_param_array(struct place, in_pieces,
				   sizeof(in_pieces) / sizeof(in_pieces[0]));
}

/* Public report 23: as NCCL has its buffers since 2.19, and PyTorch where segments may grow. */
ParameterizedTest(struct place *pl, cuda, message_moves_between_memory_mapped_in_pieces)
{
	uint8_t *from, *to;
	void *a, *b;
	struct rig r;

	rig_open(&r, 0);
	from = (uint8_t *)fake_cuda_map(1 << 18, 65536) + pl->skew;
	to = (uint8_t *)fake_cuda_map(1 << 18, 65536) + pl->skew;
	r.fake->dmabuf = pl->dmabuf;
	a = reg(&r, r.link.send, from, pl->size, pl->way);
	b = reg(&r, r.link.recv, to, pl->size, pl->way);
	for (uint32_t i = 0; i < 3; i++)
		carry(&r, from, a, to, b, pl->size, i);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	cr_assert(zero(uint, r.fake->attributes));
	plug_dereg(&r.plug, r.link.send, a);
	plug_dereg(&r.plug, r.link.recv, b);
	rig_close(&r);
}

struct movers {
	char env[32], rails[4];
};

static struct movers movers[] = {{"NCCL_EFA_PROTOCOL=write", "4"},
				 {"NCCL_EFA_PROTOCOL=read", "1"},
				 {"NCCL_EFA_PROTOCOL=read", "4"}};

ParameterizedTestParameters(cuda, message_moves_between_gpu_buffers_by_each_protocol)
{
	return cr_make_param_array(struct movers, movers, 3);
}

ParameterizedTest(struct movers *m, cuda, message_moves_between_gpu_buffers_by_each_protocol)
{
	static const size_t sizes[] = {0, 1, 4096, 100000, 1 << 20};
	uint8_t *from, *to;
	void *a, *b;
	struct rig r;

	putenv(m->env);
	setenv("NCCL_EFA_RAILS", m->rails, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "4096", 1);
	rig_open(&r, 0);
	from = fake_cuda_alloc(1 << 20);
	to = fake_cuda_alloc(1 << 20);
	a = reg(&r, r.link.send, from, 1 << 20, BY_FD);
	b = reg(&r, r.link.recv, to, 1 << 20, BY_ADDRESS);
	for (uint32_t i = 0; i < 5; i++)
		carry(&r, from, a, to, b, sizes[i], i);
	plug_dereg(&r.plug, r.link.send, a);
	plug_dereg(&r.plug, r.link.recv, b);
	rig_close(&r);
}

/* There the CPU copies, which reaches no GPU: NCCL must not find out by a crash. */
Test(cuda, without_rdma_gpu_memory_is_refused)
{
	uint8_t *gpu;
	struct rig r;
	void *mh;

	setenv("NCCL_EFA_PROTOCOL", "send", 1);
	rig_open(&r, 0);
	cr_assert(eq(int, support(&r.plug), HOST));
	gpu = fake_cuda_alloc(4096);
	cr_assert(eq(int, try_address(&r, r.link.send, gpu, 4096, &mh), NCCL_NET_INVALID_USAGE));
	cr_assert(eq(ptr, mh, NULL));
	cr_assert(eq(int, plug_warned(), 1));
	need(strstr(plug_warning(), "no RDMA in common"), "%s", plug_warning());
	plug_forget();
	link_message(&r.link, 5000, 1);
	rig_close(&r);
}

ParameterizedTestParameters(cuda, message_moves_between_host_and_gpu_in_every_version)
{
	return cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS);
}

ParameterizedTest(struct plug_abi *abi, cuda, message_moves_between_host_and_gpu_in_every_version)
{
	enum { SIZE = 100000 };
	void *gpu_send, *gpu_recv;
	struct mem send, recv;
	uint8_t *gpu;
	struct rig r;

	rig_open(&r, abi->v);
	gpu = fake_cuda_alloc(SIZE);
	mem_get(&send, &r.plug, r.link.send, SIZE, 0);
	mem_get(&recv, &r.plug, r.link.recv, SIZE, 0);
	gpu_recv = reg(&r, r.link.recv, gpu, SIZE, BY_FD);
	gpu_send = reg(&r, r.link.send, gpu, SIZE, BY_ADDRESS);
	carry(&r, send.at, send.mh, gpu, gpu_recv, SIZE, 1);
	carry(&r, gpu, gpu_send, recv.at, recv.mh, SIZE, 2);
	plug_dereg(&r.plug, r.link.recv, gpu_recv);
	plug_dereg(&r.plug, r.link.send, gpu_send);
	mem_put(&send);
	mem_put(&recv);
	rig_close(&r);
}

/* ---- dma-bufs ---- */

enum { AHEAD_SIZE = 8192, AHEAD_WAITS_MS = 1000 };

/* @n messages into memory of a GPU, after some into the host's: how many went ahead of their
 * receives. */
static int messages_ahead(struct rig *r, uint32_t n)
{
	struct mem from, to;
	uint8_t *gpu;
	void *gpu_mh;
	int ahead = 0;

	gpu = fake_cuda_alloc(AHEAD_SIZE);
	gpu_mh = reg(r, r->link.recv, gpu, AHEAD_SIZE, BY_ADDRESS);
	mem_get(&from, &r->plug, r->link.send, AHEAD_SIZE, 0);
	mem_get(&to, &r->plug, r->link.recv, AHEAD_SIZE, 0);
	for (uint32_t i = 0; i < 20; i++)
		carry(r, from.at, from.mh, to.at, to.mh, AHEAD_SIZE, i);
	nap_ms(20);
	for (uint32_t i = 0; i < n; i++) {
		int64_t end = now_ms() + AHEAD_WAITS_MS;
		size_t size = AHEAD_SIZE - i;
		bool sent = false;
		void *send, *recv;

		bytes_fill(from.at, size, i);
		memset(gpu, MARK, AHEAD_SIZE);
		send = plug_isend(&r->plug, r->link.send, from.at, size, 0, from.mh);
		/* By reads there is a request, which is not done before it was read. */
		while (send && !sent && now_ms() < end)
			sent = plug_test(&r->plug, send, NULL);
		ahead += sent;
		recv = plug_recv(&r->plug, r->link.recv, gpu, AHEAD_SIZE, 0, gpu_mh);
		if (!send)
			send = plug_send(&r->plug, r->link.send, from.at, size, 0, from.mh);
		need((size_t)plug_wait(&r->plug, recv) == size, "message %u", i);
		if (!sent)
			plug_wait(&r->plug, send);
		need(bytes_differ(gpu, size, i) < 0, "message %u", i);
		need(bytes_differ_from(gpu + size, i, MARK) < 0, "behind message %u", i);
	}
	plug_dereg(&r->plug, r->link.recv, gpu_mh);
	mem_put(&from);
	mem_put(&to);
	return ahead;
}

struct ahead {
	char protocol[8], rails[8];
};

/*
 * Its sender was told of buffers on the host; the NIC copies. With no such buffers, nothing goes
 * ahead.
 */
ParameterizedTestParameters(cuda, message_that_went_ahead_arrives_in_memory_of_a_gpu)
{
	static struct ahead ways[] = {{"write", "1"}, {"write", "4"}, {"read", "1"}, {"read", "4"}};

	return cr_make_param_array(struct ahead, ways, sizeof(ways) / sizeof(ways[0]));
}

ParameterizedTest(struct ahead *w, cuda, message_that_went_ahead_arrives_in_memory_of_a_gpu)
{
	enum { MOST = 40 };
	struct rig r;
	int ahead;

	setenv("NCCL_EFA_PROTOCOL", w->protocol, 1);
	setenv("NCCL_EFA_RAILS", w->rails, 1);
	rig_open(&r, 0);
	ahead = messages_ahead(&r, MOST);
	need(ahead > 0 && ahead <= 32, "%d of %d went ahead", ahead, MOST);
	rig_close(&r);
}

static struct self {
	char protocol[8], rails[4], rule[48], says[40];
} selves[] = {
	{"write", "1", "fault=status 7 op=write nth=1", "(status 7)"},
	{"write", "4", "fault=status 2 dev=3 op=write nth=1", "(status 2)"},
	{"write", "1", "fault=delay 60000000 op=write nth=1", "timed out"},
	{"read", "1", "fault=status 14 op=read nth=1", "(status 14)"},
	{"read", "4", "fault=delay 60000000 dev=2 op=read nth=1", "timed out"},
};

ParameterizedTestParameters(cuda, nothing_goes_ahead_where_a_nic_does_not_copy_to_itself)
{
	return cr_make_param_array(struct self, selves, sizeof(selves) / sizeof(selves[0]));
}

/* Public report 56: a copy that never ended. The first RDMA of all is one that tries. */
ParameterizedTest(struct self *w, cuda, nothing_goes_ahead_where_a_nic_does_not_copy_to_itself)
{
	struct nccl_net_props_v12 props;
	struct rig r;

	setenv("NCCL_EFA_PROTOCOL", w->protocol, 1);
	setenv("NCCL_EFA_RAILS", w->rails, 1);
	plug_softefa(w->rule);
	r.fake = fake_cuda_load();
	plug_open(&r.plug, 0);
	/* As NCCL does, and so the plugin knows of the GPU before there are comms. */
	need(!r.plug.net.get_properties(&r.plug.net, 0, &props), "properties");
	plug_forget();
	link_open(&r.link, &r.plug, 0, 0);
	need(plug_said("does not copy to itself") && plug_said(w->says), "%s", plug_info());
	cr_assert(eq(int, messages_ahead(&r, 4), 0));
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_forget();
	link_close(&r.link); /* and it was tried once */
	link_open(&r.link, &r.plug, 0, 0);
	need(!plug_said("does not copy to itself"), "%s", plug_info());
	cr_assert(eq(int, messages_ahead(&r, 4), 0));
	rig_close(&r);
}

Test(cuda, dmabuf_is_not_kept)
{
	uint8_t *gpu;
	struct rig r;
	int files, fd;
	void *mh;

	rig_open(&r, 0);
	gpu = fake_cuda_alloc(1 << 20);
	support(&r.plug);
	files = entries("/proc/self/fd");
	fd = export_of(gpu, 1 << 20);
	cr_assert(eq(int, try_fd(&r, r.link.recv, gpu, 1 << 20, fd, 0, &mh), NCCL_NET_OK));
	cr_assert(eq(int, entries("/proc/self/fd"), files + 1));
	cr_assert(zero(int, close(fd)), "it was not ours to close");
	plug_dereg(&r.plug, r.link.recv, mh);
	cr_assert(eq(int, entries("/proc/self/fd"), files));
	rig_close(&r);
}

Test(cuda, buffer_may_lie_anywhere_in_its_dmabuf)
{
	enum { SIZE = 1 << 16, AT = 3 * 4096 + 100, LEN = 20000 };
	uint8_t *from, *to;
	void *a, *b;
	struct rig r;
	int fd;

	rig_open(&r, 0);
	from = fake_cuda_alloc(SIZE);
	to = fake_cuda_alloc(SIZE);
	fd = export_of(to, SIZE);
	cr_assert(eq(int, try_fd(&r, r.link.recv, to + AT, LEN, fd, AT, &b), NCCL_NET_OK));
	close(fd);
	a = reg(&r, r.link.send, from, LEN, BY_FD);
	memset(to, MARK, SIZE);
	carry(&r, from, a, to + AT, b, LEN, 1);
	cr_assert(eq(long, bytes_differ_from(to, AT, MARK), -1));
	cr_assert(eq(long, bytes_differ_from(to + AT + LEN, SIZE - AT - LEN, MARK), -1));
	plug_dereg(&r.plug, r.link.recv, b);
	plug_dereg(&r.plug, r.link.send, a);
	rig_close(&r);
}

/* An export of our own helps, and the next dma-buf is tried like the first. */
Test(cuda, dmabuf_that_is_none_harms_only_itself)
{
	enum { SIZE = 1 << 16 };
	uint8_t *bad, *good;
	void *a, *b;
	struct rig r;
	int files, fd;

	rig_open(&r, 0);
	bad = fake_cuda_alloc(SIZE);
	good = fake_cuda_alloc(SIZE);
	files = entries("/proc/self/fd");
	cr_assert(eq(int, try_fd(&r, r.link.send, bad, SIZE, 999, 0, &a), NCCL_NET_OK));
	fd = export_of(good, SIZE);
	r.fake->fail = 801; /* no export of our own for this one */
	cr_assert(eq(int, try_fd(&r, r.link.recv, good, SIZE, fd, 0, &b), NCCL_NET_OK));
	close(fd);
	carry(&r, bad, a, good, b, SIZE, 1);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	plug_dereg(&r.plug, r.link.send, a);
	plug_dereg(&r.plug, r.link.recv, b);
	cr_assert(eq(int, entries("/proc/self/fd"), files));
	rig_close(&r);
}

/* ---- sharing ---- */

/* On a device that has room for few regions; softefa counts them over all processes. */
Test(cuda, same_gpu_range_registered_64_times_is_one_region)
{
	enum { N = 64, SIZE = 10000 };
	void *mh[N], *keep;
	uint8_t *from, *to;
	struct rig r;

	plug_softefa("max_mr=24");
	rig_open(&r, 0);
	from = fake_cuda_alloc(SIZE);
	to = fake_cuda_alloc(SIZE);
	keep = reg(&r, r.link.send, from, SIZE, BY_FD);
	for (int i = 0; i < N; i++)
		mh[i] = reg(&r, i % 2 ? r.link.send : r.link.recv, to, SIZE,
			    i % 3 ? BY_FD : BY_ADDRESS);
	for (int i = 0; i < N; i++) {
		cr_assert(eq(ptr, mh[i], mh[0]));
		if (i % 8 == 0)
			carry(&r, from, keep, to, mh[N - 1], SIZE, (uint32_t)i);
		plug_dereg(&r.plug, r.link.send, mh[i]);
	}
	plug_dereg(&r.plug, r.link.send, keep);
	rig_close(&r);
}

/* How many pages can be registered one by one on a device that has room for few. */
static int room_for(struct rig *r, uint8_t *at, bool gpu, enum way way)
{
	enum { MOST = 64 };
	void *mh[MOST];
	int n = 0;

	for (; n < MOST; n++) {
		uint8_t *page = at + n * 4096;
		int fd = way == BY_FD ? export_of(page, 4096) : -1;
		enum nccl_net_result rc;

		if (!gpu)
			rc = r->plug.net.reg_mr(&r->plug.net, r->link.send, page, 4096, HOST,
						&mh[n]);
		else if (way == BY_FD)
			rc = try_fd(r, r->link.send, page, 4096, fd, 0, &mh[n]);
		else
			rc = try_address(r, r->link.send, page, 4096, &mh[n]);
		if (fd >= 0)
			close(fd);
		if (rc)
			break;
	}
	for (int i = 0; i < n; i++)
		plug_dereg(&r->plug, r->link.send, mh[i]);
	plug_forget();
	return n;
}

/* No second mapping on the way, and none that stays when another way was tried before. */
Test(cuda, gpu_buffer_is_one_region_whatever_the_way)
{
	struct rig r;
	uint8_t *at;
	int host;

	plug_softefa("max_mr=24");
	counters_apart();
	rig_open(&r, 0);
	at = fake_cuda_alloc(1 << 20);
	need(support(&r.plug) & DMABUF, "no dma-buf");
	host = room_for(&r, at, false, BY_ADDRESS);
	cr_assert(gt(int, host, 4));
	cr_assert(eq(int, room_for(&r, at, true, BY_FD), host));
	cr_assert(eq(int, room_for(&r, at, true, BY_ADDRESS), host));
	r.fake->dmabuf = false;
	cr_assert(eq(int, room_for(&r, at, true, BY_ADDRESS), host));
	cr_assert(eq(int, room_for(&r, at, false, BY_ADDRESS), host));
	rig_close(&r);
}

/* Managed memory: the same address means different pages for the NIC. */
Test(cuda, host_and_gpu_do_not_share)
{
	enum { SIZE = 8192 };
	void *host, *gpu;
	struct rig r;
	uint8_t *at;

	rig_open(&r, 0);
	at = fake_cuda_alloc(SIZE);
	host = plug_reg(&r.plug, r.link.send, at, SIZE);
	gpu = reg(&r, r.link.send, at, SIZE, BY_ADDRESS);
	cr_assert(ne(ptr, host, gpu));
	cr_assert(eq(ptr, plug_reg(&r.plug, r.link.recv, at, SIZE), host));
	cr_assert(eq(ptr, reg(&r, r.link.recv, at, SIZE, BY_FD), gpu));
	for (int i = 0; i < 2; i++) {
		plug_dereg(&r.plug, r.link.send, host);
		plug_dereg(&r.plug, r.link.send, gpu);
	}
	rig_close(&r);
}

Test(cuda, gpu_memory_is_deregistered_when_its_last_user_leaves)
{
	enum { N = 200, SIZE = 8192 };
	struct rig r;
	void *a, *b;
	uint8_t *at;

	plug_softefa("max_mr=24");
	rig_open(&r, 0);
	at = fake_cuda_alloc(SIZE * N);
	for (int i = 0; i < N; i++) {
		a = reg(&r, r.link.send, at + i * SIZE, SIZE, BY_ADDRESS);
		b = reg(&r, r.link.recv, at + i * SIZE, SIZE, BY_ADDRESS);
		plug_dereg(&r.plug, r.link.send, a);
		plug_dereg(&r.plug, r.link.recv, b);
	}
	rig_close(&r);
}

/* ---- what cannot be registered ---- */

struct bad {
	long off;
	size_t len;
	char says[40];
};

static struct bad bads[] = {
	{0, 0, "no range of memory"},
	{100, SIZE_MAX - 50, "no range of memory"},
	{0, 131072 + 1, "leave the allocation"},
};

ParameterizedTestParameters(cuda, range_that_makes_no_sense_is_one_warning)
{
	return cr_make_param_array(struct bad, bads, sizeof(bads) / sizeof(bads[0]));
}

ParameterizedTest(struct bad *b, cuda, range_that_makes_no_sense_is_one_warning)
{
	struct rig r;
	uint8_t *at;
	void *mh;

	rig_open(&r, 0);
	at = fake_cuda_alloc(131072);
	fake_cuda_alloc(131072);
	cr_assert(eq(int, try_address(&r, r.link.send, at + b->off, b->len, &mh),
		     NCCL_NET_INVALID_ARGUMENT));
	cr_assert(eq(ptr, mh, NULL));
	cr_assert(eq(int, plug_warned(), 1));
	need(strstr(plug_warning(), b->says), "%s", plug_warning());
	plug_forget();
	link_message(&r.link, 100, 1);
	rig_close(&r);
}

/* All ways and their reasons in one line: the last alone would mislead. */
Test(cuda, registration_that_fails_names_every_way)
{
	struct rig r;
	uint8_t *at;
	void *mh;

	rig_open(&r, 0);
	at = fake_cuda_alloc(4096);
	need(support(&r.plug) & CUDA, "no GPU memory");
	r.fake->dmabuf = false;
	/* Plain registration: these pages are not mapped. */
	cr_assert(ne(int, try_fd(&r, r.link.send, at + (1 << 28), 4096, 999, 0, &mh), NCCL_NET_OK));
	cr_assert(eq(ptr, mh, NULL));
	cr_assert(eq(int, plug_warned(), 1));
	for (const char *const *s =
		     (const char *[]){"GPU memory", "ibv_reg_dmabuf_mr", "Bad file descriptor",
				      "ibv_reg_mr", "Bad address", "other ranges", NULL};
	     *s; s++)
		need(strstr(plug_warning(), *s), "no %s: %s", *s, plug_warning());
	plug_forget();
	rig_close(&r);
}

/* Public report 33: from the first question to the end. */
Test(cuda, capture_of_a_stream_does_not_mind_a_connection)
{
	enum { SIZE = 5000 };
	struct fake_cuda *fake = fake_cuda_load();
	uint8_t *from, *to;
	struct rig r = {.fake = fake};
	void *a, *b, *request = NULL;
	int size = SIZE;

	setenv("NCCL_EFA_FLUSH", "cuda", 1);
	from = fake_cuda_alloc(SIZE);
	to = fake_cuda_alloc(SIZE);
	fake->capturing = true;
	plug_open(&r.plug, 0);
	need(support(&r.plug) & CUDA, "no GPU memory");
	link_open(&r.link, &r.plug, 0, 0);
	a = reg(&r, r.link.send, from, SIZE, BY_ADDRESS);
	b = reg(&r, r.link.recv, to, SIZE, BY_ADDRESS);
	for (uint32_t i = 0; i < 5; i++)
		carry(&r, from, a, to, b, SIZE, i);
	need(!r.plug.net.iflush(r.link.recv, 1, (void *[]){to}, &size, &b, &request), "iflush");
	cr_assert(eq(uint, fake->flushes, 1));
	plug_dereg(&r.plug, r.link.send, a);
	plug_dereg(&r.plug, r.link.recv, b);
	cr_assert(zero(uint, fake->unsafe));
	rig_close(&r);
}

Test(cuda, capture_of_a_stream_does_not_mind_registration)
{
	struct rig r;
	uint8_t *at;
	void *mh;

	rig_open(&r, 0);
	at = fake_cuda_alloc(1 << 16);
	r.fake->capturing = true;
	need(support(&r.plug) & DMABUF, "no dma-buf");
	mh = reg(&r, r.link.send, at, 1 << 16, BY_ADDRESS);
	plug_dereg(&r.plug, r.link.send, mh);
	cr_assert(zero(uint, r.fake->unsafe));
	rig_close(&r);
}
