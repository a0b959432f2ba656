/* SPDX-License-Identifier: BSD-3-Clause */
/* One queue pair. */
#include "lane.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/meet.h"
#include "common/say.h"
#include "content.h"
#include "rail.h"

enum {
	BATCH = 16,        /* requests or completions per call */
	QKEY = 0x62770000, /* any number: the other side is told */
	RNR_FOR_EVER = 7,  /* a receiver that is late is waited for */
	MAX_COMPLAINTS = 5,
};

static const enum ibv_wr_opcode opcodes[BW_OPS] = {
	[BW_WRITE] = IBV_WR_RDMA_WRITE,
	[BW_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[BW_READ] = IBV_WR_RDMA_READ,
	[BW_SEND] = IBV_WR_SEND,
};

uint64_t bw_job_key(const struct bw_job *job, bool ours, uint32_t lane, uint64_t message)
{
	bool by_client = ours == job->client;

	return payload_key(by_client, (int)lane, 0, job->pass.number << 20 | message);
}

static int failed(const struct bw_lane *lane, const char *what, int rc)
{
	say("%s, queue pair %u: %s: %s", lane->rail->name, lane->number % lane->rail->qps, what,
	    strerror(-rc));
	return rc;
}

void bw_lane_complain(const struct bw_lane *lane, const struct bw_job *job, uint64_t message,
		      uint64_t wrong, uint64_t first)
{
	static int complaints;

	*job->wrong += wrong;
	if (complaints++ < MAX_COMPLAINTS)
		say("wrong data: %s, queue pair %u, message %" PRIu64 ": %" PRIu64 " of %" PRIu64
		    " bytes, the first at %" PRIu64 "%s",
		    lane->rail->name, lane->number % lane->rail->qps, message, wrong,
		    job->pass.size, first,
		    complaints == MAX_COMPLAINTS ? "; no more of these" : "");
}

/* ---- making ---- */

static uint32_t power_of_two(uint64_t n)
{
	uint32_t p = 128; /* the default depth */

	while (p < n)
		p *= 2;
	return p;
}

static int post_receive(struct bw_lane *lane, const struct bw_plan *plan, uint64_t buffer)
{
	uint64_t room = plan->op == BW_SEND ? bw_stride(plan->largest) : 0;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = buffer, .sg_list = &sge, .num_sge = 1};
	int rc;

	/* A write with immediate takes the receive and not its memory, of which there must be some.
	 */
	rc = srd_sge(&sge, &lane->rail->mr, lane->in + buffer * room, room ? plan->largest : 1);
	if (!rc)
		rc = srd_post_recv(&lane->qp, &wr, NULL);
	return rc ? failed(lane, "post a receive", rc) : 0;
}

static int queues_init(struct bw_lane *lane, const struct bw_plan *plan, bool direct)
{
	struct srd_dev *dev = &lane->rail->dev;
	struct srd_cq_attr cq = {.cqe = (int)(2 * power_of_two(plan->window)), .direct = direct};
	const struct srd_qp_attr qp = {
		.send_cq = &lane->scq,
		.recv_cq = &lane->rcq,
		.max_send_wr = plan->window,
		.max_recv_wr = (uint32_t)lane->buffers,
	};
	int rnr = dev->attr.caps & SRD_CAP_RNR_RETRY ? RNR_FOR_EVER : SRD_RNR_DEFAULT;
	int rc = srd_cq_init(&lane->scq, dev, &cq);

	cq.cqe = (int)(2 * power_of_two(lane->buffers));
	if (!rc)
		rc = srd_cq_init(&lane->rcq, dev, &cq);
	if (rc)
		return failed(lane, "completion queue", rc);
	rc = srd_qp_init(&lane->qp, &lane->rail->pd, &qp);
	if (!rc)
		rc = srd_qp_prepare(&lane->qp, QKEY, rnr);
	return rc ? failed(lane, "queue pair", rc) : 0;
}

int bw_lane_init(struct bw_lane *lane, const struct bw_plan *plan, bool direct)
{
	int rc = queues_init(lane, plan, direct);

	for (uint64_t i = 0; !rc && i < lane->buffers; i++)
		rc = post_receive(lane, plan, i);
	return rc;
}

void bw_lane_fini(struct bw_lane *lane)
{
	srd_peer_fini(&lane->peer);
	srd_qp_fini(&lane->qp);
	srd_cq_fini(&lane->rcq);
	srd_cq_fini(&lane->scq);
}

/* ---- messages of this side ---- */

void bw_lane_begin(struct bw_lane *lane, const struct bw_job *job, uint64_t goal)
{
	memset(&lane->xfer, 0, sizeof(lane->xfer));
	lane->goal = goal;
	lane->started = lane->requests = lane->received = 0;
	lane->done_ns = 0;
	if (job->plan->check)
		memset(lane->seen, 0, sizeof(lane->seen));
}

static int next_send(struct bw_lane *lane, const struct bw_job *job, struct srd_wr *wr)
{
	uint64_t slot = lane->started % job->slots;

	*wr = (struct srd_wr){.wr_id = lane->started, .to = &lane->peer, .nsge = 1};
	/* Whose contents they are must be known where they arrive. */
	wr->op = job->plan->check ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr->imm = (uint32_t)slot;
	lane->started++;
	return srd_sge(&wr->sge[0], &lane->rail->mr, lane->out + slot * job->stride,
		       job->pass.size);
}

static int start_rdma(struct bw_lane *lane, const struct bw_job *job)
{
	uint64_t off = lane->started % job->slots * job->stride;

	lane->xfer = (struct srd_xfer){
		.op = job->plan->op == BW_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.to = &lane->peer,
		.mr = &lane->rail->mr,
		.off = lane->out + off,
		.len = job->pass.size,
		.raddr = lane->raddr + off,
		.rkey = lane->rkey,
		.wr_id = lane->started++,
	};
	return srd_xfer_begin(&lane->xfer);
}

/* 1: @wr is the next request. 0: that was all. */
static int next(struct bw_lane *lane, const struct bw_job *job, struct srd_wr *wr)
{
	bool send = job->plan->op == BW_SEND;
	int rc;

	if (!srd_xfer_left(&lane->xfer)) {
		if (lane->started == lane->goal)
			return 0;
		rc = send ? next_send(lane, job, wr) : start_rdma(lane, job);
		if (rc || send)
			return rc ? rc : 1;
	}
	srd_xfer_next(&lane->xfer, wr);
	wr->op = opcodes[job->plan->op];
	return 1;
}

int bw_lane_push(struct bw_lane *lane, const struct bw_job *job)
{
	uint32_t room = job->plan->window - lane->outstanding;
	struct srd_wr wr[BATCH];
	int n = 0, rc = 1;

	while (n < BATCH && (uint32_t)n < room && rc > 0) {
		rc = next(lane, job, &wr[n]);
		n += rc > 0;
	}
	if (rc >= 0 && n)
		rc = srd_post(&lane->qp, wr, n);
	if (rc < 0)
		return failed(lane, "post", rc);
	lane->outstanding += (uint32_t)n;
	lane->requests += (uint64_t)n;
	return n;
}

static int request_failed(const struct bw_lane *lane, const struct bw_job *job, const char *what,
			  const struct srd_wc *wc)
{
	say("%s, queue pair %u: %s of %" PRIu64 " bytes: status %u, %s. %s", lane->rail->name,
	    lane->number % lane->rail->qps, what, job->pass.size, wc->efa_status,
	    srd_status_str(wc->efa_status), srd_status_hint(wc->efa_status));
	return srd_wc_err(wc);
}

int bw_lane_reap(struct bw_lane *lane, const struct bw_job *job)
{
	struct srd_wc wc[BATCH];
	int n = srd_cq_poll(&lane->scq, wc, BATCH);

	if (n < 0)
		return failed(lane, "poll", n);
	for (int i = 0; i < n; i++) {
		if (srd_wc_err(&wc[i]))
			return request_failed(lane, job, bw_op_name(job->plan->op), &wc[i]);
	}
	lane->outstanding -= (uint32_t)n;
	if (n && bw_lane_idle(lane))
		lane->done_ns = meet_now_ns();
	return n;
}

/* ---- messages of the other side ---- */

/* Each message of a pass comes once, whole, and as it was sent. */
static void check_send(struct bw_lane *lane, const struct bw_job *job, const struct srd_wc *wc)
{
	uint64_t room = bw_stride(job->plan->largest), first = 0, wrong;
	uint8_t *data = bw_rail_at(lane->rail, lane->in + wc->wr_id * room);
	bool known = (wc->flags & SRD_WC_IMM) && wc->imm < job->slots &&
		     !(lane->seen[wc->imm / 8] & 1 << wc->imm % 8);

	if (!known || wc->byte_len != job->pass.size) {
		bw_lane_complain(lane, job, wc->imm, job->pass.size, 0);
		return;
	}
	lane->seen[wc->imm / 8] |= (uint8_t)(1 << wc->imm % 8);
	wrong = bw_content_check(data, job->pass.size,
				 bw_job_key(job, false, lane->number, wc->imm), &first);
	if (wrong)
		bw_lane_complain(lane, job, wc->imm, wrong, first);
	memset(data, PAYLOAD_POISON, job->pass.size);
}

int bw_lane_receive(struct bw_lane *lane, const struct bw_job *job)
{
	struct srd_wc wc[BATCH];
	int n = srd_cq_poll(&lane->rcq, wc, BATCH), rc = 0;

	if (n < 0)
		return failed(lane, "poll", n);
	for (int i = 0; !rc && i < n; i++) {
		if (srd_wc_err(&wc[i]))
			return request_failed(lane, job, "receive", &wc[i]);
		if (job->plan->check && job->plan->op == BW_SEND)
			check_send(lane, job, &wc[i]);
		lane->received++;
		rc = post_receive(lane, job->plan, wc[i].wr_id);
	}
	return rc ? rc : n;
}
