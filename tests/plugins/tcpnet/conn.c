/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: their making and their end. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tcpnet.h"

enum { HALVES = 64 }; /* connections of a listener that wait for their other half */

/* What a connection says first: messages or offers, of which pair. */
struct hello {
	uint64_t nonce; /* the listener's */
	uint64_t pair;
	uint64_t ctl;
};

struct half {
	int fd;
	struct hello hello;
	size_t got; /* bytes of it */
};

struct listener {
	int fd, dev;
	uint64_t nonce;
	uint64_t born_ns;
	unsigned accepted;
	int accepted_fd; /* of the last */
	int halves;
	struct half half[HALVES];
};

/* Travels through the bootstrap; pending lives in the connector's copy. */
struct handle {
	uint64_t nonce;
	uint16_t port;
	struct comm *pending;
};

static _Atomic unsigned comms_made, comms_alive, receivers, pendings;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool lax(void)
{
	const char *text = getenv("TCPNET_LAX");

	return text && *text == '1';
}

/* Where the program ends without a close, and one is owed. */
__attribute__((destructor)) static void at_exit(void)
{
	if (comms_alive && fault_is("exit-crash"))
		abort();
}

static struct comm *comm_new(int dev, bool sender)
{
	struct comm *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	c->fd = c->ctl = -1;
	c->dev = dev;
	c->sender = sender;
	c->service = pthread_self();
	c->number = comms_made++;
	comms_alive++;
	if (!sender)
		receivers++;
	return c;
}

static void comm_free(struct comm *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->ctl >= 0 && !fault_is("leak-fd"))
		close(c->ctl);
	pthread_mutex_destroy(&c->lock);
	comms_alive--;
	free(c);
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int socket_new(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* ---- listen ---- */

enum nccl_net_result tcpnet_listen(int dev, void *handle, void **listen_comm)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct listener *l = calloc(1, sizeof(*l));
	socklen_t len = sizeof(addr);
	struct handle h = {0};

	if (!l)
		return NCCL_NET_SYSTEM_ERROR;
	if (fault_is("listen-blocks"))
		usleep(300000);
	l->fd = socket_new();
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(l->fd, HALVES) || getsockname(l->fd, (struct sockaddr *)&addr, &len)) {
		enum nccl_net_result rc = test_plugin_errno("listen");

		if (l->fd >= 0)
			close(l->fd);
		free(l);
		return rc;
	}
	l->dev = dev;
	l->born_ns = now_ns();
	h.port = addr.sin_port;
	h.nonce = l->nonce = (uint64_t)getpid() << 32 | (uint32_t)((uintptr_t)l >> 4);
	if (!fault_is("handle-tail"))
		memset(handle, 0, NCCL_NET_HANDLE_BYTES);
	if (fault_is("handle-long"))
		memset(handle, 0, NCCL_NET_HANDLE_BYTES + 8);
	memcpy(handle, &h, sizeof(h));
	*listen_comm = l;
	return NCCL_NET_OK;
}

/* ---- connect ---- */

/* 1: connected and introduced. 0: not yet. -errno. */
static int reach(int fd, const struct handle *h, struct comm *c, bool ctl)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				   .sin_port = h->port};
	struct hello hello = {
		.nonce = h->nonce, .pair = (uint64_t)getpid() << 32 | c->number, .ctl = ctl};

	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) && errno != EISCONN)
		return errno == EINPROGRESS || errno == EALREADY ? 0 : -errno;
	/* An empty socket takes this much. */
	if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		return -EPIPE;
	no_delay(fd);
	return 1;
}

/* The listener has taken them: its port may be another's by now. */
static int welcomed(const struct handle *h, struct comm *c)
{
	uint64_t nonce;
	ssize_t n = recv(c->ctl, &nonce, sizeof(nonce), MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return -errno;
	if (!n)
		return -EPIPE;
	if (n < (ssize_t)sizeof(nonce))
		return 0;
	recv(c->ctl, &nonce, sizeof(nonce), 0);
	return nonce == h->nonce ? 1 : -EPROTO;
}

/* The two connections one after the other: the first is made while ctl is -1. */
static int reach_both(const struct handle *h, struct comm *c)
{
	int rc;

	if (c->reached)
		return welcomed(h, c);

	if (c->ctl < 0) {
		rc = reach(c->fd, h, c, false);
		if (rc <= 0)
			return rc;
		c->ctl = socket_new();
		if (c->ctl < 0)
			return -errno;
	}
	rc = reach(c->ctl, h, c, true);
	c->reached = rc > 0;
	return rc < 0 ? rc : 0;
}

/* Faults before anything is begun; true: *@rc is what connect returns. */
static bool connect_wrong(void *handle, const struct handle *h, void **send_comm,
			  enum nccl_net_result *rc)
{
	static void *last_at;

	*rc = NCCL_NET_OK;
	if (fault_is("connect-blocks"))
		usleep(200000);
	if (fault_is("no-connect") || (fault_is("no-self") && h->nonce >> 32 == (uint64_t)getpid()))
		return true;
	if (fault("connect-error") || (fault_is("one-way") && receivers)) {
		*rc = NCCL_NET_REMOTE_ERROR;
		return true;
	}
	if (fault_is("few-pending") && pendings > 64) {
		*rc = NCCL_NET_INTERNAL_ERROR;
		return true;
	}
	/* Takes the buffer for the connection: of a second one in it nothing becomes. */
	if (fault_is("handle-address") && !h->pending) {
		if (last_at == handle)
			return true;
		last_at = handle;
	}
	(void)send_comm;
	return false;
}

enum nccl_net_result tcpnet_connect(int dev, void *handle, void **send_comm)
{
	enum nccl_net_result wrong;
	struct handle h;
	int rc;

	*send_comm = NULL;
	memcpy(&h, handle, sizeof(h));
	if (connect_wrong(handle, &h, send_comm, &wrong))
		return wrong;
	if (!h.pending) {
		h.pending = comm_new(dev, true);
		if (!h.pending)
			return NCCL_NET_SYSTEM_ERROR;
		h.pending->fd = socket_new();
		if (h.pending->fd < 0) {
			comm_free(h.pending);
			return test_plugin_errno("socket");
		}
		memcpy(handle, &h, sizeof(h));
		pendings++;
	}
	rc = reach_both(&h, h.pending);
	if (rc < 0 && fault_is("refused-crash"))
		abort();
	if (rc) {
		pendings--;
		if (rc < 0)
			comm_free(h.pending);
		else
			*send_comm = h.pending;
		h.pending = NULL;
		memcpy(handle, &h, sizeof(h));
	}
	return rc < 0 ? NCCL_NET_REMOTE_ERROR : NCCL_NET_OK;
}

/* ---- accept ---- */

static void half_drop(struct listener *l, int i)
{
	l->half[i] = l->half[--l->halves];
}

/* All who are at the door, and what they have said. */
static enum nccl_net_result halves_hear(struct listener *l)
{
	while (l->halves < HALVES) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && errno != EAGAIN)
			return test_plugin_errno("accept");
		if (fd < 0)
			break;
		l->half[l->halves++] = (struct half){.fd = fd};
	}
	for (int i = l->halves - 1; i >= 0; i--) {
		struct half *h = &l->half[i];
		ssize_t n = sizeof(h->hello) - h->got;

		if (!n)
			continue;
		n = recv(h->fd, (char *)&h->hello + h->got, (size_t)n, 0);
		if (n > 0)
			h->got += (size_t)n;
		if (n == 0 || (n < 0 && errno != EAGAIN) ||
		    (h->got == sizeof(h->hello) && h->hello.nonce != l->nonce)) {
			close(h->fd);
			half_drop(l, i);
		}
	}
	return NCCL_NET_OK;
}

static int half_find(const struct listener *l, const struct hello *like, bool ctl)
{
	for (int i = 0; i < l->halves; i++) {
		const struct half *h = &l->half[i];

		if (h->got == sizeof(h->hello) && h->hello.ctl == ctl &&
		    (!like || h->hello.pair == like->pair))
			return i;
	}
	return -1;
}

/* The first connection of offers whose other half is here too. */
static struct comm *halves_join(struct listener *l)
{
	struct comm *c;
	int data, ctl;

	for (data = 0; data < l->halves; data++) {
		if (l->half[data].got < sizeof(struct hello) || l->half[data].hello.ctl)
			continue;
		ctl = half_find(l, &l->half[data].hello, true);
		if (ctl >= 0)
			break;
	}
	if (data == l->halves)
		return NULL;
	c = comm_new(l->dev, false);
	if (!c)
		return NULL;
	c->fd = l->half[data].fd;
	c->ctl = l->half[ctl].fd;
	no_delay(c->ctl);
	/* Should it be gone already, test says so. */
	send(c->ctl, &l->nonce, sizeof(l->nonce), MSG_NOSIGNAL);
	half_drop(l, data > ctl ? data : ctl);
	half_drop(l, data > ctl ? ctl : data);
	return c;
}

enum nccl_net_result tcpnet_accept(void *listen_comm, void **recv_comm)
{
	struct listener *l = listen_comm;
	enum nccl_net_result rc;
	struct comm *c;

	*recv_comm = NULL;
	if (fault_is("accept-blocks") && !l->halves)
		sleep(2);
	rc = halves_hear(l);
	if (rc)
		return rc;
	if (fault_is("accept-impatient") && !l->halves && now_ns() - l->born_ns > 200000000)
		return NCCL_NET_SYSTEM_ERROR;
	c = halves_join(l);
	if (!c)
		return NCCL_NET_OK;
	if (l->accepted++ && fault_is("accept-once"))
		abort();
	l->accepted_fd = c->fd;
	*recv_comm = c;
	return NCCL_NET_OK;
}

/* ---- close ---- */

static enum nccl_net_result close_comm(struct comm *c)
{
	if (c->mrs && !lax())
		return test_plugin_usage("comm closed before its registrations");
	if (fault_is("close-crash") && !comm_idle(c))
		abort();
	while (fault_is("close-waits") && !comm_idle(c))
		usleep(1000);
	comm_free(c);
	return fault("close-error") ? NCCL_NET_SYSTEM_ERROR : NCCL_NET_OK;
}

enum nccl_net_result tcpnet_close_send(void *send_comm)
{
	struct comm *c = send_comm;

	return c->sender ? close_comm(c) : test_plugin_usage("closeSend of a receive comm");
}

enum nccl_net_result tcpnet_close_recv(void *recv_comm)
{
	struct comm *c = recv_comm;

	return c->sender ? test_plugin_usage("closeRecv of a send comm") : close_comm(c);
}

enum nccl_net_result tcpnet_close_listen(void *listen_comm)
{
	struct listener *l = listen_comm;

	if (fault_is("listen-crash") && !l->accepted)
		abort();
	if (fault_is("listen-owns") && l->accepted)
		shutdown(l->accepted_fd, SHUT_RDWR);
	for (int i = 0; i < l->halves; i++)
		close(l->half[i].fd);
	close(l->fd);
	free(l);
	return NCCL_NET_OK;
}
