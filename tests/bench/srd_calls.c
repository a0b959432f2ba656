/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libsrd's data path costs, next to the same loop on raw verbs: through libefa and on direct
 * CQs. Each kind of call is made inside a function of its own name (counted_...), for callgrind to
 * count by; scripts/bench.sh reads its output. Prints the shortest times as well, in rows: kind
 * call batch ns.
 *
 * usage: srd_calls write|write_imm|send [ROUNDS]
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "srd.h"

#define COUNTED static __attribute__((noinline, noclone))

enum {
	BATCH = 16,
	DEPTH = 64,
	LEN = 8,
	WARM_UP = 3,
	SETTLE_MS = 60, /* for the adapter to have done its part */
	QKEY = 0x600d0000,
};

/* Two queue pairs, A to B. */
struct pair {
	struct srd_cq a_cq, b_cq;
	struct srd_qp a, b;
	struct srd_peer to_b, to_a;
};

static struct srd_dev dev;
static struct srd_pd pd;
static struct srd_mr mr;
static uint8_t buf[2][4096];
static enum ibv_wr_opcode op;
static struct srd_wr wr[BATCH];
static struct srd_wc wc[BATCH];
static struct ibv_sge sge;
static struct ibv_recv_wr recv[BATCH];
static int unplanned; /* calls that did not find what they should */

static void ok(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "srd_calls: %s: %s (%d)\n", what, strerror(-rc), rc);
	exit(1);
}

/* ---- raw verbs ---- */

static inline int raw_post(struct pair *p, int n)
{
	struct ibv_qp_ex *ex = p->a.ex;

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	for (int i = 0; i < n; i++) {
		ex->wr_id = wr[i].wr_id;
		if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
			ibv_wr_rdma_write_imm(ex, wr[i].rkey, wr[i].raddr, htobe32(wr[i].imm));
		else if (op == IBV_WR_RDMA_WRITE)
			ibv_wr_rdma_write(ex, wr[i].rkey, wr[i].raddr);
		else
			ibv_wr_send(ex);
		ibv_wr_set_sge(ex, wr[i].sge[0].lkey, wr[i].sge[0].addr, wr[i].sge[0].length);
		ibv_wr_set_ud_addr(ex, wr[i].to->ah, wr[i].to->qpn, wr[i].to->qkey);
	}
	return -ibv_wr_complete(ex);
}

static inline int raw_recv(struct pair *p, int n)
{
	struct ibv_recv_wr *bad;

	(void)n;
	return -ibv_post_recv(p->b.ibv, recv, &bad);
}

/* What any program looks at. */
static inline void raw_read(struct ibv_cq_ex *ex, struct srd_wc *to, bool received)
{
	to->wr_id = ex->wr_id;
	to->status = ex->status;
	to->opcode = ibv_wc_read_opcode(ex);
	to->efa_status = ex->status == IBV_WC_SUCCESS ? 0 : ibv_wc_read_vendor_err(ex);
	if (!received)
		return;
	to->byte_len = ibv_wc_read_byte_len(ex);
	to->flags = ibv_wc_read_wc_flags(ex);
	if (to->flags & IBV_WC_WITH_IMM)
		to->imm = be32toh(ibv_wc_read_imm_data(ex));
}

static inline int raw_poll(struct ibv_cq_ex *ex, int n, bool received)
{
	struct ibv_poll_cq_attr attr = {0};
	int got = 0;

	if (ibv_start_poll(ex, &attr))
		return 0;
	do
		raw_read(ex, &wc[got++], received);
	while (got < n && ibv_next_poll(ex) == 0);
	ibv_end_poll(ex);
	return got;
}

/* ---- what is counted ---- */

#define RAW(n) \
	COUNTED int counted_raw_post_##n(struct pair *p) \
	{ \
		return raw_post(p, n); \
	} \
	COUNTED int counted_raw_recv_##n(struct pair *p) \
	{ \
		return raw_recv(p, n); \
	} \
	COUNTED int counted_raw_sent_##n(struct pair *p) \
	{ \
		return raw_poll(p->a_cq.ibv, n, false); \
	} \
	COUNTED int counted_raw_received_##n(struct pair *p) \
	{ \
		return raw_poll(p->b_cq.ibv, n, true); \
	}

#define SRD(kind, n) \
	COUNTED int counted_##kind##_post_##n(struct pair *p) \
	{ \
		return srd_post(&p->a, wr, n); \
	} \
	COUNTED int counted_##kind##_recv_##n(struct pair *p) \
	{ \
		return srd_post_recv(&p->b, recv, NULL); \
	} \
	COUNTED int counted_##kind##_sent_##n(struct pair *p) \
	{ \
		return srd_cq_poll(&p->a_cq, wc, n); \
	} \
	COUNTED int counted_##kind##_received_##n(struct pair *p) \
	{ \
		return srd_cq_poll(&p->b_cq, wc, n); \
	}

RAW(1)
RAW(16)
SRD(srd, 1)
SRD(srd, 16)
SRD(direct, 1)
SRD(direct, 16)

struct calls {
	const char *kind;
	int n;
	int (*post)(struct pair *p), (*recv)(struct pair *p);
	int (*sent)(struct pair *p), (*received)(struct pair *p);
};

#define CALLS(kind, n) \
	{ \
#kind, n, counted_##kind##_post_##n, counted_##kind##_recv_##n, \
			counted_##kind##_sent_##n, counted_##kind##_received_##n \
	}

/* ---- rounds ---- */

static void settle(void)
{
	const struct timespec nap = {.tv_nsec = SETTLE_MS * 1000000};

	nanosleep(&nap, NULL);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Make the call; @ns becomes the shortest time that it took. */
static int timed(int (*fn)(struct pair *p), struct pair *p, double *ns)
{
	double start = now_ns(), took;
	int rc = fn(p);

	took = now_ns() - start;
	if (*ns == 0 || took < *ns)
		*ns = took;
	return rc;
}

/* Take the @n, whatever the first call gave. */
static void take(int (*poll)(struct pair *p), struct pair *p, int n, double *ns)
{
	int got = timed(poll, p, ns);

	unplanned += got != n;
	for (int tries = 0; got < n && tries < 1000; tries++) {
		settle();
		got += poll(p);
	}
	for (int i = 0; i < n; i++)
		ok(srd_wc_err(&wc[i]), "completion");
	ok(got == n ? 0 : -ETIMEDOUT, "completions");
}

static void prepare(struct pair *p, int n)
{
	for (int i = 0; i < n; i++) {
		wr[i] = (struct srd_wr){.wr_id = (uint64_t)i,
					.to = &p->to_b,
					.op = op,
					.nsge = 1,
					.imm = 7,
					.raddr = mr.addr + sizeof(buf[0]),
					.rkey = mr.rkey};
		ok(srd_sge(&wr[i].sge[0], &mr, 0, LEN), "sge");
		recv[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)i,
					       .sg_list = &sge,
					       .num_sge = 1,
					       .next = i + 1 < n ? &recv[i + 1] : NULL};
	}
	ok(srd_sge(&sge, &mr, sizeof(buf[0]), LEN), "sge");
}

static void rounds(struct pair *p, const struct calls *calls, int count)
{
	double post = 0, sent = 0, received = 0;

	prepare(p, calls->n);
	for (int i = 0; i < count; i++) {
		if (op != IBV_WR_RDMA_WRITE)
			ok(calls->recv(p), "receive");
		ok(timed(calls->post, p, &post), "post");
		settle();
		take(calls->sent, p, calls->n, &sent);
		if (op != IBV_WR_RDMA_WRITE)
			take(calls->received, p, calls->n, &received);
	}
	printf("%s post %d %.0f\n", calls->kind, calls->n, post / calls->n);
	printf("%s sent %d %.0f\n", calls->kind, calls->n, sent / calls->n);
}

/* ---- set-up ---- */

static void know(struct srd_peer *peer, const struct srd_qp *qp)
{
	struct srd_ep ep;

	srd_ep_local(qp, &ep);
	ok(srd_peer_init(peer, &pd, &ep), "peer");
}

static void pair_init(struct pair *p, bool direct)
{
	const struct srd_cq_attr cq = {.cqe = 2 * DEPTH, .direct = direct};
	struct srd_qp_attr attr = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH};

	ok(srd_cq_init(&p->a_cq, &dev, &cq), "cq");
	ok(srd_cq_init(&p->b_cq, &dev, &cq), "cq");
	ok(!direct || p->a_cq.direct ? 0 : -EOPNOTSUPP, "direct CQ");
	attr.send_cq = attr.recv_cq = &p->a_cq;
	ok(srd_qp_init(&p->a, &pd, &attr), "qp");
	attr.send_cq = attr.recv_cq = &p->b_cq;
	ok(srd_qp_init(&p->b, &pd, &attr), "qp");
	ok(srd_qp_prepare(&p->a, QKEY, 7), "qp");
	ok(srd_qp_prepare(&p->b, QKEY, 7), "qp");
	know(&p->to_b, &p->b);
	know(&p->to_a, &p->a);
}

static enum ibv_wr_opcode op_of(const char *name)
{
	if (strcmp(name, "write") == 0)
		return IBV_WR_RDMA_WRITE;
	if (strcmp(name, "write_imm") == 0)
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	if (strcmp(name, "send") == 0)
		return IBV_WR_SEND;
	fprintf(stderr, "usage: srd_calls write|write_imm|send [ROUNDS]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct calls raw[] = {CALLS(raw, 1), CALLS(raw, 16)};
	static const struct calls srd[] = {CALLS(srd, 1), CALLS(srd, 16)};
	static const struct calls direct[] = {CALLS(direct, 1), CALLS(direct, 16)};
	static struct pair pairs[3];
	int count = WARM_UP + (argc > 2 ? atoi(argv[2]) : 10);

	op = op_of(argc > 1 ? argv[1] : "");
	ok(srd_dev_open(&dev, "efa_0"), "efa_0");
	ok(srd_pd_init(&pd, &dev), "pd");
	ok(srd_mr_init(&mr, &pd, buf, sizeof(buf),
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
	   "memory");
	for (int i = 0; i < 3; i++)
		pair_init(&pairs[i], i == 2);
	for (int i = 0; i < 2; i++) {
		rounds(&pairs[0], &raw[i], count);
		rounds(&pairs[1], &srd[i], count);
		rounds(&pairs[2], &direct[i], count);
	}
	if (unplanned)
		fprintf(stderr, "srd_calls: %d polls did not find what they should\n", unplanned);
	return unplanned > count / 2;
}
