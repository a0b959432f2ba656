/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory, with a stand-in for CUDA whose memory softefa can reach. */
#include "srd_cuda.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cuda/fake.h"
#include "../lib/loop.h"
#include "../lib/need.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* ---- what is said ---- */

static char said[4096];

static void keep(void *arg, enum srd_log_level level, const char *line)
{
	size_t len = strlen(said);

	(void)arg;
	(void)level;
	snprintf(said + len, sizeof(said) - len, "%s\n", line);
}

static struct fake_cuda *begin(void)
{
	setenv("SRD_LOG", "info", 1);
	srd_log_to(keep, NULL);
	return fake_cuda_load();
}

/* ---- without ---- */

Test(cuda, no_library_is_no_crash)
{
	struct srd_cuda_attr attr;
	struct srd_mr mr;
	struct srd_pd pd = {0};
	uint64_t offset;
	int fd;

	if (dlopen("libcuda.so.1", RTLD_NOW))
		cr_skip("there is a real one");
	srd_log_to(keep, NULL);
	cr_assert(eq(int, srd_cuda_query(&attr), -ENOENT));
	cr_assert(eq(int, srd_cuda_query_device(0, &attr), -ENOENT));
	cr_assert(eq(int, srd_cuda_export(4096, 4096, &fd, &offset), -ENOENT));
	cr_assert(eq(int, fd, -1));
	cr_assert(eq(int, srd_cuda_mr_init(&mr, &pd, 4096, 4096, ALL), -ENOENT));
	cr_assert(eq(int, srd_cuda_probe(&pd, ALL, SRD_CUDA_BY_DMABUF), -ENOENT));
	cr_assert(eq(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER), -ENOENT));
	cr_assert(ne(ptr, strstr(said, "libcuda.so.1"), NULL), "%s", said);
}

Test(cuda, no_context_is_no_crash)
{
	struct fake_cuda *fake = begin();
	char *p = fake_cuda_alloc(4096);
	struct srd_cuda_attr attr;
	struct srd_pd pd = {0};
	struct srd_mr mr;
	uint64_t offset;
	int fd;

	fake->context = false;
	cr_assert(eq(int, srd_cuda_query(&attr), -ENXIO));
	cr_assert(eq(int, srd_cuda_export((uintptr_t)p, 4096, &fd, &offset), -ENXIO));
	cr_assert(eq(int, srd_cuda_mr_init(&mr, &pd, (uintptr_t)p, 4096, ALL), -ENXIO));
	cr_assert(eq(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER), -ENXIO));
	cr_assert(ne(ptr, strstr(said, "no CUDA context"), NULL), "%s", said);
	fake->context = true;
	cr_assert(zero(int, srd_cuda_query(&attr)));
}

Test(cuda, device_is_asked_without_a_context)
{
	struct fake_cuda *fake = begin();
	struct srd_cuda_attr attr;

	fake->context = false;
	fake->ordering = SRD_CUDA_OWNER;
	cr_assert(zero(int, srd_cuda_query_device(0, &attr)), "%s", said);
	cr_assert(zero(int, attr.device));
	cr_assert(attr.dmabuf && attr.gpudirect && attr.flush);
	cr_assert(eq(int, attr.ordering, SRD_CUDA_OWNER));
	cr_assert(zero(int, strcmp(attr.bus_id, "0000:ca:00.0")), "%s", attr.bus_id);
}

Test(cuda, device_that_is_not_there_is_enodev_without_a_word)
{
	struct srd_cuda_attr attr;

	begin();
	cr_assert(eq(int, srd_cuda_query_device(1, &attr), -ENODEV));
	cr_assert(eq(int, srd_cuda_query_device(-1, &attr), -ENODEV));
	cr_assert(zero(sz, strlen(said)), "%s", said);
}

/* ---- export ---- */

struct range {
	uint64_t off, len, offset; /* the last: in the export */
};

ParameterizedTestParameters(cuda, export_is_of_whole_pages)
{
	static struct range ranges[] = {
		{0, 1, 0},       {0, 4096, 0},    {0, 65536, 0},     {1, 4095, 1},
		{4095, 2, 4095}, {4096, 4096, 0}, {5000, 8000, 904}, {65535, 1, 4095},
	};

	return cr_make_param_array(struct range, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

ParameterizedTest(struct range *r, cuda, export_is_of_whole_pages)
{
	uint8_t *p, *map;
	uint64_t offset;
	int fd;

	begin();
	p = fake_cuda_alloc(65536);
	loop_fill(p, 65536, 3);
	cr_assert(zero(int, srd_cuda_export((uintptr_t)p + r->off, r->len, &fd, &offset)), "%s",
		  said);
	cr_assert(eq(u64, offset, r->offset));
	map = mmap(NULL, offset + r->len, PROT_READ, MAP_SHARED, fd, 0);
	cr_assert(ne(ptr, map, MAP_FAILED));
	cr_assert(zero(int, memcmp(map + offset, p + r->off, r->len)));
	close(fd);
}

struct bad_range {
	uint64_t off, len;
	int err;
	char says[40];
};

ParameterizedTestParameters(cuda, ranges_that_are_none)
{
	static struct bad_range ranges[] = {
		{0, 0, -EINVAL, "0 bytes"},
		{100, UINT64_MAX - 50, -EINVAL, "no range of memory"},
		{65536 - 100, 101, -EINVAL, "leave the allocation"}, /* into the next one */
		{0, 131072, -EINVAL, "leave the allocation"},
		{131072 + 4096, 4096, -EOPNOTSUPP, "CUDA_ERROR_INVALID_VALUE"}, /* nobody's */
	};

	return cr_make_param_array(struct bad_range, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

ParameterizedTest(struct bad_range *r, cuda, ranges_that_are_none)
{
	uint64_t offset;
	uint8_t *p;
	int fd;

	begin();
	p = fake_cuda_alloc(65536);
	cr_assert(eq(ptr, fake_cuda_alloc(65536), p + 65536));
	cr_assert(eq(int, srd_cuda_export((uintptr_t)p + r->off, r->len, &fd, &offset), r->err));
	cr_assert(eq(int, fd, -1));
	cr_assert(ne(ptr, strstr(said, r->says), NULL), "%s", said);
}

/* ---- regions ---- */

/* B's region is device memory; where in it differs from where in a page it begins. */
static void transfer(struct loop *l, struct srd_mr *gpu, uint8_t *at, size_t len)
{
	struct srd_wr wr = loop_wr(l, IBV_WR_RDMA_WRITE, 0, (uint32_t)len, 0);

	loop_fill(l->buf, len, 1);
	wr.raddr = gpu->addr;
	wr.rkey = gpu->rkey;
	cr_assert(eq(int, loop_run(l, &wr).status, IBV_WC_SUCCESS));
	cr_assert(loop_filled(at, len, 1));
	loop_fill(at, len, 2);
	wr.op = IBV_WR_RDMA_READ;
	cr_assert(eq(int, loop_run(l, &wr).status, IBV_WC_SUCCESS));
	cr_assert(loop_filled(l->buf, len, 2));
	/* And from it. */
	cr_assert(zero(int, srd_sge(&wr.sge[0], gpu, 0, len)));
	wr.op = IBV_WR_RDMA_WRITE;
	wr.raddr = l->mr.addr + LOOP_B;
	wr.rkey = l->mr.rkey;
	cr_assert(eq(int, loop_run(l, &wr).status, IBV_WC_SUCCESS));
	cr_assert(loop_filled(l->buf + LOOP_B, len, 2));
}

ParameterizedTestParameters(cuda, region_moves_data)
{
	static struct range ranges[] = {
		{0, 4096, 0}, {100, 5000, 0}, {4096, 100000, 0}, {8191, 2, 0}};

	return cr_make_param_array(struct range, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

ParameterizedTest(struct range *r, cuda, region_moves_data)
{
	struct srd_mr zero = {0}, gpu;
	struct loop l;
	uint8_t *p;
	int files;

	begin();
	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_WRITE | SRD_CAP_RDMA_READ});
	p = (uint8_t *)fake_cuda_alloc(1 << 20) + r->off;
	files = entries("/proc/self/fd");
	cr_assert(zero(int, srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, r->len, ALL)), "%s", said);
	cr_assert(eq(u64, gpu.addr, (uintptr_t)p));
	cr_assert(eq(u64, gpu.len, r->len));
	/* The export is closed; only the file that the stand-in splits off stays. */
	cr_assert(le(int, entries("/proc/self/fd"), files));
	cr_assert(eq(ptr, strstr(said, "peer-memory"), NULL), "%s", said);
	transfer(&l, &gpu, p, r->len);
	srd_mr_fini(&gpu);
	cr_assert(zero(int, memcmp(&gpu, &zero, sizeof(gpu))));
	loop_fini(&l);
}

struct pieces {
	bool dmabuf;
	uint64_t off, len;
};

ParameterizedTestParameters(cuda, memory_mapped_in_pieces_is_a_region_like_any_other)
{
	static struct pieces pieces[] = {{true, 0, 65536},   {true, 65536 - 10, 20},
					 {true, 0, 1 << 18}, {true, 5000, 200000},
					 {false, 0, 65536},  {false, 65536 - 10, 20},
					 {false, 0, 1 << 18}};

	return cr_make_param_array(struct pieces, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

/*
 * Public report 23: it has not the attribute by which CUDA waits for copies, and whoever sets that
 * gets an error. Nothing here needs it.
 */
ParameterizedTest(struct pieces *r, cuda, memory_mapped_in_pieces_is_a_region_like_any_other)
{
	struct fake_cuda *fake = begin();
	struct srd_mr gpu;
	struct loop l;
	uint8_t *p;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_WRITE | SRD_CAP_RDMA_READ});
	p = (uint8_t *)fake_cuda_map(1 << 18, 65536) + r->off;
	fake->dmabuf = r->dmabuf;
	cr_assert(zero(int, srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, r->len, ALL)), "%s", said);
	transfer(&l, &gpu, p, r->len);
	cr_assert(zero(uint, fake->attributes));
	srd_mr_fini(&gpu);
	loop_fini(&l);
}

Test(cuda, without_dmabuf_there_is_peer_memory)
{
	struct fake_cuda *fake = begin();
	struct srd_mr gpu;
	struct loop l;
	uint8_t *p;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_WRITE | SRD_CAP_RDMA_READ});
	p = fake_cuda_alloc(1 << 20);
	fake->dmabuf = false;
	cr_assert(zero(int, srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, 70000, ALL)), "%s", said);
	cr_assert(ne(ptr, strstr(said, "CUDA_ERROR_NOT_SUPPORTED"), NULL), "%s", said);
	cr_assert(ne(ptr, strstr(said, "peer-memory"), NULL), "%s", said);
	transfer(&l, &gpu, p, 70000);
	srd_mr_fini(&gpu);
	/* Nobody remembers that it failed. */
	fake->dmabuf = true;
	said[0] = '\0';
	cr_assert(zero(int, srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, 70000, ALL)), "%s", said);
	cr_assert(eq(ptr, strstr(said, "peer-memory"), NULL), "%s", said);
	srd_mr_fini(&gpu);
	loop_fini(&l);
}

Test(cuda, all_ways_that_failed_are_named)
{
	struct fake_cuda *fake = begin();
	struct srd_mr zero = {0}, gpu;
	struct loop l;
	uint8_t *p;

	loop_init(&l, &(struct loop_attr){0});
	p = fake_cuda_alloc(1 << 20);
	fake->dmabuf = false;
	memset(&gpu, 0xff, sizeof(gpu));
	/* Remote write without local write: no kernel registers that. */
	cr_assert(eq(int,
		     srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, 4096, IBV_ACCESS_REMOTE_WRITE),
		     -EINVAL));
	cr_assert(zero(int, memcmp(&gpu, &zero, sizeof(gpu))));
	cr_assert(ne(ptr, strstr(said, "cuMemGetHandleForAddressRange"), NULL), "%s", said);
	cr_assert(ne(ptr, strstr(said, "ibv_reg_mr"), NULL), "%s", said);
	loop_fini(&l);
}

Test(cuda, range_of_two_allocations_is_not_tried_otherwise)
{
	struct srd_mr zero = {0}, gpu;
	struct loop l;
	uint8_t *p;

	begin();
	loop_init(&l, &(struct loop_attr){0});
	p = fake_cuda_alloc(4096);
	fake_cuda_alloc(4096);
	memset(&gpu, 0xff, sizeof(gpu));
	cr_assert(eq(int, srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, 8192, ALL), -EINVAL));
	cr_assert(zero(int, memcmp(&gpu, &zero, sizeof(gpu))));
	cr_assert(eq(ptr, strstr(said, "ibv_reg_mr"), NULL), "%s", said);
	loop_fini(&l);
}

/* ---- probe ---- */

enum { EITHER = SRD_CUDA_BY_DMABUF | SRD_CUDA_BY_PEER };

struct probe {
	bool dmabuf, peer;
	unsigned try;
	int works;
};

ParameterizedTestParameters(cuda, probe_says_which_way_works)
{
	static struct probe probes[] = {
		{true, true, EITHER, SRD_CUDA_BY_DMABUF},
		{true, false, EITHER, SRD_CUDA_BY_DMABUF},
		{false, true, EITHER, SRD_CUDA_BY_PEER},
		{false, false, EITHER, 0},
		{true, true, SRD_CUDA_BY_PEER, SRD_CUDA_BY_PEER},
		{false, true, SRD_CUDA_BY_DMABUF, 0},
	};

	return cr_make_param_array(struct probe, probes, sizeof(probes) / sizeof(probes[0]));
}

ParameterizedTest(struct probe *p, cuda, probe_says_which_way_works)
{
	/* Remote write without local write: what no kernel registers, in any way. */
	int access = p->peer || p->dmabuf ? ALL : IBV_ACCESS_REMOTE_WRITE, files;
	struct fake_cuda *fake = begin();
	struct loop l;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_WRITE | SRD_CAP_RDMA_READ});
	fake->dmabuf = p->dmabuf;
	files = entries("/proc/self/fd");
	for (unsigned i = 1; i <= 2; i++) {
		cr_assert(eq(int, srd_cuda_probe(&l.pd, access, p->try), p->works), "%s", said);
		cr_assert(eq(uint, fake->freed, i));
	}
	cr_assert(eq(int, entries("/proc/self/fd"), files));
	fake->context = false;
	cr_assert(eq(int, srd_cuda_probe(&l.pd, access, EITHER), -ENXIO));
	loop_fini(&l);
}

/* ---- capture ---- */

Test(cuda, capture_of_a_stream_does_not_mind)
{
	struct fake_cuda *fake = begin();
	struct srd_cuda_attr attr;
	struct srd_mr gpu;
	struct loop l;
	uint64_t offset;
	uint8_t *p;
	int fd;

	loop_init(&l, &(struct loop_attr){0});
	p = fake_cuda_alloc(65536);
	fake->capturing = true;
	for (int mode = 0; mode <= 2; mode++) {
		fake->mode = mode;
		cr_assert(zero(int, srd_cuda_query(&attr)));
		cr_assert(zero(int, srd_cuda_mr_init(&gpu, &l.pd, (uintptr_t)p, 65536, ALL)));
		srd_mr_fini(&gpu);
		cr_assert(eq(int, srd_cuda_probe(&l.pd, ALL, EITHER), SRD_CUDA_BY_DMABUF));
		cr_assert(eq(int, srd_cuda_export((uintptr_t)p, 65537, &fd, &offset), -EINVAL));
		cr_assert(zero(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER)));
		cr_assert(eq(int, fake->mode, mode));
		fake->context = false;
		cr_assert(eq(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER), -ENXIO));
		cr_assert(eq(int, fake->mode, mode));
		fake->context = true;
	}
	cr_assert(zero(uint, fake->unsafe));
	loop_fini(&l);
}

/* ---- flush ---- */

struct flush {
	int options, ordering; /* of the device */
	int scope;             /* asked for */
	int rc;
	unsigned calls;
};

ParameterizedTestParameters(cuda, flush)
{
	static struct flush flushes[] = {
		{1, 0, 100, 0, 1},           {1, 0, 200, 0, 1},
		{1, 100, 100, 0, 0},         {1, 100, 200, 0, 1},
		{1, 200, 200, 0, 0},         {0, 0, 100, -EOPNOTSUPP, 0},
		{0, 100, 100, 0, 0},         {0, 100, 200, -EOPNOTSUPP, 0},
		{2, 0, 100, -EOPNOTSUPP, 0}, {3, 0, 100, 0, 1},
		{0, 200, 200, 0, 0},
	};

	return cr_make_param_array(struct flush, flushes, sizeof(flushes) / sizeof(flushes[0]));
}

ParameterizedTest(struct flush *f, cuda, flush)
{
	struct fake_cuda *fake = begin();
	struct srd_cuda_attr attr;

	fake->flush = f->options;
	fake->ordering = f->ordering;
	for (unsigned i = 1; i <= 2; i++) {
		cr_assert(
			eq(int, srd_flush_gpudirect_writes((enum srd_cuda_scope)f->scope), f->rc));
		cr_assert(eq(uint, fake->flushes, i * f->calls));
		if (f->calls)
			cr_assert(eq(int, fake->scope, f->scope));
	}
	cr_assert(zero(int, srd_cuda_query(&attr)));
	cr_assert(eq(int, attr.flush, f->options & 1));
	cr_assert(eq(int, (int)attr.ordering, f->ordering));
	cr_assert(attr.dmabuf);
	cr_assert(attr.gpudirect);
}

Test(cuda, devices_are_told_apart)
{
	struct fake_cuda *fake = begin();
	struct srd_cuda_attr attr;

	cr_assert(zero(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER)));
	cr_assert(eq(uint, fake->flushes, 1));
	fake->device = 1;
	fake->ordering = SRD_CUDA_ALL_DEVICES;
	cr_assert(zero(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER)));
	cr_assert(eq(uint, fake->flushes, 1));
	cr_assert(zero(int, srd_cuda_query(&attr)));
	cr_assert(eq(int, attr.device, 1));
	fake->device = 0;
	cr_assert(zero(int, srd_flush_gpudirect_writes(SRD_CUDA_OWNER)));
	cr_assert(eq(uint, fake->flushes, 2));
}
