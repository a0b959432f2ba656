/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of tests of the adapter. */
#include "node.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kids.h"

static char domain[32];

void node_settings(const char *settings)
{
	const char *preload = getenv("LD_PRELOAD");

	if (!preload || !strstr(preload, "libsoftefa"))
		cr_skip("not below softefa");
	snprintf(domain, sizeof(domain), "test-%d", (int)getpid());
	setenv("SOFTEFA_DOMAIN", domain, 1);
	setenv("SOFTEFA_SET", settings ? settings : "", 1);
}

void node_fabric_dir(char *path, size_t len)
{
	char pattern[96];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "/dev/shm/softefa-%u-%s-*", (unsigned)geteuid(), domain);
	*path = '\0';
	if (glob(pattern, 0, NULL, &g) == 0)
		snprintf(path, len, "%s", g.gl_pathv[0]);
	globfree(&g);
}

static void queues_init(struct node *n, const struct node_attr *a)
{
	struct raw_cq_attr cq = {
		.depth = a->cq ? a->cq : 128,
		.sgid = a->sgid,
		.req_id_64 = a->req_id_64,
	};
	struct raw_qp_attr qp = {
		.type = a->type ? a->type : RAW_SRD,
		.sq = a->sq ? a->sq : 64,
		.rq = a->rq ? a->rq : 64,
		.stride = a->stride,
		.unsolicited = a->unsolicited,
		.req_id_64 = a->req_id_64,
		.sl = a->sl,
	};

	MUST_0(raw_cq_create(&n->scq, &n->dev, &cq));
	MUST_0(raw_cq_create(&n->rcq, &n->dev, &cq));
	MUST_0(raw_qp_create(&n->qp, &n->dev, &n->pd, &n->scq, &n->rcq, &qp));
	MUST_0(raw_qp_up(&n->qp, &n->dev, NODE_QKEY, a->rnr - 1));
}

void node_init(struct node *n, const struct node_attr *a)
{
	size_t bytes = a->bytes ? a->bytes : 1 << 20, pages = (bytes + 4095) & ~(size_t)4095;

	memset(n, 0, sizeof(*n));
	n->with = a->with;
	if (n->with) {
		n->dev = n->with->dev;
		n->pd = n->with->pd;
	} else {
		MUST_0(raw_open(&n->dev, &raw_libc, a->dev));
		MUST_0(raw_pd_alloc(&n->pd, &n->dev));
	}
	queues_init(n, a);
	n->buf = aligned_alloc(4096, pages);
	MUST(n->buf, "no memory");
	memset(n->buf, 0, bytes);
	MUST_0(raw_mr_reg(&n->mr, &n->dev, &n->pd, n->buf, bytes, RAW_ALL_ACCESS));
}

void node_fini(struct node *n)
{
	MUST_0(raw_qp_destroy(&n->qp, &n->dev));
	MUST_0(raw_cq_destroy(&n->scq, &n->dev, NULL));
	MUST_0(raw_cq_destroy(&n->rcq, &n->dev, NULL));
	MUST_0(raw_mr_dereg(&n->mr, &n->dev));
	free(n->buf);
	if (!n->with)
		raw_close(&n->dev);
	memset(n, 0, sizeof(*n));
}

void node_abandon(struct node *n)
{
	raw_close(&n->dev);
	node_fini(n);
}

struct node_addr node_addr(const struct node *n)
{
	struct node_addr a = {.qpn = (uint16_t)n->qp.qpn, .qkey = n->qp.qkey};

	MUST_0(raw_gid(&n->dev, &a.gid));
	a.mr = raw_sge(&n->mr, 0, (uint32_t)n->mr.len);
	return a;
}

uint16_t node_ahn(struct node *n, const struct node_addr *to)
{
	struct raw_ah ah;

	MUST_0(raw_ah_create(&ah, &n->dev, &n->pd, &to->gid));
	return ah.ahn;
}

struct raw_wr node_wr(const struct node *n, enum raw_op op, const struct node_addr *to,
		      uint16_t ahn, uint64_t off, uint32_t len, uint64_t roff)
{
	return (struct raw_wr){
		.req_id = 0xabc,
		.op = op,
		.ahn = ahn,
		.qpn = to->qpn,
		.qkey = to->qkey,
		.remote = {to->mr.addr + roff, len, to->mr.key},
		.nsge = 1,
		.sge = {raw_sge(&n->mr, off, len)},
	};
}

void node_post(struct node *n, const struct raw_wr *wr)
{
	raw_post(&n->qp, wr);
	raw_ring(&n->qp);
}

void node_recv(struct node *n, uint16_t req_id, uint64_t off, uint32_t len)
{
	struct raw_sge sge = raw_sge(&n->mr, off, len);

	raw_post_recv(&n->qp, req_id, &sge, 1);
	raw_ring(&n->qp);
}

struct raw_wc node_wait(struct raw_cq *cq)
{
	int64_t end = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);
	struct raw_wc wc;

	while (!raw_poll(cq, &wc)) {
		MUST(kids_now_us() < end, "no completion");
		kids_nap_us(20);
	}
	return wc;
}

struct raw_wc node_wait_status(struct raw_cq *cq, unsigned status)
{
	struct raw_wc wc = node_wait(cq);

	MUST(wc.status == status, "status %u, not %u", wc.status, status);
	return wc;
}

struct raw_wc node_run(struct node *n, const struct raw_wr *wr)
{
	node_post(n, wr);
	return node_wait(&n->scq);
}

bool node_quiet(struct raw_cq *cq, unsigned ms)
{
	struct raw_wc wc;

	for (unsigned i = 0; i < ms; i++) {
		if (raw_poll(cq, &wc))
			return false;
		kids_nap_us(1000);
	}
	return true;
}

void node_fill(void *p, size_t n, uint32_t seed)
{
	uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8) * 13);
}

bool node_filled(const void *p, size_t n, uint32_t seed)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		if (b[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8) * 13))
			return false;
	return true;
}
