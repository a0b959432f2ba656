/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's command envelope: values in and out by the rules, and nothing trusted. */
#include "../../softefa/cmd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../../softefa/engine.h"
#include "../lib/raw.h"
#include "../lib/raw_linked.h"

enum { PAGE = 4096 };

static struct raw_cmd cmd;
static struct se_cmd c;

static int read_it(const void *at)
{
	return se_cmd_read(&c, NULL, (uintptr_t)at);
}

static int take(void)
{
	cmd.length = (uint16_t)(24 + 16 * cmd.nattrs);
	return read_it(&cmd);
}

/* A page that can be read and written up to its end, and not beyond. */
static uint8_t *last_page(void)
{
	uint8_t *p =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(ne(ptr, p, MAP_FAILED));
	munmap(p + PAGE, PAGE);
	return p;
}

static void begin(void)
{
	raw_cmd_init(&cmd, RAW_DEVICE, RAW_QUERY_GID);
}

TestSuite(cmd, .init = begin);

/* ---- the header ---- */

struct header {
	uint16_t length, nattrs;
	uint64_t reserved1;
	uint32_t driver, reserved2;
	int rc;
};

static struct header headers[] = {
	{24, 0, 0, 17, 0, 0},
	{24, 0, 0, 0, 0, -EINVAL}, /* another driver's */
	{24, 0, 0, 16, 0, -EINVAL},
	{24, 0, 1, 17, 0, -EPROTONOSUPPORT},
	{24, 0, 0, 17, 1, -EPROTONOSUPPORT},
	{0, 0, 0, 17, 0, -EINVAL},
	{23, 0, 0, 17, 0, -EINVAL},
	{25, 0, 0, 17, 0, -EINVAL},
	{24, 1, 0, 17, 0, -EINVAL},
	{40, 0, 0, 17, 0, -EINVAL},
	{24 + 16 * 255, 255, 0, 17, 0, -EINVAL}, /* more than a page */
	{8, 4095, 0, 17, 0, -EINVAL},            /* 24 + 16 * 4095 is 8 in 16 bits */
	{65535, 65535, 0, 17, 0, -EINVAL},
};

ParameterizedTestParameters(cmd, header_is_checked)
{
	return cr_make_param_array(struct header, headers, sizeof(headers) / sizeof(headers[0]));
}

ParameterizedTest(struct header *h, cmd, header_is_checked)
{
	struct raw_cmd m = {.length = h->length,
			    .nattrs = h->nattrs,
			    .reserved1 = h->reserved1,
			    .driver = h->driver,
			    .reserved2 = h->reserved2};

	cr_assert(eq(int, read_it(&m), h->rc));
}

Test(cmd, addresses_that_are_not_there_are_efault)
{
	uint8_t *p = last_page();

	cr_assert(eq(int, read_it(NULL), -EFAULT));
	cr_assert(eq(int, read_it((void *)1), -EFAULT));
	cr_assert(eq(int, read_it((void *)UINTPTR_MAX), -EFAULT));
	cr_assert(eq(int, read_it((void *)0xffff800000000000), -EFAULT), "the kernel's");
	cr_assert(eq(int, read_it(p + PAGE - 23), -EFAULT), "half a header");
	raw_cmd_u32(&cmd, 1, 1);
	cmd.length = 40;
	memcpy(p + PAGE - 39, &cmd, 39);
	cr_assert(eq(int, read_it(p + PAGE - 39), -EFAULT), "half an attribute");
	memcpy(p + PAGE - 40, &cmd, 40);
	cr_assert(zero(int, read_it(p + PAGE - 40)));
}

Test(cmd, order_does_not_matter)
{
	uint32_t v;

	raw_cmd_u32(&cmd, 9, 90);
	raw_cmd_u32(&cmd, 3, 30);
	raw_cmd_u32(&cmd, 5, 50);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_in(&c, 3, &v, sizeof(v))));
	cr_assert(eq(u32, v, 30));
}

/* ---- input ---- */

Test(cmd, up_to_8_bytes_are_in_the_attribute_more_behind_a_pointer)
{
	const uint64_t eight = 0x1122334455667788;
	const uint8_t nine[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	uint8_t out[9];
	uint64_t v;

	raw_cmd_in(&cmd, 1, &eight, 8);
	raw_cmd_in(&cmd, 2, nine, 9);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_in(&c, 1, &v, 8)));
	cr_assert(eq(u64, v, eight));
	cr_assert(zero(int, se_cmd_in(&c, 2, out, 9)));
	cr_assert(zero(int, memcmp(out, nine, 9)));
}

Test(cmd, short_input_is_zero_beyond_its_end)
{
	const uint8_t twelve[12] = "abcdefghijkl", three[3] = "xyz";
	uint8_t out[16];

	raw_cmd_in(&cmd, 1, twelve, 12);
	raw_cmd_in(&cmd, 2, three, 3);
	cr_assert(zero(int, take()));
	memset(out, 0xee, sizeof(out));
	cr_assert(zero(int, se_cmd_in(&c, 1, out, 16)));
	cr_assert(zero(int, memcmp(out, "abcdefghijkl\0\0\0\0", 16)));
	memset(out, 0xee, sizeof(out));
	cr_assert(zero(int, se_cmd_in(&c, 2, out, 16)));
	cr_assert(zero(int, memcmp(out, "xyz\0\0\0\0\0\0\0\0\0\0\0\0\0", 16)));
}

Test(cmd, long_input_is_cut)
{
	const uint8_t twelve[12] = "abcdefghijkl";
	uint8_t out[6] = "......";

	raw_cmd_in(&cmd, 1, twelve, 12);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_in(&c, 1, out, 5)));
	cr_assert(zero(int, memcmp(out, "abcde.", 6)));
}

Test(cmd, handle_has_no_length)
{
	uint64_t wide;
	uint32_t v;

	raw_cmd_handle(&cmd, 1, 0x55);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_in(&c, 1, &v, sizeof(v))));
	cr_assert(eq(u32, v, 0x55));
	cr_assert(zero(int, se_cmd_in(&c, 1, &wide, sizeof(wide))));
	cr_assert(eq(u64, wide, 0x55));
}

Test(cmd, missing_input_is_einval_or_zero_when_optional)
{
	uint32_t v = 7;

	cr_assert(zero(int, take()));
	cr_assert(eq(int, se_cmd_in(&c, 1, &v, sizeof(v)), -EINVAL));
	cr_assert(zero(int, se_cmd_in_optional(&c, 1, &v, sizeof(v))));
	cr_assert(zero(u32, v));
}

Test(cmd, input_behind_a_wild_pointer_is_efault)
{
	uint8_t out[16], *p = last_page();

	raw_cmd_in(&cmd, 1, NULL, 16);
	raw_cmd_in(&cmd, 2, p + PAGE - 15, 16);
	raw_cmd_in(&cmd, 3, (void *)UINTPTR_MAX, 16);
	cr_assert(zero(int, take()));
	for (uint16_t id = 1; id <= 3; id++)
		cr_assert(eq(int, se_cmd_in(&c, id, out, 16), -EFAULT));
	cr_assert(zero(int, se_cmd_in(&c, 2, out, 15)), "what is used of it is there");
}

/* ---- output ---- */

Test(cmd, output_is_cut_to_the_room_and_padded_with_zeros)
{
	uint8_t small[4], big[2000];

	memset(small, 0xee, sizeof(small));
	memset(big, 0xee, sizeof(big));
	raw_cmd_out(&cmd, 1, small, 3);
	raw_cmd_out(&cmd, 2, big, sizeof(big) - 1);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_out(&c, 1, "abcdef", 6)));
	cr_assert(zero(int, memcmp(small, "abc\xee", 4)));
	cr_assert(zero(int, se_cmd_out(&c, 2, "abcdef", 6)));
	cr_assert(zero(int, memcmp(big, "abcdef", 6)));
	for (unsigned i = 6; i < sizeof(big) - 1; i++)
		cr_assert(zero(u8, big[i]));
	cr_assert(eq(u8, big[sizeof(big) - 1], 0xee));
}

Test(cmd, written_outputs_are_marked_in_the_callers_command)
{
	uint32_t a, b;

	raw_cmd_out(&cmd, 1, &a, 4);
	raw_cmd_out(&cmd, 2, &b, 4);
	raw_cmd_handle(&cmd, 3, 0);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_out(&c, 1, "abcd", 4)));
	cr_assert(zero(int, se_cmd_out_handle(&c, 3, 99)));
	cr_assert(zero(int, se_cmd_write(&c)));
	cr_assert(eq(int, cmd.attr[0].flags, RAW_MANDATORY | RAW_VALID_OUTPUT));
	cr_assert(eq(int, cmd.attr[1].flags, RAW_MANDATORY));
	cr_assert(eq(int, cmd.attr[2].flags, RAW_MANDATORY | RAW_VALID_OUTPUT));
	cr_assert(eq(u64, cmd.attr[2].data, 99));
}

Test(cmd, output_that_nobody_wants_is_no_error)
{
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_out(&c, 1, "abcd", 4)));
	cr_assert(eq(int, se_cmd_out_handle(&c, 1, 1), -EINVAL));
}

Test(cmd, output_to_a_wild_or_read_only_place_is_efault)
{
	uint8_t *p = last_page(), *ro = last_page();

	mprotect(ro, PAGE, PROT_READ);
	raw_cmd_out(&cmd, 1, NULL, 4);
	raw_cmd_out(&cmd, 2, p + PAGE - 3, 4);
	raw_cmd_out(&cmd, 3, ro, 4);
	raw_cmd_out(&cmd, 4, p + PAGE - 4, 600); /* the padding is not there */
	cr_assert(zero(int, take()));
	for (uint16_t id = 1; id <= 4; id++)
		cr_assert(eq(int, se_cmd_out(&c, id, "abcd", 4), -EFAULT));
}

/* ---- what is known ---- */

static const struct se_cmd_spec spec[] = {
	{1, SE_CMD_IN, true, 4, 4},       {2, SE_CMD_IN_ZERO, false, 4, 12},
	{3, SE_CMD_OUT, false, 4, 4},     {4, SE_CMD_OUT, false, 4, UINT16_MAX},
	{5, SE_CMD_OBJECT, false, 0, 0},  {6, SE_CMD_ABSENT, false, 0, 0},
	{7, SE_CMD_IN_ZERO, false, 2, 4}, {.id = SE_CMD_END},
};

/* Attribute 1 and another. */
struct known {
	uint16_t id, len, flags, reserved;
	uint64_t data; /* 0: zeros of the test's */
	int rc;
};

static struct known knowns[] = {
	{2, 12, 1, 0, 0, 0},
	{2, 4, 1, 0, 5, 0},
	{2, 3, 1, 0, 5, -EINVAL},
	{2, 200, 1, 0, 0, 0},           /* more than is known, of which nothing is said */
	{2, 200, 1, 0, 8, -EOPNOTSUPP}, /* or cannot be read */
	{7, 6, 1, 0, 0xffffffff, 0},
	{7, 6, 1, 0, 1ull << 32, -EOPNOTSUPP},
	{3, 4, 1, 0, 0, 0},
	{3, 3, 1, 0, 0, -EINVAL},
	{3, 5, 1, 0, 0, -EINVAL},
	{3, 4, 1, 1, 0, -EINVAL},
	{4, 4, 1, 0, 0, 0},
	{4, 60000, 1, 0, 0, 0},
	{4, 3, 1, 0, 0, -EINVAL},
	{5, 0, 1, 0, 7, 0},
	{5, 4, 1, 0, 7, -EINVAL},
	{5, 0, 1, 1, 7, -EINVAL},
	{6, 0, 1, 0, 7, -EINVAL},
	{6, 0, 0, 0, 7, -EINVAL},
	{1, 4, 1, 0, 7, -EINVAL}, /* twice */
	{1, 4, 0, 0, 7, -EINVAL},
	{8, 4, 0, 0, 7, 0}, /* unknown and optional */
	{8, 0, 0, 9, 7, 0},
	{8, 4, 1, 0, 7, -EPROTONOSUPPORT},
	{0xffff, 4, 1, 0, 7, -EPROTONOSUPPORT}, /* the mark of the end is no attribute */
	{0xffff, 4, 0, 0, 7, 0},
};

ParameterizedTestParameters(cmd, attribute_keeps_to_what_is_known_of_it)
{
	return cr_make_param_array(struct known, knowns, sizeof(knowns) / sizeof(knowns[0]));
}

ParameterizedTest(struct known *k, cmd, attribute_keeps_to_what_is_known_of_it)
{
	static const uint8_t zeros[256];
	struct raw_attr *a;

	raw_cmd_u32(&cmd, 1, 1);
	a = raw_cmd_u32(&cmd, k->id, 0);
	a->len = k->len;
	a->flags = k->flags;
	a->reserved = k->reserved;
	a->data = k->data || k->len <= 8 ? k->data : (uintptr_t)zeros;
	cr_assert(zero(int, take()));
	cr_assert(eq(int, se_cmd_check(&c, spec), k->rc));
}

Test(cmd, attribute_that_must_be_there_is_missed)
{
	cr_assert(zero(int, take()));
	cr_assert(eq(int, se_cmd_check(&c, spec), -EINVAL));
	raw_cmd_u32(&cmd, 4, 1);
	cr_assert(zero(int, take()));
	cr_assert(eq(int, se_cmd_check(&c, spec), -EINVAL));
	raw_cmd_u32(&cmd, 1, 1);
	cr_assert(zero(int, take()));
	cr_assert(zero(int, se_cmd_check(&c, spec)));
}

/* ---- whole commands ---- */

static struct raw_dev dev;

static void open_dev(void)
{
	setenv("SOFTEFA_DOMAIN", "unit-cmd", 1);
	cr_assert(zero(int, raw_open(&dev, &raw_linked, 0)));
}

static void close_dev(void)
{
	raw_close(&dev);
	se_engine_stop();
}

TestSuite(command, .init = open_dev, .fini = close_dev);

Test(command, another_file_is_no_device)
{
	raw_cmd_init(&cmd, RAW_DEVICE, RAW_GET_CONTEXT);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, 0, &cmd), -ENOTTY));
	cr_assert(eq(int, raw_cmd_run(&raw_linked, 999, &cmd), -EBADF));
}

Test(command, methods_that_do_not_exist_are_eprotonosupport)
{
	raw_cmd_init(&cmd, RAW_DEVICE, 99);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EPROTONOSUPPORT));
	raw_cmd_init(&cmd, 0xffff, 0);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EPROTONOSUPPORT));
	raw_cmd_init(&cmd, RAW_MR, 0); /* of device memory, which this one has not */
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EPROTONOSUPPORT));
	raw_cmd_init(&cmd, 5, 0); /* shared receive queues: neither */
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EPROTONOSUPPORT));
}

/* The kernel has the method, the driver has not. */
Test(command, methods_without_a_driver_are_eopnotsupp)
{
	uint64_t sge[2] = {0};
	struct raw_pd pd;

	raw_cmd_init(&cmd, RAW_DEVICE, 4); /* QUERY_CONTEXT */
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EOPNOTSUPP));
	cr_assert(zero(int, raw_pd_alloc(&pd, &dev)));
	raw_cmd_init(&cmd, RAW_MR, 2); /* ADVISE_MR */
	raw_cmd_handle(&cmd, 0, pd.handle);
	raw_cmd_u64(&cmd, 1, 0);
	raw_cmd_u32(&cmd, 2, 0);
	raw_cmd_in(&cmd, 3, sge, sizeof(sge));
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EOPNOTSUPP));
}

Test(command, context_comes_first_and_once)
{
	int fd = raw_linked.open(0);
	struct raw_pd pd;

	raw_cmd_init(&cmd, RAW_DEVICE, RAW_GET_CONTEXT);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EINVAL));
	raw_cmd_init(&cmd, RAW_ASYNC, 0);
	raw_cmd_handle(&cmd, 0, 0);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, fd, &cmd), -EINVAL));
	cr_assert(eq(int, raw_pd_alloc(&pd, &(struct raw_dev){.sys = &raw_linked, .fd = fd}),
		     -EINVAL));
	raw_cmd_init(&cmd, RAW_DEVICE, RAW_INVOKE_WRITE);
	raw_cmd_u64(&cmd, 2, 1);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, fd, &cmd), -ENOSPC), "the library's probe");
	raw_linked.close(fd);
}

Test(command, objects_of_another_type_are_einval)
{
	struct raw_pd pd;

	cr_assert(zero(int, raw_pd_alloc(&pd, &dev)));
	raw_cmd_init(&cmd, RAW_AH, RAW_AH_FREE);
	raw_cmd_handle(&cmd, 0, pd.handle);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -EINVAL));
	cmd.attr[0].data = pd.handle + 1;
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -ENOENT));
}

/* Handles of type @object, @room of them at most. */
static int list(uint64_t object, uint32_t *handles, uint16_t room, uint32_t *total)
{
	raw_cmd_init(&cmd, RAW_DEVICE, 1);
	raw_cmd_u64(&cmd, 0, object);
	raw_cmd_out(&cmd, 1, total, sizeof(*total));
	raw_cmd_out(&cmd, 2, handles, room);
	return raw_cmd_run(&raw_linked, dev.fd, &cmd);
}

Test(command, handles_can_be_listed_by_type)
{
	uint32_t h[4] = {9, 9, 9, 9}, total = 9;
	struct raw_pd pd[3];

	cr_assert(zero(int, list(RAW_PD, h, sizeof(h), &total)));
	cr_assert(zero(u32, total));
	for (unsigned i = 0; i < 3; i++)
		cr_assert(zero(int, raw_pd_alloc(&pd[i], &dev)));
	cr_assert(zero(int, list(RAW_PD, h, sizeof(h), &total)));
	cr_assert(eq(u32, total, 3));
	for (unsigned i = 0; i < 3; i++)
		cr_assert(eq(u32, h[i], pd[i].handle));
	cr_assert(zero(int, list(RAW_PD, h, 8, &total)));
	cr_assert(eq(u32, total, 2), "as many as there is room for");
	cr_assert(zero(int, list(RAW_QP, h, sizeof(h), &total)));
	cr_assert(zero(u32, total));
	cr_assert(eq(int, list(5, h, sizeof(h), &total), -EINVAL));
	cr_assert(eq(int, list(RAW_PD, h, 6, &total), -EINVAL));
}

/* Any errno but ENOTTY and EPROTONOSUPPORT makes the library send old commands this way. */
Test(command, probe_of_old_commands_is_enospc)
{
	raw_cmd_init(&cmd, RAW_DEVICE, RAW_INVOKE_WRITE);
	raw_cmd_u64(&cmd, 2, 1);
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), -ENOSPC));
}

static int old(uint32_t number, uint16_t in_len, uint16_t out_len)
{
	uint8_t in[128] = {0}, out[512];
	struct raw_write w = {number, in, in_len, out, out_len, NULL, 0};

	return raw_write_run(&raw_linked, dev.fd, &w);
}

Test(command, old_commands_that_do_not_exist_are_eopnotsupp)
{
	cr_assert(eq(int, old(99, 8, 8), -EOPNOTSUPP));
	cr_assert(eq(int, old(0x80000063, 8, 8), -EOPNOTSUPP));
	cr_assert(eq(int, old(UINT32_MAX, 8, 8), -EINVAL), "flags that do not exist");
}

/* The kernel's rule: neither the command nor the room for its answer may be too short. */
struct size {
	uint32_t number;
	uint16_t in, out;
};

static struct size sizes[] = {
	{1, 8, 176}, {0x80000001, 8, 184}, {3, 8, 4},    {9, 40, 12},
	{5, 56, 4},  {17, 8, 4},           {26, 112, 0}, {25, 16, 128},
};

ParameterizedTestParameters(command, old_command_with_too_little_room_is_enospc)
{
	return cr_make_param_array(struct size, sizes, sizeof(sizes) / sizeof(sizes[0]));
}

ParameterizedTest(struct size *s, command, old_command_with_too_little_room_is_enospc)
{
	cr_assert(eq(int, old(s->number, s->in - 1, s->out), -ENOSPC));
	if (s->out)
		cr_assert(eq(int, old(s->number, s->in, s->out - 1), -ENOSPC));
	cr_assert(ne(int, old(s->number, s->in, s->out), -ENOSPC));
}

/* Nothing must be made whose handle cannot be told. */
Test(command, command_in_read_only_memory_changes_nothing)
{
	struct raw_cmd *ro =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t in[8] = {0}, out[4] = {0xee};
	struct raw_pd pd;

	raw_cmd_init(ro, RAW_DEVICE, RAW_INVOKE_WRITE);
	raw_cmd_u64(ro, 2, 3);
	raw_cmd_in(ro, 0, in, sizeof(in));
	raw_cmd_out(ro, 1, out, sizeof(out));
	ro->length = (uint16_t)(24 + 16 * ro->nattrs);
	mprotect(ro, PAGE, PROT_READ);
	cr_assert(eq(int, raw_linked.ioctl(dev.fd, ro), -EFAULT));
	cr_assert(eq(u8, out[0], 0xee));
	cr_assert(zero(int, raw_pd_alloc(&pd, &dev)));
	cr_assert(zero(u32, pd.handle), "the first");
}

struct port {
	uint64_t port;
	uint16_t len;
	int rc;
};

static struct port ports[] = {
	{1, 8, 0},
	{1, 1, -EINVAL},
	{1, 4, -EINVAL},
	{0, 8, -EINVAL},
	{2, 8, -EINVAL},
	{257, 8, -EINVAL},
	{1ull << 32 | 1, 8, -EINVAL},
};

ParameterizedTestParameters(command, there_is_one_port)
{
	return cr_make_param_array(struct port, ports, sizeof(ports) / sizeof(ports[0]));
}

ParameterizedTest(struct port *p, command, there_is_one_port)
{
	uint8_t out[48];

	raw_cmd_init(&cmd, RAW_DEVICE, 2);
	raw_cmd_in(&cmd, 0, &p->port, p->len);
	raw_cmd_out(&cmd, 1, out, sizeof(out));
	cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), p->rc));
}

Test(command, gid_table_wants_room_for_its_entry)
{
	uint8_t out[64] = {0};
	uint64_t n = 0;

	for (uint64_t room = 0; room <= 32; room += 16) {
		raw_cmd_init(&cmd, RAW_DEVICE, 5);
		raw_cmd_u64(&cmd, 0, 32);
		raw_cmd_u32(&cmd, 1, 0);
		raw_cmd_out(&cmd, 2, out, (uint16_t)room);
		raw_cmd_out(&cmd, 3, &n, sizeof(n));
		cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), room < 32 ? -EINVAL : 0));
	}
	cr_assert(eq(u64, n, 1));
	cr_assert(eq(u8, out[0], 0xfe));
}

Test(command, only_gid_0_exists)
{
	uint8_t out[32];

	for (uint32_t index = 0; index < 3; index++) {
		raw_cmd_init(&cmd, RAW_DEVICE, RAW_QUERY_GID);
		raw_cmd_u64(&cmd, 0, 1);
		raw_cmd_u64(&cmd, 1, index);
		raw_cmd_u32(&cmd, 2, index == 2); /* flags there are none */
		raw_cmd_out(&cmd, 3, out, sizeof(out));
		cr_assert(eq(int, raw_cmd_run(&raw_linked, dev.fd, &cmd), index ? -EINVAL : 0));
	}
}
