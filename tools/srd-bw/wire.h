/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two sides tell each other, by TCP: frames of a head of 12 bytes and a body:
 *
 *   0  magic "sbw1"   4  type, u32   8  body bytes, u32
 *
 * Numbers are in network order. Errors are -errno, and were said on stderr.
 */
#ifndef SRD_BW_WIRE_H
#define SRD_BW_WIRE_H

#include "common/meet.h"
#include "plan.h"
#include "srd.h"

enum bw_frame {
	BW_HELLO = 1, /* client: the plan */
	BW_CARD,      /* both: the endpoints */
	BW_PASS,      /* client: what comes next */
	BW_READY,     /* both: let it begin */
	BW_DONE,      /* both: what was sent */
	BW_VERDICT,   /* both: bytes found wrong */
	BW_BYE,       /* client: that was all */
	BW_TICK,      /* both, once a second and more: still here */
	BW_FAIL,      /* both: why this side gives up, text */
	BW_FRAMES
};

enum {
	BW_HEAD_BYTES = 12,
	BW_LANES = BW_MAX_RAILS * BW_MAX_QPS,
	BW_HELLO_BYTES = 7 * 4 + 2 * 8,
	BW_PASS_BYTES = 4 * 8,
	BW_CARD_BYTES = 36, /* per queue pair */
	BW_TEXT_BYTES = 512,
	BW_BODY_BYTES = BW_LANES * BW_CARD_BYTES, /* the largest */
};

struct bw_wire {
	struct meet tcp;
	bool lost;          /* there is nobody any more to tell anything */
	uint64_t ticked_ns; /* when we last said something */
	uint64_t heard_ns;  /* when the other side last did */
	enum bw_frame type; /* of the frame got last */
	uint32_t len;
	uint8_t body[BW_BODY_BYTES];
};

int bw_wire_open(struct bw_wire *w, const char *host, uint16_t port);
void bw_wire_close(struct bw_wire *w);

int bw_wire_put(struct bw_wire *w, enum bw_frame type, const void *body, uint32_t len);
/* The next frame, which must be a @type of @len bytes, within @wait_s of the last tick. */
int bw_wire_get(struct bw_wire *w, enum bw_frame type, uint32_t len, int wait_s);
/*
 * 1: there is a frame. 0: none within @wait_ms. Ticks; -ETIMEDOUT when the other side has not for
 * MEET_SILENCE_S.
 */
int bw_wire_look(struct bw_wire *w, int wait_ms);
/* -EPROTO: the frame got last makes no sense. */
int bw_wire_strange(struct bw_wire *w);
/* For what takes long. */
int bw_wire_tick(struct bw_wire *w);
/* Tell the other side why this one gives up. */
void bw_wire_fail(struct bw_wire *w, const char *why);

/* ---- bodies ---- */

void bw_hello_pack(uint8_t body[BW_HELLO_BYTES], const struct bw_plan *plan);
/* NULL, or what is wrong with it. */
const char *bw_hello_unpack(const uint8_t body[BW_HELLO_BYTES], struct bw_plan *plan);

void bw_pass_pack(uint8_t body[BW_PASS_BYTES], const struct bw_pass *pass);
void bw_pass_unpack(const uint8_t body[BW_PASS_BYTES], struct bw_pass *pass);

/* A queue pair and the memory that belongs to it. */
struct bw_card {
	struct srd_ep ep;
	uint64_t addr;
	uint32_t rkey;
};

void bw_card_pack(uint8_t body[BW_CARD_BYTES], const struct bw_card *card);
/* -EINVAL: no endpoint. */
int bw_card_unpack(const uint8_t body[BW_CARD_BYTES], struct bw_card *card);

void bw_u64_pack(uint8_t at[8], uint64_t value);
uint64_t bw_u64_unpack(const uint8_t at[8]);

#endif
