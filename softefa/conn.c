/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: sockets, buffers, frames. */
#include "conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "log.h"
#include "private.h"
#include "real.h"
#include "settings.h"

#define BUFFER     (1u << 20)
#define EVENTS     64
#define BYE_MS     100        /* at the end, for what is under way */
#define LISTENERS  2          /* see tcp.c */
#define LISTEN_TAG (1u << 31) /* epoll data of a listener: this and its descriptor */

/* Bytes [head, tail) of data. */
struct buffer {
	uint8_t *data;
	size_t head, tail;
};

struct conn {
	int fd;
	uint64_t incarnation;
	bool up;    /* the other side's HELLO is here */
	bool bye;   /* and its BYE */
	bool stuck; /* a frame waits for room elsewhere */
	bool eof;
	bool blocked; /* the socket takes no more for now */
	uint64_t since_us, said_us;
	struct buffer in, out;
};

static struct {
	int epoll;
	int listener[LISTENERS];
	int nlisteners;
	se_conn_handler *handler;
	se_conn_closed *closed;
	struct conn *conn[SE_MAX_CONN];
	unsigned top; /* slots below were used */
	unsigned stuck;
	bool news;
	uint64_t last_incarnation;
	/* How those of the past ended, the last one of each slot. */
	struct {
		uint64_t incarnation;
		enum se_conn_end why;
	} past[SE_MAX_CONN];
} net = {.epoll = -1};

static struct conn *conn_of(int slot)
{
	return se_slot_remote(slot) && slot < SE_MAX_SLOT ? net.conn[slot - SE_MAX_PROC] : NULL;
}

uint64_t se_conn_incarnation(int slot)
{
	struct conn *c = conn_of(slot);

	return c ? c->incarnation : 0;
}

enum se_conn_end se_conn_end(int slot, uint64_t incarnation)
{
	int i = slot - SE_MAX_PROC;

	if (se_conn_incarnation(slot) == incarnation)
		return SE_CONN_NONE;
	return net.past[i].incarnation == incarnation ? net.past[i].why : SE_CONN_LOST;
}

/* ---- buffers ---- */

static void pack(struct buffer *b)
{
	memmove(b->data, b->data + b->head, b->tail - b->head);
	b->tail -= b->head;
	b->head = 0;
}

/* Room for @len more bytes at the end; NULL: there is none. */
static uint8_t *room(struct buffer *b, size_t len)
{
	if (BUFFER - b->tail < len && b->head)
		pack(b);
	return BUFFER - b->tail < len ? NULL : b->data + b->tail;
}

/* ---- sending ---- */

void *se_conn_reserve(int slot, uint32_t len)
{
	struct conn *c = conn_of(slot);
	uint8_t *p = c ? room(&c->out, sizeof(struct se_frame) + len) : NULL;

	return p ? p + sizeof(struct se_frame) : NULL;
}

void se_conn_commit(int slot, enum se_frame_type type, uint8_t flags, uint32_t len)
{
	struct se_frame f = {.type = (uint8_t)type, .flags = flags, .len = len};
	struct conn *c = conn_of(slot);

	memcpy(c->out.data + c->out.tail, &f, sizeof(f));
	c->out.tail += sizeof(f) + len;
}

bool se_conn_send(int slot, enum se_frame_type type, const void *payload, uint32_t len)
{
	void *p = se_conn_reserve(slot, len);

	if (!p)
		return false;
	if (len)
		memcpy(p, payload, len);
	se_conn_commit(slot, type, 0, len);
	return true;
}

/* The kernel notices that nobody acknowledges, but only what was sent. */
void se_conn_touch(int slot, uint64_t now_us)
{
	struct conn *c = conn_of(slot);

	if (c && c->up && c->out.head == c->out.tail &&
	    now_us > c->said_us + se_settings()->timeout_ms * 250ull)
		se_conn_send(slot, SE_FRAME_ALIVE, NULL, 0);
}

static void watch(struct conn *c, int slot, int op)
{
	struct epoll_event e = {
		.events = EPOLLIN | (c->blocked ? EPOLLOUT : 0),
		.data.u32 = (uint32_t)slot,
	};

	if (epoll_ctl(net.epoll, op, c->fd, &e))
		se_log(SE_LOG_ERROR, "epoll_ctl: %s", strerror(errno));
}

static void set_blocked(struct conn *c, int slot, bool blocked)
{
	if (c->blocked == blocked)
		return;
	c->blocked = blocked;
	watch(c, slot, EPOLL_CTL_MOD);
}

/* True when something went out. */
static bool flush(int slot)
{
	struct conn *c = conn_of(slot);
	ssize_t n;

	if (c->blocked || c->out.head == c->out.tail)
		return false;
	n = send(c->fd, c->out.data + c->out.head, c->out.tail - c->out.head,
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0) {
		if (errno == EAGAIN || errno == ENOTCONN)
			set_blocked(c, slot, true);
		else if (errno != EINTR)
			se_conn_close(slot, SE_CONN_LOST);
		return false;
	}
	net.news = true;
	c->out.head += (size_t)n;
	c->said_us = se_now_us();
	if (c->out.head == c->out.tail)
		c->out.head = c->out.tail = 0;
	return true;
}

/* ---- opening and closing ---- */

static uint64_t domain_hash(void)
{
	const char *domain = se_settings()->domain;

	return se_hash(domain, strlen(domain), 0);
}

static void greet(int slot)
{
	struct se_hello h = {
		.magic = {'S', 'E', 'F', 'A'},
		.version = SE_FRAME_VERSION,
		.domain = domain_hash(),
	};

	se_conn_send(slot, SE_FRAME_HELLO, &h, sizeof(h));
}

static void free_conn(struct conn *c)
{
	free(c->in.data);
	free(c->out.data);
	free(c);
}

static struct conn *new_conn(int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->in.data = malloc(BUFFER);
	c->out.data = malloc(BUFFER);
	c->fd = fd;
	if (c->in.data && c->out.data)
		return c;
	free_conn(c);
	return NULL;
}

static void set_options(int fd)
{
	unsigned timeout_ms = se_settings()->timeout_ms;
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

/* Takes over @fd. */
static int add(int fd, bool connecting)
{
	struct conn *c;
	unsigned i = 0;

	fd = se_private_fd_add(fd);
	if (fd < 0)
		return fd;
	while (i < SE_MAX_CONN && net.conn[i])
		i++;
	c = i < SE_MAX_CONN ? new_conn(fd) : NULL;
	if (!c) {
		se_log(SE_LOG_ERROR, "no room for another of %u connections", i);
		se_private_fd_close(fd);
		return -ENOMEM;
	}
	set_options(fd);
	c->incarnation = ++net.last_incarnation;
	c->since_us = c->said_us = se_now_us();
	c->blocked = connecting;
	net.conn[i] = c;
	if (i >= net.top)
		net.top = i + 1;
	watch(c, SE_MAX_PROC + (int)i, EPOLL_CTL_ADD);
	greet(SE_MAX_PROC + (int)i);
	return SE_MAX_PROC + (int)i;
}

int se_conn_open(const uint8_t address[4], uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in from = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	memcpy(&to.sin_addr, address, sizeof(to.sin_addr));
	memcpy(&from.sin_addr, se_settings()->address, sizeof(from.sin_addr));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    (connect(fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS)) {
		rc = -errno;
		se_real.close(fd);
		return rc;
	}
	return add(fd, true);
}

void se_conn_close(int slot, enum se_conn_end why)
{
	static const char *const ends[] = {"", "never was up", "lost", "the other side left"};
	int i = slot - SE_MAX_PROC;
	struct conn *c = conn_of(slot);

	if (!c)
		return;
	if (!c->up)
		why = SE_CONN_REFUSED;
	else if (c->bye)
		why = SE_CONN_BYE;
	se_log(SE_LOG_COMMAND, "connection %d ends: %s", slot, ends[why]);
	net.news = true;
	net.stuck -= c->stuck;
	net.past[i].incarnation = c->incarnation;
	net.past[i].why = why;
	net.conn[i] = NULL;
	se_private_fd_close(c->fd);
	free_conn(c);
	net.closed(slot);
}

int se_conn_listen(int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	int rc;

	fd = se_private_fd_add(fd);
	if (fd < 0)
		return fd;
	e.data.u32 = LISTEN_TAG | (uint32_t)fd;
	if (epoll_ctl(net.epoll, EPOLL_CTL_ADD, fd, &e)) {
		rc = -errno;
		se_private_fd_close(fd);
		return rc;
	}
	net.listener[net.nlisteners++] = fd;
	return 0;
}

static unsigned accept_all(int listener)
{
	unsigned n = 0;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		n += add(fd, false) >= 0;
	return n;
}

/* ---- receiving ---- */

static bool agree(int slot, struct conn *c, const struct se_frame *f, const void *payload)
{
	const uint64_t ours = domain_hash();
	struct se_hello h;

	if (f->type != SE_FRAME_HELLO || f->len != sizeof(h))
		return false;
	memcpy(&h, payload, sizeof(h));
	if (memcmp(h.magic, "SEFA", 4) != 0)
		return false;
	if (h.version != SE_FRAME_VERSION || h.domain != ours) {
		se_log(SE_LOG_ERROR,
		       "connection %d: the other side has version %u, domain %016llx; here it is "
		       "%u, %016llx",
		       slot, h.version, (unsigned long long)h.domain, SE_FRAME_VERSION,
		       (unsigned long long)ours);
		return false;
	}
	c->up = true;
	return true;
}

/* One frame; false: it must wait, or the connection is gone. */
static bool handle(int slot, struct conn *c, const struct se_frame *f, const void *payload)
{
	if (!c->up) {
		if (agree(slot, c, f, payload))
			return true;
		se_conn_close(slot, SE_CONN_REFUSED);
		return false;
	}
	switch (f->type) {
	case SE_FRAME_ALIVE:
		return true;
	case SE_FRAME_BYE:
		c->bye = true;
		return true;
	default:
		return net.handler(slot, f, payload);
	}
}

static void set_stuck(struct conn *c, bool stuck)
{
	net.stuck += (unsigned)stuck - (unsigned)c->stuck;
	c->stuck = stuck;
}

/* Hand on all frames that are complete. Returns how many. */
static unsigned take_frames(int slot)
{
	struct conn *c = conn_of(slot);
	uint64_t incarnation = c->incarnation;
	struct se_frame f;
	unsigned n = 0;

	set_stuck(c, false);
	while (c->in.tail - c->in.head >= sizeof(f)) {
		memcpy(&f, c->in.data + c->in.head, sizeof(f));
		if (f.len > SE_FRAME_MAX || !f.type || f.type >= SE_FRAME_TYPES) {
			se_log(SE_LOG_ERROR,
			       "connection %d: frame of type %u with %u bytes, the most is %u",
			       slot, f.type, f.len, SE_FRAME_MAX);
			se_conn_close(slot, SE_CONN_LOST);
			return n + 1;
		}
		if (c->in.tail - c->in.head < sizeof(f) + f.len)
			break;
		if (!handle(slot, c, &f, c->in.data + c->in.head + sizeof(f))) {
			if (se_conn_incarnation(slot) == incarnation)
				set_stuck(c, true);
			return n;
		}
		if (se_conn_incarnation(slot) != incarnation)
			return n + 1;
		c->in.head += sizeof(f) + f.len;
		net.news = true;
		n++;
	}
	if (c->in.head == c->in.tail)
		c->in.head = c->in.tail = 0;
	return n;
}

/* Read once; false: nothing there, or it is over. */
static bool receive(int slot)
{
	struct conn *c = conn_of(slot);
	ssize_t n;

	room(&c->in, SE_FRAME_MAX + sizeof(struct se_frame));
	if (c->in.tail == BUFFER)
		return false;
	n = recv(c->fd, c->in.data + c->in.tail, BUFFER - c->in.tail, MSG_DONTWAIT);
	if (n > 0) {
		c->in.tail += (size_t)n;
		return true;
	}
	if (n == 0)
		c->eof = true;
	else if (errno != EAGAIN && errno != EINTR)
		se_conn_close(slot, SE_CONN_LOST);
	return false;
}

static unsigned event(const struct epoll_event *e)
{
	int slot = (int)e->data.u32;
	unsigned n = 0;

	if (e->data.u32 & LISTEN_TAG)
		return accept_all((int)(e->data.u32 & ~LISTEN_TAG));
	if (!conn_of(slot))
		return 0;
	if (e->events & EPOLLOUT)
		set_blocked(conn_of(slot), slot, false);
	if (e->events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		n += receive(slot);
	if (conn_of(slot))
		n += take_frames(slot);
	if (conn_of(slot) && conn_of(slot)->eof && !conn_of(slot)->stuck)
		se_conn_close(slot, SE_CONN_LOST);
	return n;
}

unsigned se_conn_poll(void)
{
	struct epoll_event e[EVENTS];
	unsigned did = 0;
	int n;

	if (net.epoll < 0)
		return 0;
	for (unsigned i = 0; net.stuck && i < net.top; i++)
		if (net.conn[i] && net.conn[i]->stuck)
			did += take_frames(SE_MAX_PROC + (int)i);
	n = epoll_wait(net.epoll, e, EVENTS, 0);
	for (int i = 0; i < n; i++)
		did += event(&e[i]);
	for (unsigned i = 0; i < net.top; i++)
		if (net.conn[i])
			did += flush(SE_MAX_PROC + (int)i);
	return did;
}

bool se_conn_news(void)
{
	bool was = net.news;

	net.news = false;
	return was;
}

void se_conn_timers(uint64_t now_us)
{
	for (unsigned i = 0; i < net.top; i++)
		if (net.conn[i] && !net.conn[i]->up &&
		    now_us > net.conn[i]->since_us + se_settings()->timeout_ms * 1000ull)
			se_conn_close(SE_MAX_PROC + (int)i, SE_CONN_REFUSED);
}

/* ---- start, stop ---- */

int se_conn_start(se_conn_handler *handler, se_conn_closed *closed)
{
	net.handler = handler;
	net.closed = closed;
	net.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (net.epoll < 0)
		return -errno;
	net.epoll = se_private_fd_add(net.epoll);
	return net.epoll < 0 ? net.epoll : 0;
}

/* All is sent, the other side has closed as well: then nothing of it is lost. */
static void drain(struct conn *c, uint64_t until_us)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	uint64_t now_us = se_now_us();
	uint8_t rest[4096];

	while (now_us < until_us && poll(&p, 1, (int)((until_us - now_us) / 1000) + 1) == 1 &&
	       recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		now_us = se_now_us();
}

void se_conn_stop(void)
{
	uint64_t until_us = se_now_us() + BYE_MS * 1000;

	for (unsigned i = 0; i < net.top; i++) {
		if (!net.conn[i])
			continue;
		se_conn_send(SE_MAX_PROC + (int)i, SE_FRAME_BYE, NULL, 0);
		flush(SE_MAX_PROC + (int)i);
		if (net.conn[i])
			shutdown(net.conn[i]->fd, SHUT_WR);
	}
	for (unsigned i = 0; i < net.top; i++)
		if (net.conn[i] && net.conn[i]->up)
			drain(net.conn[i], until_us);
	se_conn_forget();
}

void se_conn_forget(void)
{
	for (unsigned i = 0; i < net.top; i++) {
		if (!net.conn[i])
			continue;
		se_private_fd_close(net.conn[i]->fd);
		free_conn(net.conn[i]);
		net.conn[i] = NULL;
	}
	while (net.nlisteners)
		se_private_fd_close(net.listener[--net.nlisteners]);
	if (net.epoll >= 0)
		se_private_fd_close(net.epoll);
	net.epoll = -1;
	net.top = net.stuck = 0;
}
