/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides of a run do: what the client wants, and what follows from it. */
#ifndef SRD_BW_PLAN_H
#define SRD_BW_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bw_op { BW_WRITE, BW_WRITE_IMM, BW_READ, BW_SEND, BW_OPS };

enum { BW_MAX_RAILS = 32, BW_MAX_QPS = 64, BW_MAX_WINDOW = 4096, BW_MAX_SIZES = 64 };

#define BW_MAX_SIZE   (UINT64_C(16) << 30)
#define BW_MAX_MEMORY (UINT64_C(1) << 40)
#define BW_MAX_ITERS  UINT64_C(1000000000000)
#define BW_MAX_S      86400

struct bw_plan {
	enum bw_op op;
	uint32_t rails, qps, window; /* queue pairs per rail, requests per queue pair */
	bool bidirectional, check;
	uint64_t largest; /* bytes of a message */
	uint64_t room;    /* bytes of memory per queue pair and direction */
};

/* "write", "write-imm", "read", "send"; NULL for what is none. */
const char *bw_op_name(enum bw_op op);
/* BW_OPS: @name is none. */
enum bw_op bw_op_find(const char *name);

/* Set room, from the rest. */
void bw_plan_room(struct bw_plan *plan);
/* NULL, or what is wrong with a plan that came from elsewhere. */
const char *bw_plan_wrong(const struct bw_plan *plan);

/* Does what arrives complete receives? */
static inline bool bw_receives(const struct bw_plan *plan)
{
	return plan->op == BW_SEND || plan->op == BW_WRITE_IMM;
}

/* Bytes from one message in memory to the next. */
static inline uint64_t bw_stride(uint64_t size)
{
	return (size + 63) & ~UINT64_C(63);
}

/* How many messages of @size have a place of their own in the memory of a queue pair. */
uint64_t bw_slots(const struct bw_plan *plan, uint64_t size);
/* Receives posted per queue pair; of send each has the room of the largest message. */
uint64_t bw_receive_count(const struct bw_plan *plan);

/* A sequence of messages that begins and ends at the same time on both sides. */
struct bw_pass {
	uint64_t size;   /* bytes */
	uint64_t number; /* of passes before */
	uint64_t
		messages; /* per queue pair; 0: as many as go in ns. With check at most the slots */
	uint64_t ns;
};

const char *bw_pass_wrong(const struct bw_pass *pass, const struct bw_plan *plan);

#endif
