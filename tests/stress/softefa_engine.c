/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter's engine under many threads: some move data between queue pairs of this process and
 * check it, some take queue pairs and memory away in the middle, some only make and destroy
 * objects. For SAN=thread, whose runtime Criterion does not stand.
 *
 * softefa_engine [ROUNDS [SEED]]
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../softefa/engine.h"
#include "../lib/raw.h"
#include "../lib/raw_linked.h"

enum {
	MOVERS = 4, /* threads with traffic; the first two share a context, others have two */
	CHURNERS = 2,
	SLOTS = 16, /* transfers in flight of a pair */
	SLOT_BYTES = 1 << 20,
	SEND_MAX = 8192,
	RECVS = SLOTS * SLOT_BYTES, /* offset of the buffers of receives */
	BYTES = RECVS + SLOTS * SEND_MAX,
	QKEY = 0x5151,
	WAIT_S = 60, /* a completion that takes longer is lost */
};

static atomic_uint rounds_done[MOVERS + CHURNERS];
static struct raw_dev shared_dev;
static unsigned rounds = 80;
static uint64_t seed = 1;

static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "FAIL: ");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	_Exit(1);
}

static void ok(int rc, const char *what)
{
	if (rc)
		fail("%s: %s", what, strerror(-rc));
}

#define OK(call) ok((call), #call)

static uint32_t rnd(uint64_t *s, uint32_t n)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33) % n;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void nap_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/*
 * What orders the device's copies and these accesses lies in memory that two mappings share, which
 * a race detector does not see; so it is kept off the payload.
 */
#define PAYLOAD __attribute__((no_sanitize("thread"), noinline))

PAYLOAD static void fill(volatile uint8_t *p, uint32_t n, uint32_t tag)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)(tag + i * 7 + (i >> 8));
}

PAYLOAD static bool filled(const volatile uint8_t *p, uint32_t n, uint32_t tag)
{
	for (uint32_t i = 0; i < n; i++)
		if (p[i] != (uint8_t)(tag + i * 7 + (i >> 8)))
			return false;
	return true;
}

PAYLOAD static uint64_t sum(const volatile uint8_t *p, size_t n)
{
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 1099511628211u;
	return h;
}

/* ---- a pair of queue pairs ---- */

/* One transfer of the pair; its number is the request id and says where its bytes are. */
struct xfer {
	bool busy;
	bool half; /* one of its two completions is there */
	enum raw_op op;
	bool imm;
	uint32_t len, tag;
};

struct pair {
	struct raw_dev *d[2], own[2];
	struct raw_pd pd[2];
	struct raw_cq cq[2];
	struct raw_qp qp[2]; /* [0] asks, [1] serves */
	struct raw_mr mr[2];
	struct raw_ah ah[2]; /* of the other side */
	uint8_t *buf[2];
	struct xfer x[SLOTS];
	unsigned posted[2], done[2], flying; /* requests and receives; of SLOTS, those busy */
	uint32_t next_tag;
	uint64_t rng;
};

static uint8_t *at(struct pair *p, int side, unsigned slot)
{
	return p->buf[side] + (size_t)slot * SLOT_BYTES;
}

static void qps_up(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		OK(raw_qp_up(&p->qp[i], p->d[i], QKEY, 7));
	memset(p->x, 0, sizeof(p->x));
	memset(p->posted, 0, sizeof(p->posted));
	memset(p->done, 0, sizeof(p->done));
	p->flying = 0;
}

static void qp_make(struct pair *p, int i)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = SLOTS, .rq = SLOTS};

	OK(raw_qp_create(&p->qp[i], p->d[i], &p->pd[i], &p->cq[i], &p->cq[i], &attr));
}

static void pair_init(struct pair *p)
{
	struct raw_gid gid;

	for (int i = 0; i < 2; i++) {
		OK(raw_pd_alloc(&p->pd[i], p->d[i]));
		OK(raw_gid(p->d[!i], &gid));
		OK(raw_ah_create(&p->ah[i], p->d[i], &p->pd[i], &gid));
		/* Shallow enough that completions must wait for room now and then. */
		OK(raw_cq_create(&p->cq[i], p->d[i], &(struct raw_cq_attr){.depth = SLOTS / 2}));
		OK(raw_mr_reg(&p->mr[i], p->d[i], &p->pd[i], p->buf[i], BYTES, RAW_ALL_ACCESS));
		qp_make(p, i);
	}
	qps_up(p);
}

static void pair_fini(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		OK(raw_qp_destroy(&p->qp[i], p->d[i]));
		OK(raw_mr_dereg(&p->mr[i], p->d[i]));
		OK(raw_cq_destroy(&p->cq[i], p->d[i], NULL));
		OK(raw_ah_destroy(&p->ah[i], p->d[i]));
		OK(raw_pd_free(&p->pd[i], p->d[i]));
	}
}

static bool own_contexts(const struct pair *p)
{
	return p->d[0] == &p->own[0];
}

static void pair_open(struct pair *p)
{
	uint32_t dev = rnd(&p->rng, 2);

	for (int i = 0; own_contexts(p) && i < 2; i++)
		OK(raw_open(p->d[i], &raw_linked, i ? dev : 0));
}

static void pair_close(struct pair *p)
{
	for (int i = 0; own_contexts(p) && i < 2; i++)
		raw_close(p->d[i]);
}

static void post_one(struct pair *p, unsigned slot)
{
	struct xfer *x = &p->x[slot];
	int from = x->op == RAW_READ;
	struct raw_sge recv = raw_sge(&p->mr[1], RECVS + (uint64_t)slot * SEND_MAX, SEND_MAX);
	struct raw_wr wr = {
		.req_id = slot,
		.op = x->op,
		.imm_on = x->imm,
		.imm = slot,
		.ahn = p->ah[0].ahn,
		.qpn = (uint16_t)p->qp[1].qpn,
		.qkey = QKEY,
		.remote = raw_sge(&p->mr[1], (uint64_t)slot * SLOT_BYTES, x->len),
		.nsge = 1,
		.sge = {raw_sge(&p->mr[0], (uint64_t)slot * SLOT_BYTES, x->len)},
	};

	fill(at(p, from, slot), x->len, x->tag);
	if (x->imm) {
		raw_post_recv(&p->qp[1], (uint16_t)slot, &recv, 1);
		raw_ring(&p->qp[1]);
		p->posted[1]++;
	}
	raw_post(&p->qp[0], &wr);
	raw_ring(&p->qp[0]);
	p->posted[0]++;
}

static void start_one(struct pair *p)
{
	uint32_t big = rnd(&p->rng, 8) == 0 ? SLOT_BYTES : 32768;
	unsigned slot = 0;
	struct xfer *x;

	while (p->x[slot].busy)
		slot++;
	x = &p->x[slot];
	*x = (struct xfer){.busy = true, .op = rnd(&p->rng, 3), .tag = ++p->next_tag};
	/* Sends always carry the slot, by which their bytes are known wherever they land. */
	x->imm = x->op == RAW_SEND || (x->op == RAW_WRITE && rnd(&p->rng, 2));
	x->len = 1 + rnd(&p->rng, x->op == RAW_SEND ? SEND_MAX : big);
	p->flying++;
	post_one(p, slot);
}

/* ---- completions ---- */

/* Each transfer with an immediate has a completion on either side. */
static void arrived(struct pair *p, unsigned slot)
{
	struct xfer *x = &p->x[slot];

	if (!x->busy)
		fail("completion for slot %u, which is idle", slot);
	if (x->imm && !x->half) {
		x->half = true;
		return;
	}
	x->busy = false;
	p->flying--;
}

static void check_request(struct pair *p, const struct raw_wc *wc)
{
	unsigned slot = (unsigned)wc->req_id;
	struct xfer *x = &p->x[slot % SLOTS];
	int to = x->op != RAW_READ;

	if (slot >= SLOTS || wc->recv || wc->op != x->op)
		fail("request completion of op %u for slot %u", wc->op, slot);
	if (wc->status)
		fail("slot %u, op %d, %u bytes: status %u", slot, x->op, x->len, wc->status);
	if (x->op != RAW_SEND && !filled(at(p, to, slot), x->len, x->tag))
		fail("slot %u, op %d: wrong bytes", slot, x->op);
	arrived(p, slot);
}

static void check_receive(struct pair *p, const struct raw_wc *wc)
{
	unsigned slot = wc->imm;
	struct xfer *x = &p->x[slot % SLOTS];
	const uint8_t *bytes = at(p, 1, slot);

	if (slot >= SLOTS || wc->req_id >= SLOTS || !wc->recv || !wc->has_imm || wc->op != x->op)
		fail("receive of op %u for slot %u", wc->op, slot);
	if (wc->status || wc->len != x->len || wc->src_qpn != p->qp[0].qpn)
		fail("receive: status %u, %u of %u bytes from QP %u", wc->status, wc->len, x->len,
		     wc->src_qpn);
	if (x->op == RAW_SEND)
		bytes = p->buf[1] + RECVS + wc->req_id * SEND_MAX;
	if (!filled(bytes, x->len, x->tag))
		fail("receive of slot %u in %u: wrong bytes", slot, (unsigned)wc->req_id);
	arrived(p, slot);
}

/* Take what is there; with @check none of it may have failed. */
static unsigned poll(struct pair *p, bool check)
{
	struct raw_wc wc;
	unsigned n = 0;

	for (int i = 0; i < 2; i++) {
		while (raw_poll(&p->cq[i], &wc)) {
			if (wc.qpn != p->qp[i].qpn)
				fail("completion for QP %u, not %u", wc.qpn, p->qp[i].qpn);
			if (++p->done[i] > p->posted[i])
				fail("completion %u of %u", p->done[i], p->posted[i]);
			if (check)
				(i ? check_receive : check_request)(p, &wc);
			n++;
		}
	}
	return n;
}

static _Noreturn void stuck(struct pair *p)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (p->x[i].busy)
			fprintf(stderr, "slot %u: op %d%s, %u bytes%s\n", i, p->x[i].op,
				p->x[i].imm ? " with immediate" : "", p->x[i].len,
				p->x[i].half ? ", half done" : "");
	fail("%u of %u requests, %u of %u receives after %d s", p->done[0], p->posted[0],
	     p->done[1], p->posted[1], WAIT_S);
}

static void wait_done(struct pair *p, bool check, unsigned n0, unsigned n1)
{
	double end = now_s() + WAIT_S;

	while (p->done[0] < n0 || p->done[1] < n1) {
		if (!poll(p, check))
			nap_us(20);
		if (now_s() > end)
			stuck(p);
	}
}

/* ---- what movers do ---- */

static void traffic(struct pair *p, unsigned n)
{
	double end = now_s() + WAIT_S;

	while (n) {
		/* All receives are used up then: which message takes which is open. */
		if (p->flying == 0)
			for (unsigned k = 1 + rnd(&p->rng, SLOTS); k && n; k--, n--)
				start_one(p);
		if (!poll(p, true))
			nap_us(20);
		if (now_s() > end)
			stuck(p);
	}
	wait_done(p, true, p->posted[0], p->posted[1]);
}

static void burst(struct pair *p)
{
	for (unsigned k = 0; k < SLOTS; k++)
		start_one(p);
	nap_us((long)rnd(&p->rng, 300));
	if (rnd(&p->rng, 2))
		poll(p, false);
}

static void again(struct pair *p)
{
	struct raw_wc wc;

	for (int i = 0; i < 2; i++) {
		OK(raw_qp_to(&p->qp[i], p->d[i], RAW_RESET));
		while (raw_poll(&p->cq[i], &wc))
			; /* of its former life */
	}
	qps_up(p);
	traffic(p, SLOTS);
}

/* All that was posted completes once when both are in error, whoever falls first. */
static void to_error(struct pair *p)
{
	int first = (int)rnd(&p->rng, 2);

	burst(p);
	OK(raw_qp_to(&p->qp[first], p->d[first], RAW_ERR));
	nap_us((long)rnd(&p->rng, 100));
	OK(raw_qp_to(&p->qp[!first], p->d[!first], RAW_ERR));
	wait_done(p, false, p->posted[0], p->posted[1]);
	nap_us(200);
	if (poll(p, false))
		fail("more completions than work");
	again(p);
}

static void quiet(struct pair *p, int i, const char *after)
{
	struct raw_wc wc;

	while (raw_poll(&p->cq[i], &wc))
		;
	for (int k = 0; k < 20; k++) {
		nap_us(100);
		if (raw_poll(&p->cq[i], &wc))
			fail("a completion of QP %u after %s", wc.qpn, after);
	}
}

static void reset(struct pair *p)
{
	int i = (int)rnd(&p->rng, 2);

	burst(p);
	OK(raw_qp_to(&p->qp[i], p->d[i], RAW_RESET));
	quiet(p, i, "its reset");
	again(p);
}

static void destroy(struct pair *p)
{
	int i = (int)rnd(&p->rng, 2);

	burst(p);
	OK(raw_qp_destroy(&p->qp[i], p->d[i]));
	quiet(p, i, "its end");
	qp_make(p, i);
	again(p);
}

/* What the region of a deregistration holds when it returns is what it holds for good. */
static void dereg(struct pair *p)
{
	int i = (int)rnd(&p->rng, 2);
	uint64_t before;

	burst(p);
	OK(raw_mr_dereg(&p->mr[i], p->d[i]));
	before = sum(p->buf[i], BYTES);
	nap_us(2000);
	if (sum(p->buf[i], BYTES) != before)
		fail("memory changed after it was deregistered");
	OK(raw_qp_to(&p->qp[0], p->d[0], RAW_ERR));
	OK(raw_qp_to(&p->qp[1], p->d[1], RAW_ERR));
	wait_done(p, false, p->posted[0], p->posted[1]);
	OK(raw_mr_reg(&p->mr[i], p->d[i], &p->pd[i], p->buf[i], BYTES, RAW_ALL_ACCESS));
	again(p);
}

/* The contexts go, with all that is in them. */
static void reopen(struct pair *p)
{
	burst(p);
	pair_close(p);
	pair_fini(p);
	pair_open(p);
	pair_init(p);
	traffic(p, SLOTS);
}

static void *mover(void *arg)
{
	static void (*const acts[])(struct pair *) = {to_error, reset, destroy, dereg, reopen};
	unsigned me = (unsigned)(uintptr_t)arg;
	struct pair *p = calloc(1, sizeof(*p));

	if (!p)
		fail("no memory");
	p->rng = seed * 1000 + me;
	for (int i = 0; i < 2; i++) {
		p->d[i] = me < 2 ? &shared_dev : &p->own[i];
		p->buf[i] = aligned_alloc(4096, BYTES);
		if (!p->buf[i])
			fail("no memory");
		fill(p->buf[i], BYTES, 0);
	}
	pair_open(p);
	pair_init(p);
	for (unsigned r = 0; r < rounds; r++) {
		traffic(p, 4 * SLOTS);
		acts[rnd(&p->rng, sizeof(acts) / sizeof(acts[0]))](p);
		rounds_done[me]++;
	}
	pair_fini(p);
	pair_close(p);
	free(p->buf[0]);
	free(p->buf[1]);
	free(p);
	return NULL;
}

/* ---- what churners do ---- */

static atomic_bool stop;

/* A set of objects, made and destroyed one by one or by the close. */
static void churn_once(uint64_t *rng, uint8_t *buf)
{
	struct raw_gid stranger = {{0xfe, 0x80, [14] = 7, [15] = (uint8_t)rnd(rng, 200)}};
	struct raw_dev d;
	struct raw_pd pd;
	struct raw_cq cq;
	struct raw_qp qp;
	struct raw_mr mr;
	struct raw_ah ah;

	OK(raw_open(&d, &raw_linked, rnd(rng, 2)));
	OK(raw_pd_alloc(&pd, &d));
	OK(raw_mr_reg(&mr, &d, &pd, buf, 4096 + rnd(rng, 4096), RAW_ALL_ACCESS));
	OK(raw_ah_create(&ah, &d, &pd, &stranger));
	OK(raw_cq_create(&cq, &d, &(struct raw_cq_attr){.depth = 16}));
	for (unsigned n = rnd(rng, 6); n; n--) {
		OK(raw_qp_create(&qp, &d, &pd, &cq, &cq,
				 &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16, .rq = 32}));
		OK(raw_qp_up(&qp, &d, QKEY, -1));
		/* Requests to nobody are outstanding until a timeout that never comes. */
		raw_post(&qp, &(struct raw_wr){.op = RAW_SEND, .ahn = ah.ahn, .qpn = 77});
		raw_ring(&qp);
		OK(raw_qp_destroy(&qp, &d));
	}
	if (rnd(rng, 2))
		raw_close(&d);
	OK(raw_cq_destroy(&cq, &d, NULL));
	OK(raw_ah_destroy(&ah, &d));
	OK(raw_mr_dereg(&mr, &d));
	OK(raw_pd_free(&pd, &d));
	raw_close(&d);
}

static void *churner(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	uint64_t rng = seed * 2000 + me;
	uint8_t *buf = calloc(1, 8192);

	while (!stop) {
		churn_once(&rng, buf);
		rounds_done[me]++;
		nap_us(500);
	}
	free(buf);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[MOVERS + CHURNERS];
	char domain[32];
	unsigned total[2] = {0, 0};
	double start = now_s();

	if (argc > 1)
		rounds = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 10);
	snprintf(domain, sizeof(domain), "stress-%d", (int)getpid());
	setenv("SOFTEFA_DOMAIN", domain, 1);
	OK(raw_open(&shared_dev, &raw_linked, 0));
	for (unsigned i = 0; i < MOVERS + CHURNERS; i++)
		if (pthread_create(&t[i], NULL, i < MOVERS ? mover : churner, (void *)(uintptr_t)i))
			fail("no thread");
	for (unsigned i = 0; i < MOVERS; i++)
		pthread_join(t[i], NULL);
	stop = true;
	for (unsigned i = MOVERS; i < MOVERS + CHURNERS; i++)
		pthread_join(t[i], NULL);
	raw_close(&shared_dev);
	se_engine_stop();
	for (unsigned i = 0; i < MOVERS + CHURNERS; i++)
		total[i >= MOVERS] += rounds_done[i];
	printf("ok: %u rounds of traffic, %u of churn in %.1f s\n", total[0], total[1],
	       now_s() - start);
	return 0;
}
