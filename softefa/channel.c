/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels. */
#include "channel.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "private.h"
#include "real.h"

static struct se_list channels = SE_LIST_INIT(channels);

/* struct ib_uverbs_async_event_desc; struct ib_uverbs_comp_event_desc is the first field alone */
struct event {
	uint64_t user;
	uint32_t type;
	uint32_t reserved;
};

static size_t record(enum se_channel_kind kind)
{
	return kind == SE_CHANNEL_ASYNC ? sizeof(struct event) : sizeof(uint64_t);
}

static ino_t inode_of(int fd)
{
	struct stat st;

	return fd >= 0 && se_real.fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static bool usable(const struct se_channel *ch)
{
	return se_private_fd_ours(ch->fd);
}

static void channel_free(struct se_channel *ch)
{
	se_private_fd_close(ch->fd);
	se_list_remove(&ch->node);
	free(ch);
}

/* Channels have no destroy command: closed ones are found when a new one is made. */
static void sweep(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &channels) {
		struct se_channel *ch = se_container(n, struct se_channel, node);
		struct pollfd p = {.fd = ch->fd};

		if (ch->users == 0 && (!usable(ch) || (poll(&p, 1, 0) == 1 && p.revents & POLLHUP)))
			channel_free(ch);
	}
}

/* Learn what one event in the queue counts for: SIOCOUTQ includes the kernel's overhead. */
static int calibrate(int fd, int user_fd, size_t len)
{
	struct event ev = {0};
	int unit = 0;

	if (send(fd, &ev, len, MSG_DONTWAIT) != (ssize_t)len || ioctl(fd, SIOCOUTQ, &unit) ||
	    recv(user_fd, &ev, len, MSG_DONTWAIT) != (ssize_t)len)
		return -EIO;
	return unit;
}

int se_channel_create(struct se_ctx *ctx, enum se_channel_kind kind)
{
	struct se_channel *ch;
	int sv[2], rc;

	sweep();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		return -errno;
	/* The application has the lower number, as it expects from a call that opens a file. */
	sv[1] = se_private_fd_add(sv[1]);
	rc = sv[1] < 0 ? sv[1] : calibrate(sv[1], sv[0], record(kind));
	ch = rc > 0 ? calloc(1, sizeof(*ch)) : NULL;
	if (!ch) {
		se_real.close(sv[0]);
		se_private_fd_close(sv[1]);
		return rc < 0 ? rc : -ENOMEM;
	}
	ch->ctx = ctx;
	ch->kind = kind;
	ch->unit = rc;
	ch->user_fd = sv[0];
	ch->fd = sv[1];
	ch->user_ino = inode_of(sv[0]);
	se_list_append(&channels, &ch->node);
	return sv[0];
}

struct se_channel *se_channel_find(struct se_ctx *ctx, enum se_channel_kind kind, int fd)
{
	ino_t ino = inode_of(fd);
	struct se_list *n, *nx;

	se_list_each (n, nx, &channels) {
		struct se_channel *ch = se_container(n, struct se_channel, node);

		if (ch->ctx == ctx && ch->kind == kind && ino && ch->user_ino == ino) {
			ch->user_fd = fd;
			return ch;
		}
	}
	return NULL;
}

void se_channel_close_all(struct se_ctx *ctx)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &channels) {
		struct se_channel *ch = se_container(n, struct se_channel, node);

		if (ch->ctx == ctx)
			channel_free(ch);
	}
}

void se_channel_forget_all(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &channels)
		se_container(n, struct se_channel, node)->fd = -1;
}

int se_channel_send(struct se_channel *ch, uint64_t user, uint32_t type)
{
	struct event ev = {.user = user, .type = type};
	size_t len = record(ch->kind);

	if (!usable(ch))
		return -EPIPE;
	if (send(ch->fd, &ev, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	ch->sent++;
	return 0;
}

uint64_t se_channel_read_count(const struct se_channel *ch)
{
	int queued = 0;

	if (!usable(ch) || ioctl(ch->fd, SIOCOUTQ, &queued))
		return ch->sent;
	return ch->sent - (uint64_t)(queued / ch->unit);
}

uint32_t se_channel_purge(struct se_channel *ch, uint64_t user)
{
	uint64_t unread = ch->sent - se_channel_read_count(ch);
	size_t len = record(ch->kind);
	uint32_t purged = 0;
	struct event ev;

	if (inode_of(ch->user_fd) != ch->user_ino)
		return 0;
	/* Each unread event goes round once; the application may be reading at the same time. */
	while (unread-- && recv(ch->user_fd, &ev, len, MSG_DONTWAIT) == (ssize_t)len) {
		if (ev.user == user)
			purged++;
		else
			se_channel_send(ch, ev.user, ev.type);
	}
	return purged;
}
