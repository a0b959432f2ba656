/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter linked in. */
#include "raw_linked.h"

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../softefa/ctx.h"
#include "../../softefa/engine.h"
#include "../../softefa/uverbs.h"

static int linked_open(unsigned dev)
{
	return se_ctx_open(dev, true);
}

static int linked_ioctl(int fd, void *cmd)
{
	struct stat st;

	return fstat(fd, &st) ? -errno : se_uverbs_ioctl(fd, &st, (uintptr_t)cmd);
}

/* As the shim does it: first the number, then what it stood for. */
static void linked_close(int fd)
{
	struct se_ctx *ctx = NULL;
	struct stat st;
	int rc = fstat(fd, &st);

	close(fd);
	se_engine_lock();
	if (!rc)
		ctx = se_ctx_find(&st);
	if (ctx)
		se_ctx_close(ctx);
	se_engine_unlock();
}

const struct raw_sys raw_linked = {linked_open, linked_ioctl, linked_close};
