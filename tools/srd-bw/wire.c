/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames over TCP, and their bodies. */
#include "wire.h"

#include <errno.h>
#include <string.h>

#include "common/say.h"

static const char magic[4] = {'s', 'b', 'w', '1'};
static const uint32_t version = 1;
static const uint64_t tick_ns = 500000000;

/* ---- numbers ---- */

static void u32_pack(uint8_t at[4], uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t u32_unpack(const uint8_t at[4])
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void bw_u64_pack(uint8_t at[8], uint64_t value)
{
	u32_pack(at, (uint32_t)(value >> 32));
	u32_pack(at + 4, (uint32_t)value);
}

uint64_t bw_u64_unpack(const uint8_t at[8])
{
	return (uint64_t)u32_unpack(at) << 32 | u32_unpack(at + 4);
}

/* ---- frames ---- */

int bw_wire_strange(struct bw_wire *w)
{
	say("%s sent what is not understood: no srd-bw, or one of another version", w->tcp.where);
	return -EPROTO;
}

int bw_wire_open(struct bw_wire *w, const char *host, uint16_t port)
{
	int rc = meet_open(&w->tcp, host, port);

	w->lost = rc != 0;
	w->heard_ns = meet_now_ns();
	return rc;
}

void bw_wire_close(struct bw_wire *w)
{
	meet_close(&w->tcp);
	w->lost = true;
}

/* What TCP could not do ends the run. */
static int lost(struct bw_wire *w, int rc)
{
	w->lost |= rc < 0;
	return rc;
}

int bw_wire_put(struct bw_wire *w, enum bw_frame type, const void *body, uint32_t len)
{
	uint8_t head[BW_HEAD_BYTES];
	int rc;

	memcpy(head, magic, sizeof(magic));
	u32_pack(head + 4, type);
	u32_pack(head + 8, len);
	w->ticked_ns = meet_now_ns();
	rc = meet_put(&w->tcp, head, sizeof(head));
	return lost(w, rc || !len ? rc : meet_put(&w->tcp, body, len));
}

int bw_wire_tick(struct bw_wire *w)
{
	if (meet_now_ns() - w->ticked_ns < tick_ns)
		return 0;
	return bw_wire_put(w, BW_TICK, NULL, 0);
}

void bw_wire_fail(struct bw_wire *w, const char *why)
{
	if (!w->lost)
		bw_wire_put(w, BW_FAIL, why, (uint32_t)strnlen(why, BW_TEXT_BYTES));
	w->lost = true;
}

/* The other side gave up. */
static int failed(struct bw_wire *w)
{
	w->body[w->len] = 0;
	for (uint32_t i = 0; i < w->len; i++) {
		if (w->body[i] < ' ' || w->body[i] > '~')
			w->body[i] = '?';
	}
	say("%s gave up: %s", w->tcp.where, (const char *)w->body);
	w->lost = true;
	return -ECONNABORTED;
}

/* One frame; the other side is expected to say something within @wait_s. */
static int get(struct bw_wire *w, int wait_s)
{
	uint8_t head[BW_HEAD_BYTES];
	int rc = lost(w, meet_get(&w->tcp, head, sizeof(head), wait_s));

	if (rc)
		return rc;
	w->type = u32_unpack(head + 4);
	w->len = u32_unpack(head + 8);
	if (memcmp(head, magic, sizeof(magic)) || w->type < 1 || w->type >= BW_FRAMES ||
	    w->len > BW_BODY_BYTES || (w->type == BW_FAIL && w->len > BW_TEXT_BYTES) ||
	    (w->type == BW_TICK && w->len))
		return bw_wire_strange(w);
	rc = lost(w, meet_get(&w->tcp, w->body, w->len, MEET_SILENCE_S));
	if (rc)
		return rc;
	w->heard_ns = meet_now_ns();
	return w->type == BW_FAIL ? failed(w) : 0;
}

int bw_wire_get(struct bw_wire *w, enum bw_frame type, uint32_t len, int wait_s)
{
	int rc;

	do {
		rc = get(w, wait_s);
		if (rc)
			return rc;
	} while (w->type == BW_TICK);
	return w->type == type && w->len == len ? 0 : bw_wire_strange(w);
}

int bw_wire_look(struct bw_wire *w, int wait_ms)
{
	int rc = bw_wire_tick(w);

	if (rc)
		return rc;
	rc = lost(w, meet_look(&w->tcp, wait_ms));
	if (!rc && meet_now_ns() - w->heard_ns > MEET_SILENCE_S * UINT64_C(1000000000)) {
		say("%s has said nothing for %d s", w->tcp.where, MEET_SILENCE_S);
		rc = lost(w, -ETIMEDOUT);
	}
	if (rc <= 0)
		return rc;
	rc = get(w, MEET_SILENCE_S);
	return rc ? rc : w->type != BW_TICK;
}

/* ---- bodies ---- */

void bw_hello_pack(uint8_t body[BW_HELLO_BYTES], const struct bw_plan *plan)
{
	const uint32_t words[] = {version,    plan->op,     plan->rails,
				  plan->qps,  plan->window, plan->bidirectional,
				  plan->check};

	for (size_t i = 0; i < 7; i++)
		u32_pack(body + 4 * i, words[i]);
	bw_u64_pack(body + 28, plan->largest);
	bw_u64_pack(body + 36, plan->room);
}

const char *bw_hello_unpack(const uint8_t body[BW_HELLO_BYTES], struct bw_plan *plan)
{
	if (u32_unpack(body) != version)
		return "another version of srd-bw";
	*plan = (struct bw_plan){
		.op = u32_unpack(body + 4),
		.rails = u32_unpack(body + 8),
		.qps = u32_unpack(body + 12),
		.window = u32_unpack(body + 16),
		.bidirectional = u32_unpack(body + 20) != 0,
		.check = u32_unpack(body + 24) != 0,
		.largest = bw_u64_unpack(body + 28),
		.room = bw_u64_unpack(body + 36),
	};
	return bw_plan_wrong(plan);
}

void bw_pass_pack(uint8_t body[BW_PASS_BYTES], const struct bw_pass *pass)
{
	bw_u64_pack(body, pass->size);
	bw_u64_pack(body + 8, pass->number);
	bw_u64_pack(body + 16, pass->messages);
	bw_u64_pack(body + 24, pass->ns);
}

void bw_pass_unpack(const uint8_t body[BW_PASS_BYTES], struct bw_pass *pass)
{
	*pass = (struct bw_pass){
		.size = bw_u64_unpack(body),
		.number = bw_u64_unpack(body + 8),
		.messages = bw_u64_unpack(body + 16),
		.ns = bw_u64_unpack(body + 24),
	};
}

void bw_card_pack(uint8_t body[BW_CARD_BYTES], const struct bw_card *card)
{
	struct srd_ep_wire ep;

	srd_ep_pack(&ep, &card->ep);
	memcpy(body, ep.b, sizeof(ep.b));
	bw_u64_pack(body + 24, card->addr);
	u32_pack(body + 32, card->rkey);
}

int bw_card_unpack(const uint8_t body[BW_CARD_BYTES], struct bw_card *card)
{
	struct srd_ep_wire ep;

	memcpy(ep.b, body, sizeof(ep.b));
	card->addr = bw_u64_unpack(body + 24);
	card->rkey = u32_unpack(body + 32);
	return srd_ep_unpack(&card->ep, &ep);
}
