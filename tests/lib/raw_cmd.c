/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of the uverbs ioctl ABI. */
#include "raw_cmd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define RDMA_VERBS_IOCTL 0xc0181b01ul

static_assert(sizeof(struct raw_attr) == 16, "attribute");
static_assert(offsetof(struct raw_cmd, attr) == 24, "header");

static int libc_open(unsigned dev)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/uverbs%u", dev);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int libc_ioctl(int fd, void *cmd)
{
	return ioctl(fd, RDMA_VERBS_IOCTL, cmd) ? -errno : 0;
}

static void libc_close(int fd)
{
	close(fd);
}

const struct raw_sys raw_libc = {libc_open, libc_ioctl, libc_close};

void raw_cmd_init(struct raw_cmd *c, uint16_t object, uint16_t method)
{
	memset(c, 0, sizeof(*c));
	c->object = object;
	c->method = method;
	c->driver = RAW_DRIVER;
}

static struct raw_attr *add(struct raw_cmd *c, uint16_t id, uint16_t len, uint64_t data)
{
	struct raw_attr *a = &c->attr[c->nattrs++];

	assert(c->nattrs <= RAW_MAX_ATTRS);
	*a = (struct raw_attr){.id = id, .len = len, .flags = RAW_MANDATORY, .data = data};
	return a;
}

struct raw_attr *raw_cmd_in(struct raw_cmd *c, uint16_t id, const void *p, uint16_t len)
{
	uint64_t data = (uintptr_t)p;

	if (len <= sizeof(data)) {
		data = 0;
		memcpy(&data, p, len);
	}
	return add(c, id, len, data);
}

struct raw_attr *raw_cmd_u64(struct raw_cmd *c, uint16_t id, uint64_t v)
{
	return add(c, id, sizeof(v), v);
}

struct raw_attr *raw_cmd_u32(struct raw_cmd *c, uint16_t id, uint32_t v)
{
	return add(c, id, sizeof(v), v);
}

struct raw_attr *raw_cmd_out(struct raw_cmd *c, uint16_t id, void *p, uint16_t len)
{
	return add(c, id, len, (uintptr_t)p);
}

struct raw_attr *raw_cmd_handle(struct raw_cmd *c, uint16_t id, uint64_t handle)
{
	return add(c, id, 0, handle);
}

int raw_cmd_run(const struct raw_sys *sys, int fd, struct raw_cmd *c)
{
	c->length = (uint16_t)(offsetof(struct raw_cmd, attr) + c->nattrs * sizeof(c->attr[0]));
	return sys->ioctl(fd, c);
}

int raw_write_run(const struct raw_sys *sys, int fd, const struct raw_write *w)
{
	enum { CORE_IN, CORE_OUT, WRITE_CMD };
	struct raw_cmd c;

	raw_cmd_init(&c, RAW_DEVICE, RAW_INVOKE_WRITE);
	raw_cmd_u64(&c, WRITE_CMD, w->cmd);
	raw_cmd_in(&c, CORE_IN, w->in, w->in_len);
	if (w->out)
		raw_cmd_out(&c, CORE_OUT, w->out, w->out_len);
	if (w->uhw_out)
		raw_cmd_out(&c, RAW_UHW_OUT, w->uhw_out, w->uhw_len);
	return raw_cmd_run(sys, fd, &c);
}
