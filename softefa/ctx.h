/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context: one open("/dev/infiniband/uverbsN"). Its command fd is a memfd, known by its inode,
 * so that dup() and the like do not matter. It owns the objects made through it. Engine lock held,
 * except as said.
 */
#ifndef SE_CTX_H
#define SE_CTX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "list.h"
#include "region.h"

enum se_type { SE_PD = 1, SE_MR, SE_AH, SE_CQ, SE_QP };

/* First member of every object. */
struct se_obj {
	enum se_type type;
	uint32_t handle;
	struct se_ctx *ctx;
	uint32_t users; /* objects that need this one: destroying it is -EBUSY */
};

struct se_ctx {
	struct se_list node;
	uint32_t dev;
	bool dead; /* inherited over fork(): its engine is the parent's */
	bool open; /* a number of this process leads here; for se_ctx_reap() */
	pid_t pid; /* of the process that opened it */
	dev_t st_dev;
	ino_t st_ino;
	bool ready;               /* GET_CONTEXT was here: other commands make sense */
	bool fatal;               /* the device is gone */
	struct se_channel *async; /* the first for asynchronous events; NULL: none yet */
	struct se_space space;
	struct se_obj **obj; /* by handle */
	uint32_t nobj, low_free;
	uint32_t qpn_mask;
	uint8_t *qpn_used; /* flags of the low QPN bits: libefa finds a QP by them */
};

/* The command fd, or -errno. Takes the lock. */
int se_ctx_open(uint32_t dev, bool cloexec);
struct se_ctx *se_ctx_find(const struct stat *st);
/* Destroy all objects, then the context. */
void se_ctx_close(struct se_ctx *ctx);
/* Close the contexts of this process to which no number leads any more; @only: no other than it. */
void se_ctx_reap(const struct stat *only);
/* Any open? Without lock: the fast exit of the wrappers. */
bool se_ctx_any(void);
void se_ctx_forget_all(void);

/* Give @obj a handle; -ENOMEM. */
int se_ctx_add(struct se_ctx *ctx, struct se_obj *obj, enum se_type type);
void se_ctx_del(struct se_obj *obj);
/* Is there an object, whatever its type? */
bool se_ctx_has(const struct se_ctx *ctx, uint32_t handle);
struct se_obj *se_ctx_get(const struct se_ctx *ctx, uint32_t handle, enum se_type type);

#endif
