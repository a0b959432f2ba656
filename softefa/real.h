/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libc functions that shim.c stands in front of. They can be called at any time: until the
 * constructor has found them these are plain system calls. open() is openat(), stat() fstatat().
 */
#ifndef SE_REAL_H
#define SE_REAL_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

struct se_real {
	int (*openat)(int dir, const char *path, int flags, ...);
	int (*close)(int fd);
	int (*close_range)(unsigned first, unsigned last, int flags);
	int (*dup2)(int fd, int to);
	int (*dup3)(int fd, int to, int flags);
	int (*ioctl)(int fd, unsigned long request, ...);
	int (*fstatat)(int dir, const char *path, struct stat *st, int flags);
	int (*fstat)(int fd, struct stat *st);
	int (*access)(const char *path, int mode);
	int (*socket)(int domain, int type, int protocol);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	ssize_t (*write)(int fd, const void *buf, size_t n);
};

extern struct se_real se_real;

#endif
