/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of two queue pairs that tests of the core run over. */
#include "loop.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_us(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

void loop_open_dev(struct srd_dev *dev)
{
	struct srd_dev_info info;
	int n = srd_dev_list(&info, 1, true);

	cr_assert(ge(int, n, 0));
	if (n == 0)
		cr_skip("no EFA here: run below softefa");
	cr_assert(zero(int, srd_dev_open(dev, info.name)));
}

void loop_need(struct srd_dev *dev, uint32_t caps)
{
	uint32_t lacking = caps & ~dev->attr.caps;

	if (!lacking)
		return;
	srd_dev_close(dev);
	cr_skip("this device or libefa lacks capabilities %#x", lacking);
}

int loop_release(void)
{
	void *lib = dlopen("libefa.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct link_map *map;
	char path[PATH_MAX];
	const char *at;
	int release;

	cr_assert(ne(ptr, lib, NULL));
	cr_assert(zero(int, dlinfo(lib, RTLD_DI_LINKMAP, &map)));
	cr_assert(ne(ptr, realpath(map->l_name, path), NULL));
	dlclose(lib);
	at = strstr(path, ".so.1.");
	return at && sscanf(at, ".so.1.%*d.%d.", &release) == 1 ? release : INT_MAX;
}

static bool asks_direct(void)
{
	const char *kind = getenv("LOOP_CQ");

	return kind && strcmp(kind, "direct") == 0;
}

bool loop_direct(void)
{
	return asks_direct() && loop_release() >= 59;
}

bool loop_classic(void)
{
	const char *kind = getenv("LOOP_CQ");

	return kind && strcmp(kind, "classic") == 0;
}

struct srd_qp_attr loop_qp_attr(struct loop *l, const struct loop_attr *attr)
{
	uint32_t depth = attr->depth ? attr->depth : 64;

	return (struct srd_qp_attr){
		.send_cq = &l->a_cq,
		.recv_cq = &l->a_cq,
		.td = attr->td ? &l->td : NULL,
		.type = attr->type,
		.max_send_wr = depth,
		.max_recv_wr = depth,
		.max_send_sge = attr->sges,
		.max_recv_sge = attr->sges,
		.max_inline = attr->max_inline,
		.unsolicited = attr->a_unsolicited,
	};
}

static void make_queues(struct loop *l, const struct loop_attr *attr)
{
	struct srd_qp_attr qp_attr = loop_qp_attr(l, attr);
	struct srd_cq_attr cq_attr = {
		.td = qp_attr.td,
		.cqe = 4 * qp_attr.max_send_wr,
		.fields = attr->cq_fields,
		.channel = attr->channel ? &l->ch : NULL,
		.direct = asks_direct(),
		.classic = loop_classic(),
	};
	struct srd_pd *b_pd = attr->strangers ? &l->b_pd : &l->pd;
	int rnr = attr->rnr_retry ? attr->rnr_retry : SRD_RNR_DEFAULT;

	if (attr->channel)
		cr_assert(zero(int, srd_channel_init(&l->ch, &l->dev)));
	cr_assert(zero(int, srd_cq_init(&l->a_cq, &l->dev, &cq_attr)));
	cr_assert(zero(int, srd_cq_init(&l->b_cq, &l->dev, &cq_attr)));
	cr_assert(eq(int, l->a_cq.direct != NULL, loop_direct()));
	cr_assert(zero(int, srd_qp_init(&l->a, &l->pd, &qp_attr)));
	qp_attr.send_cq = qp_attr.recv_cq = &l->b_cq;
	qp_attr.unsolicited = attr->b_unsolicited;
	cr_assert(zero(int, srd_qp_init(&l->b, b_pd, &qp_attr)));
	cr_assert(zero(int, srd_qp_prepare(&l->a, LOOP_QKEY + 1, rnr)));
	cr_assert(zero(int, srd_qp_prepare(&l->b, LOOP_QKEY + 2, SRD_RNR_DEFAULT)));
}

void loop_init(struct loop *l, const struct loop_attr *attr)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct srd_ep ep;

	memset(l, 0, sizeof(*l));
	if (loop_classic() &&
	    (attr->a_unsolicited || attr->b_unsolicited || attr->cq_fields & SRD_CQ_SGID))
		cr_skip("not with classic CQs");
	loop_open_dev(&l->dev);
	loop_need(&l->dev, attr->need);
	if (attr->a_unsolicited || attr->b_unsolicited)
		loop_need(&l->dev, SRD_CAP_UNSOLICITED_WRITE_RECV | SRD_CAP_RDMA_WRITE);
	if (attr->cq_fields & SRD_CQ_SGID)
		loop_need(&l->dev, SRD_CAP_CQ_WITH_SGID);
	if (attr->rnr_retry)
		loop_need(&l->dev, SRD_CAP_RNR_RETRY);
	if (l->dev.attr.caps & SRD_CAP_RDMA_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (l->dev.attr.caps & SRD_CAP_RDMA_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	cr_assert(zero(int, srd_pd_init(&l->pd, &l->dev)));
	cr_assert(zero(int, srd_pd_init(&l->b_pd, &l->dev)));
	cr_assert(zero(int, srd_td_init(&l->td, &l->pd)));
	make_queues(l, attr);
	srd_ep_local(&l->b, &ep);
	cr_assert(zero(int, srd_peer_init(&l->to_b, &l->pd, &ep)));
	srd_ep_local(&l->a, &ep);
	if (!attr->strangers)
		cr_assert(zero(int, srd_peer_init(&l->to_a, &l->pd, &ep)));
	l->buf = aligned_alloc(4096, LOOP_BYTES);
	cr_assert(ne(ptr, l->buf, NULL));
	memset(l->buf, 0, LOOP_BYTES);
	cr_assert(zero(int, srd_mr_init(&l->mr, &l->pd, l->buf, LOOP_BYTES, access)));
	cr_assert(zero(int, srd_mr_init(&l->b_mr, attr->strangers ? &l->b_pd : &l->pd, l->buf,
					LOOP_BYTES, access)));
}

void loop_fini(struct loop *l)
{
	srd_mr_fini(&l->b_mr);
	srd_mr_fini(&l->mr);
	free(l->buf);
	srd_peer_fini(&l->to_a);
	srd_peer_fini(&l->to_b);
	srd_qp_fini(&l->b);
	srd_qp_fini(&l->a);
	srd_cq_fini(&l->b_cq);
	srd_cq_fini(&l->a_cq);
	srd_channel_fini(&l->ch);
	srd_td_fini(&l->td);
	srd_pd_fini(&l->b_pd);
	srd_pd_fini(&l->pd);
	srd_dev_close(&l->dev);
}

static uint8_t pattern(size_t i, uint32_t seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	return x >> 24 ^ x >> 13;
}

void loop_fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(i, seed);
}

bool loop_filled(const uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != pattern(i, seed))
			return false;
	}
	return true;
}

struct srd_wr loop_wr(const struct loop *l, enum ibv_wr_opcode op, uint64_t off, uint32_t len,
		      uint64_t to)
{
	struct srd_wr wr = {
		.wr_id = 0xa0a0,
		.to = &l->to_b,
		.raddr = l->b_mr.addr + to,
		.rkey = l->b_mr.rkey,
		.op = op,
		.nsge = 1,
	};

	cr_assert(zero(int, srd_sge(&wr.sge[0], &l->mr, off, len)));
	return wr;
}

void loop_recv(struct loop *l, uint64_t wr_id, uint64_t off, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	cr_assert(zero(int, srd_sge(&sge, &l->b_mr, off, len)));
	cr_assert(zero(int, srd_post_recv(&l->b, &wr, NULL)));
}

void loop_wait(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int64_t end = now_ms() + LOOP_WAIT_MS;
	int got = 0, rc;

	while (got < n && now_ms() < end) {
		rc = srd_cq_poll(cq, wc + got, n - got);
		cr_assert(ge(int, rc, 0));
		got += rc;
		if (rc == 0)
			sleep_us(20);
	}
	cr_assert(eq(int, got, n), "completions within %d ms", LOOP_WAIT_MS);
}

struct srd_wc loop_wait_ok(struct srd_cq *cq)
{
	struct srd_wc wc;

	loop_wait(cq, &wc, 1);
	cr_assert(zero(int, srd_wc_err(&wc)), "EFA status %u (%s)", wc.efa_status,
		  srd_status_str(wc.efa_status));
	return wc;
}

struct srd_wc loop_run(struct loop *l, const struct srd_wr *wr)
{
	struct srd_wc wc;

	cr_assert(zero(int, srd_post(&l->a, wr, 1)));
	loop_wait(&l->a_cq, &wc, 1);
	cr_assert(eq(u64, wc.wr_id, wr->wr_id));
	return wc;
}

bool loop_quiet(struct srd_cq *cq)
{
	struct srd_wc wc;

	for (int i = 0; i < 50; i++) {
		if (srd_cq_poll(cq, &wc, 1) != 0)
			return false;
		sleep_us(1000);
	}
	return true;
}

static void find(const char *name, void *slot)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *fn = lib ? dlsym(lib, name) : NULL;

	cr_assert(ne(ptr, fn, NULL), "%s", name);
	memcpy(slot, &fn, sizeof(fn));
	dlclose(lib);
}

int loop_query_qp(struct srd_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	int (*query)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);

	find("ibv_query_qp", &query);
	return query(qp->ibv, attr, mask, init);
}

void loop_to_error(struct srd_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);

	find("ibv_modify_qp", &modify);
	cr_assert(zero(int, modify(qp->ibv, &attr, IBV_QP_STATE)));
}
