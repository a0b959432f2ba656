/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunked transfers over a queue that is shallower than their number. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/loop.h"

struct param {
	uint32_t len, chunk;
};

static struct param params[] = {
	{1, 4096},          {4096, 4096},  {4097, 4096}, {LOOP_B, 8192},
	{LOOP_B - 1, 8192}, {100000, 777}, {LOOP_B, 0},
};

/* Post what there is room for, poll, go on where it stopped: what the iterator is for. */
static void run(struct loop *l, struct srd_xfer *x)
{
	uint64_t total = srd_xfer_left(x), done = 0, posted = 0;
	struct srd_wr wr;
	struct srd_wc wc;

	while (done < total) {
		while (posted - done < l->a.sq_depth && srd_xfer_next(x, &wr)) {
			cr_assert(eq(u64, wr.wr_id, posted));
			cr_assert(zero(int, srd_post(&l->a, &wr, 1)));
			posted++;
		}
		loop_wait(&l->a_cq, &wc, 1);
		cr_assert(zero(int, srd_wc_err(&wc)));
		cr_assert(lt(u64, wc.wr_id, total));
		done++;
	}
	cr_assert(zero(u64, srd_xfer_left(x)));
	cr_assert(not(srd_xfer_next(x, &wr)));
	cr_assert(eq(u64, posted, total));
}

/* Between A's half of the buffer and B's. */
static void begin(struct srd_xfer *x, const struct loop *l, enum ibv_wr_opcode op,
		  const struct param *p)
{
	*x = (struct srd_xfer){.op = op,
			       .to = &l->to_b,
			       .mr = &l->mr,
			       .len = p->len,
			       .raddr = l->b_mr.addr + LOOP_B,
			       .rkey = l->b_mr.rkey,
			       .chunk = p->chunk,
			       .wr_step = 1};
	cr_assert(zero(int, srd_xfer_begin(x)));
}

ParameterizedTestParameters(xfer, write_in_chunks_arrives)
{
	return cr_make_param_array(struct param, params, sizeof(params) / sizeof(params[0]));
}

ParameterizedTest(struct param *p, xfer, write_in_chunks_arrives)
{
	struct loop l;
	struct srd_xfer x;

	loop_init(&l, &(struct loop_attr){.depth = 8, .need = SRD_CAP_RDMA_WRITE});
	loop_fill(l.buf, p->len, 1);
	begin(&x, &l, IBV_WR_RDMA_WRITE, p);
	run(&l, &x);
	cr_assert(loop_filled(l.buf + LOOP_B, p->len, 1));
	loop_fini(&l);
}

ParameterizedTestParameters(xfer, read_in_chunks_arrives)
{
	return cr_make_param_array(struct param, params, sizeof(params) / sizeof(params[0]));
}

ParameterizedTest(struct param *p, xfer, read_in_chunks_arrives)
{
	struct loop l;
	struct srd_xfer x;

	loop_init(&l, &(struct loop_attr){.depth = 8, .need = SRD_CAP_RDMA_READ});
	loop_fill(l.buf + LOOP_B, p->len, 2);
	begin(&x, &l, IBV_WR_RDMA_READ, p);
	run(&l, &x);
	cr_assert(loop_filled(l.buf, p->len, 2));
	loop_fini(&l);
}

/* ---- more than 32 bits ---- */

enum { WINDOW_BYTES = 64 << 20 };
static const uint64_t huge = (5ULL << 30) + 12345;

/* @huge bytes of address space that are the same 64 MiB again and again. */
static uint8_t *repeated(void)
{
	size_t room = (huge / WINDOW_BYTES + 1) * WINDOW_BYTES;
	uint8_t *at =
		mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = memfd_create("window", MFD_CLOEXEC);

	cr_assert(ne(ptr, at, MAP_FAILED));
	cr_assert(zero(int, ftruncate(fd, WINDOW_BYTES)));
	for (size_t i = 0; i < room; i += WINDOW_BYTES)
		cr_assert(ne(ptr,
			     mmap(at + i, WINDOW_BYTES, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED, fd, 0),
			     MAP_FAILED));
	close(fd);
	return at;
}

Test(xfer, more_than_four_gib_arrive)
{
	uint8_t *from = repeated(), *to = repeated();
	struct srd_mr from_mr, to_mr;
	struct srd_xfer x;
	struct loop l;

	loop_init(&l, &(struct loop_attr){.depth = 8, .need = SRD_CAP_RDMA_WRITE});
	cr_assert(zero(int, srd_mr_init(&from_mr, &l.pd, from, huge, IBV_ACCESS_LOCAL_WRITE)));
	cr_assert(zero(int, srd_mr_init(&to_mr, &l.pd, to, huge,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	loop_fill(from, WINDOW_BYTES, 9);
	x = (struct srd_xfer){.op = IBV_WR_RDMA_WRITE,
			      .to = &l.to_b,
			      .mr = &from_mr,
			      .len = huge,
			      .raddr = to_mr.addr,
			      .rkey = to_mr.rkey,
			      .wr_step = 1};
	cr_assert(zero(int, srd_xfer_begin(&x)));
	cr_assert(eq(u32, x.chunk,
		     l.dev.attr.max_rdma_size < 1u << 30 ? l.dev.attr.max_rdma_size : 1u << 30));
	run(&l, &x);
	cr_assert(loop_filled(to, WINDOW_BYTES, 9));
	srd_mr_fini(&to_mr);
	srd_mr_fini(&from_mr);
	loop_fini(&l);
}
