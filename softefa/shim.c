/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of libc that this library replaces when it is preloaded. Each passes through at
 * once what is not for /dev/infiniband/uverbsN or one of our command fds.
 *
 * read() is not among them: event channels are socket pairs that work natively. Neither is mmap():
 * the command fd is a memfd that holds the device's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ctx.h"
#include "engine.h"
#include "hw_counters.h"
#include "log.h"
#include "netlink.h"
#include "private.h"
#include "real.h"
#include "settings.h"
#include "uverbs.h"

#define EXPORT __attribute__((visibility("default")))

#define PREFIX "/dev/infiniband/uverbs"
#define MAJOR  231
#define MINOR  192 /* of uverbs0 */

/* ---- what is ours ---- */

/* The device of a uverbs path; -1: another path; -2: a uverbs path without a device. */
static int device_of(const char *path)
{
	unsigned long n;
	char *end;

	if (!path || strncmp(path, PREFIX, sizeof(PREFIX) - 1) != 0)
		return -1;
	path += sizeof(PREFIX) - 1;
	n = strtoul(path, &end, 10);
	return *path && !*end && n < se_settings()->devices ? (int)n : -2;
}

static void make_device(struct stat *st, uint32_t dev)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = makedev(MAJOR, MINOR + dev);
	st->st_size = 0;
	st->st_blocks = 0;
}

/* Where memfds live: an inode elsewhere is not ours, without asking further. */
static _Atomic dev_t memfd_dev;

static bool maybe_command_fd(const struct stat *st)
{
	return se_ctx_any() && S_ISREG(st->st_mode) &&
	       st->st_dev == atomic_load_explicit(&memfd_dev, memory_order_relaxed);
}

static bool command_fd(const struct stat *st, uint32_t *dev)
{
	struct se_ctx *ctx;

	if (!maybe_command_fd(st))
		return false;
	se_engine_lock();
	ctx = se_ctx_find(st);
	if (ctx)
		*dev = ctx->dev;
	se_engine_unlock();
	return ctx != NULL;
}

/* Numbers given out by open(), for a cheap answer in write(). dup() goes unseen here. */
static _Atomic uint64_t numbers[16];

static void number_is_command(int fd, bool yes)
{
	uint64_t bit = 1ull << (fd % 64);

	if (fd < 0 || fd >= 64 * 16)
		return;
	if (yes)
		atomic_fetch_or(&numbers[fd / 64], bit);
	else
		atomic_fetch_and(&numbers[fd / 64], ~bit);
}

static bool number_may_be_command(int fd)
{
	return fd >= 0 && fd < 64 * 16 &&
	       atomic_load_explicit(&numbers[fd / 64], memory_order_relaxed) >> (fd % 64) & 1;
}

/* ---- open ---- */

static void in_child(void)
{
	se_private_fd_forget_all();
	se_engine_forget();
	se_ctx_forget_all();
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

static int open_device(int dev, int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct stat st;
	int fd;

	if (dev < 0) {
		errno = ENOENT;
		return -1;
	}
	pthread_once(&once, register_fork);
	fd = se_ctx_open((uint32_t)dev, flags & O_CLOEXEC);
	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	if (se_real.fstat(fd, &st) == 0)
		atomic_store(&memfd_dev, st.st_dev);
	number_is_command(fd, true);
	return fd;
}

static int open_path(int dir, const char *path, int flags, int mode)
{
	const char *counter;
	int dev = device_of(path);

	if (dev != -1)
		return open_device(dev, flags);
	counter = se_hw_counter_path(path);
	return se_real.openat(dir, counter ? counter : path, flags, mode);
}

#define NEEDS_MODE(flags) (O_CREAT & (flags) || (O_TMPFILE & (flags)) == O_TMPFILE)

#define OPEN(name) \
	EXPORT int name(const char *path, int flags, ...) \
	{ \
		int mode = 0; \
		va_list ap; \
\
		if (NEEDS_MODE(flags)) { \
			va_start(ap, flags); \
			mode = va_arg(ap, int); \
			va_end(ap); \
		} \
		return open_path(AT_FDCWD, path, flags, mode); \
	}

#define OPENAT(name) \
	EXPORT int name(int dir, const char *path, int flags, ...) \
	{ \
		int mode = 0; \
		va_list ap; \
\
		if (NEEDS_MODE(flags)) { \
			va_start(ap, flags); \
			mode = va_arg(ap, int); \
			va_end(ap); \
		} \
		return open_path(dir, path, flags, mode); \
	}

/* The names that fortified programs call. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

EXPORT int __open_2(const char *path, int flags)
{
	return open_path(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags)
{
	return open_path(AT_FDCWD, path, flags, 0);
}

EXPORT int __openat_2(int dir, const char *path, int flags)
{
	return open_path(dir, path, flags, 0);
}

EXPORT int __openat64_2(int dir, const char *path, int flags)
{
	return open_path(dir, path, flags, 0);
}

/* ---- stat ---- */

static int stat_path(int dir, const char *path, struct stat *st, int flags)
{
	int dev = device_of(path);

	if (dev == -1)
		return se_real.fstatat(dir, path, st, flags);
	if (dev < 0) {
		errno = ENOENT;
		return -1;
	}
	memset(st, 0, sizeof(*st));
	st->st_nlink = 1;
	make_device(st, (uint32_t)dev);
	return 0;
}

static int stat_fd(int fd, struct stat *st)
{
	int rc = se_real.fstat(fd, st), err = errno;
	uint32_t dev;

	if (rc == 0 && command_fd(st, &dev))
		make_device(st, dev);
	errno = err;
	return rc;
}

/*
 * On 64-bit machines struct stat64 is struct stat. The __x names are those of glibc before 2.33,
 * with a version of the structure in front.
 */
int __xstat(int ver, const char *path, struct stat *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstatat(int ver, int dir, const char *path, struct stat *st, int flags);
int __xstat64(int ver, const char *path, struct stat64 *st);
int __fxstat64(int ver, int fd, struct stat64 *st);

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64-bit machine");

EXPORT int stat(const char *path, struct stat *st)
{
	return stat_path(AT_FDCWD, path, st, 0);
}

EXPORT int stat64(const char *path, struct stat64 *st)
{
	return stat_path(AT_FDCWD, path, (struct stat *)st, 0);
}

EXPORT int lstat(const char *path, struct stat *st)
{
	return stat_path(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstat(int fd, struct stat *st)
{
	return stat_fd(fd, st);
}

EXPORT int fstat64(int fd, struct stat64 *st)
{
	return stat_fd(fd, (struct stat *)st);
}

EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	if (flags & AT_EMPTY_PATH && !*path)
		return stat_fd(dir, st);
	return stat_path(dir, path, st, flags);
}

EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	return fstatat(dir, path, (struct stat *)st, flags);
}

EXPORT int __xstat(int ver, const char *path, struct stat *st)
{
	(void)ver;
	return stat_path(AT_FDCWD, path, st, 0);
}

EXPORT int __lxstat(int ver, const char *path, struct stat *st)
{
	(void)ver;
	return stat_path(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

EXPORT int __fxstat(int ver, int fd, struct stat *st)
{
	(void)ver;
	return stat_fd(fd, st);
}

EXPORT int __fxstatat(int ver, int dir, const char *path, struct stat *st, int flags)
{
	(void)ver;
	return fstatat(dir, path, st, flags);
}

EXPORT int __xstat64(int ver, const char *path, struct stat64 *st)
{
	(void)ver;
	return stat_path(AT_FDCWD, path, (struct stat *)st, 0);
}

EXPORT int __fxstat64(int ver, int fd, struct stat64 *st)
{
	(void)ver;
	return stat_fd(fd, (struct stat *)st);
}

EXPORT int access(const char *path, int mode)
{
	int dev = device_of(path);

	if (dev == -1)
		return se_real.access(path, mode);
	if (dev >= 0 && !(mode & X_OK))
		return 0;
	errno = dev >= 0 ? EACCES : ENOENT;
	return -1;
}

/* ---- the command fd ---- */

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct stat st;
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == SE_VERBS_IOCTL && se_ctx_any() && se_real.fstat(fd, &st) == 0 &&
	    maybe_command_fd(&st)) {
		rc = se_uverbs_ioctl(fd, &st, (uintptr_t)arg);
		if (rc == 0)
			return 0;
		if (rc != -ENOTTY) {
			errno = -rc;
			return -1;
		}
	}
	return se_real.ioctl(fd, request, arg);
}

/* ---- numbers that end ---- */

/* Was that the last number of the context (of any, if NULL)? */
static void reap(const struct stat *only)
{
	int err = errno;

	se_engine_lock();
	se_ctx_reap(only);
	se_engine_unlock();
	errno = err;
}

/* Is @fd, about to be closed or replaced, one of ours to know about? */
static bool ends_command_fd(int fd, struct stat *st)
{
	int err = errno;
	uint32_t dev;
	bool yes;

	if (!se_ctx_any())
		return false;
	yes = se_real.fstat(fd, st) == 0 && command_fd(st, &dev);
	errno = err;
	return yes;
}

/* To the application a descriptor of the adapter itself is not open. */
static bool refuse(int fd)
{
	if (!se_private_fd(fd))
		return false;
	errno = EBADF;
	return true;
}

EXPORT int close(int fd)
{
	struct stat st;
	bool ours;
	int rc;

	if (refuse(fd))
		return -1;
	ours = ends_command_fd(fd, &st);
	rc = se_real.close(fd);
	if (ours) {
		number_is_command(fd, false);
		reap(&st);
	}
	return rc;
}

static int replace(int fd, int to, int flags, bool two)
{
	struct stat st;
	bool ours;
	int rc;

	if (refuse(fd))
		return -1;
	if (se_private_fd(to)) {
		se_log(SE_LOG_ERROR, "dup2(%d, %d): the adapter has number %d", fd, to, to);
		errno = EBADF; /* as for a number above the limit */
		return -1;
	}
	ours = fd != to && ends_command_fd(to, &st);
	rc = two ? se_real.dup2(fd, to) : se_real.dup3(fd, to, flags);
	if (ours && rc >= 0)
		reap(&st);
	return rc;
}

EXPORT int dup2(int fd, int to)
{
	return replace(fd, to, 0, true);
}

EXPORT int dup3(int fd, int to, int flags)
{
	return replace(fd, to, flags, false);
}

/* The range without the numbers of the adapter. */
static int close_around(unsigned first, unsigned last, int flags)
{
	for (int next; (next = se_private_fd_next(first)) >= 0 && (unsigned)next <= last;) {
		if ((unsigned)next > first && se_real.close_range(first, (unsigned)next - 1, flags))
			return -1;
		first = (unsigned)next + 1;
	}
	return first <= last ? se_real.close_range(first, last, flags) : 0;
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	int rc;

	if (first > last)
		return se_real.close_range(first, last, flags); /* its errno */
	rc = close_around(first, last, flags);
	if (rc == 0 && se_ctx_any() && !(flags & CLOSE_RANGE_CLOEXEC))
		reap(NULL);
	return rc;
}

EXPORT void closefrom(int first)
{
	int err = errno;
	struct rlimit l;

	first = first < 0 ? 0 : first;
	if (close_range((unsigned)first, UINT_MAX, 0) == 0 || getrlimit(RLIMIT_NOFILE, &l))
		return;
	/* Before Linux 5.9. */
	for (int fd = first; (rlim_t)fd < l.rlim_cur && fd < INT_MAX; fd++)
		close(fd);
	errno = err;
}

/* Commands by write() are the old way; this device does not speak it. */
EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	struct stat st;
	uint32_t dev;

	if (number_may_be_command(fd) && se_real.fstat(fd, &st) == 0 && command_fd(&st, &dev)) {
		se_log(SE_LOG_ERROR, "a command by write() on fd %d: not supported", fd);
		errno = EINVAL;
		return -1;
	}
	return se_real.write(fd, buf, n);
}

/* ---- netlink ---- */

EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
		return se_netlink_socket(type);
	return se_real.socket(domain, type, protocol);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return se_netlink_asks(fd, msg) ? se_netlink_answer(fd, msg)
					: se_real.sendmsg(fd, msg, flags);
}

__attribute__((destructor)) static void at_exit(void)
{
	se_engine_stop();
}
