/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delivery: exactly once, in no order, however long it goes on. Sections are those of the
 * description of the device; "Guess" says that nobody has seen it on silicon.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(order, .timeout = 120);

enum { SLOT = 256, SLOTS = 32 };

/* ---- a stream of sends from A to B ---- */

struct stream {
	struct hw_pair p;
	uint8_t *sent, *received; /* a flag for each */
	unsigned n, posted, done, arrived;
};

static void once(uint8_t *flags, uint64_t i, unsigned n, const char *what)
{
	MUST(i < n, "%s %llu of %u", what, (unsigned long long)i, n);
	MUST(!flags[i], "%s %llu comes twice", what, (unsigned long long)i);
	flags[i] = 1;
}

/* Message i is of 1 ... SLOT bytes that follow from i. */
static uint32_t length(uint32_t i)
{
	return 1 + i * 7 % SLOT;
}

static void post_next(struct stream *s, const uint64_t *slot)
{
	struct hw_wr wr = hw_pair_wr(&s->p, HW_OP_SEND, *slot * SLOT, length(s->posted), 0);

	bytes_fill(s->p.a.buf + *slot * SLOT, length(s->posted), s->posted);
	wr.wr_id = (uint64_t)s->posted << 8 | *slot;
	wr.imm_on = true;
	wr.imm = s->posted++;
	hw_post(&s->p.a, &wr);
}

static bool take_sent(struct stream *s)
{
	struct hw_wc wc;
	uint64_t slot;

	if (!hw_next(&s->p.a.scq, &wc))
		return false;
	MUST(wc.status == HW_OK, "status %u", wc.status);
	once(s->sent, wc.wr_id >> 8, s->n, "request");
	s->done++;
	slot = wc.wr_id & 0xff;
	if (s->posted < s->n)
		post_next(s, &slot);
	return true;
}

static bool take_received(struct stream *s)
{
	struct hw_wc wc;
	const uint8_t *at;

	if (!hw_next(&s->p.b.rcq, &wc))
		return false;
	at = s->p.b.buf + wc.wr_id * SLOT;
	MUST(wc.status == HW_OK && wc.wr_id < 2 * SLOTS, "status %u", wc.status);
	once(s->received, wc.imm, s->n, "message");
	MUST(wc.len == length(wc.imm), "%u bytes of %u", wc.len, length(wc.imm));
	MUST(bytes_differ(at, wc.len, wc.imm) < 0, "contents of message %u", wc.imm);
	s->arrived++;
	hw_recv(&s->p.b, wc.wr_id, wc.wr_id * SLOT, SLOT);
	return true;
}

static void run_stream(unsigned n, const struct hw_attr *attr)
{
	int64_t end = kids_now_us() + 100 * INT64_C(1000000);
	struct stream s = {.n = n, .sent = calloc(1, n), .received = calloc(1, n)};

	hw_pair_init(&s.p, attr, NULL);
	for (uint64_t i = 0; i < 2 * SLOTS; i++)
		hw_recv(&s.p.b, i, i * SLOT, SLOT);
	for (uint64_t i = 0; i < SLOTS && s.posted < n; i++)
		post_next(&s, &i);
	while (s.done < n || s.arrived < n) {
		if (!take_sent(&s) & !take_received(&s))
			kids_nap_us(20);
		MUST(kids_now_us() < end, "%u done, %u arrived of %u", s.done, s.arrived, n);
	}
	cr_assert(hw_quiet(&s.p.a.scq), "more completions than requests");
	cr_assert(hw_quiet(&s.p.b.rcq), "more messages than were sent");
	hw_pair_fini(&s.p);
	free(s.sent);
	free(s.received);
}

/* Section 5.1. */
Test(order, each_message_arrives_once_with_its_own_contents)
{
	run_stream(5000, &(struct hw_attr){0});
}

/*
 * Sections 4.2, 4.3, 4.5: the producer counters of both queues, request ids and the consumer index
 * have 16 bits.
 */
Test(order, counters_of_16_bits_wrap_without_a_loss)
{
	run_stream(66000 + SLOTS, &(struct hw_attr){0});
}

/* Section 4.4: the phase bit turns with each lap, here each 64 completions. */
Test(order, small_completion_queues_turn_their_phase)
{
	run_stream(5000, &(struct hw_attr){.cq = 2 * SLOTS});
}

/* Section 4.1: a ring as small as it can be. Its slots are used again at once. */
Test(order, smallest_queues_work)
{
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.sq = 1, .rq = 1, .cq = 1}, NULL);
	for (unsigned i = 0; i < 300; i++)
		hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* ---- writes and reads ---- */

/* Section 5.1: no order between writes, but each completion says that its own bytes are there. */
Test(order, completed_write_has_landed)
{
	enum { N = 64, BYTES = 700 };
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE}, NULL);
	for (uint64_t i = 0; i < N; i++) {
		struct hw_wr wr =
			hw_pair_wr(&p, HW_OP_WRITE, i * BYTES, BYTES, (N - 1 - i) * BYTES);

		bytes_fill(p.a.buf + i * BYTES, BYTES, (uint32_t)i);
		wr.wr_id = i;
		hw_post(&p.a, &wr);
	}
	for (unsigned n = 0; n < N; n++) {
		uint64_t i = hw_wait_for(&p.a.scq, HW_OK).wr_id;

		cr_assert(lt(long, bytes_differ(p.b.buf + (N - 1 - i) * BYTES, BYTES, (uint32_t)i),
			     0));
		p.b.buf[(N - 1 - i) * BYTES] ^= 1; /* it does not complete twice */
	}
	cr_assert(hw_quiet(&p.a.scq));
	hw_pair_fini(&p);
}

/* Section 5.1: the receive completion of a write with immediate stands for that write's data. */
Test(order, write_with_immediate_tells_of_data_that_has_landed)
{
	enum { N = 60, BYTES = 1000 };
	uint8_t seen[N] = {0};
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE}, NULL);
	for (uint64_t i = 0; i < N; i++) {
		struct hw_wr wr = hw_pair_wr(&p, HW_OP_WRITE, i * BYTES, BYTES, i * BYTES);

		hw_recv(&p.b, i, 0, 0);
		bytes_fill(p.a.buf + i * BYTES, BYTES, (uint32_t)i);
		wr.imm_on = true;
		wr.imm = (uint32_t)i;
		hw_post(&p.a, &wr);
	}
	for (unsigned n = 0; n < N; n++) {
		struct hw_wc wc = hw_wait_for(&p.b.rcq, HW_OK);

		once(seen, wc.imm, N, "write");
		cr_assert(lt(long, bytes_differ(p.b.buf + wc.imm * BYTES, BYTES, wc.imm), 0));
	}
	hw_pair_fini(&p);
}

/* Section 5.1: requests of all kinds under way together do not mix up. */
Test(order, kinds_of_requests_do_not_disturb_each_other)
{
	enum { N = 48, BYTES = 300, HALF = 1 << 15 };
	uint8_t done[N] = {0}, got[N] = {0};
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE | HW_READ}, NULL);
	for (uint32_t i = 0; i < N; i++) {
		enum hw_op op = (enum hw_op)(i % 3);
		struct hw_wr wr = hw_pair_wr(&p, op, i * BYTES, BYTES, i * BYTES);

		bytes_fill((op == HW_OP_READ ? p.b.buf : p.a.buf) + i * BYTES, BYTES, i);
		if (op == HW_OP_SEND)
			hw_recv(&p.b, i, HALF + i * BYTES, BYTES);
		wr.wr_id = i;
		wr.imm_on = op == HW_OP_SEND;
		wr.imm = i;
		hw_post(&p.a, &wr);
	}
	for (unsigned n = 0; n < N; n++) {
		uint64_t i = hw_wait_for(&p.a.scq, HW_OK).wr_id;
		const uint8_t *at = i % 3 == HW_OP_READ ? p.a.buf : p.b.buf;

		once(done, i, N, "request");
		if (i % 3 != HW_OP_SEND)
			cr_assert(lt(long, bytes_differ(at + i * BYTES, BYTES, (uint32_t)i), 0));
	}
	for (unsigned n = 0; n < N / 3; n++) {
		struct hw_wc wc = hw_wait_for(&p.b.rcq, HW_OK);

		once(got, wc.imm, N, "message");
		cr_assert(lt(long, bytes_differ(p.b.buf + HALF + wc.wr_id * BYTES, BYTES, wc.imm),
			     0));
	}
	hw_pair_fini(&p);
}
