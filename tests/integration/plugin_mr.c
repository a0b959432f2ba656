/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration of memory, as NCCL does it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"

/* One message between ranges of the caller's. */
static void carry(struct link *l, uint8_t *from, void *from_mh, uint8_t *to, void *to_mh,
		  size_t size, uint32_t seed)
{
	struct plug *p = l->plug;
	void *recv;
	long bad;

	bytes_fill(from, size, seed);
	memset(to, 0, size);
	recv = plug_recv(p, l->recv, to, size, 0, to_mh);
	plug_wait(p, plug_send(p, l->send, from, size, 0, from_mh));
	need((size_t)plug_wait(p, recv) == size, "not %zu bytes", size);
	bad = bytes_differ(to, size, seed);
	need(bad < 0, "byte %ld of %zu", bad, size);
}

static uint8_t *map(size_t size)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(at != MAP_FAILED, "%zu bytes", size);
	return at;
}

struct range {
	size_t skew, size;
};

static struct range odd[] = {{0, 1},     {4095, 1},   {1, 4095},  {1, 4096},       {4095, 2},
			     {17, 8191}, {123, 4567}, {0, 65536}, {2048, 64 << 20}};

ParameterizedTestParameters(mr, range_of_any_place_and_size_is_registered)
{
	return cr_make_param_array(struct range, odd, sizeof(odd) / sizeof(odd[0]));
}

ParameterizedTest(struct range *r, mr, range_of_any_place_and_size_is_registered)
{
	struct plug p;
	struct link l;
	struct mem from, to;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, r->size, r->skew);
	mem_get(&to, &p, l.recv, r->size, r->skew);
	carry(&l, from.at, from.mh, to.at, to.mh, r->size, 1);
	mem_unharmed(&to, r->size);
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
}

static void shuffle(void **what, int n, uint64_t *seed)
{
	for (int i = n - 1; i > 0; i--) {
		int k = (int)(bytes_random(seed) % (uint32_t)(i + 1));
		void *t = what[i];

		what[i] = what[k];
		what[k] = t;
	}
}

/* On a device that has room for few regions: softefa counts them over all processes. */
Test(mr, same_range_registered_64_times_on_several_comms_is_one_region)
{
	enum { COMMS = 4, N = 64, SIZE = 10000 };
	uint8_t *from = map(SIZE), *to = map(SIZE);
	struct link l[COMMS];
	void *mh[N], *keep;
	uint64_t seed = 3;
	struct plug p;
	int dev;

	plug_softefa("max_mr=12");
	plug_open(&p, 0);
	dev = p.ndev - 1;
	for (int i = 0; i < COMMS; i++)
		link_open(&l[i], &p, dev, dev);
	keep = plug_reg(&p, l[0].send, from, SIZE);
	for (int i = 0; i < N; i++)
		mh[i] = plug_reg(&p, i % 2 ? l[i / 2 % COMMS].send : l[i / 2 % COMMS].recv, to,
				 SIZE);
	shuffle(mh, N, &seed);
	for (int i = 0; i < N; i++) {
		carry(&l[i % COMMS], from, keep, to, mh[N - 1], SIZE, (uint32_t)i);
		plug_dereg(&p, i % 2 ? l[i % COMMS].send : l[i % COMMS].recv, mh[i]);
	}
	plug_dereg(&p, l[0].send, keep);
	for (int i = 0; i < COMMS; i++)
		link_close(&l[i]);
	munmap(from, SIZE);
	munmap(to, SIZE);
	plug_close(&p);
}

/* What was deregistered makes room for others, whatever the order. */
Test(mr, ranges_come_and_go_in_random_order)
{
	enum { N = 200, STEP = 3000, SIZE = 5000 };
	uint8_t *mem = map(N * STEP + SIZE);
	bool have[N] = {false};
	uint64_t seed = 4;
	void *mh[N];
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	for (int i = 0; i < 4000; i++) {
		uint32_t k = bytes_random(&seed) % N;

		if (have[k])
			plug_dereg(&p, l.send, mh[k]);
		else
			mh[k] = plug_reg(&p, l.send, mem + k * STEP, SIZE);
		have[k] = !have[k];
	}
	for (int k = 0; k < N; k++)
		if (have[k])
			plug_dereg(&p, l.send, mh[k]);
	link_close(&l);
	munmap(mem, N * STEP + SIZE);
	plug_close(&p);
}

Test(mr, range_that_overlaps_another_outlives_it)
{
	enum { SIZE = 1 << 16 };
	uint8_t *from = map(SIZE), *to = map(SIZE);
	void *from_mh, *whole, *front, *middle;
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	from_mh = plug_reg(&p, l.send, from, SIZE);
	whole = plug_reg(&p, l.recv, to, SIZE);
	front = plug_reg(&p, l.recv, to, SIZE / 2);
	middle = plug_reg(&p, l.recv, to + SIZE / 4, SIZE / 2);
	carry(&l, from, from_mh, to, whole, SIZE, 1);
	plug_dereg(&p, l.recv, whole);
	carry(&l, from, from_mh, to, front, SIZE / 2, 2);
	carry(&l, from, from_mh, to + SIZE / 4, middle, SIZE / 2, 3);
	plug_dereg(&p, l.recv, front);
	carry(&l, from, from_mh, to + SIZE / 4, middle, SIZE / 2, 4);
	plug_dereg(&p, l.recv, middle);
	plug_dereg(&p, l.send, from_mh);
	link_close(&l);
	munmap(from, SIZE);
	munmap(to, SIZE);
	plug_close(&p);
}

Test(mr, memory_mapped_anew_at_the_same_address_is_the_one_that_is_used)
{
	enum { SIZE = 1 << 16 };
	uint8_t *from = map(SIZE), *to = map(SIZE);
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	for (uint32_t i = 0; i < 10; i++) {
		void *a = plug_reg(&p, l.send, from, SIZE), *b = plug_reg(&p, l.recv, to, SIZE);

		carry(&l, from, a, to, b, SIZE, i);
		plug_dereg(&p, l.send, a);
		plug_dereg(&p, l.recv, b);
		need(mmap(from, SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == from,
		     "round %u", i);
		need(mmap(to, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			  -1, 0) == to,
		     "round %u", i);
	}
	link_close(&l);
	munmap(from, SIZE);
	munmap(to, SIZE);
	plug_close(&p);
}

/* ---- what cannot be registered ---- */

static enum nccl_net_result reg_fails(struct link *l, void *at, size_t size, int type)
{
	void *mh = &mh;
	enum nccl_net_result rc = l->plug->net.reg_mr(&l->plug->net, l->send, at, size, type, &mh);

	need(rc != NCCL_NET_OK, "%zu bytes of type %d are registered", size, type);
	need(!mh, "a handle for what is not registered");
	return rc;
}

struct type {
	int value;
};

static struct type foreign[] = {{NCCL_NET_PTR_CUDA}, {NCCL_NET_PTR_DMABUF}, {0}, {3}};

ParameterizedTestParameters(mr, memory_that_is_not_of_the_host_is_refused)
{
	return cr_make_param_array(struct type, foreign, 4);
}

ParameterizedTest(struct type *t, mr, memory_that_is_not_of_the_host_is_refused)
{
	uint8_t memory[64];
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	reg_fails(&l, memory, sizeof(memory), t->value);
	plug_forget();
	link_message(&l, 100, 1);
	link_close(&l);
	plug_close(&p);
}

static struct range bad[] = {{0, 0}, {1, SIZE_MAX}, {100, SIZE_MAX - 4096}};

ParameterizedTestParameters(mr, range_that_makes_no_sense_is_refused)
{
	return cr_make_param_array(struct range, bad, 3);
}

ParameterizedTest(struct range *r, mr, range_that_makes_no_sense_is_refused)
{
	uint8_t memory[4096];
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	reg_fails(&l, memory + r->skew, r->size, NCCL_NET_PTR_HOST);
	plug_forget();
	link_message(&l, 100, 1);
	link_close(&l);
	plug_close(&p);
}

Test(mr, memory_that_is_not_mapped_is_refused_with_one_warning)
{
	uint8_t *gone = map(4096);
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	munmap(gone, 4096);
	reg_fails(&l, gone, 4096, NCCL_NET_PTR_HOST);
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	plug_forget();
	link_message(&l, 100, 1);
	link_close(&l);
	plug_close(&p);
}

/* NCCL goes on without registration of user buffers. */
Test(mr, registration_works_again_when_the_device_has_room_again)
{
	enum { N = 64 };
	uint8_t *mem = map(N * 4096);
	char locked[64], others[64];
	struct rlimit limit;
	void *mh[N];
	struct plug p;
	struct link l;
	int dev, n = 0;

	plug_softefa("max_mr=12");
	plug_open(&p, 0);
	dev = p.ndev - 2;
	if (dev < 0)
		cr_skip("needs two devices");
	link_open(&l, &p, dev, dev);
	for (; n < N; n++) {
		mh[n] = NULL;
		if (p.net.reg_mr(&p.net, l.send, mem + n * 4096, 4096, NCCL_NET_PTR_HOST, &mh[n]))
			break;
	}
	need(n > 0 && n < N, "%d of %d regions on a device of 12", n, N);
	need(!mh[n], "a handle for what is not registered");
	need(plug_warned() == 1, "%d warnings", plug_warned());
	/* What may be in the way: the machine's limit, the device's, and who has what there is. */
	need(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "errno %d", errno);
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(locked, sizeof(locked), "RLIMIT_MEMLOCK is unlimited,");
	else
		snprintf(locked, sizeof(locked), "RLIMIT_MEMLOCK is %llu KiB,",
			 (unsigned long long)limit.rlim_cur / 1024);
	snprintf(others, sizeof(others), "; %d other ranges are registered", n);
	for (const char *const *s = (const char *[]){locked, "max 12 regions", others, NULL}; *s;
	     s++)
		need(strstr(plug_warning(), *s), "no %s: %s", *s, plug_warning());
	plug_forget();
	plug_dereg(&p, l.send, mh[0]);
	mh[0] = plug_reg(&p, l.send, mem + n * 4096, 4096);
	for (int i = 0; i < n; i++)
		plug_dereg(&p, l.send, mh[i]);
	link_message(&l, 100, 1);
	link_close(&l);
	munmap(mem, N * 4096);
	plug_close(&p);
}

/* On a device of four rails, whose last refuses: what the others have made is undone. */
Test(mr, range_that_one_rail_refuses_is_registered_on_none)
{
	enum { TRIES = 100, SIZE = 10000 };
	uint8_t *mem = map(SIZE);
	struct plug p;
	struct link l;
	void *mh;

	setenv("NCCL_EFA_RAILS", "4", 1);
	plug_softefa("max_mr=32");
	counters_apart();
	faults_init();
	plug_open(&p, 0);
	if (p.ndev != 1)
		cr_skip("needs four EFAs");
	link_open(&l, &p, 0, 0);
	faults_put("refuse mr dev=3 error=14");
	for (int i = 0; i < TRIES; i++)
		reg_fails(&l, mem, SIZE, NCCL_NET_PTR_HOST);
	cr_assert(eq(int, plug_warned(), TRIES));
	need(strstr(plug_warning(), "efa_3"), "%s", plug_warning());
	plug_forget();
	faults_put("");
	mh = plug_reg(&p, l.send, mem, SIZE);
	plug_dereg(&p, l.send, mh);
	link_message(&l, 100, 1);
	link_close(&l);
	munmap(mem, SIZE);
	plug_close(&p);
}

/* Processes that fork copy those, of which there are few: their children then have no memory. */
Test(mr, no_huge_pages_are_taken)
{
	FILE *f;
	char line[256];
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	link_message(&l, 1 << 20, 1);
	f = fopen("/proc/self/smaps", "r");
	if (!f)
		cr_skip("no /proc/self/smaps");
	while (fgets(line, sizeof(line), f)) {
		int kib;

		need(sscanf(line, "KernelPageSize: %d kB", &kib) != 1 || kib <= 64, "%s", line);
	}
	fclose(f);
	link_close(&l);
	plug_close(&p);
}

/* The switch for those who suspect the cache. */
Test(mr, without_the_cache_nothing_is_shared)
{
	enum { N = 8, SIZE = 10000 };
	uint8_t *from = map(SIZE), *to = map(SIZE);
	void *mh[N], *keep;
	uint64_t seed = 5;
	struct plug p;
	struct link l;

	setenv("NCCL_EFA_MR_CACHE", "0", 1);
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	keep = plug_reg(&p, l.send, from, SIZE);
	for (int i = 0; i < N; i++)
		mh[i] = plug_reg(&p, l.recv, to, SIZE);
	shuffle(mh, N, &seed);
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < i; k++)
			cr_assert(ne(ptr, mh[i], mh[k]));
		carry(&l, from, keep, to, mh[i], SIZE, (uint32_t)i);
	}
	for (int i = 0; i < N; i++) {
		carry(&l, from, keep, to, mh[N - 1], SIZE, (uint32_t)i);
		plug_dereg(&p, l.recv, mh[i]);
	}
	plug_dereg(&p, l.send, keep);
	link_close(&l);
	munmap(from, SIZE);
	munmap(to, SIZE);
	plug_close(&p);
}

Test(mr, deregistration_of_no_handle_is_harmless)
{
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	plug_dereg(&p, l.send, NULL);
	link_message(&l, 100, 1);
	link_close(&l);
	plug_close(&p);
}
