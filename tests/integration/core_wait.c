/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping until something happens: completion channels, asynchronous events. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "../lib/loop.h"
#include "../lib/plug.h"

enum { LEN = 64, ROUNDS = 300 };

TestSuite(wait, .timeout = 60);

static void send_one(struct loop *l, uint64_t wr_id)
{
	struct srd_wr wr = loop_wr(l, IBV_WR_SEND, 0, LEN, 0);

	wr.wr_id = wr_id;
	loop_recv(l, wr_id, LOOP_B, LEN);
	cr_assert(zero(int, srd_post(&l->a, &wr, 1)));
}

/* ---- completions ---- */

/* As srd.h shows it; fails after LOOP_WAIT_MS without one. */
static struct srd_wc sleep_for_one(struct loop *l, struct srd_cq *cq)
{
	struct srd_cq *ready;
	struct srd_wc wc;
	int n;

	while ((n = srd_cq_poll(cq, &wc, 1)) == 0) {
		cr_assert(zero(int, srd_channel_wait(&l->ch, LOOP_WAIT_MS, &ready)));
		cr_assert(zero(int, srd_cq_arm(ready)));
	}
	cr_assert(eq(int, n, 1));
	cr_assert(zero(int, srd_wc_err(&wc)));
	return wc;
}

Test(wait, every_message_wakes_who_sleeps_for_it)
{
	struct loop l;

	loop_init(&l, &(struct loop_attr){.channel = true});
	cr_assert(zero(int, srd_cq_arm(&l.b_cq)));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		send_one(&l, i);
		cr_assert(eq(u64, sleep_for_one(&l, &l.b_cq).wr_id, i));
		loop_wait_ok(&l.a_cq);
	}
	loop_fini(&l);
}

Test(wait, channel_of_two_queues_says_which)
{
	struct srd_cq *ready = NULL;
	bool a = false, b = false;
	struct loop l;

	loop_init(&l, &(struct loop_attr){.channel = true});
	cr_assert(zero(int, srd_cq_arm(&l.a_cq)));
	cr_assert(zero(int, srd_cq_arm(&l.b_cq)));
	send_one(&l, 1);
	while (!a || !b) {
		cr_assert(zero(int, srd_channel_wait(&l.ch, LOOP_WAIT_MS, &ready)));
		cr_assert(ready == &l.a_cq || ready == &l.b_cq);
		*(ready == &l.a_cq ? &a : &b) = true;
	}
	loop_fini(&l);
}

Test(wait, nothing_to_announce_is_eagain)
{
	struct srd_cq *ready = NULL;
	struct loop l;

	loop_init(&l, &(struct loop_attr){.channel = true});
	cr_assert(eq(int, srd_channel_wait(&l.ch, 0, &ready), -EAGAIN));
	cr_assert(eq(int, srd_channel_wait(&l.ch, 30, &ready), -EAGAIN));
	cr_assert(eq(ptr, ready, NULL), "outputs are written on success only");
	loop_fini(&l);
}

Test(wait, descriptor_can_be_polled)
{
	struct pollfd p = {.events = POLLIN};
	struct srd_cq *ready;
	struct loop l;

	loop_init(&l, &(struct loop_attr){.channel = true});
	p.fd = l.ch.fd;
	cr_assert(zero(int, srd_cq_arm(&l.b_cq)));
	send_one(&l, 1);
	cr_assert(eq(int, poll(&p, 1, LOOP_WAIT_MS), 1));
	cr_assert(zero(int, srd_channel_wait(&l.ch, 0, &ready)));
	loop_fini(&l);
}

Test(wait, announcement_nobody_took_does_not_hold_up_the_end)
{
	struct pollfd p = {.events = POLLIN};
	struct loop l;

	loop_init(&l, &(struct loop_attr){.channel = true});
	p.fd = l.ch.fd;
	cr_assert(zero(int, srd_cq_arm(&l.b_cq)));
	send_one(&l, 1);
	cr_assert(eq(int, poll(&p, 1, LOOP_WAIT_MS), 1));
	loop_fini(&l);
}

/* Where the device reads it: consumer index, events taken so far at 29, arm bit at 31. */
Test(wait, doorbell_says_armed_and_how_many_announcements_were_taken)
{
	struct srd_ring ring;
	struct srd_cq *ready;
	struct loop l;

	loop_init(&l, &(struct loop_attr){.channel = true});
	if (srd_cq_ring(&l.b_cq, &ring) || !ring.doorbell) {
		loop_fini(&l);
		cr_skip("a device or libefa that does not show its doorbell");
	}
	cr_assert(zero(int, srd_cq_arm(&l.b_cq)));
	cr_assert(eq(u32, *ring.doorbell, 1u << 31));
	send_one(&l, 1);
	cr_assert(zero(int, srd_channel_wait(&l.ch, LOOP_WAIT_MS, &ready)));
	loop_wait_ok(&l.b_cq);
	cr_assert(eq(u32, *ring.doorbell, 1u << 29 | 1));
	cr_assert(zero(int, srd_cq_arm(&l.b_cq)));
	cr_assert(eq(u32, *ring.doorbell, 1u << 31 | 1u << 29 | 1));
	loop_fini(&l);
}

/* ---- events ---- */

static struct told {
	char word[16];
	enum ibv_event_type type;
	char element; /* of A: q, c, or none */
} tolds[] = {
	{"qp_fatal", IBV_EVENT_QP_FATAL, 'q'},
	{"cq_err", IBV_EVENT_CQ_ERR, 'c'},
	{"device_fatal", IBV_EVENT_DEVICE_FATAL, 0},
	{"port_err", IBV_EVENT_PORT_ERR, 0},
};

ParameterizedTestParameters(wait, event_says_what_happened_to_what)
{
	return cr_make_param_array(struct told, tolds, sizeof(tolds) / sizeof(tolds[0]));
}

ParameterizedTest(struct told *t, wait, event_says_what_happened_to_what)
{
	struct srd_event event;
	char settings[64];
	/* Static: nothing of a device that failed can be freed, and that is no leak of ours. */
	static struct loop l;

	snprintf(settings, sizeof(settings), "fault=event %s", t->word);
	plug_softefa(settings);
	loop_init(&l, &(struct loop_attr){0});
	cr_assert(eq(int, srd_dev_event(&l.dev, 0, &event), -EAGAIN));
	send_one(&l, 1);
	cr_assert(zero(int, srd_dev_event(&l.dev, LOOP_WAIT_MS, &event)));
	cr_assert(eq(int, event.type, t->type));
	cr_assert(eq(ptr, event.qp, t->element == 'q' ? l.a.ibv : NULL));
	cr_assert(eq(ptr, event.cq, t->element == 'c' ? ibv_cq_ex_to_cq(l.a_cq.ibv) : NULL));
	cr_assert(eq(int, srd_dev_event(&l.dev, 30, &event), -EAGAIN), "told once");
	if (t->type != IBV_EVENT_DEVICE_FATAL)
		loop_fini(&l);
}
