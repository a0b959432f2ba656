/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "settings.h"

static char dir[128];

static void robust_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

void se_fabric_lock(struct se_fabric *f)
{
	if (pthread_mutex_lock(&f->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&f->lock);
}

void se_fabric_unlock(struct se_fabric *f)
{
	pthread_mutex_unlock(&f->lock);
}

static uint64_t namespace_id(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

void se_fabric_name_dir(void)
{
	uint64_t layout = sizeof(struct se_fabric) ^ SE_FABRIC_MAGIC, h;
	struct se_gid gid = se_gid_of(se_settings(), 0);

	h = se_hash(&layout, sizeof(layout), namespace_id("/proc/self/ns/net"));
	h = se_hash(&gid, sizeof(gid), h);
	h = se_hash(&h, sizeof(h), namespace_id("/proc/self/ns/pid"));
	snprintf(dir, sizeof(dir), "/dev/shm/softefa-%u-%s-%08x", (unsigned)geteuid(),
		 se_settings()->domain, (unsigned)h);
}

const char *se_fabric_dir(void)
{
	return dir;
}

void se_fabric_path(char *path, size_t len)
{
	snprintf(path, len, "%s/fabric", dir);
}

static int make_dir(void)
{
	struct stat st;

	if (mkdir(dir, 0700) && errno != EEXIST) {
		se_log(SE_LOG_ERROR, "mkdir %s: %s", dir, strerror(errno));
		return -errno;
	}
	if (lstat(dir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077) {
		se_log(SE_LOG_ERROR, "%s is not a private folder of user %u", dir,
		       (unsigned)geteuid());
		return -EACCES;
	}
	return 0;
}

static struct se_fabric *map_fabric(int fd)
{
	void *p = mmap(NULL, sizeof(struct se_fabric), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * Fill a new file under a private name, then link it to @path: it appears finished or not at all.
 */
static int create_file(const char *path)
{
	char tmp[160];
	struct se_fabric *f;
	int fd, rc = 0;

	snprintf(tmp, sizeof(tmp), "%s/new.%d", dir, (int)getpid());
	unlink(tmp);
	fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct se_fabric)) || !(f = map_fabric(fd))) {
		rc = -errno;
	} else {
		robust_init(&f->lock);
		for (int i = 0; i < SE_MAX_PROC; i++)
			robust_init(&f->member[i].alive);
		f->magic = SE_FABRIC_MAGIC;
		if (link(tmp, path) && errno != EEXIST)
			rc = -errno;
		munmap(f, sizeof(*f));
	}
	unlink(tmp);
	close(fd);
	return rc;
}

static int open_file(const char *path, struct se_fabric **out)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW), rc = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size != sizeof(struct se_fabric) || !(*out = map_fabric(fd)))
		rc = -EINVAL;
	else if ((*out)->magic != SE_FABRIC_MAGIC)
		rc = -EINVAL;
	close(fd);
	return rc;
}

/* The last member may be leaving at this moment. */
int se_fabric_open(struct se_fabric **out)
{
	char path[160];
	int rc;

	se_fabric_name_dir();
	se_fabric_path(path, sizeof(path));
	for (int attempt = 0; attempt < 100; attempt++) {
		rc = make_dir();
		if (rc == -ENOENT)
			continue; /* it was there, and then taken away */
		if (rc)
			return rc;
		rc = open_file(path, out);
		if (rc == -ENOENT) {
			rc = create_file(path);
			if (rc && rc != -ENOENT)
				break;
			continue;
		}
		if (rc)
			break;
		se_fabric_lock(*out);
		if (!(*out)->closed)
			return 0;
		se_fabric_unlock(*out);
		munmap(*out, sizeof(**out));
	}
	se_log(SE_LOG_ERROR, "%s: %s", path, rc ? strerror(-rc) : "comes and goes");
	return rc ? rc : -EBUSY;
}

/*
 * What processes left that died while they made it. Whoever wants to join waits for the lock of
 * the file that is closed now.
 */
static void sweep(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, "fabric") != 0)
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

void se_fabric_remove(struct se_fabric *f)
{
	char path[160];

	f->closed = 1;
	sweep();
	se_fabric_path(path, sizeof(path));
	unlink(path);
	rmdir(dir);
}
