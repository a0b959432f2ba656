/* SPDX-License-Identifier: BSD-3-Clause */
/* EFA statuses that a program cannot provoke, from an adapter that was told to give them. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../lib/loop.h"
#include "../lib/plug.h"

enum { LEN = 256 };

struct forced {
	uint32_t status;
	enum ibv_wc_status wc;
	int rc;
	char says[32];
};

static struct forced forced[] = {
	{2, IBV_WC_LOC_QP_OP_ERR, -EIO, "internal error"},
	{3, IBV_WC_LOC_QP_OP_ERR, -EOPNOTSUPP, "unsupported operation"},
	{8, IBV_WC_REM_ABORT_ERR, -ECONNRESET, "reset by the remote"},
	{13, IBV_WC_RESP_TIMEOUT_ERR, -ETIMEDOUT, "unresponsive"},
	{16, IBV_WC_GENERAL_ERR, -EIO, "unknown status"},
	{200, IBV_WC_GENERAL_ERR, -EIO, "unknown status"},
};

ParameterizedTestParameters(forced, status_is_decoded)
{
	return cr_make_param_array(struct forced, forced, sizeof(forced) / sizeof(forced[0]));
}

ParameterizedTest(struct forced *f, forced, status_is_decoded)
{
	char set[64];
	struct srd_wr wr;
	struct srd_wc wc;
	struct loop l;

	snprintf(set, sizeof(set), "fault=status %u nth=2", f->status);
	plug_softefa(set);
	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	for (unsigned i = 1; i <= 3; i++) {
		wc = loop_run(&l, &wr);
		cr_assert(eq(u32, wc.efa_status, i == 2 ? f->status : 0));
		cr_assert(eq(int, (int)wc.status, i == 2 ? (int)f->wc : IBV_WC_SUCCESS));
		cr_assert(eq(int, srd_wc_err(&wc), i == 2 ? f->rc : 0));
		cr_assert(i != 2 || strstr(srd_status_str(wc.efa_status), f->says), "%s",
			  srd_status_str(wc.efa_status));
	}
	loop_fini(&l);
}

Test(forced, batch_with_failures_in_it_completes_whole)
{
	enum { BATCH = 32 };
	struct srd_wr wr[BATCH];
	struct srd_wc wc[BATCH];
	uint32_t failed = 0, seen = 0;
	struct loop l;

	plug_softefa("fault=status 13 nth=7,fault=status 8 nth=9,fault=status 2 nth=32");
	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	for (unsigned i = 0; i < BATCH; i++) {
		wr[i] = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
		wr[i].wr_id = i;
	}
	cr_assert(zero(int, srd_post(&l.a, wr, BATCH)));
	loop_wait(&l.a_cq, wc, BATCH);
	for (unsigned i = 0; i < BATCH; i++) {
		seen |= 1u << wc[i].wr_id;
		failed |= srd_wc_err(&wc[i]) ? 1u << wc[i].wr_id : 0;
	}
	cr_assert(eq(u32, seen, UINT32_MAX));
	cr_assert(eq(u32, failed, 1u << 6 | 1u << 8 | 1u << 31));
	loop_fini(&l);
}

/* A device that answered before and is silent now. */
Test(forced, device_that_dies_is_15_and_then_13)
{
	struct srd_wr wr;
	struct srd_wc wc;
	struct loop l;

	plug_softefa("timeout_ms=50,fault=dead ms=2000");
	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	wc = loop_run(&l, &wr);
	cr_assert(eq(u32, wc.efa_status, 15));
	cr_assert(eq(int, srd_wc_err(&wc), -EHOSTUNREACH));
	while (srd_wc_err(&wc))
		wc = loop_run(&l, &wr);
	loop_fini(&l);
}

/* ---- objects that cannot be made ---- */

struct refused {
	char rule[32];
	int rc;
};

static struct refused refused[] = {
	{"refuse pd", -ENOMEM}, {"refuse cq", -ENOMEM},          {"refuse qp", -ENOMEM},
	{"refuse mr", -ENOMEM}, {"refuse mr error=14", -EFAULT}, {"refuse ah", -ENOMEM},
};

ParameterizedTestParameters(forced, refusal_is_handed_on)
{
	return cr_make_param_array(struct refused, refused, sizeof(refused) / sizeof(refused[0]));
}

/* Everything in turn: what is asked for fails, the rest does not. */
ParameterizedTest(struct refused *r, forced, refusal_is_handed_on)
{
	char set[64];
	struct srd_ep ep = {.qpn = 3};
	struct srd_qp_attr qp_attr = {.max_send_wr = 16, .max_recv_wr = 16};
	static uint8_t buf[LEN];
	int pd = 0, cq = 0, qp = 0, mr = 0, ah = 0;
	struct srd_peer peer_;
	struct srd_dev dev;
	struct srd_pd pd_;
	struct srd_cq cq_;
	struct srd_qp qp_;
	struct srd_mr mr_;

	snprintf(set, sizeof(set), "fault=%s", r->rule);
	plug_softefa(set);
	loop_open_dev(&dev);
	ep.gid = dev.attr.gid;
	pd = srd_pd_init(&pd_, &dev);
	cq = srd_cq_init(&cq_, &dev, &(struct srd_cq_attr){.cqe = 32});
	if (!pd && !cq) {
		qp_attr.send_cq = qp_attr.recv_cq = &cq_;
		qp = srd_qp_init(&qp_, &pd_, &qp_attr);
	}
	if (!pd) {
		mr = srd_mr_init(&mr_, &pd_, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
		ah = srd_peer_init(&peer_, &pd_, &ep);
	}
	cr_assert(eq(int, pd + cq + qp + mr + ah, r->rc), "%d %d %d %d %d", pd, cq, qp, mr, ah);
	cr_assert(eq(int,
		     (r->rule[7] == 'p'   ? pd
		      : r->rule[7] == 'c' ? cq
		      : r->rule[7] == 'q' ? qp
		      : r->rule[7] == 'm' ? mr
					  : ah),
		     r->rc));
	if (!pd && !ah)
		srd_peer_fini(&peer_);
	if (!pd && !mr)
		srd_mr_fini(&mr_);
	if (!pd && !cq && !qp)
		srd_qp_fini(&qp_);
	if (!cq)
		srd_cq_fini(&cq_);
	if (!pd)
		srd_pd_fini(&pd_);
	srd_dev_close(&dev);
}
