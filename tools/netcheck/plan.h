/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What NCCL's protocols put on the wire, and how it looks in memory.
 *
 * Simple: bytes. LL: lines of 16 bytes, {data, flag} twice, each half written at once. LL128: lines
 * of 128 bytes, 120 of data and a flag of 8 behind them. A flag is the number of the message from 1
 * on; lines of another number are of an earlier lap, or not there yet.
 */
#ifndef NETCHECK_PLAN_H
#define NETCHECK_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_proto { PLAN_SIMPLE, PLAN_LL, PLAN_LL128 };

struct plan {
	enum plan_proto proto;
	const char *name; /* as in NCCL_PROTO */
	size_t step;      /* bytes of a slot */
	int slice;        /* steps of a message */
	size_t unit;      /* sizes are multiples of it */
};

enum { PLAN_STEPS = 8 }; /* slots of a connection: NCCL_STEPS */

/* With a buffer of 4 MiB: rings of large data, and trees. */
extern const struct plan plan_ring, plan_tree, plan_ll, plan_ll128;
/* Chunks of send and receive, from a pool. */
extern const struct plan plan_p2p;

/* Bytes of a message with key @key: mostly all, often less, sometimes none. */
size_t plan_bytes(const struct plan *p, uint64_t key);

/* Of these, what is data. */
size_t plan_data(const struct plan *p, size_t bytes);

/* Write a message of @bytes as the GPU does, with @scratch of plan_data() bytes. */
void plan_fill(const struct plan *p, char *at, size_t bytes, uint64_t key, uint64_t flag,
	       char *scratch);

/* All lines of a slot have their flag: the sender's proxy looks before it sends. */
bool plan_filled(const struct plan *p, const char *at, size_t bytes, uint64_t flag);

/*
 * Look at line @line as the receiver's GPU does, without waiting for anyone. 0: not there. 1:
 * there. -1: the flag is and the data, which must be @want's, is not.
 */
int plan_look(const struct plan *p, const char *at, size_t line, uint64_t flag, const char *want);

#endif
