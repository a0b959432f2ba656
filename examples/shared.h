/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the examples share and what has nothing to do with EFA: they end where something fails, and
 * their processes find each other over TCP, through rank 0. No wait is longer than WAIT_S seconds.
 */
#ifndef SHARED_H
#define SHARED_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MEET_RANKS = 64, WAIT_S = 30 };

/* @rc is -errno, or what is no error. The kernel takes back all that the process had. */
static inline void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "[%d] %s: %s\n", (int)getpid(), what, strerror(-rc));
	exit(1);
}

static inline double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A whole number of @min ... @max, or the end. */
static inline uint64_t number(const char *text, uint64_t min, uint64_t max, const char *what)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*text >= '0' && *text <= '9' && !*end && n >= min && n <= max)
		return n;
	fprintf(stderr, "%s %s: not %llu to %llu\n", what, text, (unsigned long long)min,
		(unsigned long long)max);
	exit(2);
}

/* Processes that meet, to exchange what they must know of each other, or to wait for all. */
struct meet {
	int rank, ranks;
	int fd[MEET_RANKS]; /* of rank 0: to each of the others; else fd[0], to rank 0 */
};

static inline void meet_move(int fd, void *buf, size_t len, bool out)
{
	for (char *p = buf; len > 0;) {
		ssize_t n = out ? send(fd, p, len, MSG_NOSIGNAL) : recv(fd, p, len, 0);

		if (n <= 0)
			must(n == 0            ? -ECONNRESET
			     : errno == EAGAIN ? -ETIMEDOUT
					       : -errno,
			     "another process");
		p += n;
		len -= (size_t)n;
	}
}

static inline int meet_socket(void)
{
	struct timeval limit = {.tv_sec = WAIT_S};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd < 0 ? -errno : 0, "socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	return fd;
}

static inline void meet_listen(struct meet *m, const struct sockaddr *at, socklen_t len)
{
	struct timeval limit = {.tv_sec = WAIT_S};
	int who, fd, listener = meet_socket();

	must(bind(listener, at, len) || listen(listener, m->ranks) ? -errno : 0, "listen");
	for (int i = 1; i < m->ranks; i++) {
		fd = accept(listener, NULL, NULL);
		must(fd >= 0 ? 0 : errno == EAGAIN ? -ETIMEDOUT : -errno, "accept");
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		meet_move(fd, &who, sizeof(who), false);
		must(who > 0 && who < m->ranks && m->fd[who] < 0 ? 0 : -EPROTO, "a rank");
		m->fd[who] = fd;
	}
	close(listener);
}

static inline void meet_connect(struct meet *m, const struct sockaddr *at, socklen_t len)
{
	double end = now_s() + WAIT_S;

	m->fd[0] = meet_socket();
	/* Rank 0 may not be there yet. */
	while (connect(m->fd[0], at, len)) {
		must(errno == ECONNREFUSED && now_s() < end ? 0 : -errno, "connect");
		close(m->fd[0]);
		usleep(20000);
		m->fd[0] = meet_socket();
	}
	meet_move(m->fd[0], &m->rank, sizeof(m->rank), true);
}

/* @root: IPv4:PORT, where rank 0 listens. */
static inline void meet_open(struct meet *m, const char *root, int rank, int ranks)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	unsigned short port;
	char ip[16];
	int end = 0;

	if (sscanf(root, "%15[0-9.]:%hu%n", ip, &port, &end) != 2 || root[end] ||
	    !inet_pton(AF_INET, ip, &at.sin_addr))
		must(-EINVAL, root);
	at.sin_port = htons(port);
	*m = (struct meet){.rank = rank, .ranks = ranks};
	memset(m->fd, -1, sizeof(m->fd));
	if (rank == 0)
		meet_listen(m, (struct sockaddr *)&at, sizeof(at));
	else
		meet_connect(m, (struct sockaddr *)&at, sizeof(at));
}

static inline void meet_close(struct meet *m)
{
	for (int i = 0; i < MEET_RANKS; i++) {
		if (m->fd[i] >= 0)
			close(m->fd[i]);
	}
}

/* Give @len bytes, the same for all; get those of all in @all, by rank. Byte order is the host's.
 */
static inline void meet_all(struct meet *m, const void *mine, size_t len, void *all)
{
	char *of = all;

	memcpy(of + (size_t)m->rank * len, mine, len);
	if (m->rank > 0) {
		meet_move(m->fd[0], of + (size_t)m->rank * len, len, true);
		meet_move(m->fd[0], all, len * (size_t)m->ranks, false);
		return;
	}
	for (int i = 1; i < m->ranks; i++)
		meet_move(m->fd[i], of + (size_t)i * len, len, false);
	for (int i = 1; i < m->ranks; i++)
		meet_move(m->fd[i], all, len * (size_t)m->ranks, true);
}

static inline void meet_wait(struct meet *m)
{
	char all[MEET_RANKS];

	meet_all(m, "", 1, all);
}

#endif
