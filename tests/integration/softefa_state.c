/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pair states of the adapter: what the moves to error and reset do to work under way. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_state, .timeout = 60);

enum { LEN = 64 };

static void send_one(struct duo *d, uint16_t req_id)
{
	struct raw_wr wr = node_wr(&d->a, RAW_SEND, &d->to_b, d->ahn, 0, LEN, 0);

	wr.req_id = req_id;
	node_post(&d->a, &wr);
}

Test(softefa_state, error_gives_back_receives_that_wait_for_room_in_the_cq)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.cq = 2});
	for (uint16_t i = 0; i < 6; i++)
		node_recv(&d.b, i, i * LEN, LEN);
	for (uint16_t i = 0; i < 6; i++)
		send_one(&d, i);
	/* Two have room; the others arrived, too, and wait. */
	node_wait_status(&d.a.scq, 0);
	node_wait_status(&d.a.scq, 0);
	kids_nap_us(20000);
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_ERR));
	for (unsigned i = 0; i < 6; i++)
		node_wait_status(&d.b.rcq, i < 2 ? 0 : 1);
	for (unsigned i = 0; i < 4; i++)
		node_wait_status(&d.a.scq, 8);
	cr_assert(node_quiet(&d.b.rcq, 10));
	duo_fini(&d);
}

/* Each of req_ids 0 ... n-1 once; returns how many with status 0. */
static unsigned each_once(struct raw_cq *cq, unsigned n)
{
	uint8_t seen[4096] = {0};
	unsigned fine = 0;

	for (unsigned i = 0; i < n; i++) {
		struct raw_wc wc = node_wait(cq);

		cr_assert(lt(u64, wc.req_id, n));
		cr_assert(zero(u8, seen[wc.req_id]), "request %u completes twice", (unsigned)wc.req_id);
		seen[wc.req_id] = 1;
		fine += wc.status == 0;
	}
	cr_assert(node_quiet(cq, 10), "more completions than work");
	return fine;
}

/* More requests than the ring between processes takes: answers wait for room in it. */
Test(softefa_state, error_completes_nothing_twice)
{
	enum { N = 4096 };
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.sq = N, .rq = N, .cq = 2 * N});
	for (uint16_t i = 0; i < N; i++)
		node_recv(&d.b, i, 0, LEN);
	for (uint16_t i = 0; i < N; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);

		wr.req_id = i;
		raw_post(&d.a.qp, &wr);
	}
	raw_ring(&d.a.qp);
	while (__atomic_load_n(d.b.rcq.ring + 3, __ATOMIC_ACQUIRE) == 0)
		; /* the first has arrived */
	MUST_0(raw_qp_to(&d.b.qp, &d.b.dev, RAW_ERR));
	each_once(&d.b.rcq, N);
	each_once(&d.a.scq, N);
	duo_fini(&d);
}
