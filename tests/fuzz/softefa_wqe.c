/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings of a hostile program: random bytes as work requests, receive descriptors and doorbells of
 * live queue pairs. While doorbells are told truly, every request completes exactly once, whatever
 * it says; and whatever anybody writes, the device goes on for others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../softefa/engine.h"
#include "../lib/raw.h"
#include "../lib/raw_linked.h"
#include "input.h"

enum { DEPTH = 32, QPS = 3, BYTES = 1 << 18, QKEY = 1, WAIT_S = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct raw_dev dev;
static struct raw_pd pd;
static struct raw_mr mr;
static struct raw_ah self_ah, nobody;
static struct raw_cq probe_cq;
static struct raw_qp probe;
static uint8_t *buf;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "softefa_wqe: %s\n", what);
	abort();
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- the victims ---- */

struct victim {
	struct raw_cq cq; /* of both queues, or of one */
	struct raw_qp qp;
	bool open[DEPTH]; /* by request id: not completed yet */
	unsigned posted, done, recvs, told;
};

static struct victim v[QPS];

static void victims_init(struct input *in)
{
	uint8_t how = u8(in);

	memset(v, 0, sizeof(v));
	for (unsigned i = 0; i < QPS; i++) {
		struct raw_qp_attr attr = {
			.type = i == 2 ? RAW_UD : RAW_SRD,
			.sq = DEPTH,
			.rq = DEPTH,
			.stride = how & 1 ? 128 : 64,
			.unsolicited = i < 2 && how & 2,
			.req_id_64 = how & 4,
		};

		/* Shallow: completions wait for room, too. */
		if (raw_cq_create(&v[i].cq, &dev, &(struct raw_cq_attr){.depth = 16}) ||
		    raw_qp_create(&v[i].qp, &dev, &pd, &v[i].cq, &v[i].cq, &attr) ||
		    raw_qp_up(&v[i].qp, &dev, QKEY, i == 2 ? -1 : how >> 3 & 3))
			fail("cannot make a queue pair");
	}
}

static void victims_fini(void)
{
	for (unsigned i = 0; i < QPS; i++)
		if (raw_qp_destroy(&v[i].qp, &dev) || raw_cq_destroy(&v[i].cq, &dev, NULL))
			fail("cannot destroy");
}

/* ---- requests ---- */

static struct raw_sge some_sge(struct input *in)
{
	struct raw_sge s = raw_sge(&mr, u16(in), u16(in) % 9000);

	if (u8(in) % 8 == 0)
		s.key ^= 1u << u8(in) % 24;
	if (u8(in) % 8 == 0)
		s.addr ^= 1ull << u8(in) % 64;
	return s;
}

/* A sound request, of which some bytes are then replaced; or nothing but noise. */
static void put_request(struct victim *x, struct input *in, uint8_t id)
{
	struct raw_wr wr = {
		.op = (enum raw_op)(u8(in) % 3),
		.imm_on = u8(in) % 2,
		.imm = u8(in),
		.ahn = u8(in) % 64 ? self_ah.ahn : nobody.ahn, /* takes a timeout */
		.qpn = (uint16_t)v[u8(in) % QPS].qp.qpn,
		.qkey = QKEY,
		.remote = some_sge(in),
		.nsge = u8(in) % 3,
	};
	uint8_t *at = x->qp.sq + (size_t)(x->qp.sq_prod % DEPTH) * x->qp.stride;
	uint8_t n = u8(in), data[48] = {1};

	wr.sge[0] = some_sge(in);
	wr.sge[1] = some_sge(in);
	if (u8(in) % 2)
		wr.sge[0].len = wr.remote.len;
	if (u8(in) % 4 == 0) {
		wr.data = data;
		wr.data_len = u8(in) % (x->qp.stride == 64 ? 17 : 49);
	}
	raw_post(&x->qp, &wr);
	if (n % 16 == 0)
		for (unsigned i = 0; i < x->qp.stride; i++)
			at[i] = u8(in);
	else
		for (n %= 4; n; n--)
			at[u8(in) % x->qp.stride] ^= u8(in);
	at[0] = id;
	at[1] = (uint8_t)x->qp.qpn;
}

static void post(struct victim *x, struct input *in)
{
	unsigned n = 1 + u8(in) % 8;

	while (n-- && x->posted - x->done < DEPTH) {
		uint8_t id = 0;

		while (x->open[id])
			id++;
		x->open[id] = true;
		x->posted++;
		put_request(x, in, id);
	}
	raw_ring(&x->qp);
}

static void post_recv(struct victim *x, struct input *in)
{
	unsigned n = 1 + u8(in) % 4, noise = u8(in);
	struct raw_sge sge[4];

	if (x->recvs + n > DEPTH)
		return; /* told once only: enough for one input */
	for (unsigned i = 0; i < n; i++)
		sge[i] = some_sge(in);
	raw_post_recv(&x->qp, (uint16_t)x->recvs, sge, n);
	if (noise % 8 == 0) {
		uint8_t *at = x->qp.rq + 16 * ((x->qp.rq_prod - 1) % DEPTH);

		for (unsigned i = 0; i < 16; i++)
			at[i] = u8(in);
	}
	x->recvs += n;
	raw_ring(&x->qp);
}

/* ---- completions ---- */

static void take(struct victim *x)
{
	struct raw_wc wc;

	while (raw_poll(&x->cq, &wc)) {
		unsigned id = wc.req_id & 0xff;

		if (wc.qpn != x->qp.qpn)
			fail("completion of another queue pair");
		if (wc.recv) {
			if (!wc.unsolicited && ++x->told > x->recvs)
				fail("more receives than descriptors");
			continue;
		}
		if (id >= DEPTH || (wc.req_id >> 8 & 0xff) != (x->qp.qpn & 0xff))
			fail("unknown request");
		if (!x->open[id])
			fail("request completes twice");
		x->open[id] = false;
		x->done++;
	}
}

static void take_all(void)
{
	for (unsigned i = 0; i < QPS; i++)
		take(&v[i]);
}

static bool all_done(void)
{
	for (unsigned i = 0; i < QPS; i++)
		if (v[i].done != v[i].posted)
			return false;
	return true;
}

static void wait_all(void)
{
	double end = now_s() + WAIT_S;

	for (take_all(); !all_done(); take_all())
		if (now_s() > end)
			fail("a request never completes");
}

/* Somebody else's queue pair works. */
static void check_device(void)
{
	double end = now_s() + WAIT_S;
	struct raw_wc wc;

	raw_post(&probe, &(struct raw_wr){.op = RAW_SEND,
					  .ahn = self_ah.ahn,
					  .qpn = (uint16_t)probe.qpn,
					  .qkey = 999});
	raw_ring(&probe);
	while (!raw_poll(&probe_cq, &wc))
		if (now_s() > end)
			fail("the device stands still");
	if (wc.status != 9)
		fail("wrong status");
}

/* ---- lies ---- */

static void lie(struct input *in)
{
	struct victim *x = &v[u8(in) % QPS];
	uint32_t word = (uint32_t)u16(in) << (u8(in) % 2 ? 0 : 16);

	switch (u8(in) % 5) {
	case 0:
		__atomic_store_n(x->qp.sq_db, word, __ATOMIC_RELEASE);
		break;
	case 1:
		__atomic_store_n(x->qp.rq_db, word, __ATOMIC_RELEASE);
		break;
	case 2:
		__atomic_store_n(x->cq.db, word, __ATOMIC_RELEASE);
		break;
	case 3:
		x->qp.rq[u16(in) % (DEPTH * 16)] = u8(in);
		break;
	default:
		x->qp.sq[u16(in) % (DEPTH * x->qp.stride)] = u8(in);
	}
}

static void lies(struct input *in)
{
	while (in->left) {
		struct victim *x = &v[u8(in) % QPS];

		switch (u8(in) % 4) {
		case 0:
			raw_qp_to(&x->qp, &dev, u8(in) % 2 ? RAW_ERR : RAW_RESET);
			raw_qp_up(&x->qp, &dev, QKEY, -1);
			break;
		case 1:
			put_request(x, in, u8(in));
			raw_ring(&x->qp);
			break;
		default:
			lie(in);
		}
	}
}

static void truth(struct input *in)
{
	while (in->left) {
		struct victim *x = &v[u8(in) % QPS];
		uint8_t what = u8(in);

		if (what < 150)
			post(x, in);
		else if (what < 220)
			post_recv(x, in);
		else if (what < 250)
			take_all();
		else
			raw_qp_to(&x->qp, &dev, RAW_ERR);
	}
	wait_all();
	for (unsigned i = 0; i < QPS; i++)
		raw_qp_to(&v[i].qp, &dev, RAW_ERR);
	check_device();
	take_all();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct raw_gid gid, stranger = {{0xfe, 0x80, [15] = 9}};
	char text[64];

	(void)argc;
	(void)argv;
	snprintf(text, sizeof(text), "fuzz-%d", (int)getpid());
	setenv("SOFTEFA_DOMAIN", text, 1);
	atexit(se_engine_stop);
	setenv("SOFTEFA_SET",
	       "log=0,inline_size_ex=80,caps=0x26f,timeout_ms=1,rnr_timer_us=1,max_rq_sge=16", 1);
	buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED || raw_open(&dev, &raw_linked, 0) || raw_pd_alloc(&pd, &dev) ||
	    raw_mr_reg(&mr, &dev, &pd, buf, BYTES, RAW_ALL_ACCESS) || raw_gid(&dev, &gid) ||
	    raw_ah_create(&self_ah, &dev, &pd, &gid) ||
	    raw_ah_create(&nobody, &dev, &pd, &stranger) ||
	    raw_cq_create(&probe_cq, &dev, &(struct raw_cq_attr){.depth = 16}) ||
	    raw_qp_create(&probe, &dev, &pd, &probe_cq, &probe_cq,
			  &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16}) ||
	    raw_qp_up(&probe, &dev, QKEY, -1))
		fail("cannot begin");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	victims_init(&in);
	if (u8(&in) % 4) {
		truth(&in);
	} else {
		lies(&in);
		check_device();
	}
	victims_fini();
	return 0;
}
