/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter without its preloaded shim, linked into the program: for sanitizers and fuzzers,
 * which want to be in front. For programs that link softefa/ except shim.c and launcher.c.
 */
#ifndef TESTS_RAW_LINKED_H
#define TESTS_RAW_LINKED_H

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../softefa/ctx.h"
#include "../../softefa/engine.h"
#include "../../softefa/uverbs.h"
#include "raw_cmd.h"

static int raw_linked_open(unsigned dev)
{
	return se_ctx_open(dev, true);
}

static int raw_linked_ioctl(int fd, void *cmd)
{
	struct stat st;

	return fstat(fd, &st) ? -errno : se_uverbs_ioctl(fd, &st, (uintptr_t)cmd);
}

/* As the shim does it: first the number, then what it stood for. */
static void raw_linked_close(int fd)
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

static const struct raw_sys raw_linked = {raw_linked_open, raw_linked_ioctl, raw_linked_close};

#endif
