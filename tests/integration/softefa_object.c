/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of the adapter: what creation refuses and with which errno, room, and destruction. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_object, .timeout = 60);

enum { LEN = 4096, ROOM = 5 };

/* ---- queue pairs ---- */

/* A command to create a QP, with values that raw_qp_create() would not send. */
struct bad_qp {
	uint32_t sq, rq_bytes, sq_bytes, max_inline, type, flags, driver_type, send_sge, recv_sge;
	uint16_t qp_flags;
	int err;
};

static struct bad_qp bad_qps[] = {
	{.sq = 24, .sq_bytes = 24 * 64, .err = EINVAL},      /* no power of two */
	{.sq = 8192, .sq_bytes = 8192 * 64, .err = EINVAL},  /* > max_sq_wr */
	{.sq = 64, .sq_bytes = 64 * 96, .err = EINVAL},      /* stride */
	{.sq = 64, .sq_bytes = 64 * 32, .err = EINVAL},      /* stride */
	{.sq = 64, .sq_bytes = 64 * 64 + 8, .err = EINVAL},  /* no multiple */
	{.sq = 0, .sq_bytes = 4096, .err = EINVAL},          /* no stride at all */
	{.sq = 4096, .sq_bytes = 4096 * 128, .err = EINVAL}, /* > max_llq_size */
	{.sq = 16, .sq_bytes = 16 * 64, .rq_bytes = 100, .err = EINVAL},
	{.sq = 16, .sq_bytes = 16 * 64, .rq_bytes = 16 * 24, .err = EINVAL},
	{.sq = 16, .sq_bytes = 16 * 64, .rq_bytes = 65536 * 16, .err = EINVAL},
	{.sq = 16, .sq_bytes = 16 * 64, .max_inline = 33, .err = EINVAL},
	{.sq = 16, .sq_bytes = 16 * 128, .max_inline = 1, .err = EINVAL}, /* inline_size_ex = 0 */
	{.sq = 16, .sq_bytes = 16 * 64, .send_sge = 3, .err = EINVAL},
	{.sq = 16, .sq_bytes = 16 * 64, .recv_sge = 5, .err = EINVAL},
	{.sq = 16, .sq_bytes = 16 * 64, .type = 2, .err = EOPNOTSUPP}, /* RC */
	{.sq = 16, .sq_bytes = 16 * 64, .driver_type = 1, .err = EOPNOTSUPP},
	{.sq = 16, .sq_bytes = 16 * 64, .flags = 1, .err = EOPNOTSUPP},
	{.sq = 16, .sq_bytes = 16 * 64, .qp_flags = 2, .err = EOPNOTSUPP}, /* no 64-bit ids */
	{.sq = 16, .sq_bytes = 16 * 64, .qp_flags = 4, .err = EINVAL},     /* unknown */
	{.sq = 16, .sq_bytes = 16 * 64, .type = RAW_UD, .qp_flags = 1, .err = EINVAL},
};

static int qp_create(const struct node *n, const struct bad_qp *b)
{
	uint32_t cap[5] = {b->sq, 1, b->send_sge, b->recv_sge, b->max_inline};
	uint32_t in[6] = {0, b->rq_bytes, b->sq_bytes, b->driver_type, b->qp_flags, 0};
	uint32_t qpn, out[16], cap_out[5];
	struct raw_cmd c;

	raw_cmd_init(&c, RAW_QP, RAW_CREATE);
	raw_cmd_handle(&c, 0, 0);
	raw_cmd_handle(&c, 2, n->pd.handle);
	raw_cmd_handle(&c, 4, n->scq.handle);
	raw_cmd_handle(&c, 5, n->rcq.handle);
	raw_cmd_u64(&c, 7, 0);
	raw_cmd_in(&c, 8, cap, sizeof(cap));
	raw_cmd_u64(&c, 9, b->type ? b->type : RAW_SRD);
	if (b->flags)
		raw_cmd_u32(&c, 10, b->flags);
	raw_cmd_out(&c, 13, cap_out, sizeof(cap_out));
	raw_cmd_out(&c, 14, &qpn, sizeof(qpn));
	raw_cmd_in(&c, RAW_UHW_IN, in, sizeof(in));
	raw_cmd_out(&c, RAW_UHW_OUT, out, sizeof(out));
	return raw_cmd_run(n->dev.sys, n->dev.fd, &c);
}

ParameterizedTestParameters(softefa_object, senseless_queue_pair_is_refused)
{
	return cr_make_param_array(struct bad_qp, bad_qps, sizeof(bad_qps) / sizeof(bad_qps[0]));
}

ParameterizedTest(struct bad_qp *b, softefa_object, senseless_queue_pair_is_refused)
{
	struct bad_qp good = {.sq = 16, .sq_bytes = 16 * 64};
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	cr_assert(eq(int, qp_create(&n, b), -b->err));
	MUST_0(qp_create(&n, &good));
	node_abandon(&n);
}

Test(softefa_object, queue_pair_without_queues_is_fine)
{
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	MUST_0(qp_create(&n, &(struct bad_qp){0}));
	node_abandon(&n);
}

Test(softefa_object, send_queue_below_the_devices_smallest_is_refused)
{
	struct node n;

	node_settings("min_sq_wr=64");
	node_init(&n, &(struct node_attr){0});
	cr_assert(eq(int, n.dev.min_sq_wr, 64));
	cr_assert(eq(int, qp_create(&n, &(struct bad_qp){.sq = 32, .sq_bytes = 32 * 64}), -EINVAL));
	MUST_0(qp_create(&n, &(struct bad_qp){.sq = 64, .sq_bytes = 64 * 64}));
	node_abandon(&n);
}

/* ---- completion queues ---- */

struct bad_cq {
	uint32_t depth, entry, subs, vector, flags, qflags, comp_mask;
	int err;
};

static struct bad_cq bad_cqs[] = {
	{.depth = 0, .entry = 32, .subs = 1, .err = EINVAL},
	{.depth = 32769, .entry = 32, .subs = 1, .err = EINVAL},
	{.depth = 16, .entry = 24, .subs = 1, .err = EINVAL},
	{.depth = 16, .entry = 0, .subs = 1, .err = EINVAL},
	{.depth = 16, .entry = 16, .subs = 1, .flags = 2, .err = EINVAL}, /* GIDs need 32 */
	{.depth = 16, .entry = 32, .subs = 2, .err = EINVAL},
	{.depth = 16, .entry = 32, .subs = 1, .vector = 4, .err = EINVAL},
	{.depth = 16, .entry = 32, .subs = 1, .flags = 8, .err = EINVAL},
	{.depth = 16, .entry = 32, .subs = 1, .comp_mask = 1, .err = EINVAL},
	{.depth = 16, .entry = 32, .subs = 1, .qflags = 1, .err = EOPNOTSUPP},
};

static int cq_create(const struct node *n, const struct bad_cq *b)
{
	uint32_t in[4] = {b->comp_mask, b->entry, b->subs | b->flags << 16, 0};
	uint32_t out[10], depth;
	struct raw_cmd c;

	raw_cmd_init(&c, RAW_CQ, RAW_CREATE);
	raw_cmd_handle(&c, 0, 0);
	raw_cmd_u32(&c, 1, b->depth);
	raw_cmd_u64(&c, 2, 0);
	raw_cmd_u32(&c, 4, b->vector);
	if (b->qflags)
		raw_cmd_u32(&c, 5, b->qflags);
	raw_cmd_out(&c, 6, &depth, sizeof(depth));
	raw_cmd_in(&c, RAW_UHW_IN, in, sizeof(in));
	raw_cmd_out(&c, RAW_UHW_OUT, out, sizeof(out));
	return raw_cmd_run(n->dev.sys, n->dev.fd, &c);
}

ParameterizedTestParameters(softefa_object, senseless_completion_queue_is_refused)
{
	return cr_make_param_array(struct bad_cq, bad_cqs, sizeof(bad_cqs) / sizeof(bad_cqs[0]));
}

ParameterizedTest(struct bad_cq *b, softefa_object, senseless_completion_queue_is_refused)
{
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	cr_assert(eq(int, cq_create(&n, b), -b->err));
	MUST_0(cq_create(&n, &(struct bad_cq){.depth = 16, .entry = 16, .subs = 1, .vector = 3}));
	node_abandon(&n);
}

Test(softefa_object, channel_of_a_completion_queue_must_be_one_of_the_context)
{
	struct node n, other;
	struct raw_cq cq;
	int fd;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	node_init(&other, &(struct node_attr){0});
	MUST_0(raw_channel(&other.dev, &fd));
	cr_assert(eq(int,
		     raw_cq_create(&cq, &n.dev, &(struct raw_cq_attr){.depth = 4, .channel = fd}),
		     -EBADF));
	cr_assert(eq(int,
		     raw_cq_create(&cq, &n.dev, &(struct raw_cq_attr){.depth = 4, .channel = 1}),
		     -EBADF));
	node_fini(&other);
	node_fini(&n);
}

/* ---- memory regions, address handles ---- */

struct bad_mr {
	uint64_t off, len; /* against the middle of three pages, of which the last is not mapped */
	uint32_t access;
	bool read_only;
	int err;
};

static struct bad_mr bad_mrs[] = {
	{.len = 0, .access = 1, .err = EINVAL},
	{.len = UINT64_MAX, .access = 1, .err = EINVAL},
	{.len = LEN + 1, .access = 1, .err = EFAULT},
	{.off = LEN, .len = 1, .access = 1, .err = EFAULT},
	{.len = LEN, .access = 2, .err = EINVAL},          /* remote write without local write */
	{.len = LEN, .access = 1 | 8, .err = EOPNOTSUPP},  /* atomics */
	{.len = LEN, .access = 1 | 16, .err = EOPNOTSUPP}, /* windows */
	{.len = LEN, .access = 1, .read_only = true, .err = EFAULT},
};

static uint8_t *three_pages(void)
{
	uint8_t *p =
		mmap(NULL, 3 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(ne(ptr, p, MAP_FAILED));
	munmap(p + 2 * LEN, LEN);
	return p;
}

ParameterizedTestParameters(softefa_object, senseless_memory_region_is_refused)
{
	return cr_make_param_array(struct bad_mr, bad_mrs, sizeof(bad_mrs) / sizeof(bad_mrs[0]));
}

ParameterizedTest(struct bad_mr *b, softefa_object, senseless_memory_region_is_refused)
{
	struct raw_mr mr;
	struct node n;
	uint8_t *p;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	p = three_pages() + LEN;
	if (b->read_only)
		mprotect(p, LEN, PROT_READ);
	cr_assert(eq(int, raw_mr_reg(&mr, &n.dev, &n.pd, p + b->off, b->len, b->access), -b->err));
	MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, p, LEN, b->read_only ? 0 : RAW_ALL_ACCESS));
	node_fini(&n);
}

Test(softefa_object, optional_access_bits_are_no_obstacle)
{
	struct raw_mr mr;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RAW_ALL_ACCESS | 0x3ff00000));
	MUST_0(raw_mr_dereg(&mr, &n.dev));
	node_fini(&n);
}

/* A kernel maps pages to pages, so an address and what stands for it lie alike in theirs. */
Test(softefa_object, other_address_of_a_region_has_the_same_place_in_its_page)
{
	uint64_t in[5] = {0};
	uint32_t out[3];
	struct raw_write w = {9, in, sizeof(in), out, sizeof(out), NULL, 0};
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	in[1] = (uintptr_t)n.buf + 100;
	in[2] = 1000;
	in[3] = 0x7000000 + 101;
	in[4] = n.pd.handle;
	cr_assert(eq(int, raw_write_run(n.dev.sys, n.dev.fd, &w), -EINVAL));
	in[3] = 0x7000000 + 100;
	MUST_0(raw_write_run(n.dev.sys, n.dev.fd, &w));
	node_abandon(&n);
}

Test(softefa_object, region_is_used_by_its_other_address)
{
	uint64_t in[5] = {0}, iova = 0x7000000;
	uint32_t out[3];
	struct raw_write w = {9, in, sizeof(in), out, sizeof(out), NULL, 0};
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	in[1] = (uintptr_t)d.b.buf;
	in[2] = LEN;
	in[3] = iova;
	in[4] = (uint64_t)RAW_ALL_ACCESS << 32 | d.b.pd.handle;
	MUST_0(raw_write_run(d.b.dev.sys, d.b.dev.fd, &w));
	node_fill(d.a.buf, LEN, 1);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN - 8, 0);
	wr.remote = (struct raw_sge){iova + 8, LEN - 8, out[2]};
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf + 8, LEN - 8, 1));
	wr.op = RAW_READ;
	wr.sge[0] = raw_sge(&d.a.mr, LEN, LEN - 8);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.a.buf + LEN, LEN - 8, 1));
	wr.remote.addr = (uintptr_t)d.b.buf;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 7));
	duo_fini(&d);
}

Test(softefa_object, address_handle_needs_a_unicast_gid)
{
	struct raw_gid zero = {{0}}, multicast = {{0xff, 0x0e, [15] = 1}};
	struct raw_ah ah;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	cr_assert(eq(int, raw_ah_create(&ah, &n.dev, &n.pd, &zero), -EINVAL));
	cr_assert(eq(int, raw_ah_create(&ah, &n.dev, &n.pd, &multicast), -EINVAL));
	node_fini(&n);
}

Test(softefa_object, address_handles_of_a_gid_have_one_number_in_all_domains)
{
	struct raw_gid gid = {{0xfe, 0x80, [15] = 9}};
	struct raw_ah a, b, c;
	struct raw_pd pd;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_pd_alloc(&pd, &n.dev));
	MUST_0(raw_ah_create(&a, &n.dev, &n.pd, &gid));
	MUST_0(raw_ah_create(&b, &n.dev, &n.pd, &gid));
	MUST_0(raw_ah_create(&c, &n.dev, &pd, &gid));
	cr_assert(eq(u16, a.ahn, b.ahn));
	cr_assert(eq(u16, a.ahn, c.ahn));
	cr_assert(ne(u32, a.handle, b.handle));
	gid.b[15] = 10;
	MUST_0(raw_ah_create(&c, &n.dev, &n.pd, &gid));
	cr_assert(ne(u16, c.ahn, a.ahn));
	node_fini(&n);
}

/* ---- room ---- */

/* Each sort: makes one, destroys the last one. */
struct sort {
	const char *settings; /* room for ROOM, those of the node included */
	unsigned taken;       /* by the node */
	int (*make)(struct node *n, unsigned i);
	int (*unmake)(struct node *n);
};

static union {
	struct raw_pd pd;
	struct raw_mr mr;
	struct raw_ah ah;
	struct raw_cq cq;
	struct raw_qp qp;
} last;

static int make_pd(struct node *n, unsigned i)
{
	struct raw_pd pd;
	int rc = raw_pd_alloc(&pd, &n->dev);

	(void)i;
	if (!rc)
		last.pd = pd;
	return rc;
}

static int unmake_pd(struct node *n)
{
	return raw_pd_free(&last.pd, &n->dev);
}

static int make_mr(struct node *n, unsigned i)
{
	struct raw_mr mr;
	int rc = raw_mr_reg(&mr, &n->dev, &n->pd, n->buf, i + 1, 0);

	if (!rc)
		last.mr = mr;
	return rc;
}

static int unmake_mr(struct node *n)
{
	return raw_mr_dereg(&last.mr, &n->dev);
}

static int make_ah(struct node *n, unsigned i)
{
	struct raw_gid gid = {{0xfe, 0x80, [15] = (uint8_t)i}};
	struct raw_ah ah;
	int rc = raw_ah_create(&ah, &n->dev, &n->pd, &gid);

	if (!rc)
		last.ah = ah;
	return rc;
}

static int unmake_ah(struct node *n)
{
	return raw_ah_destroy(&last.ah, &n->dev);
}

static int make_cq(struct node *n, unsigned i)
{
	struct raw_cq cq;
	int rc = raw_cq_create(&cq, &n->dev, &(struct raw_cq_attr){.depth = 16});

	(void)i;
	if (!rc)
		last.cq = cq;
	return rc;
}

static int unmake_cq(struct node *n)
{
	return raw_cq_destroy(&last.cq, &n->dev, NULL);
}

static int make_qp(struct node *n, unsigned i)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 16, .rq = 16};
	struct raw_qp qp;
	int rc = raw_qp_create(&qp, &n->dev, &n->pd, &n->scq, &n->rcq, &attr);

	(void)i;
	if (!rc)
		last.qp = qp;
	return rc;
}

static int unmake_qp(struct node *n)
{
	return raw_qp_destroy(&last.qp, &n->dev);
}

static const struct sort sorts[] = {
	{"max_pd=5", 1, make_pd, unmake_pd}, {"max_mr=5", 1, make_mr, unmake_mr},
	{"max_ah=5", 0, make_ah, unmake_ah}, {"max_cq=5", 2, make_cq, unmake_cq},
	{"max_qp=5", 1, make_qp, unmake_qp},
};

/* Indices: a parameter must not hold pointers. */
static unsigned which[] = {0, 1, 2, 3, 4};

ParameterizedTestParameters(softefa_object, room_ends_with_enomem_and_comes_back)
{
	return cr_make_param_array(unsigned, which, sizeof(which) / sizeof(which[0]));
}

ParameterizedTest(unsigned *w, softefa_object, room_ends_with_enomem_and_comes_back)
{
	const struct sort *s = &sorts[*w];
	unsigned i = s->taken;
	struct node n;

	node_settings(s->settings);
	node_init(&n, &(struct node_attr){0});
	for (; i < ROOM; i++)
		MUST_0(s->make(&n, i + 1));
	cr_assert(eq(int, s->make(&n, i + 1), -ENOMEM));
	MUST_0(s->unmake(&n));
	MUST_0(s->make(&n, i + 2));
	cr_assert(eq(int, s->make(&n, i + 3), -ENOMEM));
	node_abandon(&n);
	node_init(&n, &(struct node_attr){0});
	node_fini(&n);
}

/* ---- destruction ---- */

Test(softefa_object, what_others_need_is_busy)
{
	struct node n;
	struct raw_ah ah;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_ah_create(&ah, &n.dev, &n.pd, &(struct raw_gid){{0xfe, 0x80, [15] = 9}}));
	cr_assert(eq(int, raw_cq_destroy(&n.scq, &n.dev, NULL), -EBUSY));
	cr_assert(eq(int, raw_cq_destroy(&n.rcq, &n.dev, NULL), -EBUSY));
	cr_assert(eq(int, raw_pd_free(&n.pd, &n.dev), -EBUSY));
	MUST_0(raw_qp_destroy(&n.qp, &n.dev));
	cr_assert(eq(int, raw_pd_free(&n.pd, &n.dev), -EBUSY));
	MUST_0(raw_mr_dereg(&n.mr, &n.dev));
	cr_assert(eq(int, raw_pd_free(&n.pd, &n.dev), -EBUSY));
	MUST_0(raw_ah_destroy(&ah, &n.dev));
	MUST_0(raw_pd_free(&n.pd, &n.dev));
	MUST_0(raw_cq_destroy(&n.scq, &n.dev, NULL));
	MUST_0(raw_cq_destroy(&n.rcq, &n.dev, NULL));
	node_abandon(&n);
}

Test(softefa_object, destroyed_objects_are_not_found_again)
{
	struct node n;
	struct raw_mr mr;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	mr = n.mr;
	MUST_0(raw_mr_dereg(&n.mr, &n.dev));
	cr_assert(eq(int, raw_mr_dereg(&mr, &n.dev), -ENOENT));
	mr.handle = n.pd.handle; /* something else */
	cr_assert(eq(int, raw_mr_dereg(&mr, &n.dev), -EINVAL));
	mr.handle = UINT32_MAX;
	cr_assert(eq(int, raw_mr_dereg(&mr, &n.dev), -ENOENT));
	node_fini(&n);
}

/* ---- keys ---- */

Test(softefa_object, key_of_a_deregistered_region_does_not_come_back_soon)
{
	enum { N = 2000 };
	struct raw_mr mr;
	uint32_t first;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RAW_ALL_ACCESS));
	first = mr.key;
	for (unsigned i = 0; i < N; i++) {
		MUST_0(raw_mr_dereg(&mr, &n.dev));
		MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RAW_ALL_ACCESS));
		cr_assert(ne(u32, mr.key, first));
	}
	node_fini(&n);
}

Test(softefa_object, stale_keys_are_refused)
{
	struct duo d;
	struct raw_wr wr;
	struct raw_mr mr;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	MUST_0(raw_mr_dereg(&d.b.mr, &d.b.dev));
	MUST_0(raw_mr_reg(&mr, &d.b.dev, &d.b.pd, d.b.buf, LEN, RAW_ALL_ACCESS));
	cr_assert(eq(int, node_run(&d.a, &wr).status, 7));
	wr.remote.key = mr.key;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 0));
	MUST_0(raw_mr_dereg(&d.a.mr, &d.a.dev));
	cr_assert(eq(int, node_run(&d.a, &wr).status, 5));
	duo_fini(&d);
}
