/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP connection by which the two programs of a run learn of each other and see each other end.
 * Every wait ends, and what fails is said on stderr: callers pass -errno on.
 */
#ifndef COMMON_MEET_H
#define COMMON_MEET_H

#include <stddef.h>
#include <stdint.h>

enum {
	MEET_CLIENT_S = 600, /* a server waits so long for its client */
	MEET_SERVER_S = 10,  /* a client tries so long to connect, so that either may start first */
	MEET_SILENCE_S = 20, /* the other side has something to say, or it hangs */
};

struct meet {
	int fd;         /* -1: none */
	char where[80]; /* "192.0.2.1:4000" of the other end */
};

/* @host NULL: wait at @port for one that connects. Else connect to it there. */
int meet_open(struct meet *m, const char *host, uint16_t port);
/* What was put gets there first, if the other end takes it within a second. */
void meet_close(struct meet *m);

int meet_put(struct meet *m, const void *data, size_t len);
/* All of @len bytes within @wait_s. -EPIPE: the other end is closed. */
int meet_get(struct meet *m, void *data, size_t len, int wait_s);

/*
 * For loops that wait for something else. 1: there is something to get. 0: not within @wait_ms.
 * -errno: the other end is gone, which was said.
 */
int meet_look(struct meet *m, int wait_ms);
/* Both sides have come here. */
int meet_sync(struct meet *m);

/* Monotonic time. */
uint64_t meet_now_ns(void);

#endif
