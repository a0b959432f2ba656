/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of shared memory that is a fabric: its layout, its folder, how it comes to be. */
#ifndef SE_FABRIC_FILE_H
#define SE_FABRIC_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "fabric.h"
#include "numbers.h"
#include "stats.h"

#define SE_FABRIC_MAGIC 0x736f667465666131u /* "softefa1" */

struct se_member {
	pthread_mutex_t alive; /* robust; held by the engine thread of the member */
	_Atomic uint64_t incarnation;
	pid_t pid;
	_Atomic uint32_t port; /* see tcp.c */
	struct se_mail mail;
};

struct se_fabric {
	uint64_t magic;
	pthread_mutex_t lock; /* robust: guards all but the atomics, which it only writes */
	uint32_t closed;      /* the last member left: this file is unlinked */
	uint64_t last_incarnation;
	struct se_member member[SE_MAX_PROC];
	struct se_numbers dev[SE_MAX_DEV];
	struct se_stats stats;
};

/* Every change under the lock leaves the tables usable at each step, so a dead owner is no harm. */
void se_fabric_lock(struct se_fabric *f);
void se_fabric_unlock(struct se_fabric *f);

/* Work out the folder; se_fabric_dir() is it from then on. */
void se_fabric_name_dir(void);
/* Of the file in it, in @path of @len bytes. */
void se_fabric_path(char *path, size_t len);
/* Map the file, made if need be, and return with its lock held. 0 or -errno, which is logged. */
int se_fabric_open(struct se_fabric **out);
/* With the lock of the last member's file held: others make a new one from now on. */
void se_fabric_remove(struct se_fabric *f);

#endif
