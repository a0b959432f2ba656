/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages one behind the other, each verified. */
#include "stream.h"

#include <string.h>

#include "common/payload.h"

static size_t slot_bytes(const struct stream *s)
{
	return s->lane->in.size / (size_t)s->slots / 8 * 8;
}

static char *slot_at(const struct stream *s, const struct host_guard *buf, uint64_t k)
{
	return buf->addr + k % (uint64_t)s->slots * slot_bytes(s);
}

/* The same in all ranks; two in a row are equal, so that sizes do not tell them apart. */
static size_t any_size(const struct stream *s, uint64_t k)
{
	uint64_t key = payload_key(0, 0, (int)(s->ctx->opt->seed % 1024), k / 2);

	if (key % 16 == 0)
		return key & 16 ? 0 : s->largest;
	return (size_t)(key >> 8) % (s->largest + 1);
}

size_t stream_size_serial(const struct stream *s, uint64_t k)
{
	return 8 + (s->largest - 8) * (k % 3) / 2;
}

static uint64_t key_of(const struct stream *s, const struct check_end *end, uint64_t k)
{
	int rank = s->ctx->self->rank;

	return end->sender ? payload_key(rank, end->peer, 1, s->lane->serial + k)
			   : payload_key(end->peer, rank, 1, s->lane->serial + k);
}

void stream_init(struct stream *s, struct check_ctx *ctx, struct check_lane *lane, uint64_t count,
		 int slots)
{
	*s = (struct stream){
		.ctx = ctx, .lane = lane, .count = count, .slots = slots, .size = any_size};
	s->largest = slot_bytes(s);
}

/* ---- the receiver ---- */

bool stream_post(struct stream *s)
{
	struct check_end *end = &s->lane->link.recv;
	uint64_t k = s->posted;
	void **at = &s->recv[k % (uint64_t)s->slots];

	if (k == s->count || k == s->received + (uint64_t)s->slots)
		return false;
	memset(slot_at(s, &s->lane->in, k), PAYLOAD_POISON, slot_bytes(s));
	*at = check_irecv(s->ctx, end, slot_at(s, &s->lane->in, k), s->largest,
			  check_tag(s->ctx, end), s->lane->in_mh);
	s->posted += *at != NULL;
	return *at;
}

/* The slot is nobody's: as a consumer of NCCL's has read it and not yet given it back. */
static void stay_still(struct stream *s, char *at)
{
	uint64_t since = host_now_ns();
	const char *late;

	memset(at, ~PAYLOAD_POISON, slot_bytes(s));
	do {
		/* What is late comes while others are tested. */
		stream_send(s);
		stream_sends_reap(s);
		late = host_guard_differs(at, (char)~PAYLOAD_POISON, slot_bytes(s));
		check_need(s->ctx, !late,
			   "expected no write into a target that was used, saw one at %td",
			   late ? late - at : 0);
	} while (host_now_ns() - since < s->still_ns);
}

void stream_verify(struct stream *s, uint64_t k, int reported)
{
	uint64_t key = key_of(s, &s->lane->link.recv, k);
	char *at = slot_at(s, &s->lane->in, k);
	size_t size = s->size(s, k), first = 0, wrong;
	const char *behind;

	/* At once, and from the end: what is late is there. */
	wrong = payload_check_stamp(at, size, key, &first);
	if (!wrong)
		wrong = payload_check(at, size, key, key, &first);
	check_need(s->ctx, reported == (int)size,
		   "expected message %llu of %zu bytes, saw %d reported", (unsigned long long)k,
		   size, reported);
	check_need(s->ctx, !wrong,
		   "expected the %zu bytes of message %llu, saw %zu wrong, at %zu first", size,
		   (unsigned long long)k, wrong, first);
	behind = host_guard_differs(at + size, (char)PAYLOAD_POISON, slot_bytes(s) - size);
	check_need(s->ctx, !behind,
		   "expected nothing behind the %zu bytes of message %llu, saw a write at %td",
		   size, (unsigned long long)k, behind ? behind - at : 0);
	atomic_fetch_add(&s->ctx->note->expected, 1);
	if (s->still_ns)
		stay_still(s, at);
}

bool stream_recvs_reap(struct stream *s)
{
	int sizes[NCCL_NET_TEST_SIZES] = {0};
	uint64_t k = s->received;

	if (k == s->posted || !check_test(s->ctx, s->recv[k % (uint64_t)s->slots], sizes))
		return false;
	s->received++;
	stream_verify(s, k, sizes[0]);
	return true;
}

/* ---- the sender ---- */

bool stream_send(struct stream *s)
{
	struct check_end *end = &s->lane->link.send;
	uint64_t k = s->sent, key = key_of(s, end, k);
	void **at = &s->send[k % (uint64_t)s->slots];
	char *from = slot_at(s, &s->lane->out, k);
	size_t size;

	if (k == s->count || k == s->sends_done + (uint64_t)s->slots)
		return false;
	size = s->size(s, k);
	payload_fill(from, size, key);
	payload_stamp(from, size, key);
	*at = check_isend(s->ctx, end, from, size, check_tag(s->ctx, end), s->lane->out_mh);
	s->sent += *at != NULL;
	return *at;
}

bool stream_sends_reap(struct stream *s)
{
	uint64_t k = s->sends_done;
	int size = 0;

	if (k == s->sent || !check_test(s->ctx, s->send[k % (uint64_t)s->slots], &size))
		return false;
	s->sends_done++;
	if (s->overwrite)
		memset(slot_at(s, &s->lane->out, k), ~PAYLOAD_POISON, slot_bytes(s));
	return true;
}

/* ---- both ---- */

bool stream_over(const struct stream *s)
{
	return s->received == s->count && s->sends_done == s->count;
}

void stream_run(struct stream *s)
{
	uint64_t since = host_now_ns();

	while (!stream_over(s)) {
		bool moved = false;

		moved |= stream_post(s);
		moved |= stream_send(s);
		moved |= stream_sends_reap(s);
		moved |= stream_recvs_reap(s);
		if (moved)
			since = host_now_ns();
		check_tick(s->ctx, since, "messages to go on");
	}
	s->lane->serial += s->count;
}
