/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the functions behind us. Until then: system calls. */
#include "real.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static int sys_openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static int sys_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static int sys_close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static int sys_dup3(int fd, int to, int flags)
{
	return (int)syscall(SYS_dup3, fd, to, flags);
}

static int sys_dup2(int fd, int to)
{
	/* dup3() refuses what dup2() lets be */
	return fd == to ? fcntl(fd, F_GETFD) < 0 ? -1 : fd : sys_dup3(fd, to, 0);
}

static int sys_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static int sys_fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

static int sys_fstat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

static int sys_access(const char *path, int mode)
{
	/* SYS_access is not on all architectures. */
	return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

static int sys_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static ssize_t sys_write(int fd, const void *buf, size_t n)
{
	return syscall(SYS_write, fd, buf, n);
}

struct se_real se_real = {
	.openat = sys_openat,
	.close = sys_close,
	.close_range = sys_close_range,
	.dup2 = sys_dup2,
	.dup3 = sys_dup3,
	.ioctl = sys_ioctl,
	.fstatat = sys_fstatat,
	.fstat = sys_fstat,
	.access = sys_access,
	.socket = sys_socket,
	.sendmsg = sys_sendmsg,
	.write = sys_write,
};

/* A name that is missing (fstat before glibc 2.33, close_range before 2.34) leaves the system call
 * in place. */
static void find(void *slot, const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (p)
		*(void **)slot = p;
}

__attribute__((constructor)) static void find_all(void)
{
	find(&se_real.openat, "openat");
	find(&se_real.close, "close");
	find(&se_real.close_range, "close_range");
	find(&se_real.dup2, "dup2");
	find(&se_real.dup3, "dup3");
	find(&se_real.ioctl, "ioctl");
	find(&se_real.fstatat, "fstatat");
	find(&se_real.fstat, "fstat");
	find(&se_real.access, "access");
	find(&se_real.socket, "socket");
	find(&se_real.sendmsg, "sendmsg");
	find(&se_real.write, "write");
}
