/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A random program of verbs for two hosts, and what comes of it. A seed says what each does in each
 * phase; what becomes of it must follow from that alone, and not from the order in which a device
 * delivers, nor from what lies between the two. So the outcome keeps no order, and one name for all
 * statuses that tell of a peer that was lost (8, 9, 13, 15): which of them it is, is a matter of
 * when the peer went.
 */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <stdint.h>

enum { PROGRAM_HOSTS = 2, PROGRAM_LINES = 16384, PROGRAM_LOST = 0x1000 };

/* What one request or receive came to, or what memory holds. */
struct program_line {
	uint16_t phase, kind, qp;
	uint16_t what; /* 'r' request, 'm' message, 'f' failed receives by status, 'h' memory */
	uint32_t id, status, len, flags;
	uint64_t hash;
};

struct program_outcome {
	uint32_t n[PROGRAM_HOSTS];
	struct program_line line[PROGRAM_HOSTS][PROGRAM_LINES];
};

/* How one run differs from another: what each host has in its environment. NULL: nothing. */
struct program_way {
	const char *settings;
	uint16_t port[PROGRAM_HOSTS]; /* 0: both are processes of one host */
};

/* Runs it in two children; the outcome is shared memory. */
struct program_outcome *program_run(uint64_t seed, unsigned phases, const struct program_way *way);
/* Fails, saying what differs first. */
void program_same(const struct program_outcome *a, const struct program_outcome *b);
/* A TCP port that nobody has. */
uint16_t program_port(void);

#endif
