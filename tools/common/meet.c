/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP connection between the two programs of a run. */
#include "meet.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "say.h"

static const uint64_t second_ns = 1000000000;

uint64_t meet_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * second_ns + (uint64_t)t.tv_nsec;
}

/* 0 when @events are there before @end_ns. */
static int await(int fd, short events, uint64_t end_ns)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = meet_now_ns();
		int n = poll(&p, 1, now < end_ns ? (int)((end_ns - now) / 1000000) + 1 : 0);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (meet_now_ns() >= end_ns)
			return -ETIMEDOUT;
	}
}

/* ---- connecting ---- */

static void name_peer(struct meet *m)
{
	static const char mapped[] = "::ffff:";
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	char host[64] = "?", port[8] = "?";
	const char *shown = host;

	if (!getpeername(m->fd, (struct sockaddr *)&addr, &len))
		getnameinfo((struct sockaddr *)&addr, len, host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	if (!strncmp(host, mapped, sizeof(mapped) - 1))
		shown += sizeof(mapped) - 1;
	snprintf(m->where, sizeof(m->where), strchr(shown, ':') ? "[%s]:%s" : "%s:%s", shown, port);
}

/* A host that loses power says nothing: the kernel asks, and gives up after some 10 s. */
static void watch_peer(int fd)
{
	int on = 1, idle_s = 3, between_s = 2, probes = 3, unacked_ms = 10000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof(unacked_ms));
}

/* A socket that listens at all addresses of the host, of both families where there are two. */
static int listen_at(uint16_t port)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	int on = 1, off = 0, rc, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off))) {
		close(fd);
		fd = -1;
	}
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		rc = bind(fd, (struct sockaddr *)&any6, sizeof(any6));
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		rc = bind(fd, (struct sockaddr *)&any4, sizeof(any4));
	}
	if (!rc && !listen(fd, 1))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int serve(struct meet *m, uint16_t port)
{
	int rc, fd = listen_at(port);

	if (fd < 0) {
		say("cannot listen at port %u: %s", port, strerror(-fd));
		return fd;
	}
	say("waiting at port %u", port);
	rc = await(fd, POLLIN, meet_now_ns() + MEET_CLIENT_S * second_ns);
	if (!rc)
		m->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (!rc && m->fd < 0)
		rc = -errno;
	close(fd);
	if (rc)
		say("nobody came to port %u: %s", port, strerror(-rc));
	return rc;
}

/* One attempt at one address; the socket or -errno. */
static int dial(const struct addrinfo *at, uint64_t end_ns)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	socklen_t len = sizeof(error);
	int rc;

	if (fd < 0)
		return -errno;
	rc = connect(fd, at->ai_addr, at->ai_addrlen) ? -errno : 0;
	if (rc == -EINPROGRESS) {
		rc = await(fd, POLLOUT, end_ns);
		if (!rc && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
			rc = -error;
	}
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int join(struct meet *m, const char *host, uint16_t port)
{
	uint64_t end_ns = meet_now_ns() + MEET_SERVER_S * second_ns;
	const struct timespec rest = {.tv_nsec = 50000000};
	struct addrinfo *list, hints = {.ai_socktype = SOCK_STREAM};
	char service[8];
	int rc;

	snprintf(service, sizeof(service), "%u", port);
	rc = getaddrinfo(host, service, &hints, &list);
	if (rc) {
		say("%s: %s", host, gai_strerror(rc));
		return -EHOSTUNREACH;
	}
	for (rc = -ETIMEDOUT; m->fd < 0;) {
		for (struct addrinfo *at = list; at && m->fd < 0; at = at->ai_next)
			m->fd = rc = dial(at, end_ns);
		if (m->fd >= 0 || meet_now_ns() >= end_ns)
			break;
		nanosleep(&rest, NULL);
	}
	freeaddrinfo(list);
	if (m->fd >= 0)
		return 0;
	m->fd = -1;
	say("cannot connect to %s port %u within %d s: %s", host, port, MEET_SERVER_S,
	    strerror(-rc));
	return rc;
}

int meet_open(struct meet *m, const char *host, uint16_t port)
{
	int rc;

	*m = (struct meet){.fd = -1};
	rc = host ? join(m, host, port) : serve(m, port);
	if (rc)
		return rc;
	name_peer(m);
	watch_peer(m->fd);
	return 0;
}

/* Closing while bytes are unread resets the connection, and what was put last may be lost. */
static void drain(int fd)
{
	uint64_t end_ns = meet_now_ns() + second_ns;
	char bytes[4096];

	shutdown(fd, SHUT_WR);
	while (meet_now_ns() < end_ns && !await(fd, POLLIN, end_ns) &&
	       recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
}

void meet_close(struct meet *m)
{
	if (m->fd >= 0) {
		drain(m->fd);
		close(m->fd);
	}
	*m = (struct meet){.fd = -1};
}

/* ---- talking ---- */

static int lost(const struct meet *m, int rc, int wait_s)
{
	if (rc == -EPIPE)
		say("%s closed the connection: it failed or was ended", m->where);
	else if (rc == -ETIMEDOUT && wait_s)
		say("%s has said nothing for %d s", m->where, wait_s);
	else
		say("connection to %s: %s", m->where, strerror(-rc));
	return rc;
}

int meet_put(struct meet *m, const void *data, size_t len)
{
	uint64_t end_ns = meet_now_ns() + MEET_SILENCE_S * second_ns;
	int rc;

	for (const char *at = data; len;) {
		ssize_t n = send(m->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		rc = errno == EAGAIN ? await(m->fd, POLLOUT, end_ns) : errno == EINTR ? 0 : -errno;
		if (rc)
			return lost(m, rc, 0);
	}
	return 0;
}

int meet_get(struct meet *m, void *data, size_t len, int wait_s)
{
	uint64_t end_ns = meet_now_ns() + (uint64_t)wait_s * second_ns;
	int rc;

	for (char *at = data; len;) {
		ssize_t n = recv(m->fd, at, len, MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		rc = !n                ? -EPIPE
		     : errno == EAGAIN ? await(m->fd, POLLIN, end_ns)
		     : errno == EINTR  ? 0
				       : -errno;
		if (rc)
			return lost(m, rc, wait_s);
	}
	return 0;
}

int meet_look(struct meet *m, int wait_ms)
{
	char byte;
	ssize_t n;
	int rc = 0;

	if (wait_ms)
		rc = await(m->fd, POLLIN, meet_now_ns() + (uint64_t)wait_ms * 1000000);
	if (rc == -ETIMEDOUT)
		return 0;
	n = rc ? -1 : recv(m->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n > 0)
		return 1;
	if (n < 0 && !rc && (errno == EAGAIN || errno == EINTR))
		return 0;
	return lost(m, rc ? rc : n ? -errno : -EPIPE, 0);
}

int meet_sync(struct meet *m)
{
	char byte = 's';
	int rc = meet_put(m, &byte, 1);

	return rc ? rc : meet_get(m, &byte, 1, MEET_SILENCE_S);
}
