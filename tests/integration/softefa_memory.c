/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory under the adapter: unmapped or read-only without notice, scattered, written in order. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_memory, .timeout = 60);

enum { PAGE = 4096 };

/* ---- gone without a deregistration ---- */

enum gone { UNMAPPED, READ_ONLY };

struct loss {
	enum raw_op op;
	bool imm;
	bool at_a; /* whose buffer is lost */
	bool last; /* only its last page */
	enum gone how;
	uint32_t len;
	unsigned status, rx_status; /* 0: no receive completes */
};

static struct loss losses[] = {
	{RAW_SEND, false, true, false, UNMAPPED, PAGE, 5, 0},
	{RAW_SEND, false, true, true, UNMAPPED, 2 * PAGE, 5, 0},
	{RAW_SEND, false, false, false, UNMAPPED, PAGE, 12, 5},
	{RAW_SEND, false, false, true, UNMAPPED, 2 * PAGE, 12, 5},
	{RAW_SEND, false, false, false, READ_ONLY, PAGE, 12, 5},
	{RAW_WRITE, false, true, false, UNMAPPED, PAGE, 5, 0},
	{RAW_WRITE, false, true, true, UNMAPPED, 64 * PAGE, 5, 0},
	{RAW_WRITE, false, false, false, UNMAPPED, PAGE, 7, 0},
	{RAW_WRITE, false, false, true, UNMAPPED, 64 * PAGE, 7, 0},
	{RAW_WRITE, false, false, false, READ_ONLY, PAGE, 7, 0},
	{RAW_WRITE, true, true, false, UNMAPPED, PAGE, 5, 0},
	{RAW_WRITE, true, false, false, UNMAPPED, PAGE, 7, 0},
	{RAW_READ, false, true, false, UNMAPPED, PAGE, 5, 0},
	{RAW_READ, false, true, true, UNMAPPED, 64 * PAGE, 5, 0},
	{RAW_READ, false, true, false, READ_ONLY, PAGE, 5, 0},
	{RAW_READ, false, false, false, UNMAPPED, PAGE, 7, 0},
	{RAW_READ, false, false, true, UNMAPPED, 64 * PAGE, 7, 0},
};

/* Between pages that stay, so that nothing else fits into the hole that it leaves. */
static uint8_t *map_registered(struct node *n, struct raw_mr *mr, uint32_t len)
{
	uint8_t *p = mmap(NULL, len + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	cr_assert(ne(ptr, p, MAP_FAILED));
	MUST_0(raw_mr_reg(mr, &n->dev, &n->pd, p + PAGE, len, RAW_ALL_ACCESS));
	return p + PAGE;
}

static void lose(uint8_t *p, const struct loss *l)
{
	uint32_t from = l->last ? l->len - PAGE : 0;

	if (l->how == UNMAPPED)
		munmap(p + from, l->len - from);
	else
		mprotect(p + from, l->len - from, PROT_READ);
}

ParameterizedTestParameters(softefa_memory, lost_memory_fails_the_request_alone)
{
	return cr_make_param_array(struct loss, losses, sizeof(losses) / sizeof(losses[0]));
}

ParameterizedTest(struct loss *l, softefa_memory, lost_memory_fails_the_request_alone)
{
	struct raw_mr a, b;
	struct raw_sge sge;
	struct raw_wr wr;
	uint8_t *pa, *pb;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	pa = map_registered(&d.a, &a, l->len);
	pb = map_registered(&d.b, &b, l->len);
	lose(l->at_a ? pa : pb, l);
	sge = raw_sge(&b, 0, l->len);
	raw_post_recv(&d.b.qp, 5, &sge, 1);
	raw_ring(&d.b.qp);
	wr = node_wr(&d.a, l->op, &d.to_b, d.ahn, 0, l->len, 0);
	wr.imm_on = l->imm;
	wr.sge[0] = raw_sge(&a, 0, l->len);
	wr.remote = raw_sge(&b, 0, l->len);
	cr_assert(eq(uint, node_run(&d.a, &wr).status, l->status));
	if (l->rx_status)
		cr_assert(eq(uint, node_wait(&d.b.rcq).status, l->rx_status));
	cr_assert(node_quiet(&d.b.rcq, 5));
	/* Both queue pairs go on; a receive that did not complete is still posted. */
	if (l->rx_status)
		node_recv(&d.b, 6, 0, 64);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 0, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(eq(u64, node_wait_status(&d.b.rcq, 0).req_id, l->rx_status ? 6 : 5));
	duo_fini(&d);
}

/* ---- gone in the middle ---- */

enum { HUGE_LEN = 8 << 20, FLICKERS = 60 };

struct flicker {
	uint8_t *p;
	atomic_uint stop;
};

static void replace(uint8_t *p, int prot)
{
	MUST(mmap(p, HUGE_LEN / 2, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p,
	     "mmap");
}

/*
 * The second half comes and goes under transfers: other memory each time, at the same address. Not
 * a hole, in which something else might settle.
 */
static void *flicker(void *arg)
{
	struct flicker *f = arg;

	while (!f->stop) {
		replace(f->p + HUGE_LEN / 2, PROT_NONE);
		kids_nap_us(500);
		replace(f->p + HUGE_LEN / 2, PROT_READ | PROT_WRITE);
		kids_nap_us(500);
	}
	return NULL;
}

static struct flickering {
	enum raw_op op;
	bool at_a;
} flickerings[] = {{RAW_WRITE, true}, {RAW_WRITE, false}, {RAW_READ, true}, {RAW_READ, false}};

ParameterizedTestParameters(softefa_memory, memory_that_comes_and_goes_fails_requests_alone)
{
	return cr_make_param_array(struct flickering, flickerings,
				   sizeof(flickerings) / sizeof(flickerings[0]));
}

ParameterizedTest(struct flickering *x, softefa_memory,
		  memory_that_comes_and_goes_fails_requests_alone)
{
	struct flicker f = {0};
	unsigned failed = 0;
	struct raw_mr a, b;
	struct raw_wr wr;
	uint8_t *pa, *pb;
	struct duo d;
	pthread_t t;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	pa = map_registered(&d.a, &a, HUGE_LEN);
	pb = map_registered(&d.b, &b, HUGE_LEN);
	f.p = x->at_a ? pa : pb;
	wr = node_wr(&d.a, x->op, &d.to_b, d.ahn, 0, HUGE_LEN, 0);
	wr.sge[0] = raw_sge(&a, 0, HUGE_LEN);
	wr.remote = raw_sge(&b, 0, HUGE_LEN);
	pthread_create(&t, NULL, flicker, &f);
	for (unsigned i = 0; i < FLICKERS || (!failed && i < 50 * FLICKERS); i++) {
		unsigned status = node_run(&d.a, &wr).status;

		/* Whose memory it was cannot be told when it is back before anybody looks. */
		cr_assert(status == 0 || status == 5 || status == 7, "status %u", status);
		failed += status != 0;
	}
	f.stop = 1;
	pthread_join(t, NULL);
	cr_assert(ge(uint, failed, 1));
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	duo_fini(&d);
}

/* ---- scattered ---- */

/*
 * Sixteen pieces, each across the end of a line: many more pieces of lines than any one buffer of
 * that length has.
 */
Test(softefa_memory, receive_scatters_over_sixteen_odd_pieces)
{
	enum { PIECES = 16, PIECE = 10, STRIDE = 256, AT = 55, ALL = PIECES * PIECE };
	struct raw_sge sge[PIECES];
	struct raw_wr wr;
	struct duo d;
	uint8_t got[ALL];

	node_settings("max_rq_sge=16");
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < PIECES; i++)
		sge[i] = raw_sge(&d.b.mr, i * STRIDE + AT, PIECE);
	raw_post_recv(&d.b.qp, 1, sge, PIECES);
	raw_ring(&d.b.qp);
	node_fill(d.a.buf, ALL, 1);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, ALL, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(eq(u32, node_wait_status(&d.b.rcq, 0).len, ALL));
	for (unsigned i = 0; i < PIECES; i++)
		memcpy(got + i * PIECE, d.b.buf + i * STRIDE + AT, PIECE);
	cr_assert(node_filled(got, ALL, 1));
	for (unsigned i = 0; i < PIECES; i++)
		cr_assert(zero(u8, d.b.buf[i * STRIDE + AT + PIECE]));
	duo_fini(&d);
}

Test(softefa_memory, send_gathers_two_pieces)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	node_fill(d.a.buf, 1000, 1);
	node_recv(&d.b, 1, 0, 1000);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 333, 0);
	wr.nsge = 2;
	wr.sge[1] = raw_sge(&d.a.mr, 333, 667);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	node_wait_status(&d.b.rcq, 0);
	cr_assert(node_filled(d.b.buf, 1000, 1));
	duo_fini(&d);
}

/* ---- in order ---- */

/* Programs poll the last word of a 64-byte line for news: the other words must be there, too. */
Test(softefa_memory, last_word_of_a_line_lands_last)
{
	enum { ROUNDS = 3000, WORDS = 8 };
	_Atomic uint64_t *line;
	uint64_t *src;
	struct duo d;
	struct raw_wr wr;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	line = (_Atomic uint64_t *)(void *)d.b.buf;
	src = (uint64_t *)(void *)d.a.buf;
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, WORDS * 8, 0);
	for (uint64_t r = 1; r <= ROUNDS; r++) {
		int64_t end = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);

		for (unsigned i = 0; i < WORDS; i++)
			src[i] = r;
		node_post(&d.a, &wr);
		while (atomic_load_explicit(&line[WORDS - 1], memory_order_acquire) != r)
			cr_assert(lt(i64, kids_now_us(), end));
		for (unsigned i = 0; i < WORDS; i++)
			cr_assert(eq(u64, line[i], r));
		node_wait_status(&d.a.scq, 0);
	}
	duo_fini(&d);
}
