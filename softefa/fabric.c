/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory of a host's processes: membership, and numbers unique per device. */
#include "fabric.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "numbers.h"
#include "settings.h"

#define MAGIC 0x736f667465666131u /* "softefa1" */

struct member {
	pthread_mutex_t alive; /* robust; held by the engine thread of the member */
	_Atomic uint64_t incarnation;
	pid_t pid;
	_Atomic uint32_t port; /* see tcp.c */
	struct se_mail mail;
};

struct fabric {
	uint64_t magic;
	pthread_mutex_t lock; /* robust: guards all but the atomics, which it only writes */
	uint32_t closed;      /* the last member left: this file is unlinked */
	uint64_t last_incarnation;
	struct member member[SE_MAX_PROC];
	struct se_numbers dev[SE_MAX_DEV];
	struct se_stats stats;
};

static struct fabric *fab;
static int self = SE_NO_SLOT;
static bool left; /* at exit: objects destroyed after that have no numbers to give back */
static char dir[128];

/* ---- locks ---- */

static void robust_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

/* Every change under the lock leaves the tables usable at each step, so a dead owner is no harm. */
static void lock_fabric(struct fabric *f)
{
	if (pthread_mutex_lock(&f->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&f->lock);
}

static void unlock_fabric(struct fabric *f)
{
	pthread_mutex_unlock(&f->lock);
}

/* ---- members ---- */

static void forget_rings(int slot, uint64_t incarnation)
{
	char path[192];

	for (int i = 0; i < SE_MAX_PROC; i++) {
		uint64_t there = atomic_load(&fab->member[i].incarnation);

		if (!there)
			continue;
		snprintf(path, sizeof(path), "%s/%llx.%llx", dir, (unsigned long long)incarnation,
			 (unsigned long long)there);
		unlink(path);
		snprintf(path, sizeof(path), "%s/%llx.%llx", dir, (unsigned long long)there,
			 (unsigned long long)incarnation);
		unlink(path);
	}
	for (int i = 0; i < SE_MAX_PROC; i++)
		atomic_store(&fab->member[slot].mail.ring_from[i], 0);
}

static void reclaim(int slot)
{
	struct member *m = &fab->member[slot];
	uint64_t incarnation = atomic_load(&m->incarnation);

	if (!incarnation)
		return;
	atomic_store(&m->incarnation, 0);
	for (int i = 0; i < SE_MAX_DEV; i++)
		se_numbers_reclaim(&fab->dev[i], slot);
	forget_rings(slot, incarnation);
}

/* Is the slot's owner dead? If so its mutex is ours now, and free again afterwards. */
static bool reclaim_if_dead(int slot)
{
	struct member *m = &fab->member[slot];
	int rc;

	if (!atomic_load(&m->incarnation))
		return true;
	rc = pthread_mutex_trylock(&m->alive);
	if (rc == EBUSY)
		return false;
	if (rc == EOWNERDEAD)
		pthread_mutex_consistent(&m->alive);
	pthread_mutex_unlock(&m->alive);
	se_log(SE_LOG_COMMAND, "process %d is gone, its numbers are free again", (int)m->pid);
	reclaim(slot);
	return true;
}

/* Numbers have run out: were there any that nobody uses? */
static bool reclaim_dead(void)
{
	bool any = false;

	for (int i = 0; i < SE_MAX_PROC; i++)
		if (i != self && atomic_load(&fab->member[i].incarnation))
			any |= reclaim_if_dead(i);
	return any;
}

/* ---- the file ---- */

static uint64_t namespace_id(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static void name_dir(void)
{
	uint64_t layout = sizeof(struct fabric) ^ MAGIC, h;
	struct se_gid gid = se_gid_of(se_settings(), 0);

	h = se_hash(&layout, sizeof(layout), namespace_id("/proc/self/ns/net"));
	h = se_hash(&gid, sizeof(gid), h);
	h = se_hash(&h, sizeof(h), namespace_id("/proc/self/ns/pid"));
	snprintf(dir, sizeof(dir), "/dev/shm/softefa-%u-%s-%08x", (unsigned)geteuid(),
		 se_settings()->domain, (unsigned)h);
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

static struct fabric *map_fabric(int fd)
{
	void *p = mmap(NULL, sizeof(struct fabric), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * Fill a new file under a private name, then link it to @path: it appears finished or not at all.
 */
static int create_file(const char *path)
{
	char tmp[160];
	struct fabric *f;
	int fd, rc = 0;

	snprintf(tmp, sizeof(tmp), "%s/new.%d", dir, (int)getpid());
	unlink(tmp);
	fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct fabric)) || !(f = map_fabric(fd))) {
		rc = -errno;
	} else {
		robust_init(&f->lock);
		for (int i = 0; i < SE_MAX_PROC; i++)
			robust_init(&f->member[i].alive);
		f->magic = MAGIC;
		if (link(tmp, path) && errno != EEXIST)
			rc = -errno;
		munmap(f, sizeof(*f));
	}
	unlink(tmp);
	close(fd);
	return rc;
}

static int open_file(const char *path, struct fabric **out)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW), rc = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size != sizeof(struct fabric) || !(*out = map_fabric(fd)))
		rc = -EINVAL;
	else if ((*out)->magic != MAGIC)
		rc = -EINVAL;
	close(fd);
	return rc;
}

/* Map the fabric and return with its lock held. The last member may be leaving at this moment. */
static int open_fabric(struct fabric **out)
{
	char path[160];
	int rc;

	name_dir();
	snprintf(path, sizeof(path), "%s/fabric", dir);
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
		lock_fabric(*out);
		if (!(*out)->closed)
			return 0;
		unlock_fabric(*out);
		munmap(*out, sizeof(**out));
	}
	se_log(SE_LOG_ERROR, "%s: %s", path, rc ? strerror(-rc) : "comes and goes");
	return rc ? rc : -EBUSY;
}

/* ---- membership ---- */

static int claim_slot(void)
{
	for (int i = 0; i < SE_MAX_PROC; i++) {
		struct member *m = &fab->member[i];

		if (!reclaim_if_dead(i))
			continue;
		m->pid = getpid();
		atomic_store(&m->port, 0);
		atomic_store(&m->mail.sleeping, 0);
		for (int w = 0; w < SE_MAX_PROC / 64; w++)
			atomic_store(&m->mail.ready[w], 0);
		atomic_store(&m->incarnation, ++fab->last_incarnation);
		return i;
	}
	se_log(SE_LOG_ERROR, "%d processes share domain %s already", SE_MAX_PROC,
	       se_settings()->domain);
	return -EUSERS;
}

int se_fabric_join(int (*start_engine)(void))
{
	int rc;

	if (self != SE_NO_SLOT)
		return 0;
	if (left)
		return -ESHUTDOWN;
	/* Peers read this process's memory; under Yama they must be allowed to. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	rc = open_fabric(&fab);
	if (rc)
		return rc;
	rc = claim_slot();
	if (rc >= 0) {
		self = rc;
		se_stats_use(&fab->stats, self);
		rc = start_engine();
		if (rc) {
			reclaim(self);
			self = SE_NO_SLOT;
			se_stats_use(NULL, self);
		}
	}
	unlock_fabric(fab);
	if (rc) {
		munmap(fab, sizeof(*fab));
		fab = NULL;
	}
	return rc;
}

static bool anybody_left(void)
{
	for (int i = 0; i < SE_MAX_PROC; i++)
		if (!reclaim_if_dead(i))
			return true;
	return false;
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

void se_fabric_leave(void)
{
	char path[160];

	if (self == SE_NO_SLOT)
		return;
	lock_fabric(fab);
	reclaim(self);
	self = SE_NO_SLOT;
	se_stats_use(NULL, self);
	left = true;
	if (!anybody_left()) {
		fab->closed = 1;
		sweep();
		snprintf(path, sizeof(path), "%s/fabric", dir);
		unlink(path);
		rmdir(dir);
	}
	unlock_fabric(fab);
}

void se_fabric_forget(void)
{
	if (fab)
		munmap(fab, sizeof(*fab));
	fab = NULL;
	self = SE_NO_SLOT;
	se_stats_use(NULL, self);
	left = false;
}

int se_fabric_self(void)
{
	return self;
}

uint64_t se_fabric_incarnation(int slot)
{
	return atomic_load_explicit(&fab->member[slot].incarnation, memory_order_acquire);
}

pid_t se_fabric_pid(int slot)
{
	return fab->member[slot].pid;
}

void se_fabric_set_port(uint16_t port)
{
	atomic_store(&fab->member[self].port, port);
}

uint16_t se_fabric_port(int slot)
{
	return (uint16_t)atomic_load(&fab->member[slot].port);
}

const char *se_fabric_dir(void)
{
	return dir;
}

pthread_mutex_t *se_fabric_hold(void)
{
	pthread_mutex_t *alive = &fab->member[self].alive;

	if (pthread_mutex_lock(alive) == EOWNERDEAD)
		pthread_mutex_consistent(alive);
	return alive;
}

bool se_fabric_gone(int slot, uint64_t incarnation)
{
	bool gone = true;

	if (se_fabric_incarnation(slot) != incarnation)
		return true;
	if (slot == self)
		return false;
	lock_fabric(fab);
	if (se_fabric_incarnation(slot) == incarnation)
		gone = reclaim_if_dead(slot);
	unlock_fabric(fab);
	return gone;
}

struct se_mail *se_fabric_mail(int slot)
{
	return &fab->member[slot].mail;
}

void se_mail_kick(struct se_mail *mail)
{
	atomic_store(&mail->sleeping, 0);
	atomic_fetch_add(&mail->wake, 1);
	syscall(SYS_futex, &mail->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void se_mail_wake(struct se_mail *mail)
{
	/* Pairs with "sleeping = 1, look again, sleep" in idle.c. */
	if (atomic_load(&mail->sleeping))
		se_mail_kick(mail);
}

/* ---- from outside ---- */

/* Read, not mapped: the file may be cut off at any time. */
static int read_part(int fd, void *dst, size_t len, size_t off)
{
	ssize_t n = pread(fd, dst, len, (off_t)off);

	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EINVAL;
}

static int view_members(int fd, struct se_fabric_view *view)
{
	struct member m;

	for (size_t i = 0; i < SE_MAX_PROC; i++) {
		size_t off = offsetof(struct fabric, member) + i * sizeof(m);
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
		size_t off = offsetof(struct fabric, stats) + i * sizeof(one);
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
	int rc = read_part(fd, &magic, sizeof(magic), offsetof(struct fabric, magic));

	if (!rc)
		rc = read_part(fd, &closed, sizeof(closed), offsetof(struct fabric, closed));
	if (rc)
		return rc;
	if (magic != MAGIC)
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
	name_dir();
	snprintf(path, sizeof(path), "%s/fabric", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		rc = -errno;
	else
		rc = st.st_size == sizeof(struct fabric) ? view_file(fd, view) : -EINVAL;
	close(fd);
	return rc;
}

/* ---- numbers ---- */

int se_fabric_qpn_get(int dev, const uint8_t *used, uint32_t mask, uint32_t max)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	lock_fabric(fab);
	rc = se_numbers_qpn_get(d, self, used, mask, max);
	if (rc < 0 && reclaim_dead())
		rc = se_numbers_qpn_get(d, self, used, mask, max);
	unlock_fabric(fab);
	return rc;
}

void se_fabric_qpn_put(int dev, uint16_t qpn)
{
	if (left)
		return;
	lock_fabric(fab);
	se_numbers_qpn_put(&fab->dev[dev], qpn);
	unlock_fabric(fab);
}

int se_fabric_qpn_owner(int dev, uint16_t qpn)
{
	return atomic_load_explicit(&fab->dev[dev].qpn_owner[qpn], memory_order_acquire) - 1;
}

uint32_t se_fabric_qpn_life(int dev, uint16_t qpn)
{
	return atomic_load_explicit(&fab->dev[dev].qpn_life[qpn], memory_order_acquire);
}

void se_fabric_qpn_renew(int dev, uint16_t qpn)
{
	atomic_fetch_add(&fab->dev[dev].qpn_life[qpn], 1);
}

int se_fabric_ahn_get(int dev, const struct se_gid *gid, uint32_t max)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	lock_fabric(fab);
	rc = se_numbers_ahn_get(d, self, gid, max);
	if (rc < 0 && reclaim_dead())
		rc = se_numbers_ahn_get(d, self, gid, max);
	unlock_fabric(fab);
	return rc;
}

void se_fabric_ahn_put(int dev, uint16_t ahn)
{
	if (left)
		return;
	lock_fabric(fab);
	se_numbers_ahn_put(&fab->dev[dev], self, ahn);
	unlock_fabric(fab);
}

int se_fabric_count(int dev, enum se_counted what, uint32_t max)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	lock_fabric(fab);
	rc = se_numbers_count(d, self, what, max);
	if (rc && reclaim_dead())
		rc = se_numbers_count(d, self, what, max);
	unlock_fabric(fab);
	return rc;
}

void se_fabric_uncount(int dev, enum se_counted what)
{
	if (left)
		return;
	lock_fabric(fab);
	se_numbers_uncount(&fab->dev[dev], self, what);
	unlock_fabric(fab);
}

int se_fabric_key_get(int dev, uint32_t max, uint32_t *key)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	lock_fabric(fab);
	rc = se_numbers_key_get(d, self, max, key);
	if (rc && reclaim_dead())
		rc = se_numbers_key_get(d, self, max, key);
	unlock_fabric(fab);
	return rc;
}

void se_fabric_key_put(int dev, uint32_t key)
{
	if (left)
		return;
	lock_fabric(fab);
	se_numbers_key_put(&fab->dev[dev], key);
	unlock_fabric(fab);
}

bool se_fabric_key_live(int dev, uint32_t key, int slot)
{
	return se_numbers_key_live(&fab->dev[dev], key, slot);
}
