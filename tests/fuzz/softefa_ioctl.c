/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of a hostile program: each input is a sequence of them, some well-formed, some soups of
 * attributes with pointers to where nothing is. The adapter must refuse or carry them out, give
 * back all that it took when the contexts close, and never touch memory it was not given.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../softefa/engine.h"
#include "../lib/raw.h"
#include "../lib/raw_linked.h"
#include "input.h"

enum { PAGE = 4096, ARENA = 4 * PAGE, CONTEXTS = 3, ROOM = 48, CHECK_EVERY = 500 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static uint8_t *arena; /* between pages that are not there */
static int first_fd;   /* numbers from here on are an input's */

static uint64_t u64(struct input *in)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 4; i++)
		v = v << 16 | u16(in);
	return v;
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "softefa_ioctl: %s\n", what);
	abort();
}

/* ---- soups ---- */

static const struct {
	uint8_t object, method;
} methods[] = {
	{0, 0}, {0, 0}, {0, 0}, {0, 3}, {0, 2}, {0, 5}, {0, 6}, {0, 7}, {16, 0},
	{1, 0}, {7, 1}, {7, 4}, {6, 0}, {3, 0}, {3, 0}, {3, 1}, {4, 0}, {4, 0},
	{4, 1}, {2, 0}, {7, 2}, {7, 3}, {7, 5}, {0, 1}, {0, 4},
};

static const uint8_t write_commands[] = {1, 3, 5, 9, 17, 25, 26, 0, 2, 4, 13, 18, 24};
static const uint16_t lengths[] = {0,  1,  2,  4,  8,  9,  12,  16,  20,
				   24, 32, 40, 48, 56, 64, 112, 128, 304};

/* In the arena, at its ends, or where nothing can be; never at anything of the fuzzer's. */
static uint64_t pointer(struct input *in)
{
	uint16_t v = u16(in);
	uint64_t base = (uintptr_t)arena;

	switch (v & 7) {
	case 0:
		return v >> 3 & 1 ? 0 : 8;
	case 1:
		return base + ARENA - (v >> 3) % 64;
	case 2:
		return base - (v >> 3) % 64;
	case 3:
		return 0x8000000000000000 | u64(in);
	case 4:
		return UINT64_MAX - (v >> 3) % 64;
	default:
		return base + (v >> 3) % ARENA;
	}
}

static uint64_t value(struct input *in, uint16_t len)
{
	uint8_t kind = u8(in);

	if (len > 8 || (len && kind % 4 == 0))
		return pointer(in);
	switch (kind % 3) {
	case 0:
		return u8(in) % 16; /* a handle, a port, a state */
	case 1:
		return 1u << u8(in) % 32;
	default:
		/* Where an output goes it must not be taken for an address. */
		return 0x8000000000000000 | u64(in);
	}
}

static void add_attr(struct raw_cmd *c, struct input *in)
{
	uint8_t what = u8(in);
	struct raw_attr *a = &c->attr[c->nattrs++];

	a->id = what & 0x80 ? 0x1000 | (what & 3) : what & 0x40 ? u16(in) : what % 16;
	a->len = what & 0x20 ? u16(in) : lengths[u8(in) % (sizeof(lengths) / sizeof(lengths[0]))];
	a->flags = u8(in) % 8 ? RAW_MANDATORY : u16(in);
	a->data = value(in, a->len);
}

static void soup(int fd, struct input *in)
{
	unsigned m = u8(in), n = u8(in) % RAW_MAX_ATTRS;
	struct raw_cmd c;

	for (unsigned i = 0; i < 256; i++)
		arena[(i * 61 + m * 977) % ARENA] = u8(in);
	m %= sizeof(methods) / sizeof(methods[0]);
	raw_cmd_init(&c, methods[m].object, methods[m].method);
	if (c.object == 0 && c.method == 0) {
		uint8_t w = u8(in);

		raw_cmd_u64(&c, 2,
			    w & 0x80 ? 0x80000001 : write_commands[w % sizeof(write_commands)]);
	}
	while (n-- && c.nattrs < RAW_MAX_ATTRS)
		add_attr(&c, in);
	if (u8(in) % 16 == 0)
		c.nattrs = u16(in);
	c.length = (uint16_t)(24 + 16 * c.nattrs);
	if (u8(in) % 16 == 0)
		c.length = u16(in);
	if (u8(in) % 16 == 0)
		c.driver = u8(in);
	raw_linked.ioctl(fd, &c);
}

/* A command wherever it is; what it leads to is the arena's. */
static void bytes_as_command(int fd, struct input *in)
{
	uint16_t off = u16(in) % ARENA;

	for (unsigned i = 0; i < 200 && off + i < ARENA; i++)
		arena[off + i] = u8(in);
	raw_linked.ioctl(fd, u8(in) % 4 ? arena + off : (void *)(uintptr_t)pointer(in));
}

/* ---- well-formed commands, so that there is something to hit ---- */

static struct raw_pd some_pd(struct input *in)
{
	return (struct raw_pd){.handle = u8(in) % 8, .live = true};
}

static struct raw_cq some_cq(struct input *in)
{
	return (struct raw_cq){.handle = u8(in) % 8};
}

static void unmap_qp(struct raw_qp *qp)
{
	static const struct raw_dev closed;

	raw_qp_destroy(qp, &closed);
}

static void unmap_cq(struct raw_cq *cq)
{
	static const struct raw_dev closed;

	raw_cq_destroy(cq, &closed, NULL);
}

static void make_qp(const struct raw_dev *d, struct input *in)
{
	struct raw_qp_attr attr = {.type = u8(in) % 4 ? RAW_SRD : RAW_UD};
	struct raw_pd pd = some_pd(in);
	struct raw_cq s = some_cq(in), r = some_cq(in);
	struct raw_qp qp;

	attr.sq = 1u << u8(in) % 8;
	attr.rq = u8(in) % 4 ? 1u << u8(in) % 8 : u16(in);
	attr.stride = u8(in) % 4 ? 64 : 128;
	attr.max_inline = u8(in) % 100;
	attr.unsolicited = u8(in) & 1;
	attr.req_id_64 = u8(in) % 8 == 0;
	if (raw_qp_create(&qp, d, &pd, &s, &r, &attr) == 0)
		unmap_qp(&qp);
}

static void make_cq(const struct raw_dev *d, struct input *in)
{
	struct raw_cq_attr attr = {.depth = 1u << u8(in) % 12, .entry = u8(in) % 2 ? 16 : 32};
	struct raw_cq cq;

	attr.channel = u8(in) % 4 == 0 ? first_fd + u8(in) % 16 : 0;
	attr.async = u8(in) % 4 == 0 ? first_fd + u8(in) % 16 : 0;
	attr.user = u64(in);
	if (raw_cq_create(&cq, d, &attr) == 0)
		unmap_cq(&cq);
}

static void make_mr(const struct raw_dev *d, struct input *in)
{
	struct raw_pd pd = some_pd(in);
	struct raw_mr mr;
	void *at = (void *)(uintptr_t)pointer(in);

	raw_mr_reg(&mr, d, &pd, at, u8(in) % 4 ? u16(in) : u64(in), u8(in) % 16);
}

static void make_dmabuf_mr(const struct raw_dev *d, struct input *in)
{
	struct raw_pd pd = some_pd(in);
	struct raw_dmabuf b = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};
	struct raw_mr mr;

	if (b.fd < 0 || ftruncate(b.fd, ARENA))
		fail("no memfd");
	b.off = u8(in) % 4 ? u16(in) : u64(in);
	b.len = u8(in) % 4 ? u16(in) : u64(in);
	b.iova = u8(in) % 4 ? b.off : u64(in);
	b.access = u8(in) % 16;
	raw_mr_reg_dmabuf(&mr, d, &pd, &b);
	close(b.fd);
}

static void make_ah(const struct raw_dev *d, struct input *in)
{
	struct raw_pd pd = some_pd(in);
	struct raw_gid gid = {{0xfe, 0x80, [15] = u8(in)}};
	struct raw_ah ah;

	if (u8(in) % 4 == 0)
		raw_gid(d, &gid);
	raw_ah_create(&ah, d, &pd, &gid);
}

static void modify_qp(const struct raw_dev *d, struct input *in)
{
	struct raw_qp qp = {.handle = u8(in) % 8, .live = true};
	struct raw_modify m = {.mask = (uint32_t)u64(in),
			       .state = u8(in) % 9,
			       .cur_state = u8(in) % 9,
			       .port = u8(in) % 3,
			       .rnr_retry = u8(in) % 9,
			       .pkey = u8(in) % 2,
			       .qkey = u16(in)};

	if (u8(in) % 2)
		raw_qp_up(&qp, d, 1, -1);
	else
		raw_qp_modify(&qp, d, &m);
}

static void destroy(const struct raw_dev *d, struct input *in)
{
	static const uint8_t what[][2] = {{1, 0}, {7, 1}, {6, 0}, {3, 1}, {4, 1}};
	unsigned w = u8(in) % 5;
	uint32_t out[2];
	struct raw_cmd c;

	raw_cmd_init(&c, what[w][0], what[w][1]);
	raw_cmd_handle(&c, 0, u8(in) % 16);
	if (w >= 3)
		raw_cmd_out(&c, 1, out, w == 3 ? 8 : 4);
	raw_cmd_run(d->sys, d->fd, &c);
}

static void channel(const struct raw_dev *d, struct input *in)
{
	int fd;

	if ((u8(in) % 2 ? raw_channel(d, &fd) : raw_async(d, &fd)) == 0 && u8(in) % 4 == 0)
		close(fd);
}

/* ---- inputs ---- */

static void open_all(struct raw_dev *dev)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (raw_open(&dev[i], &raw_linked, i % 2))
			fail("cannot open");
}

/* Numbers that soups made and nobody knows. */
static void close_strays(void)
{
	for (int fd = first_fd; fd < first_fd + 300; fd++)
		close(fd);
}

/* Room that was not given back would be missing now. */
static void check_room(void)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 4, .rq = 4};
	struct raw_qp qp;
	struct raw_cq cq;
	struct raw_mr mr;
	struct raw_ah ah;
	struct raw_pd pd;
	struct raw_dev d;

	for (unsigned dev = 0; dev < 2; dev++) {
		if (raw_open(&d, &raw_linked, dev) || raw_pd_alloc(&pd, &d) ||
		    raw_cq_create(&cq, &d, &(struct raw_cq_attr){.depth = 4}))
			fail("no room for the first");
		for (unsigned i = 0; i < ROOM; i++) {
			struct raw_gid gid = {{0xfe, 0x80, [14] = 1, [15] = (uint8_t)i}};

			if (raw_qp_create(&qp, &d, &pd, &cq, &cq, &attr) ||
			    raw_mr_reg(&mr, &d, &pd, arena, 1, 0) ||
			    raw_ah_create(&ah, &d, &pd, &gid))
				fail("room is lost");
			unmap_qp(&qp);
		}
		unmap_cq(&cq);
		raw_close(&d);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char text[128];

	(void)argc;
	(void)argv;
	snprintf(text, sizeof(text), "fuzz-%d", (int)getpid());
	setenv("SOFTEFA_DOMAIN", text, 1);
	atexit(se_engine_stop);
	snprintf(text, sizeof(text), "max_qp=%d,max_mr=%d,max_ah=%d,log=0,inline_size_ex=80", ROOM,
		 ROOM, ROOM);
	setenv("SOFTEFA_SET", text, 1);
	arena = mmap(NULL, ARENA + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (arena == MAP_FAILED)
		fail("no memory");
	mprotect(arena, PAGE, PROT_NONE);
	mprotect(arena + PAGE + ARENA, PAGE, PROT_NONE);
	arena += PAGE;
	first_fd = fcntl(0, F_DUPFD, 100);
	close(first_fd);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const good[])(const struct raw_dev *, struct input *) = {
		make_qp, make_cq, make_mr, make_dmabuf_mr, make_ah, modify_qp, destroy, channel,
	};
	static unsigned inputs;
	struct raw_dev dev[CONTEXTS];
	struct input in = {data, size};

	open_all(dev);
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct raw_pd pd;
		struct raw_cq cq;

		if (raw_pd_alloc(&pd, &dev[i]) ||
		    raw_cq_create(&cq, &dev[i], &(struct raw_cq_attr){.depth = 16}))
			fail("a fresh context refuses");
		unmap_cq(&cq);
	}
	while (in.left) {
		unsigned what = u8(&in);
		const struct raw_dev *d = &dev[u8(&in) % CONTEXTS];

		if (what < 100)
			soup(d->fd, &in);
		else if (what < 120)
			bytes_as_command(d->fd, &in);
		else
			good[what % (sizeof(good) / sizeof(good[0]))](d, &in);
	}
	for (unsigned i = 0; i < CONTEXTS; i++)
		raw_close(&dev[i]);
	close_strays();
	if (++inputs % CHECK_EVERY == 0)
		check_room();
	return 0;
}
