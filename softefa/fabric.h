/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the processes of one host share: who is there, and the numbers that are unique per device
 * (QPNs, AHNs, memory keys). It lives in a file of shared memory per user, domain, network and PID
 * namespace, made by the first process and removed by the last. A process that dies leaves its
 * slot behind; whoever needs it finds the owner dead and cleans up.
 *
 * All calls come with the engine lock held; those that change shared state take its mutex inside.
 */
#ifndef SE_FABRIC_H
#define SE_FABRIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gid.h"
#include "numbers.h"
#include "stats.h"

#define SE_NO_SLOT (-1)

/*
 * Become a member; @start_engine starts the thread that calls se_fabric_hold(). Once per process.
 */
int se_fabric_join(int (*start_engine)(void));
/* Give up all numbers and the slot. */
void se_fabric_leave(void);
/* After fork(): forget the membership, it is the parent's. */
void se_fabric_forget(void);
int se_fabric_self(void);                 /* slot, or SE_NO_SLOT */
uint64_t se_fabric_incarnation(int slot); /* never the same twice; 0: nobody there */
pid_t se_fabric_pid(int slot);
const char *se_fabric_dir(void);
/* Where a member listens for other hosts; 0: not, or not yet. */
void se_fabric_set_port(uint16_t port);
uint16_t se_fabric_port(int slot);

/*
 * The engine thread holds a robust mutex for as long as it lives, and until it has left: that is
 * how others learn of a death, however sudden. The thread unlocks it at its end.
 */
pthread_mutex_t *se_fabric_hold(void);
/* Is the member that had @incarnation in @slot gone? Cleans up after it when it died. */
bool se_fabric_gone(int slot, uint64_t incarnation);

/* What can be seen of a fabric from outside. */
struct se_fabric_view {
	unsigned alive, dead;                  /* members; dead ones that nobody cleaned up after */
	uint64_t count[SE_MAX_DEV][SE_NSTATS]; /* stats.h, of all members ever */
};

/*
 * Look at the fabric that this process would join, without joining it: it may change or end
 * meanwhile. 0; -ENOENT: there is none; -EINVAL: that is none of this version; or -errno.
 */
int se_fabric_peek(struct se_fabric_view *view);

/* ---- wake-ups and mail flags of a slot, see link.c ---- */

struct se_mail {
	_Atomic uint32_t wake;                    /* futex: changes with each wake-up */
	_Atomic uint32_t sleeping;                /* the engine is about to wait on it */
	_Atomic uint64_t ready[SE_MAX_PROC / 64]; /* slots whose ring towards us has news */
	_Atomic uint64_t ring_from[SE_MAX_PROC];  /* incarnation whose ring towards us exists */
};

struct se_mail *se_fabric_mail(int slot);
/* After setting a flag in @mail: wake its engine if it sleeps. */
void se_mail_wake(struct se_mail *mail);
/* Make its engine look around, whatever it does now. */
void se_mail_kick(struct se_mail *mail);

/* ---- numbers ---- */

/*
 * A QPN whose low bits are free in @used, a table of @mask + 1 flags of the context that asks:
 * libefa finds a QP by them. Returns the QPN, -ENOMEM (device has @max) or -EAGAIN.
 */
int se_fabric_qpn_get(int dev, const uint8_t *used, uint32_t mask, uint32_t max);
void se_fabric_qpn_put(int dev, uint16_t qpn);
int se_fabric_qpn_owner(int dev, uint16_t qpn); /* slot or SE_NO_SLOT */
/*
 * What a QP has asked for is void once it is reset, failed or gone: from then on its life is
 * another number.
 */
uint32_t se_fabric_qpn_life(int dev, uint16_t qpn);
void se_fabric_qpn_renew(int dev, uint16_t qpn);

/* The number of @gid on @dev, the same for all who ask; -ENOMEM when @max GIDs have one. */
int se_fabric_ahn_get(int dev, const struct se_gid *gid, uint32_t max);
void se_fabric_ahn_put(int dev, uint16_t ahn);

/* One more or less of what the device has @max of and no number for; -ENOMEM. */
int se_fabric_count(int dev, enum se_counted what, uint32_t max);
void se_fabric_uncount(int dev, enum se_counted what);

/* A memory key of 24 bits, not used recently. */
int se_fabric_key_get(int dev, uint32_t max, uint32_t *key);
void se_fabric_key_put(int dev, uint32_t key);
bool se_fabric_key_live(int dev, uint32_t key, int slot);

#endif
