/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory of a host's processes: membership, and numbers unique per device. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric_file.h"
#include "log.h"
#include "settings.h"

static struct se_fabric *fab;
static int self = SE_NO_SLOT;
static bool left; /* at exit: objects destroyed after that have no numbers to give back */

/* ---- members ---- */

/* The file of a ring, see link.c. */
static void unlink_ring(uint64_t from, uint64_t to)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%llx.%llx", se_fabric_dir(), (unsigned long long)from,
		 (unsigned long long)to);
	unlink(path);
}

static void forget_rings(int slot, uint64_t incarnation)
{
	for (int i = 0; i < SE_MAX_PROC; i++) {
		uint64_t there = atomic_load(&fab->member[i].incarnation);

		if (!there)
			continue;
		unlink_ring(incarnation, there);
		unlink_ring(there, incarnation);
	}
	for (int i = 0; i < SE_MAX_PROC; i++)
		atomic_store(&fab->member[slot].mail.ring_from[i], 0);
}

static void reclaim(int slot)
{
	struct se_member *m = &fab->member[slot];
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
	struct se_member *m = &fab->member[slot];
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

/* ---- membership ---- */

static int claim_slot(void)
{
	for (int i = 0; i < SE_MAX_PROC; i++) {
		struct se_member *m = &fab->member[i];

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
	rc = se_fabric_open(&fab);
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
	se_fabric_unlock(fab);
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

void se_fabric_leave(void)
{
	if (self == SE_NO_SLOT)
		return;
	se_fabric_lock(fab);
	reclaim(self);
	self = SE_NO_SLOT;
	se_stats_use(NULL, self);
	left = true;
	if (!anybody_left())
		se_fabric_remove(fab);
	se_fabric_unlock(fab);
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
	se_fabric_lock(fab);
	if (se_fabric_incarnation(slot) == incarnation)
		gone = reclaim_if_dead(slot);
	se_fabric_unlock(fab);
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

/* ---- numbers ---- */

int se_fabric_qpn_get(int dev, const uint8_t *used, uint32_t mask, uint32_t max)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	se_fabric_lock(fab);
	rc = se_numbers_qpn_get(d, self, used, mask, max);
	if (rc < 0 && reclaim_dead())
		rc = se_numbers_qpn_get(d, self, used, mask, max);
	se_fabric_unlock(fab);
	return rc;
}

void se_fabric_qpn_put(int dev, uint16_t qpn)
{
	if (left)
		return;
	se_fabric_lock(fab);
	se_numbers_qpn_put(&fab->dev[dev], qpn);
	se_fabric_unlock(fab);
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
	se_fabric_lock(fab);
	rc = se_numbers_ahn_get(d, self, gid, max);
	if (rc < 0 && reclaim_dead())
		rc = se_numbers_ahn_get(d, self, gid, max);
	se_fabric_unlock(fab);
	return rc;
}

void se_fabric_ahn_put(int dev, uint16_t ahn)
{
	if (left)
		return;
	se_fabric_lock(fab);
	se_numbers_ahn_put(&fab->dev[dev], self, ahn);
	se_fabric_unlock(fab);
}

int se_fabric_count(int dev, enum se_counted what, uint32_t max)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	se_fabric_lock(fab);
	rc = se_numbers_count(d, self, what, max);
	if (rc && reclaim_dead())
		rc = se_numbers_count(d, self, what, max);
	se_fabric_unlock(fab);
	return rc;
}

void se_fabric_uncount(int dev, enum se_counted what)
{
	if (left)
		return;
	se_fabric_lock(fab);
	se_numbers_uncount(&fab->dev[dev], self, what);
	se_fabric_unlock(fab);
}

int se_fabric_key_get(int dev, uint32_t max, uint32_t *key)
{
	struct se_numbers *d = &fab->dev[dev];
	int rc;

	if (left)
		return -ESHUTDOWN;
	se_fabric_lock(fab);
	rc = se_numbers_key_get(d, self, max, key);
	if (rc && reclaim_dead())
		rc = se_numbers_key_get(d, self, max, key);
	se_fabric_unlock(fab);
	return rc;
}

void se_fabric_key_put(int dev, uint32_t key)
{
	if (left)
		return;
	se_fabric_lock(fab);
	se_numbers_key_put(&fab->dev[dev], key);
	se_fabric_unlock(fab);
}

bool se_fabric_key_live(int dev, uint32_t key, int slot)
{
	return se_numbers_key_live(&fab->dev[dev], key, slot);
}
