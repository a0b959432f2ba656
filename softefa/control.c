/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking at the control file. */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "gid.h"
#include "log.h"
#include "real.h"
#include "settings.h"

#define MAX_BYTES (64 << 10)
/* A time this recent says little: another change within the same tick would not show. */
#define RECENT_NS 50000000

static struct {
	const char *path; /* NULL: no control file */
	bool loaded;
	bool settled; /* st tells what was read */
	bool missing;
	struct stat st;
	uint64_t hash; /* of what was read */
} file;

static bool recent(const struct timespec *t)
{
	struct timespec now;
	int64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (int64_t)(now.tv_sec - t->tv_sec) * 1000000000 + (now.tv_nsec - t->tv_nsec);
	return ns < RECENT_NS && ns > -RECENT_NS;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* All of the file as a string, to be freed; NULL with errno. EFBIG: too long. */
static char *read_all(struct stat *st)
{
	/* Not to wait for the writer of a FIFO. */
	int fd = se_real.openat(AT_FDCWD, file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	char *text = fd < 0 ? NULL : calloc(1, MAX_BYTES + 1);
	size_t len = 0;
	ssize_t n = -1;

	if (text && se_real.fstat(fd, st) == 0) {
		while ((n = read(fd, text + len, MAX_BYTES + 1 - len)) > 0)
			len += (size_t)n;
		if (len > MAX_BYTES) {
			n = -1;
			errno = EFBIG;
		}
	}
	err = errno;
	if (fd >= 0)
		se_real.close(fd);
	if (n == 0)
		return text;
	free(text);
	errno = err;
	return NULL;
}

static void complain(int err)
{
	if (err == EFBIG)
		se_log(SE_LOG_ERROR, "%s: longer than %d bytes; its rules are void", file.path,
		       MAX_BYTES);
	else
		se_log(SE_LOG_ERROR, "%s: %s; its rules are void", file.path, strerror(err));
}

/* Once per cause: from then on it counts as read. */
static void give_up(int err)
{
	if (!file.missing)
		complain(err);
	file.missing = true;
	file.loaded = true;
	file.settled = err != ENOENT && err != EACCES;
	se_fault_load(NULL, NULL);
}

static void load(void)
{
	struct stat st = {0};
	char *text = read_all(&st);
	uint64_t hash;

	file.st = st;
	if (!text) {
		give_up(errno);
		return;
	}
	hash = se_hash(text, strlen(text), (uint64_t)st.st_ino);
	if (!file.loaded || file.missing || hash != file.hash)
		se_fault_load(text, file.path);
	free(text);
	file.hash = hash;
	file.loaded = true;
	file.missing = false;
	file.settled = !recent(&st.st_mtim);
}

void se_control_check(void)
{
	struct stat st;

	if (!file.loaded) {
		file.path = getenv(SE_ENV_CONTROL);
		if (file.path && *file.path) {
			load();
		} else {
			file.path = NULL;
			file.loaded = true;
			se_fault_load(NULL, NULL);
		}
		return;
	}
	if (!file.path)
		return;
	if (se_real.fstatat(AT_FDCWD, file.path, &st, 0)) {
		if (!file.missing)
			give_up(errno);
		return;
	}
	if (!file.settled || !same(&st, &file.st))
		load();
}

void se_control_forget(void)
{
	memset(&file, 0, sizeof(file));
	se_fault_forget();
}
