/* SPDX-License-Identifier: BSD-3-Clause */
/* A sequence of messages through one connection. */
#include "flow.h"

#include <errno.h>
#include <inttypes.h>

#include "common/payload.h"
#include "conn.h"
#include "host/log.h"

static char *slot_at(const struct nb_flow *f, uint64_t message)
{
	return f->base + (message % f->slots) * f->stride;
}

static size_t len_of(const struct nb_flow *f, uint64_t message)
{
	return message % f->slots == f->slots - 1 ? f->last_len : f->len;
}

static uint64_t key(struct nb *nb, const struct nb_flow *f, uint64_t serial)
{
	int me = nb->self->rank, peer = f->conn->peer;

	return payload_key(f->conn->sender ? me : peer, f->conn->sender ? peer : me,
			   f->conn->channel, serial);
}

static uint64_t stamp_key(struct nb *nb, const struct nb_flow *f, uint64_t message)
{
	return key(nb, f, f->serial + message);
}

/* Bodies that stay belong to their slot. */
static uint64_t body_key(struct nb *nb, const struct nb_flow *f, uint64_t message,
			 enum nb_mode mode)
{
	if (mode == NB_FULL)
		return stamp_key(nb, f, message);
	return key(nb, f, f->body + message % f->slots);
}

void nb_flow_restart(struct nb_flow *f, uint64_t messages)
{
	f->serial += f->messages;
	f->messages = messages;
	f->ready = f->started = f->done = 0;
}

void nb_flow_prepare(struct nb *nb, struct nb_flow *f)
{
	/* The top bit keeps the serials of bodies apart from those of messages. */
	f->body = f->serial | UINT64_C(1) << 63;
	for (uint64_t s = 0; s < f->slots; s++) {
		host_beat(nb->self, HOST_PROGRESS);
		if (f->conn->sender)
			payload_fill(slot_at(f, s), len_of(f, s), body_key(nb, f, s, NB_STAMP));
		else
			memset(slot_at(f, s), PAYLOAD_POISON, len_of(f, s));
	}
}

static void say_wrong(struct nb *nb, const struct nb_flow *f, uint64_t message, size_t wrong,
		      size_t first)
{
	const unsigned char *at = (const unsigned char *)slot_at(f, message);
	size_t len = len_of(f, message);

	if (wrong)
		nb_wrong(nb, f->conn, wrong,
			 "message %" PRIu64 " of %zu bytes: %zu wrong, first at %zu%s",
			 f->serial + message, len, wrong, first,
			 at[first] == PAYLOAD_POISON ? " (never written)" : "");
}

/* A receive is done: look at it. */
static void verify(struct nb *nb, struct nb_flow *f, uint64_t message, int size, enum nb_mode mode)
{
	uint64_t stamp = stamp_key(nb, f, message);
	size_t len = len_of(f, message), wrong, first = 0;
	char *at = slot_at(f, message);

	if (size < 0 || (size_t)size != len)
		nb_wrong(nb, f->conn, 1, "message %" PRIu64 " of %zu bytes: test reports %d",
			 f->serial + message, len, size);
	if (mode == NB_FULL)
		wrong = payload_check(at, len, body_key(nb, f, message, mode), stamp, &first);
	else
		wrong = payload_check_stamp(at, len, stamp, &first);
	say_wrong(nb, f, message, wrong, first);
}

void nb_flow_verify(struct nb *nb, struct nb_flow *f)
{
	uint64_t kept = f->messages < f->slots ? f->messages : f->slots;

	for (uint64_t m = f->messages - kept; m < f->messages; m++) {
		size_t wrong, first = 0;

		host_beat(nb->self, HOST_PROGRESS);
		wrong = payload_check(slot_at(f, m), len_of(f, m), body_key(nb, f, m, NB_STAMP),
				      stamp_key(nb, f, m), &first);
		say_wrong(nb, f, m, wrong, first);
	}
}

/* Make the slot ready for its message: what NCCL leaves to the GPU. */
static void make_ready(struct nb *nb, struct nb_flow *f, uint64_t message, enum nb_mode mode)
{
	size_t len = len_of(f, message);
	char *at = slot_at(f, message);

	if (!f->conn->sender) {
		if (mode == NB_FULL)
			memset(at, PAYLOAD_POISON, len);
		return;
	}
	if (mode == NB_FULL)
		payload_fill(at, len, body_key(nb, f, message, mode));
	if (mode != NB_PLAIN)
		payload_stamp(at, len, stamp_key(nb, f, message));
}

static int start(struct nb *nb, struct nb_flow *f)
{
	void **request = &f->requests[f->started % f->window];
	size_t len = len_of(f, f->started);
	char *at = slot_at(f, f->started);
	int rc;

	if (f->conn->sender)
		rc = nb_isend(nb, f->conn, f->buf, at, len, request);
	else
		rc = nb_irecv(nb, f->conn, f->buf, at, len, request);
	if (rc > 0)
		f->started++;
	return rc;
}

static int finish(struct nb *nb, struct nb_flow *f, enum nb_mode mode)
{
	int size, rc = nb_test(nb, f->conn, f->requests[f->done % f->window], &size);

	if (rc <= 0)
		return rc;
	if (!f->conn->sender && mode != NB_PLAIN)
		verify(nb, f, f->done, size, mode);
	f->done++;
	return rc;
}

int nb_flow_pass(struct nb *nb, struct nb_flow *f, enum nb_mode mode, uint64_t gate)
{
	int moved = 0, rc;

	if (f->ready < f->messages && f->ready < f->done + f->window && f->ready < gate) {
		make_ready(nb, f, f->ready, mode);
		f->ready++;
		moved = 1;
	}
	if (f->started < f->ready) {
		rc = start(nb, f);
		if (rc < 0)
			return rc;
		moved |= rc;
	}
	if (f->done < f->started) {
		rc = finish(nb, f, mode);
		if (rc < 0)
			return rc;
		moved |= rc;
	}
	return moved;
}

int nb_flow_stalled(struct nb *nb, const struct nb_flow *flows, int n)
{
	for (int i = 0; i < n; i++) {
		const struct nb_flow *f = &flows[i];

		if (nb_flow_finished(f))
			continue;
		host_err("no progress for %d s at size %" PRIu64 ": %s rank %d: %" PRIu64
			 " messages, %" PRIu64 " started, %" PRIu64 " done",
			 nb->self->timeout_s, nb->size,
			 f->conn->sender ? "send to" : "receive from", f->conn->peer, f->messages,
			 f->started, f->done);
		break;
	}
	return -ETIME;
}
