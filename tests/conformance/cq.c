/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: what completions say, and events. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(cq, .timeout = 60);

enum { LEN = 300 };

/* By ibv_poll_cq(), and by the extended calls. */
static bool told[] = {false, true};

ParameterizedTestParameters(cq, receive_tells_all_of_its_message)
{
	return cr_make_param_array(bool, told, 2);
}

/* Section 4.4. */
ParameterizedTest(bool *ex, cq, receive_tells_all_of_its_message)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	hw_pair_init(&p, &(struct hw_attr){.told = *ex}, NULL);
	for (unsigned imm = 0; imm < 2; imm++) {
		hw_recv(&p.b, 0xfedcba9876543210, 0, LEN + 100);
		wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
		wr.imm_on = imm;
		wr.imm = 0x89abcdef;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		wc = hw_wait_for(&p.b.rcq, HW_OK);
		cr_assert(eq(u64, wc.wr_id, 0xfedcba9876543210));
		cr_assert(eq(int, (int)wc.op, IBV_WC_RECV));
		cr_assert(eq(u32, wc.len, LEN));
		cr_assert(eq(u32, wc.qpn, p.to_b.qpn));
		cr_assert(eq(u32, wc.src_qpn, p.to_a.qpn));
		cr_assert(eq(int, wc.ahn, hw_ahn(p.ah_a)));
		cr_assert(not(wc.unsolicited));
		cr_assert(eq(int, (wc.flags & IBV_WC_WITH_IMM) != 0, (int)imm));
		if (imm)
			cr_assert(eq(u32, wc.imm, 0x89abcdef));
	}
	hw_pair_fini(&p);
}

ParameterizedTestParameters(cq, request_tells_whose_it_is)
{
	return cr_make_param_array(bool, told, 2);
}

/* Sections 4.4, 4.5: the number that the program gave, whole. */
ParameterizedTest(bool *ex, cq, request_tells_whose_it_is)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	hw_pair_init(&p, &(struct hw_attr){.told = *ex}, NULL);
	hw_recv(&p.b, 1, 0, LEN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.wr_id = UINT64_MAX - 5;
	wc = hw_run(&p.a, &wr);
	cr_assert(eq(uint, wc.status, HW_OK));
	cr_assert(eq(u32, wc.qpn, p.to_a.qpn));
	cr_assert(eq(int, (int)wc.op, IBV_WC_SEND));
	wr.sge[0].lkey ^= 0x7fff;
	wc = hw_run(&p.a, &wr);
	cr_assert(eq(uint, wc.status, HW_BAD_LKEY));
	cr_assert(eq(int, (int)wc.ibv, IBV_WC_LOC_PROT_ERR));
	hw_pair_fini(&p);
}

/* Section 4.8: what all versions of libefa make of them. */
Test(cq, statuses_of_the_device_become_those_of_verbs)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, p.a.mtu + 1, 0);
	wc = hw_run(&p.a, &wr);
	cr_assert(eq(int, (int)wc.ibv, IBV_WC_LOC_LEN_ERR));
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.qpn ^= 0x5a5a;
	wc = hw_run(&p.a, &wr);
	cr_assert(eq(int, (int)wc.ibv, IBV_WC_REM_INV_RD_REQ_ERR));
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	hw_post(&p.a, &wr);
	cr_assert(hw_quiet(&p.a.scq));
	MUST_0(-hw_qp_to(p.a.qp, IBV_QPS_ERR));
	cr_assert(eq(int, (int)hw_wait(&p.a.scq).ibv, IBV_WC_WR_FLUSH_ERR));
	hw_pair_fini(&p);
}

/* A message from one queue pair of @h to another; by completions, counted for each. */
static void pass(struct hw *h, struct ibv_qp *from, struct ibv_qp *to, struct ibv_ah *ah)
{
	struct hw a = *h, b = *h;
	struct hw_addr addr;
	struct hw_wr wr;

	a.qp = from;
	a.qpx = HW(ibv_qp_to_qp_ex)(from);
	b.qp = to;
	addr = hw_addr(&b);
	wr = hw_wr(&a, HW_OP_SEND, &addr, ah, 0, 8, 0);
	hw_recv(&b, 1, 1024, 8);
	hw_post(&a, &wr);
	for (unsigned k = 0; k < 2; k++) {
		struct hw_wc wc = hw_wait_for(&h->scq, HW_OK);

		cr_assert(eq(u32, wc.qpn, wc.op & IBV_WC_RECV ? to->qp_num : from->qp_num));
	}
}

/* Section 4.4: several queue pairs, and both of their queues, may share one. */
Test(cq, one_queue_serves_several_queue_pairs)
{
	enum { QPS = 4 };
	struct ibv_qp *qp[QPS];
	struct hw_cq own;
	struct hw_addr self;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	self = hw_addr(&h);
	hw_ah(&h, &self);
	own = h.rcq;
	h.rcq = h.scq;
	for (unsigned i = 0; i < QPS; i++) {
		qp[i] = hw_qp_create(&h, &(struct hw_attr){0});
		cr_assert(ne(ptr, qp[i], NULL));
		MUST_0(-hw_qp_up(qp[i], HW_QKEY, -1));
	}
	for (unsigned i = 0; i < 100; i++)
		pass(&h, qp[i % QPS], qp[(i / QPS) % QPS], h.ah[0]);
	for (unsigned i = 0; i < QPS; i++)
		cr_assert(zero(int, HW(ibv_destroy_qp)(qp[i])));
	h.rcq = own;
	hw_fini(&h);
}

/*
 * Section 4.6. Guess: that a queue that is full holds completions back; on silicon it may be an
 * overrun, and programs must not come here.
 */
Test(cq, full_queue_loses_nothing)
{
	enum { N = 32 };
	uint32_t seen = 0;
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.cq = 8}, NULL);
	for (uint32_t i = 0; i < N; i++) {
		struct hw_wr wr = hw_pair_wr(&p, HW_OP_SEND, 0, 8, 0);

		hw_recv(&p.b, i, 0, 8);
		wr.imm_on = true;
		wr.wr_id = wr.imm = i;
		hw_post(&p.a, &wr);
	}
	kids_nap_us(50000);
	for (uint32_t i = 0; i < N; i++)
		seen |= 1u << hw_wait_for(&p.b.rcq, HW_OK).imm;
	cr_assert(eq(u32, seen, UINT32_MAX));
	seen = 0;
	for (uint32_t i = 0; i < N; i++)
		seen |= 1u << hw_wait_for(&p.a.scq, HW_OK).wr_id;
	cr_assert(eq(u32, seen, UINT32_MAX));
	hw_pair_fini(&p);
}

/* Section 2.6. */
Test(cq, vector_that_the_device_lacks_is_refused)
{
	struct ibv_cq *cq;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	cq = HW(ibv_create_cq)(h.ctx, 16, NULL, NULL, h.ctx->num_comp_vectors - 1);
	cr_assert(ne(ptr, cq, NULL));
	cr_assert(zero(int, HW(ibv_destroy_cq)(cq)));
	cr_assert(eq(ptr, HW(ibv_create_cq)(h.ctx, 16, NULL, NULL, h.ctx->num_comp_vectors), NULL));
	cr_assert(eq(int, errno, EINVAL));
	hw_fini(&h);
}

/* ---- events ---- */

static bool readable(struct hw *h, int ms)
{
	struct pollfd fd = {.fd = h->channel->fd, .events = POLLIN};

	return poll(&fd, 1, ms) == 1;
}

/* Take events until the completion is there; more events than completions may come. */
static struct hw_wc wait_by_event(struct hw *h, struct hw_cq *cq)
{
	struct ibv_cq *which;
	struct hw_wc wc;
	void *context;

	for (;;) {
		MUST_0(-ibv_req_notify_cq(cq->cq, 0));
		if (hw_next(cq, &wc))
			return wc;
		MUST(readable(h, KIDS_WAIT_MS), "no event");
		MUST_0(-HW(ibv_get_cq_event)(h->channel, &which, &context));
		MUST(which == h->scq.cq || which == h->rcq.cq, "event of an unknown queue");
		MUST(context == h, "context of the event");
		HW(ibv_ack_cq_events)(which, 1);
	}
}

/* Section 4.7: arm, poll, wait, as the manual page of ibv_get_cq_event has it. A hang is a loss. */
Test(cq, armed_queue_has_an_event_for_what_comes)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.channel = true}, NULL);
	for (unsigned i = 0; i < 300; i++) {
		hw_recv(&p.b, i, 0, LEN);
		wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
		hw_post(&p.a, &wr);
		cr_assert(eq(uint, wait_by_event(&p.b, &p.b.rcq).status, HW_OK));
		cr_assert(eq(uint, wait_by_event(&p.a, &p.a.scq).status, HW_OK));
	}
	hw_pair_fini(&p); /* waits for events that were not acknowledged: there are none */
}

/* Section 4.7: events of errors, too. */
Test(cq, flushed_work_has_an_event)
{
	struct hw h;

	hw_init(&h, &(struct hw_attr){.channel = true});
	hw_recv(&h, 1, 0, LEN);
	MUST_0(-hw_qp_to(h.qp, IBV_QPS_ERR));
	cr_assert(eq(uint, wait_by_event(&h, &h.rcq).status, HW_FLUSHED));
	hw_fini(&h);
}

/* Section 4.7: the channel is a file like others. */
Test(cq, idle_channel_is_not_readable)
{
	struct ibv_cq *which;
	struct hw h;
	void *context;

	hw_init(&h, &(struct hw_attr){.channel = true});
	MUST_0(-ibv_req_notify_cq(h.scq.cq, 0));
	cr_assert(not(readable(&h, 50)));
	cr_assert(zero(int, fcntl(h.channel->fd, F_SETFL, O_NONBLOCK)));
	cr_assert(ne(int, HW(ibv_get_cq_event)(h.channel, &which, &context), 0));
	cr_assert(eq(int, errno, EAGAIN));
	hw_fini(&h);
}

/* Section 2.6: events that nobody read are gone with their queue. */
Test(cq, unread_events_do_not_hold_up_the_end)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.channel = true}, NULL);
	MUST_0(-ibv_req_notify_cq(p.b.rcq.cq, 0));
	hw_recv(&p.b, 1, 0, LEN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(readable(&p.b, KIDS_WAIT_MS));
	hw_pair_fini(&p);
}

/* Section 4.7: there are no solicited messages here. */
Test(cq, events_of_solicited_messages_alone_are_refused)
{
	struct hw h;

	hw_init(&h, &(struct hw_attr){.channel = true});
	cr_assert(ne(int, ibv_req_notify_cq(h.scq.cq, 1), 0));
	hw_fini(&h);
}
