/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic between queue pairs on software devices: round trips (from post to completion, one at a
 * time) and rates (as many under way as a window allows). With one process it is its own peer; with
 * 2 and 4 each pair has a sender and a receiver. All that arrives is compared with what was sent.
 *
 * usage: softefa_traffic PROCESSES [MS]             rows: op bytes us/round trip messages/s
 *        softefa_traffic count OP BYTES MESSAGES BATCH   that many, for callgrind; no output
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "srd.h"

enum {
	MAX_PROC = 4,
	DEPTH = 256,
	BATCH = 16,     /* requests per doorbell */
	SAMPLES = 8192, /* round trips, at most */
	ROOM = 1 << 20, /* bytes of the source, of the target and of what is read */
	WAIT_S = 30,    /* for anything */
	QKEY = 0x600d0000,
};

static const struct test_case {
	const char *op;
	enum ibv_wr_opcode code;
	uint32_t bytes;
	unsigned window;
} cases[] = {
	{"send", IBV_WR_SEND, 8, 64},
	{"send", IBV_WR_SEND, 4096, 64},
	{"write", IBV_WR_RDMA_WRITE, 8, 64},
	{"write", IBV_WR_RDMA_WRITE, 4096, 64},
	{"write", IBV_WR_RDMA_WRITE, 65536, 16},
	{"write", IBV_WR_RDMA_WRITE, 1 << 20, 4},
	{"read", IBV_WR_RDMA_READ, 8, 64},
	{"read", IBV_WR_RDMA_READ, 4096, 64},
	{"read", IBV_WR_RDMA_READ, 65536, 16},
	{"read", IBV_WR_RDMA_READ, 1 << 20, 4},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* One queue pair with what it needs. */
struct end {
	struct srd_cq scq, rcq;
	struct srd_qp qp;
	struct srd_peer to;
	struct srd_mr mr;
	uint8_t *buf; /* source, then target */
};

/* What the processes of a run share. */
static struct shared {
	struct card {
		struct srd_ep_wire ep;
		uint64_t addr;
		uint32_t rkey;
	} card[MAX_PROC];
	atomic_uint here, round;    /* of the barrier */
	atomic_uint done[MAX_PROC]; /* cases that a sender is through with */
	double us[MAX_PROC / 2][CASES], rate[MAX_PROC / 2][CASES];
} * all;

static struct srd_dev dev;
static struct srd_pd pd;
static unsigned processes, run_ms = 40;

static _Noreturn void die(const char *what, int rc)
{
	fprintf(stderr, "softefa_traffic: %s: %s (%d)\n", what, strerror(abs(rc)), rc);
	exit(1);
}

static void ok(int rc, const char *what)
{
	if (rc < 0)
		die(what, rc);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void barrier(void)
{
	unsigned round = atomic_load(&all->round);
	double end = now_us() + WAIT_S * 1e6;

	if (atomic_fetch_add(&all->here, 1) + 1 == processes) {
		atomic_store(&all->here, 0);
		atomic_store(&all->round, round + 1);
	}
	while (atomic_load(&all->round) == round) {
		if (now_us() > end)
			die("another process is late", ETIMEDOUT);
		sched_yield();
	}
}

/* ---- queue pairs ---- */

static void post_receive(struct end *e, uint64_t slot)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	ok(srd_sge(&sge, &e->mr, ROOM, 8192), "sge");
	ok(srd_post_recv(&e->qp, &wr, NULL), "post_recv");
}

static void end_open(struct end *e)
{
	const struct srd_cq_attr cq = {.cqe = 2 * DEPTH};

	e->buf = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->buf == MAP_FAILED)
		die("mmap", errno);
	memset(e->buf, 0, 2 * ROOM);
	ok(srd_mr_init(&e->mr, &pd, e->buf, 2 * ROOM,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
	   "memory");
	ok(srd_cq_init(&e->scq, &dev, &cq), "cq");
	ok(srd_cq_init(&e->rcq, &dev, &cq), "cq");
	ok(srd_qp_init(&e->qp, &pd,
		       &(struct srd_qp_attr){.send_cq = &e->scq,
					     .recv_cq = &e->rcq,
					     .max_send_wr = DEPTH,
					     .max_recv_wr = DEPTH}),
	   "qp");
	ok(srd_qp_prepare(&e->qp, QKEY, 7), "qp");
	for (unsigned i = 0; i < DEPTH; i++)
		post_receive(e, i);
}

static void show_card(const struct end *e, struct card *card)
{
	struct srd_ep ep;

	srd_ep_local(&e->qp, &ep);
	srd_ep_pack(&card->ep, &ep);
	card->addr = e->mr.addr;
	card->rkey = e->mr.rkey;
}

static void know(struct end *e, const struct card *card)
{
	struct srd_ep ep;

	ok(srd_ep_unpack(&ep, &card->ep), "card");
	ok(srd_peer_init(&e->to, &pd, &ep), "peer");
}

/* ---- traffic ---- */

/* The receiver's part: receives that were used are posted anew. */
static void serve(struct end *e)
{
	struct srd_wc wc[16];
	int n = srd_cq_poll(&e->rcq, wc, 16);

	ok(n, "poll");
	for (int i = 0; i < n; i++) {
		if (wc[i].status)
			die("a receive failed", (int)wc[i].efa_status);
		post_receive(e, wc[i].wr_id);
	}
}

/* @other: the receiver, when it is in this process. */
static int take(struct end *e, struct end *other)
{
	struct srd_wc wc[16];
	int n = srd_cq_poll(&e->scq, wc, 16);

	ok(n, "poll");
	for (int i = 0; i < n; i++)
		if (wc[i].status)
			die("a request failed", (int)wc[i].efa_status);
	if (other)
		serve(other);
	return n;
}

static void post(struct end *e, const struct test_case *c, const struct card *card, unsigned n)
{
	struct srd_wr wr[BATCH] = {0};

	for (unsigned i = 0; i < n; i++) {
		wr[i] = (struct srd_wr){.to = &e->to, .op = c->code, .nsge = 1, .rkey = card->rkey};
		ok(srd_sge(&wr[i].sge[0], &e->mr, c->code == IBV_WR_RDMA_READ ? ROOM : 0, c->bytes),
		   "sge");
		wr[i].raddr = card->addr + (c->code == IBV_WR_RDMA_READ ? 0 : ROOM);
	}
	ok(srd_post(&e->qp, wr, (int)n), "post");
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median, us. */
static double round_trips(struct end *e, struct end *other, const struct test_case *c,
			  const struct card *card)
{
	static double took[SAMPLES];
	double start = now_us(), at = start, end;
	unsigned n = 0;

	while (n < SAMPLES && at < start + run_ms * 1e3) {
		post(e, c, card, 1);
		while (!take(e, other))
			if (now_us() > at + WAIT_S * 1e6)
				die("no completion", ETIMEDOUT);
		end = now_us();
		took[n++] = end - at;
		at = end;
	}
	qsort(took, n, sizeof(took[0]), ascending);
	return took[n / 2];
}

/* Messages per second. */
static double rate(struct end *e, struct end *other, const struct test_case *c,
		   const struct card *card)
{
	double start = now_us(), at = start, stop = start + run_ms * 1e3;
	unsigned under_way = 0, batch = c->window < BATCH ? c->window / 2 : BATCH;
	uint64_t n = 0;
	int got;

	do {
		while (at < stop && c->window - under_way >= batch) {
			post(e, c, card, batch);
			under_way += batch;
		}
		got = take(e, other);
		under_way -= (unsigned)got;
		n += (unsigned)got;
		at = now_us();
		if (at > stop + WAIT_S * 1e6)
			die("no completion", ETIMEDOUT);
	} while (under_way || at < stop);
	return (double)n / (at - start) * 1e6;
}

static void compare(const uint8_t *got, const struct test_case *c)
{
	for (uint32_t i = 0; i < c->bytes; i++)
		if (got[i] != (uint8_t)((unsigned)(c - cases) + 1))
			die("wrong data", (int)i);
}

static void run_case(unsigned me, struct end *mine, struct end *other, unsigned k)
{
	const struct test_case *c = &cases[k];
	unsigned peer = processes == 1 ? 1 : me ^ 1;
	bool sender = me % 2 == 0, read = c->code == IBV_WR_RDMA_READ;

	memset(mine->buf, (int)k + 1, ROOM);
	if (other)
		memset(other->buf, (int)k + 1, ROOM);
	barrier();
	if (sender) {
		all->us[me / 2][k] = round_trips(mine, other, c, &all->card[peer]);
		all->rate[me / 2][k] = rate(mine, other, c, &all->card[peer]);
		atomic_store(&all->done[me], k + 1);
	} else {
		while (atomic_load(&all->done[peer]) <= k)
			serve(mine);
	}
	barrier();
	if (sender && read)
		compare(mine->buf + ROOM, c);
	else if (!read && (!sender || other))
		compare((other ? other : mine)->buf + ROOM, c);
}

static void report(void)
{
	unsigned pairs = processes == 1 ? 1 : processes / 2;

	for (unsigned k = 0; k < CASES; k++) {
		double us = 0, per_s = 0;

		for (unsigned p = 0; p < pairs; p++) {
			us += all->us[p][k] / pairs;
			per_s += all->rate[p][k];
		}
		printf("%s %u %.2f %.0f\n", cases[k].op, cases[k].bytes, us, per_s);
	}
}

static void open_device(void)
{
	ok(srd_dev_open(&dev, "efa_0"), "efa_0");
	ok(srd_pd_init(&pd, &dev), "pd");
}

static int run(unsigned me)
{
	struct end mine = {0}, other = {0};

	open_device();
	end_open(&mine);
	show_card(&mine, &all->card[me]);
	if (processes == 1) {
		end_open(&other);
		show_card(&other, &all->card[1]);
		know(&other, &all->card[0]);
	}
	barrier();
	know(&mine, &all->card[processes == 1 ? 1 : me ^ 1]);
	barrier();
	for (unsigned k = 0; k < CASES; k++)
		run_case(me, &mine, processes == 1 ? &other : NULL, k);
	if (me == 0)
		report();
	return 0;
}

/* Nothing spins, so that nearly all that is counted is work. */
static void count(const struct test_case *c, unsigned messages, unsigned batch)
{
	struct end mine = {0}, other = {0};
	const struct timespec rest = {0, 1000000};

	open_device();
	end_open(&mine);
	end_open(&other);
	show_card(&mine, &all->card[0]);
	show_card(&other, &all->card[1]);
	know(&mine, &all->card[1]);
	know(&other, &all->card[0]);
	for (unsigned n = 0; n < messages; n += batch) {
		post(&mine, c, &all->card[1], batch);
		for (unsigned got = 0; got < batch; nanosleep(&rest, NULL))
			got += (unsigned)take(&mine, &other);
	}
}

static const struct test_case *find_case(const char *op, unsigned bytes)
{
	for (unsigned k = 0; k < CASES; k++)
		if (strcmp(cases[k].op, op) == 0 && cases[k].bytes == bytes)
			return &cases[k];
	die("no such case", EINVAL);
}

/* Those that wait for a process that failed end, too. */
static int run_all(void)
{
	pid_t kid[MAX_PROC];
	int bad = 0, status;

	for (unsigned i = 0; i < processes; i++) {
		kid[i] = fork();
		if (kid[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			exit(run(i));
		}
	}
	for (unsigned i = 0; i < processes; i++) {
		if (waitpid(-1, &status, 0) < 0 || !status)
			continue;
		for (unsigned k = 0; !bad && k < processes; k++)
			kill(kid[k], SIGTERM);
		bad = 1;
	}
	return bad;
}

int main(int argc, char **argv)
{
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		die("mmap", errno);
	if (argc == 6 && strcmp(argv[1], "count") == 0) {
		unsigned batch = (unsigned)atoi(argv[5]);

		if (batch < 1 || batch > BATCH)
			die("BATCH", EINVAL);
		count(find_case(argv[2], (unsigned)atoi(argv[3])), (unsigned)atoi(argv[4]), batch);
		return 0;
	}
	processes = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	if (argc > 2)
		run_ms = (unsigned)atoi(argv[2]);
	if (processes != 1 && processes != 2 && processes != 4) {
		fprintf(stderr, "usage: softefa_traffic 1|2|4 [MS]\n"
				"       softefa_traffic count OP BYTES MESSAGES BATCH\n");
		return 2;
	}
	return run_all();
}
