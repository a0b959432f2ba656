/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory file. */
#include "scratch.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine.h"
#include "log.h"
#include "private.h"

#define LOOK_US 1000 /* how long a look at the descriptor is good */

static int fd = -1;
static uint8_t *map;
static bool tried;
static uint64_t looked_us;

static void make(void)
{
	tried = true;
	fd = memfd_create("softefa scratch", MFD_CLOEXEC);
	if (fd >= 0)
		fd = se_private_fd_add(fd);
	if (fd < 0)
		return;
	if (ftruncate(fd, SE_SCRATCH_MAX) == 0)
		map = mmap(NULL, SE_SCRATCH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!map || map == MAP_FAILED) {
		map = NULL;
		se_private_fd_close(fd);
		fd = -1;
	}
}

bool se_scratch_up(void)
{
	uint64_t now_us;

	if (!tried)
		make();
	if (fd < 0)
		return false;
	now_us = se_now_us();
	if (now_us - looked_us < LOOK_US)
		return true;
	looked_us = now_us;
	if (se_private_fd_ours(fd))
		return true;
	se_log(SE_LOG_ERROR, "the program closed descriptor %d, which was ours", fd);
	fd = -1;
	return false;
}

/*
 * System calls, not functions of libc: those may be replaced by others that look at the memory
 * themselves, as sanitizers do. Into the file, out of it; false: not all.
 */
static bool put(const struct iovec *src, unsigned n, size_t len)
{
	return syscall(SYS_pwritev, fd, src, (long)n, 0L, 0L) >= (long)len;
}

static bool get(const struct iovec *dst, unsigned n, size_t len)
{
	return syscall(SYS_preadv, fd, dst, (long)n, 0L, 0L) == (long)len;
}

int se_scratch_copy(const struct iovec *dst, unsigned ndst, const struct iovec *src, unsigned nsrc,
		    size_t len)
{
	return put(src, nsrc, len) && get(dst, ndst, len) ? 0 : -EFAULT;
}

int se_scratch_in(void *dst, const void *src, size_t len)
{
	const struct iovec v = {(void *)(uintptr_t)src, len};

	if (!put(&v, 1, len))
		return -EFAULT;
	memcpy(dst, map, len);
	return 0;
}

int se_scratch_place(const struct iovec *dst, unsigned ndst, const void *src, size_t len)
{
	memcpy(map, src, len);
	return get(dst, ndst, len) ? 0 : -EFAULT;
}

int se_scratch_out(void *dst, const void *src, size_t len)
{
	const struct iovec v = {dst, len};

	return se_scratch_place(&v, 1, src, len);
}

void se_scratch_forget(void)
{
	if (map)
		munmap(map, SE_SCRATCH_MAX);
	map = NULL;
	fd = -1;
	tried = false;
}
