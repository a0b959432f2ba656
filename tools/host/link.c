/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames over a TCP connection. */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot.h"

static const char magic[4] = {'n', 'b', 'b', '1'};

static void u32_pack(char *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (char)(value >> 8 * i);
}

static uint32_t u32_unpack(const char *at)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value |= (uint32_t)(unsigned char)at[i] << 8 * i;
	return value;
}

static void head_pack(char head[HOST_HEAD_BYTES], const struct host_frame *f)
{
	memcpy(head, magic, sizeof(magic));
	head[4] = (char)f->type;
	head[5] = (char)f->rank;
	head[6] = head[7] = 0;
	u32_pack(head + 8, f->value);
	u32_pack(head + 12, f->bytes);
}

static int head_unpack(const char head[HOST_HEAD_BYTES], struct host_frame *f)
{
	unsigned type = (unsigned char)head[4], rank = (unsigned char)head[5];

	if (memcmp(head, magic, sizeof(magic)) || !type || type >= HOST_FRAME_TYPES ||
	    rank >= HOST_MAX_RANKS || head[6] || head[7])
		return -EPROTO;
	f->type = type;
	f->rank = (int)rank;
	f->value = u32_unpack(head + 8);
	f->bytes = u32_unpack(head + 12);
	return 0;
}

void host_link_init(struct host_link *link, int fd, size_t largest)
{
	int one = 1;

	*link = (struct host_link){.fd = fd, .largest = largest, .heard_ns = host_now_ns()};
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void host_link_fini(struct host_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	free(link->in);
	free(link->out);
	*link = (struct host_link){.fd = -1};
}

/* ---- out ---- */

/* Nothing leaves any more, and the other end learns it. */
static void out_break(struct host_link *link, int error)
{
	link->error = error;
	link->out_at = link->out_end = 0;
	shutdown(link->fd, SHUT_WR);
}

void host_link_flush(struct host_link *link)
{
	while (link->out_at < link->out_end) {
		ssize_t n = send(link->fd, link->out + link->out_at, link->out_end - link->out_at,
				 MSG_NOSIGNAL);

		if (n >= 0)
			link->out_at += (size_t)n;
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR)
			out_break(link, -errno);
	}
	link->out_at = link->out_end = 0;
}

static bool out_reserve(struct host_link *link, size_t more)
{
	size_t need = link->out_end + more;
	char *grown;

	if (need <= link->out_cap)
		return true;
	grown = realloc(link->out, 2 * need);
	if (!grown)
		return false;
	link->out = grown;
	link->out_cap = 2 * need;
	return true;
}

void host_link_put(struct host_link *link, const struct host_frame *f)
{
	if (link->error)
		return;
	if (!out_reserve(link, HOST_HEAD_BYTES + f->bytes)) {
		out_break(link, -ENOMEM);
		return;
	}
	head_pack(link->out + link->out_end, f);
	if (f->bytes)
		memcpy(link->out + link->out_end + HOST_HEAD_BYTES, f->body, f->bytes);
	link->out_end += HOST_HEAD_BYTES + f->bytes;
	host_link_flush(link);
}

/* ---- in ---- */

/* Receive until @size bytes of the frame are there. 1, 0 or -errno. */
static int in_receive(struct host_link *link, size_t size)
{
	if (link->in_cap < size) {
		char *grown = realloc(link->in, size);

		if (!grown)
			return -ENOMEM;
		link->in = grown;
		link->in_cap = size;
	}
	while (link->in_at < size) {
		ssize_t n = recv(link->fd, link->in + link->in_at, size - link->in_at, 0);

		if (!n)
			return -EPIPE;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		link->in_at += (size_t)n;
		link->heard_ns = host_now_ns();
	}
	return 1;
}

/* All that came in before an error of the other direction comes before it. */
static int in_fill(struct host_link *link, size_t size)
{
	int rc = in_receive(link, size);

	return rc <= 0 && link->error ? link->error : rc;
}

int host_link_get(struct host_link *link, struct host_frame *f)
{
	int rc = in_fill(link, HOST_HEAD_BYTES);

	if (rc <= 0)
		return rc;
	rc = head_unpack(link->in, f);
	if (rc)
		return rc;
	if (f->bytes > link->largest)
		return -EPROTO;
	rc = in_fill(link, HOST_HEAD_BYTES + f->bytes);
	if (rc <= 0)
		return rc;
	f->body = link->in + HOST_HEAD_BYTES;
	link->in_at = 0;
	return 1;
}

void host_frame_text(const struct host_frame *f, char text[HOST_TEXT_BYTES + 1])
{
	size_t n = f->bytes < HOST_TEXT_BYTES ? f->bytes : HOST_TEXT_BYTES;
	const char *body = f->body;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)(body[i] >= ' ' && body[i] <= '~' ? body[i] : '?');
	text[n] = 0;
}
