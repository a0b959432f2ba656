/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric seen from outside. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric_file.h"

/* Read, not mapped: the file may be cut off at any time. */
static int read_part(int fd, void *dst, size_t len, size_t off)
{
	ssize_t n = pread(fd, dst, len, (off_t)off);

	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EINVAL;
}

static int view_members(int fd, struct se_fabric_view *view)
{
	struct se_member m;

	for (size_t i = 0; i < SE_MAX_PROC; i++) {
		size_t off = offsetof(struct se_fabric, member) + i * sizeof(m);
		int rc = read_part(fd, &m, sizeof(m), off);

		if (rc)
			return rc;
		if (!atomic_load(&m.incarnation))
			continue;
		if (kill(m.pid, 0) == 0 || errno == EPERM)
			view->alive++;
		else
			view->dead++;
	}
	return 0;
}

static int view_stats(int fd, struct se_fabric_view *view)
{
	uint64_t one[SE_MAX_DEV][SE_NSTATS];

	for (size_t i = 0; i < SE_MAX_PROC; i++) {
		size_t off = offsetof(struct se_fabric, stats) + i * sizeof(one);
		int rc = read_part(fd, one, sizeof(one), off);

		if (rc)
			return rc;
		for (size_t d = 0; d < SE_MAX_DEV; d++)
			for (size_t k = 0; k < SE_NSTATS; k++)
				view->count[d][k] += one[d][k];
	}
	return 0;
}

static int view_file(int fd, struct se_fabric_view *view)
{
	uint64_t magic;
	uint32_t closed;
	int rc = read_part(fd, &magic, sizeof(magic), offsetof(struct se_fabric, magic));

	if (!rc)
		rc = read_part(fd, &closed, sizeof(closed), offsetof(struct se_fabric, closed));
	if (rc)
		return rc;
	if (magic != SE_FABRIC_MAGIC)
		return -EINVAL;
	if (closed)
		return -ENOENT;
	rc = view_members(fd, view);
	return rc ? rc : view_stats(fd, view);
}

int se_fabric_peek(struct se_fabric_view *view)
{
	char path[160];
	struct stat st;
	int fd, rc;

	memset(view, 0, sizeof(*view));
	se_fabric_name_dir();
	se_fabric_path(path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		rc = -errno;
	else
		rc = st.st_size == sizeof(struct se_fabric) ? view_file(fd, view) : -EINVAL;
	close(fd);
	return rc;
}
