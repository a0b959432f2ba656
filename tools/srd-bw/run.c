/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sides: how they come together, and what the client makes of a size. */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/say.h"

enum { SETUP_S = 120 }; /* a large region takes long to register */

/* ---- devices ---- */

static int find_rails(struct bw *bw)
{
	char number[16];
	const char *rails = bw->opt->rails;
	int n;

	snprintf(number, sizeof(number), "%u", bw->plan.rails ? bw->plan.rails : 1);
	n = bw_rails_find(rails ? rails : number, bw->names);
	if (n < 0)
		return n;
	if (!bw->client && (uint32_t)n != bw->plan.rails) {
		say("the client wants %u rails, the server has --rails %s", bw->plan.rails, rails);
		return -EINVAL;
	}
	bw->plan.rails = (uint32_t)n;
	return 0;
}

static int open_rails(struct bw *bw)
{
	bool both = bw->plan.bidirectional;
	int rc = 0;

	bw->nlanes = bw->plan.rails * bw->plan.qps;
	bw->lanes = calloc(bw->nlanes, sizeof(*bw->lanes));
	if (!bw->lanes) {
		say("no memory for %u queue pairs", bw->nlanes);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < bw->nlanes; i++)
		bw->lanes[i].number = i;
	for (uint32_t r = 0; !rc && r < bw->plan.rails; r++) {
		bw->rails[r].lanes = bw->lanes + r * bw->plan.qps;
		rc = bw_rail_init(&bw->rails[r], bw->names[r], &bw->plan, bw->opt->direct,
				  bw->client || both, !bw->client || both);
	}
	return rc;
}

/* ---- the other side ---- */

static int put_cards(struct bw *bw)
{
	uint32_t len = bw->nlanes * BW_CARD_BYTES;
	uint8_t *body = malloc(len);
	int rc;

	if (!body) {
		say("no memory for %u queue pairs", bw->nlanes);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < bw->nlanes; i++) {
		const struct bw_lane *lane = &bw->lanes[i];
		struct bw_card card = {.addr = lane->rail->mr.addr + lane->in,
				       .rkey = lane->rail->mr.rkey};

		srd_ep_local(&lane->qp, &card.ep);
		bw_card_pack(body + i * BW_CARD_BYTES, &card);
	}
	rc = bw_wire_put(&bw->wire, BW_CARD, body, len);
	free(body);
	return rc;
}

/* RDMA needs an address handle at both ends; that of the other side is there when it is ready. */
static int get_cards(struct bw *bw)
{
	int rc = bw_wire_get(&bw->wire, BW_CARD, bw->nlanes * BW_CARD_BYTES, SETUP_S);

	for (uint32_t i = 0; !rc && i < bw->nlanes; i++) {
		struct bw_lane *lane = &bw->lanes[i];
		struct bw_card card;

		rc = bw_card_unpack(bw->wire.body + i * BW_CARD_BYTES, &card);
		if (rc)
			say("%s sent what is no endpoint", bw->wire.tcp.where);
		if (!rc) {
			rc = srd_peer_init(&lane->peer, &lane->rail->pd, &card.ep);
			if (rc)
				say("%s: address handle: %s", lane->rail->name, strerror(-rc));
		}
		lane->raddr = card.addr;
		lane->rkey = card.rkey;
	}
	return rc;
}

static int open_client(struct bw *bw)
{
	uint8_t hello[BW_HELLO_BYTES];
	int rc = find_rails(bw);

	if (rc)
		return rc;
	bw_plan_room(&bw->plan);
	rc = open_rails(bw);
	if (!rc)
		rc = bw_wire_open(&bw->wire, bw->opt->host, (uint16_t)bw->opt->port);
	if (rc)
		return rc;
	bw_hello_pack(hello, &bw->plan);
	return bw_wire_put(&bw->wire, BW_HELLO, hello, sizeof(hello));
}

static int open_server(struct bw *bw)
{
	const char *wrong;
	int rc = bw_wire_open(&bw->wire, NULL, (uint16_t)bw->opt->port);

	if (!rc)
		rc = bw_wire_get(&bw->wire, BW_HELLO, BW_HELLO_BYTES, MEET_SILENCE_S);
	if (rc)
		return rc;
	wrong = bw_hello_unpack(bw->wire.body, &bw->plan);
	if (wrong) {
		say("%s wants what cannot be: %s", bw->wire.tcp.where, wrong);
		return -EPROTO;
	}
	rc = find_rails(bw);
	return rc ? rc : open_rails(bw);
}

int bw_open(struct bw *bw)
{
	int rc;

	bw->client = *bw->opt->host != 0;
	if (bw->client)
		bw->plan = bw->opt->plan;
	rc = bw->client ? open_client(bw) : open_server(bw);
	if (!rc)
		rc = put_cards(bw);
	return rc ? rc : get_cards(bw);
}

void bw_close(struct bw *bw)
{
	for (uint32_t r = 0; r < BW_MAX_RAILS; r++)
		bw_rail_fini(&bw->rails[r]);
	free(bw->lanes);
	bw_wire_close(&bw->wire);
}

/* ---- passes ---- */

static int pass(struct bw *bw, const struct bw_pass *p, struct bw_row *row)
{
	uint8_t body[BW_PASS_BYTES];
	int rc;

	bw_pass_pack(body, p);
	rc = bw_wire_put(&bw->wire, BW_PASS, body, sizeof(body));
	return rc ? rc : bw_pass_run(bw, p, row);
}

/* Caches, pages and address translations are warm afterwards. */
static int warm_up(struct bw *bw, struct bw_row *row)
{
	struct bw_pass p = {
		.size = row->size,
		.number = bw->passes,
		.messages = bw->plan.window,
	};
	uint64_t some = (UINT64_C(16) << 20) / p.size + 1, slots = bw_slots(&bw->plan, p.size);
	struct bw_row warm = {0};
	int rc;

	if (p.messages > some)
		p.messages = some;
	if (p.messages > slots)
		p.messages = slots;
	rc = pass(bw, &p, &warm);
	row->wrong = warm.wrong;
	return rc;
}

/*
 * As many passes as it takes, each of as many messages as have a place of their own; none after
 * one with wrong data.
 */
static int measure_checked(struct bw *bw, uint64_t size, struct bw_row *row)
{
	uint64_t slots = bw_slots(&bw->plan, size), left = bw->opt->iters;
	uint64_t end_ns = meet_now_ns() + bw->opt->seconds * 1000000000;
	int rc;

	do {
		struct bw_pass p = {.size = size, .number = bw->passes, .messages = slots};

		if (left && left < slots)
			p.messages = left;
		rc = pass(bw, &p, row);
		left -= left ? p.messages : 0;
	} while (!rc && !bw->wrong && (bw->opt->iters ? left > 0 : meet_now_ns() < end_ns));
	return rc;
}

int bw_measure(struct bw *bw, uint64_t size, struct bw_row *row)
{
	struct bw_pass p = {
		.size = size, .messages = bw->opt->iters, .ns = bw->opt->seconds * 1000000000};
	int rc;

	*row = (struct bw_row){.size = size};
	rc = warm_up(bw, row);
	if (rc || bw->wrong)
		return rc;
	p.number = bw->passes;
	return bw->plan.check ? measure_checked(bw, size, row) : pass(bw, &p, row);
}

int bw_bye(struct bw *bw)
{
	int rc = bw_wire_put(&bw->wire, BW_BYE, NULL, 0);

	/* The server closes when it needs our queue pairs no more. */
	return rc ? rc : bw_wire_get(&bw->wire, BW_BYE, 0, MEET_SILENCE_S);
}

static int serve_pass(struct bw *bw)
{
	struct bw_row unused = {0};
	const char *wrong;
	struct bw_pass p;

	bw_pass_unpack(bw->wire.body, &p);
	wrong = bw_pass_wrong(&p, &bw->plan);
	if (wrong) {
		say("%s wants what cannot be: %s", bw->wire.tcp.where, wrong);
		return -EPROTO;
	}
	return bw_pass_run(bw, &p, &unused);
}

int bw_serve(struct bw *bw)
{
	int rc;

	for (;;) {
		rc = bw_wire_look(&bw->wire, 100);
		if (rc < 0)
			return rc;
		if (!rc)
			continue;
		if (bw->wire.type == BW_BYE)
			return bw_wire_put(&bw->wire, BW_BYE, NULL, 0);
		if (bw->wire.type != BW_PASS || bw->wire.len != BW_PASS_BYTES)
			return bw_wire_strange(&bw->wire);
		rc = serve_pass(bw);
		if (rc)
			return rc;
	}
}
