/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One pass. Both sides prepare the memory, tell each other, start their messages, tell each other
 * how many, wait until those have come, look at the data, and tell each other what they found.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/say.h"
#include "content.h"
#include "run.h"

static const uint64_t second_ns = 1000000000, look_ns = 20000000;

/* Bytes of a lane and of a rail in BW_DONE: messages, requests; time. */
enum { LANE_BYTES = 16, RAIL_BYTES = 8, VERDICT_BYTES = 8 };

struct flow {
	struct bw *bw;
	struct bw_job job;
	bool ours, theirs; /* who starts messages */
	bool told, heard;  /* that all were started, and have completed */
	bool judged;       /* the other side has looked at its data, and found: */
	uint64_t their_wrong;
	uint64_t start_ns;
	uint64_t moved_ns;  /* when something last moved */
	uint64_t looked_ns; /* when we last looked for a frame */
	uint64_t wrong;
	struct {
		uint64_t messages, requests;
	} due[BW_LANES]; /* from the other side, by lane */
	uint64_t their_ns[BW_MAX_RAILS];
};

/* ---- memory ---- */

/* Each message has its place; @data is where the first of them is. */
static int fill(struct flow *f, uint8_t *data, const struct bw_lane *lane, bool ours, bool poison)
{
	int rc = 0;

	for (uint64_t m = 0; !rc && m < f->job.pass.messages; m++, data += f->job.stride) {
		if (poison)
			memset(data, PAYLOAD_POISON, f->job.pass.size);
		else
			bw_content_fill(data, f->job.pass.size,
					bw_job_key(&f->job, ours, lane->number, m));
		rc = bw_wire_tick(&f->bw->wire);
	}
	return rc;
}

static int verify(struct flow *f, const uint8_t *data, const struct bw_lane *lane, bool ours,
		  uint64_t messages)
{
	int rc = 0;

	for (uint64_t m = 0; !rc && m < messages; m++, data += f->job.stride) {
		uint64_t first = 0, key = bw_job_key(&f->job, ours, lane->number, m);
		uint64_t wrong = bw_content_check(data, f->job.pass.size, key, &first);

		if (wrong)
			bw_lane_complain(lane, &f->job, m, wrong, first);
		rc = bw_wire_tick(&f->bw->wire);
	}
	return rc;
}

static int prepare(struct flow *f)
{
	bool read = f->bw->plan.op == BW_READ, send = f->bw->plan.op == BW_SEND;
	int rc = 0;

	for (uint32_t i = 0; !rc && f->bw->plan.check && i < f->bw->nlanes; i++) {
		struct bw_lane *lane = &f->bw->lanes[i];

		if (f->ours)
			rc = fill(f, bw_rail_at(lane->rail, lane->out), lane, true, read);
		if (!rc && f->theirs && !send)
			rc = fill(f, bw_rail_at(lane->rail, lane->in), lane, false, !read);
	}
	return rc;
}

static int inspect(struct flow *f)
{
	enum bw_op op = f->bw->plan.op;
	int rc = 0;

	for (uint32_t i = 0; !rc && f->bw->plan.check && i < f->bw->nlanes; i++) {
		struct bw_lane *lane = &f->bw->lanes[i];

		if (f->ours && op == BW_READ)
			rc = verify(f, bw_rail_at(lane->rail, lane->out), lane, true,
				    lane->started);
		if (!rc && f->theirs && (op == BW_WRITE || op == BW_WRITE_IMM))
			rc = verify(f, bw_rail_at(lane->rail, lane->in), lane, false,
				    f->due[i].messages);
	}
	return rc;
}

/* ---- words ---- */

static int swap(struct flow *f, enum bw_frame type)
{
	int rc = bw_wire_put(&f->bw->wire, type, NULL, 0);

	return rc ? rc : bw_wire_get(&f->bw->wire, type, 0, MEET_SILENCE_S);
}

static uint32_t done_bytes(const struct bw *bw)
{
	return bw->nlanes * LANE_BYTES + bw->plan.rails * RAIL_BYTES;
}

/* From the start to the last completion on a rail. */
static uint64_t rail_ns(const struct flow *f, uint32_t rail)
{
	uint64_t last = f->start_ns;

	for (uint32_t i = 0; i < f->bw->plan.qps; i++) {
		const struct bw_lane *lane = &f->bw->lanes[rail * f->bw->plan.qps + i];

		last = lane->done_ns > last ? lane->done_ns : last;
	}
	return last - f->start_ns;
}

static int tell(struct flow *f)
{
	struct bw *bw = f->bw;
	uint8_t *body = malloc(done_bytes(bw)), *at = body;
	int rc;

	if (!body) {
		say("no memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < bw->nlanes; i++, at += LANE_BYTES) {
		bw_u64_pack(at, f->ours ? bw->lanes[i].started : 0);
		bw_u64_pack(at + 8, f->ours ? bw->lanes[i].requests : 0);
	}
	for (uint32_t r = 0; r < bw->plan.rails; r++, at += RAIL_BYTES)
		bw_u64_pack(at, f->ours ? rail_ns(f, r) : 0);
	rc = bw_wire_put(&bw->wire, BW_DONE, body, done_bytes(bw));
	free(body);
	f->told = true;
	return rc;
}

/* The other side's BW_DONE is there. */
static int hear(struct flow *f)
{
	struct bw *bw = f->bw;
	const uint8_t *at = bw->wire.body;
	uint64_t most = UINT64_MAX / f->job.pass.size / bw->nlanes;
	bool good = bw->wire.type == BW_DONE && bw->wire.len == done_bytes(bw) && !f->heard;

	if (f->job.pass.messages)
		most = f->job.pass.messages;

	for (uint32_t i = 0; good && i < bw->nlanes; i++, at += LANE_BYTES) {
		f->due[i].messages = bw_u64_unpack(at);
		f->due[i].requests = bw_u64_unpack(at + 8);
		good = f->due[i].messages <= most;
	}
	for (uint32_t r = 0; good && r < bw->plan.rails; r++, at += RAIL_BYTES)
		f->their_ns[r] = bw_u64_unpack(at);
	f->heard = true;
	return good ? 0 : bw_wire_strange(&bw->wire);
}

/* A frame is there. Who is through with all may be so a moment before us. */
static int take(struct flow *f)
{
	struct bw_wire *w = &f->bw->wire;

	if (w->type != BW_VERDICT || !f->heard)
		return hear(f);
	if (w->len != VERDICT_BYTES || f->judged)
		return bw_wire_strange(w);
	f->their_wrong = bw_u64_unpack(w->body);
	f->judged = true;
	return 0;
}

static int verdict(struct flow *f)
{
	struct bw_wire *w = &f->bw->wire;
	uint8_t body[VERDICT_BYTES];
	int rc;

	bw_u64_pack(body, f->wrong);
	rc = bw_wire_put(w, BW_VERDICT, body, sizeof(body));
	if (!rc && !f->judged) {
		rc = bw_wire_get(w, BW_VERDICT, VERDICT_BYTES, MEET_SILENCE_S);
		f->their_wrong = rc ? 0 : bw_u64_unpack(w->body);
	}
	if (f->their_wrong && !f->bw->their_wrong)
		say("%s found wrong data", w->tcp.where);
	f->bw->their_wrong |= f->their_wrong != 0;
	f->wrong += f->their_wrong;
	return rc;
}

/* ---- traffic ---- */

/* All requests but the last of a message are as long as this device's can be. */
static uint64_t request_bytes(const struct flow *f, const struct bw_lane *lane)
{
	uint32_t most = lane->rail->dev.attr.max_rdma_size;
	bool whole = f->bw->plan.op == BW_SEND || f->job.pass.size < most;

	return whole ? f->job.pass.size : most;
}

static void show_progress(struct flow *f, uint64_t now)
{
	struct bw *bw = f->bw;
	bool tty = isatty(STDERR_FILENO);
	double s = (double)(now - bw->shown_ns) / 1e9;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < bw->nlanes; i++) {
		const struct bw_lane *lane = &bw->lanes[i];

		bytes += (lane->requests - lane->outstanding) * request_bytes(f, lane);
	}
	fprintf(stderr, "%ssrd-bw: size %" PRIu64 ", %.0f s: %.3f GB, now %.3f GB/s%s",
		tty ? "\r" : "", f->job.pass.size, (double)(now - f->start_ns) / 1e9,
		(double)bytes / 1e9, (double)(bytes - bw->shown_bytes) / s / 1e9,
		tty ? "\033[K" : "\n");
	bw->shown_ns = now;
	bw->shown_bytes = bytes;
}

/* Where it was, something else may stand. */
static void hide_progress(struct flow *f)
{
	if (f->bw->shown_bytes && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

static bool completed(const struct flow *f)
{
	for (uint32_t i = 0; i < f->bw->nlanes; i++) {
		if (!bw_lane_idle(&f->bw->lanes[i]))
			return false;
	}
	return true;
}

/* All that the other side sent; it may be more than was known a moment ago. */
static bool arrived(const struct flow *f)
{
	if (!f->heard)
		return false;
	for (uint32_t i = 0; bw_receives(&f->bw->plan) && i < f->bw->nlanes; i++) {
		if (f->bw->lanes[i].received < f->due[i].requests)
			return false;
	}
	return true;
}

/* Time is up: nothing new. */
static void stop(struct flow *f, uint64_t now)
{
	for (uint32_t i = 0; i < f->bw->nlanes; i++) {
		struct bw_lane *lane = &f->bw->lanes[i];

		lane->goal = lane->started;
		if (bw_lane_idle(lane) && !lane->done_ns)
			lane->done_ns = now;
	}
}

/* Returns how much moved. */
static int turn(struct flow *f)
{
	int moved = 0;

	for (uint32_t i = 0; i < f->bw->nlanes; i++) {
		struct bw_lane *lane = &f->bw->lanes[i];
		int rc = f->ours ? bw_lane_push(lane, &f->job) : 0;

		moved += rc;
		if (rc >= 0 && f->ours) {
			rc = bw_lane_reap(lane, &f->job);
			moved += rc;
		}
		if (rc >= 0 && lane->buffers) {
			rc = bw_lane_receive(lane, &f->job);
			moved += rc;
		}
		if (rc < 0)
			return rc;
	}
	return moved;
}

/* What is done when there is time for it. */
static int look(struct flow *f, uint64_t now, bool active)
{
	int rc = bw_wire_look(&f->bw->wire, active ? 0 : 100);

	f->looked_ns = now;
	if (rc > 0)
		rc = take(f);
	/* A side that has nothing to do but wait learns from the ticks that the other lives. */
	if (!rc && active && now - f->moved_ns > MEET_SILENCE_S * second_ns) {
		say("nothing has moved for %d s", MEET_SILENCE_S);
		rc = -ETIMEDOUT;
	}
	return rc;
}

static int traffic(struct flow *f)
{
	bool counts = f->theirs && bw_receives(&f->bw->plan);
	uint64_t now = f->start_ns, ns = f->job.pass.ns;
	int moved, rc = 0;

	while (!rc && !(f->told && arrived(f))) {
		moved = turn(f);
		if (moved < 0)
			return moved;
		now = meet_now_ns();
		if (moved)
			f->moved_ns = now;
		if (ns && now - f->start_ns >= ns) {
			stop(f, now);
			ns = 0;
		}
		if (!f->told && (!f->ours || completed(f)))
			rc = tell(f);
		if (!rc && (!moved || now - f->looked_ns > look_ns))
			rc = look(f, now, (f->ours && !f->told) || counts);
		if (!moved)
			sched_yield();
		if (f->bw->opt->progress && f->bw->client && now - f->bw->shown_ns > second_ns)
			show_progress(f, now);
	}
	return rc;
}

/* ---- the whole ---- */

/* Both directions, where there are two. */
static void count(const struct flow *f, struct bw_row *row)
{
	uint32_t qps = f->bw->plan.qps;
	uint64_t longest = 0;

	for (uint32_t i = 0; i < f->bw->nlanes; i++) {
		uint64_t messages = (f->ours ? f->bw->lanes[i].started : 0) + f->due[i].messages;

		row->messages += messages;
		row->bytes += messages * f->job.pass.size;
		row->rail[i / qps].bytes += messages * f->job.pass.size;
	}
	for (uint32_t r = 0; r < f->bw->plan.rails; r++) {
		uint64_t ns = f->ours ? rail_ns(f, r) : 0;

		ns = f->their_ns[r] > ns ? f->their_ns[r] : ns;
		row->rail[r].ns += ns;
		longest = ns > longest ? ns : longest;
	}
	row->ns += longest;
	row->wrong += f->wrong;
}

static int run(struct flow *f)
{
	int rc = prepare(f);

	if (!rc)
		rc = swap(f, BW_READY);
	if (rc)
		return rc;
	f->start_ns = f->moved_ns = f->looked_ns = f->bw->shown_ns = meet_now_ns();
	f->bw->shown_bytes = 0;
	rc = traffic(f);
	hide_progress(f);
	if (!rc)
		rc = inspect(f);
	return rc ? rc : verdict(f);
}

int bw_pass_run(struct bw *bw, const struct bw_pass *pass, struct bw_row *row)
{
	struct flow *f = calloc(1, sizeof(*f));
	int rc;

	if (!f) {
		say("no memory");
		return -ENOMEM;
	}
	f->bw = bw;
	f->ours = bw->client || bw->plan.bidirectional;
	f->theirs = !bw->client || bw->plan.bidirectional;
	f->job = (struct bw_job){
		.plan = &bw->plan,
		.pass = *pass,
		.stride = bw_stride(pass->size),
		.slots = bw_slots(&bw->plan, pass->size),
		.client = bw->client,
		.wrong = &f->wrong,
	};
	for (uint32_t i = 0; i < bw->nlanes; i++)
		bw_lane_begin(&bw->lanes[i], &f->job,
			      !f->ours         ? 0
			      : pass->messages ? pass->messages
					       : UINT64_MAX);
	rc = run(f);
	bw->passes++;
	bw->wrong += f->wrong;
	if (!rc)
		count(f, row);
	free(f);
	return rc;
}
