/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions of a dma-buf, for which a memfd stands: what is refused as by a kernel, and that
 * all that works on other memory works on these. And the other ways to make and to ask of regions.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_dmabuf, .timeout = 60);

enum { PAGE = 4096, PAGES = 8, SIZE = PAGES * PAGE, AT = PAGE + 100, LEN = 3 * PAGE };
enum { PART = 3 * PAGE }; /* where a part of a memfd begins */

static const uint64_t iova = 0x7f0000000000 + AT;

/* A memfd of SIZE bytes, and the program's own view of it. */
static int memfd(uint8_t **view)
{
	int fd = memfd_create("tests-dmabuf", MFD_CLOEXEC);

	MUST(fd >= 0 && ftruncate(fd, SIZE) == 0, "memfd");
	*view = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(*view != MAP_FAILED, "mmap");
	return fd;
}

/* The memfd from @start on, registered and closed: the region does not need the descriptor. */
static uint8_t *registered_part(struct raw_mr *mr, const struct node *n, off_t start)
{
	uint8_t *view;
	int fd = memfd(&view);

	MUST(lseek(fd, start, SEEK_SET) == start, "lseek");
	MUST_0(raw_mr_reg_dmabuf(mr, &n->dev, &n->pd,
				 &(struct raw_dmabuf){fd, AT, LEN, iova, RAW_ALL_ACCESS}));
	close(fd);
	return view;
}

static uint8_t *registered(struct raw_mr *mr, const struct node *n)
{
	return registered_part(mr, n, 0);
}

/* How many mappings of it this process has. */
static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	MUST(f, "maps");
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "tests-dmabuf") != NULL;
	fclose(f);
	return n;
}

/* ---- what is refused ---- */

enum what { MEMFD, MEMFD_PART, MEMFD_ODD, NONE, CLOSED, PIPE, DEVICE, FILE_ON_DISK, COMMAND };

static struct bad {
	enum what what;
	uint64_t off, len, iova;
	uint32_t access;
	int err;
} bads[] = {
	{NONE, 0, PAGE, 0, 1, EBADF},
	{CLOSED, 0, PAGE, 0, 1, EBADF},
	{PIPE, 0, PAGE, 0, 1, EINVAL},
	{DEVICE, 0, PAGE, 0, 1, EINVAL},
	{FILE_ON_DISK, 0, PAGE, 0, 1, EINVAL},
	{COMMAND, 0, PAGE, 0, 1, EINVAL},
	{MEMFD, 0, SIZE + 1, 0, 1, EINVAL}, /* beyond the end */
	{MEMFD, SIZE, 1, 0, 1, EINVAL},
	{MEMFD_PART, 0, SIZE - PART + 1, 0, 1, EINVAL},
	{MEMFD_PART, 0, SIZE - PART, 0, 1, 0},
	{MEMFD_ODD, 0, PAGE, 0, 1, EINVAL},      /* a part that begins within a page */
	{MEMFD, PAGE, UINT64_MAX, 0, 1, EINVAL}, /* around the end of numbers */
	{MEMFD, 0, PAGE + 1, UINT64_MAX - PAGE + 1, 1, EINVAL},
	{MEMFD, 0, 0, 0, 1, EINVAL}, /* empty */
	{CLOSED, 0, 0, 0, 1, EBADF},
	{MEMFD, 100, PAGE, 101, 1, EINVAL}, /* elsewhere in its page */
	{NONE, 100, PAGE, 101, 1, EINVAL},  /* which is looked at first */
	{MEMFD, 0, PAGE, 0, 2, EINVAL},     /* remote write without local write */
	{MEMFD, 0, PAGE, 0, 8, EINVAL},
	{MEMFD, 0, PAGE, 0, 1 | 8, EOPNOTSUPP},
	{CLOSED, 0, PAGE, 0, 1 | 8, EOPNOTSUPP},
	{MEMFD, 0, PAGE, 0, 1 | 16, EINVAL}, /* windows: not of a dma-buf */
	{MEMFD, 0, PAGE, 0, 1 | 1 << 21, EINVAL},
	{MEMFD, 0, PAGE, 0, 1 | 1 << 20, 0}, /* relaxed ordering */
	{MEMFD, 0, PAGE, 0, 0, 0},
};

static int descriptor(enum what what, const struct node *n)
{
	uint8_t *view;
	int p[2], fd;

	switch (what) {
	case MEMFD:
		return memfd(&view);
	case MEMFD_PART:
	case MEMFD_ODD:
		fd = memfd(&view);
		lseek(fd, what == MEMFD_PART ? PART : PART + 100, SEEK_SET);
		return fd;
	case PIPE:
		return pipe(p) ? -1 : p[0];
	case DEVICE:
		return open("/dev/null", O_RDWR);
	case FILE_ON_DISK:
		return open("/proc/self/exe", O_RDONLY);
	case COMMAND:
		return n->dev.fd;
	case CLOSED:
		return 999;
	case NONE:
		break;
	}
	return -1;
}

ParameterizedTestParameters(softefa_dmabuf, senseless_registration_is_refused)
{
	return cr_make_param_array(struct bad, bads, sizeof(bads) / sizeof(bads[0]));
}

ParameterizedTest(struct bad *b, softefa_dmabuf, senseless_registration_is_refused)
{
	struct raw_dmabuf buf = {.off = b->off, .len = b->len, .iova = b->iova};
	struct raw_mr mr;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	buf.fd = descriptor(b->what, &n);
	buf.access = b->access;
	cr_assert(eq(int, raw_mr_reg_dmabuf(&mr, &n.dev, &n.pd, &buf), -b->err));
	if (b->err)
		cr_assert(eq(uint, mappings(), b->what <= MEMFD_ODD)); /* the test's own */
	else
		MUST_0(raw_mr_dereg(&mr, &n.dev));
	node_fini(&n);
}

Test(softefa_dmabuf, domain_must_exist)
{
	struct raw_pd nobody = {.handle = 77};
	struct raw_mr mr;
	struct node n;
	uint8_t *view;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	cr_assert(eq(int,
		     raw_mr_reg_dmabuf(&mr, &n.dev, &nobody,
				       &(struct raw_dmabuf){memfd(&view), 0, PAGE, 0, 1}),
		     -ENOENT));
	node_fini(&n);
}

/* ---- what works ---- */

/* A writes into B's, reads from it, sends into it and receives from it, all at an odd offset. */
static void all_ways(struct node *a, struct node *b, const struct node_addr *to_b,
		     const struct raw_mr *mr, uint8_t *view)
{
	uint16_t ahn = node_ahn(a, to_b), back;
	struct node_addr to_a = node_addr(a);
	struct raw_sge there = raw_sge(mr, 8, LEN - 8);
	struct raw_wr wr = node_wr(a, RAW_WRITE, to_b, ahn, 0, LEN - 8, 0);

	wr.remote = there;
	node_fill(a->buf, LEN, 1);
	MUST(node_run(a, &wr).status == 0, "write");
	MUST(node_filled(view + AT + 8, LEN - 8, 1), "written");
	node_fill(view + AT + 8, LEN - 8, 2);
	wr.op = RAW_READ;
	MUST(node_run(a, &wr).status == 0, "read");
	MUST(node_filled(a->buf, LEN - 8, 2), "what was read");
	there.len = 1000;
	raw_post_recv(&b->qp, 3, &there, 1);
	raw_ring(&b->qp);
	node_fill(a->buf, 1000, 3);
	wr = node_wr(a, RAW_SEND, to_b, ahn, 0, 1000, 0);
	MUST(node_run(a, &wr).status == 0, "send");
	node_wait_status(&b->rcq, 0);
	MUST(node_filled(view + AT + 8, 1000, 3), "received");
	back = node_ahn(b, &to_a);
	node_recv(a, 4, LEN, 1000);
	wr = node_wr(b, RAW_SEND, &to_a, back, 0, 1000, 0);
	wr.sge[0] = there;
	MUST(node_run(b, &wr).status == 0, "send back");
	node_wait_status(&a->rcq, 0);
	MUST(node_filled(a->buf + LEN, 1000, 3), "sent from it");
}

Test(softefa_dmabuf, all_operations_reach_it_in_one_process)
{
	struct raw_mr mr;
	uint8_t *view;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	view = registered(&mr, &d.b);
	all_ways(&d.a, &d.b, &d.to_b, &mr, view);
	for (unsigned i = 0; i < AT + 8; i++)
		cr_assert(zero(u8, view[i]));
	for (unsigned i = AT + LEN; i < SIZE; i++)
		cr_assert(zero(u8, view[i]));
	duo_fini(&d);
}

Test(softefa_dmabuf, memfd_begins_at_its_position)
{
	struct raw_mr mr;
	uint8_t *view;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	view = registered_part(&mr, &d.b, PART);
	all_ways(&d.a, &d.b, &d.to_b, &mr, view + PART);
	for (unsigned i = 0; i < PART + AT + 8; i++)
		cr_assert(zero(u8, view[i]));
	duo_fini(&d);
}

struct shared {
	atomic_uint step;
	struct node_addr addr;
	struct raw_mr mr;
};

static void owner(void *arg)
{
	struct shared *s = arg;
	struct node_addr nobody;
	uint8_t *view;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	view = registered(&s->mr, &n);
	s->addr = nobody = node_addr(&n);
	node_ahn(&n, &nobody); /* the peer is on the same device */
	node_fill(view + AT, LEN, 1);
	s->step = 1;
	kids_await(&s->step, 2);
	MUST(node_filled(view + AT + 1, LEN - 1, 2), "written by the peer");
	MUST(view[AT] == 1 * 31, "not the first byte");
	MUST_0(raw_mr_dereg(&s->mr, &n.dev));
	s->step = 3;
	kids_await(&s->step, 4);
	node_fini(&n);
}

Test(softefa_dmabuf, another_process_reads_and_writes_it_until_it_is_deregistered)
{
	struct shared *s = kids_share(sizeof(*s));
	struct raw_wr wr;
	struct node n;
	pid_t pid;

	node_settings(NULL);
	pid = kids_start(owner, s);
	kids_await(&s->step, 1);
	node_init(&n, &(struct node_attr){0});
	wr = node_wr(&n, RAW_READ, &s->addr, node_ahn(&n, &s->addr), 0, LEN, 0);
	wr.remote = raw_sge(&s->mr, 0, LEN);
	cr_assert(zero(int, node_run(&n, &wr).status));
	cr_assert(node_filled(n.buf, LEN, 1));
	node_fill(n.buf, LEN, 2);
	wr.op = RAW_WRITE;
	wr.remote = raw_sge(&s->mr, 1, LEN - 1);
	wr.sge[0].len = LEN - 1;
	cr_assert(zero(int, node_run(&n, &wr).status));
	wr.remote = raw_sge(&s->mr, 0, LEN + 1);
	wr.sge[0].len = LEN + 1;
	cr_assert(eq(int, node_run(&n, &wr).status, 7));
	s->step = 2;
	kids_await(&s->step, 3);
	wr.remote = raw_sge(&s->mr, 0, 8);
	wr.sge[0].len = 8;
	cr_assert(eq(int, node_run(&n, &wr).status, 7));
	s->step = 4;
	kids_join(pid);
	node_fini(&n);
}

Test(softefa_dmabuf, deregistration_and_close_unmap_it)
{
	struct raw_mr one, two;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	registered(&one, &n);
	registered(&two, &n);
	cr_assert(eq(uint, mappings(), 4));
	MUST_0(raw_mr_dereg(&one, &n.dev));
	cr_assert(eq(uint, mappings(), 3));
	node_abandon(&n);
	cr_assert(eq(uint, mappings(), 2));
}

/* Its owner may cut it off at any time: the request fails, nothing else. */
Test(softefa_dmabuf, memory_that_is_cut_off_fails_the_request_alone)
{
	struct raw_wr wr;
	struct raw_mr mr;
	uint8_t *view;
	struct duo d;
	int fd;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	fd = memfd(&view);
	MUST_0(raw_mr_reg_dmabuf(&mr, &d.b.dev, &d.b.pd,
				 &(struct raw_dmabuf){fd, AT, LEN, iova, RAW_ALL_ACCESS}));
	cr_assert(zero(int, ftruncate(fd, 0)));
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	wr.remote = raw_sge(&mr, 0, LEN);
	cr_assert(eq(int, node_run(&d.a, &wr).status, 7));
	wr.op = RAW_READ;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 7));
	wr = node_wr(&d.b, RAW_WRITE, &d.to_b, d.ahn, 0, 8, 0);
	wr.sge[0] = raw_sge(&mr, 0, 8);
	cr_assert(eq(int, node_run(&d.b, &wr).status, 5));
	wr.sge[0] = raw_sge(&d.b.mr, 0, 8);
	cr_assert(zero(int, node_run(&d.b, &wr).status));
	duo_fini(&d);
}

Test(softefa_dmabuf, memory_that_is_read_only_can_be_read)
{
	struct raw_dmabuf buf = {.len = LEN};
	struct raw_wr wr;
	struct raw_mr mr;
	uint8_t *view;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	buf.fd = memfd_create("tests-dmabuf", MFD_ALLOW_SEALING);
	cr_assert(zero(int, ftruncate(buf.fd, SIZE)));
	view = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, buf.fd, 0);
	node_fill(view, LEN, 5);
	cr_assert(zero(int, fcntl(buf.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)));
	buf.access = RAW_ALL_ACCESS;
	cr_assert(eq(int, raw_mr_reg_dmabuf(&mr, &d.b.dev, &d.b.pd, &buf), -EPERM));
	buf.access = RAW_REMOTE_READ;
	MUST_0(raw_mr_reg_dmabuf(&mr, &d.b.dev, &d.b.pd, &buf));
	wr = node_wr(&d.a, RAW_READ, &d.to_b, d.ahn, 0, LEN, 0);
	wr.remote = raw_sge(&mr, 0, LEN);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.a.buf, LEN, 5));
	wr.op = RAW_WRITE;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 7));
	duo_fini(&d);
}

/* ---- the newest way to register, and questions ---- */

enum { A_FD = 1, A_OFF = 2, A_ADDR = 4, A_DMAH = 8 };

/* With some of the optional attributes, the memory at @at of @fd or of the process. */
static int register_ex(struct raw_mr *mr, const struct node *n, unsigned with, int fd, uint64_t at)
{
	uint32_t lkey = 0, rkey = 1;
	struct raw_attr *handle;
	struct raw_cmd c;
	int rc;

	raw_cmd_init(&c, RAW_MR, RAW_MR_REG);
	handle = raw_cmd_handle(&c, 0, 0);
	raw_cmd_handle(&c, 1, n->pd.handle);
	if (with & A_DMAH)
		raw_cmd_handle(&c, 2, 0);
	raw_cmd_u64(&c, 3, iova);
	if (with & A_ADDR)
		raw_cmd_u64(&c, 4, at);
	raw_cmd_u64(&c, 5, LEN);
	raw_cmd_u32(&c, 6, RAW_ALL_ACCESS);
	if (with & A_FD)
		raw_cmd_handle(&c, 7, (uint64_t)fd);
	if (with & A_OFF)
		raw_cmd_u64(&c, 8, at);
	raw_cmd_out(&c, 9, &lkey, sizeof(lkey));
	raw_cmd_out(&c, 10, &rkey, sizeof(rkey));
	rc = raw_cmd_run(n->dev.sys, n->dev.fd, &c);
	*mr = (struct raw_mr){(uint32_t)handle->data, rkey, iova, LEN, rc == 0};
	return rc;
}

static struct ex {
	unsigned with;
	int err;
} exs[] = {
	{A_ADDR, 0},     {A_FD | A_OFF, 0},        {0, EINVAL},
	{A_FD, EINVAL},  {A_FD | A_ADDR, EINVAL},  {A_FD | A_OFF | A_ADDR, EINVAL},
	{A_OFF, EINVAL}, {A_OFF | A_ADDR, EINVAL}, {A_ADDR | A_DMAH, EINVAL},
};

ParameterizedTestParameters(softefa_dmabuf, newest_registration_takes_address_or_file)
{
	return cr_make_param_array(struct ex, exs, sizeof(exs) / sizeof(exs[0]));
}

ParameterizedTest(struct ex *x, softefa_dmabuf, newest_registration_takes_address_or_file)
{
	struct raw_mr mr;
	uint8_t *view, *at;
	struct duo d;
	int fd;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	fd = memfd(&view);
	at = view;
	cr_assert(
		eq(int,
		   register_ex(&mr, &d.b, x->with, fd, x->with & A_ADDR ? (uintptr_t)at + AT : AT),
		   -x->err));
	if (!x->err)
		all_ways(&d.a, &d.b, &d.to_b, &mr, view);
	duo_fini(&d);
}

Test(softefa_dmabuf, kernel_tells_keys_length_and_address_of_a_region)
{
	struct {
		uint32_t lkey, rkey;
		uint64_t len, iova;
	} got = {0};
	struct raw_cmd c;
	struct raw_mr mr;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	registered(&mr, &n);
	raw_cmd_init(&c, RAW_MR, RAW_MR_QUERY);
	raw_cmd_handle(&c, 0, mr.handle);
	raw_cmd_out(&c, 1, &got.lkey, sizeof(got.lkey));
	raw_cmd_out(&c, 2, &got.rkey, sizeof(got.rkey));
	raw_cmd_out(&c, 3, &got.len, sizeof(got.len));
	raw_cmd_out(&c, 4, &got.iova, sizeof(got.iova));
	MUST_0(raw_cmd_run(n.dev.sys, n.dev.fd, &c));
	cr_assert(eq(u32, got.lkey, mr.key));
	cr_assert(eq(u32, got.rkey, mr.key));
	cr_assert(eq(u64, got.len, LEN));
	cr_assert(eq(u64, got.iova, iova));
	node_fini(&n);
}

/* No interconnect serves it: the mask of valid answers is empty. */
Test(softefa_dmabuf, no_interconnect_is_told_of_a_region)
{
	uint16_t got[4] = {1, 2, 3, 4};
	struct raw_cmd c;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	raw_cmd_init(&c, RAW_MR, RAW_MR_IC);
	raw_cmd_handle(&c, 0x1000, n.mr.handle);
	for (uint16_t i = 0; i < 4; i++)
		raw_cmd_out(&c, 0x1001 + i, &got[i], sizeof(got[i]));
	MUST_0(raw_cmd_run(n.dev.sys, n.dev.fd, &c));
	for (unsigned i = 0; i < 4; i++) {
		cr_assert(zero(u16, got[i]));
		cr_assert(eq(uint, c.attr[1 + i].flags, RAW_MANDATORY | RAW_VALID_OUTPUT));
	}
	c.attr[0].data = 12345;
	cr_assert(eq(int, raw_cmd_run(n.dev.sys, n.dev.fd, &c), -ENOENT));
	node_fini(&n);
}
