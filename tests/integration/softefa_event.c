/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels of the adapter: no event is lost, and those of a dead queue do not come. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../lib/ear.h"
#include "../lib/kids.h"

TestSuite(softefa_event, .timeout = 100);

/* ---- arm, drain, wait ---- */

enum { ROUNDS = 2000 };

static void *sender(void *arg)
{
	struct ear *e = arg;
	struct raw_wr wr = ear_wr(e);
	struct raw_wc wc;

	/* One at a time: after each the other side must sleep again, or miss it. */
	for (unsigned i = 0; i < ROUNDS; i++) {
		node_post(&e->d.a, &wr);
		while (!raw_poll(&e->d.a.scq, &wc))
			kids_nap_us(i % 3 * 10);
		if (wc.status)
			return arg;
	}
	return NULL;
}

static unsigned drain(struct ear *e)
{
	struct raw_wc wc;
	unsigned n = 0;

	while (raw_cq_next(&e->cq, &wc)) {
		MUST(wc.status == 0, "status %u", wc.status);
		ear_recv(e, 0);
		n++;
	}
	if (n)
		raw_cq_done(&e->cq, false);
	return n;
}

/* As programs do it: the store of the drain may replace that of the arming before it was seen. */
Test(softefa_event, arm_drain_wait_misses_nothing)
{
	unsigned got = 0;
	struct ear e;
	pthread_t t;
	void *bad;

	node_settings(NULL);
	ear_init(&e);
	for (uint16_t i = 0; i < 64; i++)
		ear_recv(&e, i);
	pthread_create(&t, NULL, sender, &e);
	while (got < ROUNDS) {
		unsigned n;

		raw_cq_done(&e.cq, true);
		n = drain(&e);
		got += n;
		if (n == 0)
			ear_hear(&e);
	}
	pthread_join(t, &bad);
	cr_assert(eq(ptr, bad, NULL));
}

/* Wait first: the event of what came before the wait is there. */
Test(softefa_event, wait_drain_arm_misses_nothing)
{
	unsigned got = 0;
	struct ear e;
	pthread_t t;
	void *bad;

	node_settings(NULL);
	ear_init(&e);
	for (uint16_t i = 0; i < 64; i++)
		ear_recv(&e, i);
	raw_cq_done(&e.cq, true);
	pthread_create(&t, NULL, sender, &e);
	while (got < ROUNDS) {
		ear_hear(&e);
		raw_cq_done(&e.cq, true);
		got += drain(&e);
	}
	pthread_join(t, &bad);
	cr_assert(eq(ptr, bad, NULL));
}

/* Perftest arms before it looks, and looks once: an event too many and it goes on without its
 * message. */
Test(softefa_event, arming_before_the_look_brings_no_second_event)
{
	struct raw_wc wc;
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	raw_cq_done(&e.cq, true);
	for (unsigned i = 0; i < 100; i++) {
		ear_recv(&e, 0);
		ear_send(&e);
		ear_hear(&e);
		raw_cq_done(&e.cq, true);
		kids_nap_us(i % 2 ? 100 : 0);
		cr_assert(raw_poll(&e.cq, &wc), "event %u tells of nothing", i);
		cr_assert(zero(int, wc.status));
	}
	cr_assert(not(ear_readable(e.fd, 30)));
}

/* The look of who does not number its doorbells, or that came too early: the event is late, not
 * lost. */
Test(softefa_event, entry_that_came_while_arming_is_told_of)
{
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	for (unsigned i = 0; i < 8; i++) {
		ear_recv(&e, 0);
		ear_send(&e);
		raw_cq_done(&e.cq, true);
		ear_hear(&e);
		drain(&e);
	}
}

Test(softefa_event, idle_queue_is_silent)
{
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	raw_cq_done(&e.cq, true);
	cr_assert(not(ear_readable(e.fd, 30)));
	ear_recv(&e, 0);
	ear_send(&e);
	ear_hear(&e);
	drain(&e);
	raw_cq_done(&e.cq, true);
	cr_assert(not(ear_readable(e.fd, 30)));
}

/* ---- accounts ---- */

Test(softefa_event, destruction_counts_the_events_that_were_read)
{
	uint32_t events = 99;
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	for (unsigned i = 0; i < 3; i++) {
		ear_recv(&e, 0);
		raw_cq_done(&e.cq, true);
		ear_send(&e);
		ear_hear(&e);
		drain(&e);
	}
	/* One more, which nobody reads. */
	ear_recv(&e, 0);
	raw_cq_done(&e.cq, true);
	ear_send(&e);
	cr_assert(ear_readable(e.fd, KIDS_WAIT_MS));
	MUST_0(raw_qp_destroy(&e.qp, &e.d.b.dev));
	MUST_0(raw_cq_destroy(&e.cq, &e.d.b.dev, &events));
	cr_assert(eq(u32, events, 3));
	cr_assert(not(ear_readable(e.fd, 10)), "an event of a queue that is gone");
}

Test(softefa_event, events_of_other_queues_outlive_a_destruction)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .rq = 64};
	struct raw_cq other;
	uint32_t events = 99;
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	MUST_0(raw_cq_create(&other, &e.d.b.dev,
			     &(struct raw_cq_attr){.depth = 16, .channel = e.fd, .user = 77}));
	raw_cq_done(&other, true);
	ear_recv(&e, 0);
	raw_cq_done(&e.cq, true);
	ear_send(&e);
	MUST_0(raw_qp_destroy(&e.qp, &e.d.b.dev));
	MUST_0(raw_qp_create(&e.qp, &e.d.b.dev, &e.d.b.pd, &other, &other, &attr));
	MUST_0(raw_qp_up(&e.qp, &e.d.b.dev, NODE_QKEY, -1));
	ear_recv(&e, 0);
	ear_send(&e);
	MUST_0(raw_cq_destroy(&e.cq, &e.d.b.dev, &events));
	cr_assert(zero(u32, events));
	cr_assert(eq(u64, ear_event(e.fd), 77));
	MUST_0(raw_qp_destroy(&e.qp, &e.d.b.dev));
	MUST_0(raw_cq_destroy(&other, &e.d.b.dev, &events));
	cr_assert(eq(u32, events, 1));
}

/* ---- file descriptors ---- */

Test(softefa_event, channel_obeys_nonblock_and_epoll)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(EPOLL_CLOEXEC);
	uint64_t user;
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	cr_assert(zero(int, fcntl(e.fd, F_SETFL, O_NONBLOCK)));
	cr_assert(eq(int, (int)read(e.fd, &user, sizeof(user)), -1));
	cr_assert(eq(int, errno, EAGAIN));
	cr_assert(zero(int, epoll_ctl(ep, EPOLL_CTL_ADD, e.fd, &ev)));
	cr_assert(zero(int, epoll_wait(ep, &ev, 1, 10)));
	ear_recv(&e, 0);
	raw_cq_done(&e.cq, true);
	ear_send(&e);
	cr_assert(eq(int, epoll_wait(ep, &ev, 1, KIDS_WAIT_MS), 1));
	cr_assert(eq(int, (int)read(e.fd, &user, sizeof(user)), 8));
	cr_assert(eq(u64, user, (uintptr_t)&e.cq));
	cr_assert(zero(int, epoll_wait(ep, &ev, 1, 10)));
}

Test(softefa_event, channel_may_go_by_another_number)
{
	struct raw_cq cq;
	uint32_t events;
	struct ear e;
	int fd;

	node_settings(NULL);
	ear_init(&e);
	fd = dup(e.fd);
	close(e.fd);
	MUST_0(raw_cq_create(&cq, &e.d.b.dev, &(struct raw_cq_attr){.depth = 16, .channel = fd}));
	ear_recv(&e, 0);
	raw_cq_done(&e.cq, true);
	ear_send(&e);
	cr_assert(eq(u64, ear_event(fd), (uintptr_t)&e.cq));
	MUST_0(raw_qp_destroy(&e.qp, &e.d.b.dev));
	MUST_0(raw_cq_destroy(&e.cq, &e.d.b.dev, &events));
	cr_assert(eq(u32, events, 1));
}

Test(softefa_event, closed_channel_is_no_obstacle)
{
	struct raw_wc wc;
	struct ear e;

	node_settings(NULL);
	ear_init(&e);
	close(e.fd);
	ear_recv(&e, 0);
	raw_cq_done(&e.cq, true);
	ear_send(&e);
	while (!raw_poll(&e.cq, &wc))
		kids_nap_us(20);
	cr_assert(zero(int, wc.status));
	MUST_0(raw_qp_destroy(&e.qp, &e.d.b.dev));
	MUST_0(raw_cq_destroy(&e.cq, &e.d.b.dev, NULL));
}

/* ---- many ---- */

enum { MANY = 400 };

/* More than the channel holds at once: the others come when there is room. */
Test(softefa_event, one_channel_serves_more_queues_than_it_has_room_for)
{
	static struct raw_cq cq[MANY];
	static struct raw_qp qp[MANY];
	bool heard[MANY] = {false};
	struct raw_gid nobody = {{0xfe, 0x80, [15] = 99}};
	struct raw_ah ah;
	struct raw_wc wc;
	struct node n;
	int fd;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_ah_create(&ah, &n.dev, &n.pd, &nobody));
	MUST_0(raw_channel(&n.dev, &fd));
	for (unsigned i = 0; i < MANY; i++) {
		struct raw_cq_attr attr = {.depth = 16, .channel = fd, .user = i};

		MUST_0(raw_cq_create(&cq[i], &n.dev, &attr));
		MUST_0(raw_qp_create(&qp[i], &n.dev, &n.pd, &cq[i], &cq[i],
				     &(struct raw_qp_attr){.type = RAW_UD, .sq = 16}));
		MUST_0(raw_qp_up(&qp[i], &n.dev, NODE_QKEY, -1));
		raw_cq_done(&cq[i], true);
	}
	for (unsigned i = 0; i < MANY; i++) {
		raw_post(&qp[i], &(struct raw_wr){.op = RAW_SEND, .ahn = ah.ahn, .qpn = 7});
		raw_ring(&qp[i]);
	}
	kids_nap_us(100000); /* nobody reads yet */
	for (unsigned left = MANY; left;) {
		uint64_t i = ear_event(fd);

		cr_assert(lt(u64, i, MANY));
		left -= !heard[i];
		heard[i] = true;
		while (raw_poll(&cq[i], &wc))
			cr_assert(zero(int, wc.status));
	}
}
