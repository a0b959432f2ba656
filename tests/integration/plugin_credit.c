/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room in the queues of a device: what is promised to peers exists, once, and comms that use all
 * they can get leave enough for others. Small queues make the limits visible; needs softefa.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"

/* Two send queues of 128 per CQ of 512: 256 entries are left for what peers write. */
#define SMALL_QUEUES "max_cqe=512,max_sq_wr=128,fault=overflow"

enum { CQ = 512, SIZE = 64, MOST = 64, LINKS = 12 };

struct lane {
	struct link l;
	struct mem from, to;
	void *recv[MOST];
	int posted; /* receives, all outstanding */
};

static void lane_open(struct lane *n, struct plug *p, int from, int to)
{
	memset(n, 0, sizeof(*n));
	link_open(&n->l, p, from, to);
	mem_get(&n->from, p, n->l.send, MOST * SIZE, 0);
	mem_get(&n->to, p, n->l.recv, MOST * SIZE, 0);
}

static void lane_close(struct lane *n)
{
	mem_put(&n->from);
	mem_put(&n->to);
	link_close(&n->l);
}

/*
 * As many as are accepted, at most @most in all; returns how many were added. A send queue that is
 * full only now will have room at a later try.
 */
static int lane_post(struct lane *n, int most)
{
	int before = n->posted;
	unsigned tries = 0;

	while (n->posted < most && tries < 250) {
		int i = n->posted;

		n->recv[i] =
			plug_irecv(n->l.plug, n->l.recv, n->to.at + i * SIZE, SIZE, 0, n->to.mh);
		if (!n->recv[i])
			relax(&tries);
		n->posted += n->recv[i] != NULL;
	}
	return n->posted - before;
}

/* Send for all that is posted, and check that it arrives. */
static void lane_fill(struct lane *n, uint32_t seed)
{
	void *send[MOST];
	long bad;

	bytes_fill(n->from.at, MOST * SIZE, seed);
	for (int i = 0; i < n->posted; i++)
		send[i] =
			plug_send(n->l.plug, n->l.send, n->from.at + i * SIZE, SIZE, 0, n->from.mh);
	for (int i = 0; i < n->posted; i++) {
		plug_wait(n->l.plug, send[i]);
		plug_wait(n->l.plug, n->recv[i]);
	}
	bad = bytes_differ(n->to.at, (size_t)n->posted * SIZE, seed);
	need(bad < 0, "byte %ld of %d messages", bad, n->posted);
	n->posted = 0;
}

Test(credit, receives_of_all_comms_fit_into_the_completion_queue)
{
	static struct lane lane[LINKS];
	struct plug p;
	int sum = 0;

	plug_softefa(SMALL_QUEUES);
	plug_open(&p, 0);
	for (int i = 0; i < LINKS; i++)
		lane_open(&lane[i], &p, 0, 0);
	for (int i = 0; i < LINKS; i++)
		sum += lane_post(&lane[i], MOST);
	need(sum >= CQ / 4 && sum <= CQ, "%d receives below a CQ of %d", sum, CQ);
	for (int i = 0; i < LINKS; i++)
		need(lane[i].posted > 0, "comm %d has no receive", i);
	for (int i = 0; i < LINKS; i++)
		lane_fill(&lane[i], (uint32_t)i);
	for (int i = 0; i < LINKS; i++)
		lane_close(&lane[i]);
	plug_close(&p);
}

/* The first ones post all they can before the others are there. */
Test(credit, comm_opened_while_all_room_is_taken_gets_some_that_is_nobody_elses)
{
	static struct lane lane[LINKS];
	struct plug p;
	int sum = 0, own;

	plug_softefa(SMALL_QUEUES);
	plug_open(&p, 0);
	for (int i = 0; i < LINKS / 2; i++)
		lane_open(&lane[i], &p, 0, 0);
	for (int i = 0; i < LINKS / 2; i++)
		sum += lane_post(&lane[i], MOST);
	need(sum < LINKS / 2 * MOST, "no limit was reached");
	lane_open(&lane[LINKS / 2], &p, 0, 0);
	own = lane_post(&lane[LINKS / 2], MOST);
	need(own > 0, "%d receives", own);
	for (int i = 0; i < LINKS / 2; i++) {
		int more = lane_post(&lane[i], MOST);

		need(more == 0, "comm %d gets %d more now that another came", i, more);
	}
	for (int i = 0; i <= LINKS / 2; i++)
		lane_fill(&lane[i], (uint32_t)i);
	for (int i = 0; i <= LINKS / 2; i++)
		lane_close(&lane[i]);
	plug_close(&p);
}

/* Aborted receives keep their room, as their peers may still write. Others must not starve. */
Test(credit, comms_aborted_with_receives_posted_do_not_starve_those_that_stay_or_come)
{
	struct lane stays, comes;
	struct plug p;

	plug_softefa(SMALL_QUEUES);
	plug_open(&p, 0);
	lane_open(&stays, &p, 0, 0);
	for (uint32_t i = 0; i < 40; i++) {
		lane_open(&comes, &p, 0, 0);
		need(lane_post(&comes, 8) == 8, "round %u: %d of 8 receives", i, comes.posted);
		lane_fill(&comes, i);
		lane_post(&comes, MOST);
		lane_close(&comes);
		need(lane_post(&stays, 8) == 8, "round %u: %d of 8 receives", i, stays.posted);
		lane_fill(&stays, i);
	}
	lane_close(&stays);
	plug_close(&p);
}

/*
 * Without unsolicited writes each message takes a receive of the queue pair, and they are put back
 * in batches. Those not put back yet must not be promised: the senders would wait for somebody to
 * poll here. The senders have a device, and so queues, of their own.
 */
Test(credit, sends_complete_though_nobody_polls_where_they_arrive)
{
	static struct lane lane[LINKS];
	struct plug p;

	plug_softefa("caps=0x2f,max_rq_wr=256,max_cqe=512,max_sq_wr=64,fault=overflow");
	plug_open(&p, 0);
	if (p.ndev < 2)
		cr_skip("needs two devices");
	for (int i = 0; i < LINKS; i++)
		lane_open(&lane[i], &p, 0, 1);
	/* Just less than a batch is missing. */
	need(lane_post(&lane[0], 63) == 63, "%d of 63 receives", lane[0].posted);
	lane_fill(&lane[0], 1);
	for (int i = 0; i < LINKS; i++)
		lane_post(&lane[i], MOST);
	for (int i = 0; i < LINKS; i++) {
		void *send[MOST];

		for (int k = 0; k < lane[i].posted; k++)
			send[k] = plug_send(&p, lane[i].l.send, lane[i].from.at + k * SIZE, SIZE, 0,
					    lane[i].from.mh);
		for (int k = 0; k < lane[i].posted; k++)
			plug_wait(&p, send[k]);
	}
	for (int i = 0; i < LINKS; i++) {
		for (int k = 0; k < lane[i].posted; k++)
			plug_wait(&p, lane[i].recv[k]);
		lane_close(&lane[i]);
	}
	plug_close(&p);
}

/* The queue pair has 256 receives, and each message takes one. */
Test(credit, messages_without_unsolicited_writes_go_on_beyond_the_depth_of_the_queue)
{
	struct lane lane;
	struct plug p;

	plug_softefa("caps=0x2f,max_rq_wr=256,max_cqe=512,max_sq_wr=64,fault=overflow");
	plug_open(&p, 0);
	lane_open(&lane, &p, 0, 0);
	for (uint32_t i = 0; i < 40; i++) {
		need(lane_post(&lane, 32) == 32, "round %u: %d of 32 receives", i, lane.posted);
		lane_fill(&lane, i);
	}
	lane_close(&lane);
	plug_close(&p);
}

/*
 * With the last comm of it goes what has lost its room. Eight queue pairs would be used up soon,
 * on a device that other tests of this domain leave alone: the limit is the device's.
 */
Test(credit, device_of_8_queue_pairs_stands_any_number_of_aborts)
{
	struct lane lane;
	struct plug p;
	int dev;

	plug_softefa(SMALL_QUEUES ",max_qp=8");
	plug_open(&p, 0);
	dev = p.ndev - 1;
	if (dev < 2)
		cr_skip("needs three devices");
	for (uint32_t i = 0; i < 60; i++) {
		lane_open(&lane, &p, dev, dev);
		need(lane_post(&lane, MOST) == MOST, "round %u: %d receives", i, lane.posted);
		lane_close(&lane);
	}
	lane_open(&lane, &p, dev, dev);
	lane_post(&lane, 32);
	lane_fill(&lane, 1);
	lane_close(&lane);
	plug_close(&p);
}

/*
 * Though their queue pairs live on. The rings of 500 senders, which are not used again, are in 8
 * regions; some more are allowed, but not 8.
 */
Test(credit, memory_of_closed_receive_comms_is_used_again)
{
	struct lane stays, comes;
	struct plug p;
	int dev;

	plug_softefa("max_mr=18");
	plug_open(&p, 0);
	dev = p.ndev - 2;
	if (dev < 2)
		cr_skip("needs four devices");
	lane_open(&stays, &p, dev, dev);
	for (uint32_t i = 0; i < 500; i++) {
		lane_open(&comes, &p, dev, dev);
		lane_post(&comes, 4);
		lane_close(&comes);
		lane_post(&stays, 4);
		lane_fill(&stays, i);
	}
	lane_close(&stays);
	plug_close(&p);
}
