/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that the application must not touch. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>

#include "real.h"

#define LIMIT 16384 /* higher numbers would make the kernel's table large */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t marks[LIMIT / 64];
static struct {
	dev_t dev;
	ino_t ino;
} file[LIMIT]; /* what a marked number leads to */

static void mark(int fd, const struct stat *st)
{
	file[fd].dev = st->st_dev;
	file[fd].ino = st->st_ino;
	atomic_fetch_or(&marks[fd / 64], 1ull << (fd % 64));
}

static void unmark(int fd)
{
	atomic_fetch_and(&marks[fd / 64], ~(1ull << (fd % 64)));
}

bool se_private_fd(int fd)
{
	return fd >= 0 && fd < LIMIT &&
	       atomic_load_explicit(&marks[fd / 64], memory_order_relaxed) >> (fd % 64) & 1;
}

int se_private_fd_next(unsigned from)
{
	for (; from < LIMIT; from++)
		if (se_private_fd((int)from))
			return (int)from;
	return -1;
}

static bool leads_to(int fd, dev_t dev, ino_t ino)
{
	struct stat st;

	return se_real.fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

bool se_private_fd_ours(int fd)
{
	return se_private_fd(fd) && leads_to(fd, file[fd].dev, file[fd].ino);
}

/* The last quarter of the numbers: programs that choose numbers themselves choose lower ones. */
static int first_number(void)
{
	struct rlimit l;
	rlim_t top = LIMIT;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < top)
		top = l.rlim_cur;
	return (int)(top - top / 4);
}

/* Where there is no better number it keeps the one it has. */
static int high_number(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, first_number());

	if (high < 0 && fd <= 2)
		high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return high < 0 ? fd : high;
}

int se_private_fd_add(int fd)
{
	struct stat st;
	int high, rc;

	if (se_real.fstat(fd, &st))
		return -errno;
	pthread_mutex_lock(&lock);
	high = rc = high_number(fd);
	if (high >= LIMIT) {
		rc = -EMFILE;
	} else {
		mark(high, &st);
		/* Another thread may have closed all it did not know, and opened files since. */
		if (!leads_to(high, st.st_dev, st.st_ino)) {
			unmark(high);
			rc = -EBADF;
		}
	}
	if (rc != fd && leads_to(fd, st.st_dev, st.st_ino))
		se_real.close(fd);
	if (rc == -EMFILE && high != fd)
		se_real.close(high);
	pthread_mutex_unlock(&lock);
	return rc;
}

void se_private_fd_close(int fd)
{
	pthread_mutex_lock(&lock);
	if (se_private_fd(fd)) {
		/* The mark goes last: until it is closed nobody else may close it. */
		if (se_private_fd_ours(fd))
			se_real.close(fd);
		unmark(fd);
	}
	pthread_mutex_unlock(&lock);
}

void se_private_fd_forget_all(void)
{
	pthread_mutex_init(&lock, NULL); /* a thread that stayed with the parent may have it */
	for (int fd = 0; fd < LIMIT; fd++)
		if (se_private_fd(fd))
			se_private_fd_close(fd);
}
