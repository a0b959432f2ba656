/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels and the asynchronous event fd: a socket pair whose one end the application
 * has. It reads, polls and sets flags natively; each event is one record. Engine lock held.
 */
#ifndef SE_CHANNEL_H
#define SE_CHANNEL_H

#include "ctx.h"

/* What it carries; the records are those of the kernel's ib_user_verbs.h. */
enum se_channel_kind { SE_CHANNEL_COMPLETIONS, SE_CHANNEL_ASYNC };

struct se_channel {
	struct se_list node;
	struct se_ctx *ctx;
	enum se_channel_kind kind;
	int fd;         /* our end; -1: the parent's */
	int user_fd;    /* the application's end, as it was last seen */
	ino_t user_ino; /* the application may close or move numbers as it likes */
	uint32_t users; /* objects that notify here */
	uint64_t sent;  /* events ever */
	int unit;       /* what the kernel accounts for one unread event */
};

/* The application's end, or -errno. */
int se_channel_create(struct se_ctx *ctx, enum se_channel_kind kind);
/* The channel of @kind that the application knows as @fd, or NULL. */
struct se_channel *se_channel_find(struct se_ctx *ctx, enum se_channel_kind kind, int fd);
/* Close all of @ctx. */
void se_channel_close_all(struct se_ctx *ctx);
/* After fork(): our ends are the parent's. */
void se_channel_forget_all(void);

/*
 * Queue the event @user, of @type if it is an asynchronous one. 0, -EAGAIN (no room until some are
 * read) or -EPIPE.
 */
int se_channel_send(struct se_channel *ch, uint64_t user, uint32_t type);
/* How many of the events ever sent the application has read. */
uint64_t se_channel_read_count(const struct se_channel *ch);
/* Take back the unread events @user; returns how many. */
uint32_t se_channel_purge(struct se_channel *ch, uint64_t user);

#endif
