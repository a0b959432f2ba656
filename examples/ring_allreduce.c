/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring all-reduce, floats summed in place, of several processes over several EFAs each:
 *
 *	ring_allreduce RANK RANKS IPv4:PORT BYTES RAILS		IPv4:PORT: where rank 0 listens
 *
 * The data have a segment for each rank. In a step a rank writes one into the memory of its right
 * neighbour, a stripe over each rail, and waits for one of its left. N - 1 steps add up: they fill
 * slots behind the data, a new one each, that the receiver adds. N - 1 more hand the sums on.
 *
 * SRD keeps no order: a write tells in its immediate to which step it belongs, and bytes count by
 * step. Nothing else holds back the left. Once it has all sums, our slots were used, and it may
 * fill them for the next all-reduce; it cannot go on to hand out those sums, they need our part.
 */
#include <srd.h>

#include "shared.h"

enum { RAILS = 32, RUNS = 5, QKEY = 0x72696e67, SENT = 0, RECEIVED = 1 /* wr_id */ };

struct card { /* what a neighbour must know of a rail */
	struct srd_ep ep;
	uint32_t rkey;
	uint64_t addr, bytes;
};

static struct rail {
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_mr mr;
	struct srd_peer left, right;
} rails[RAILS];
static struct card mine[RAILS], cards[MEET_RANKS][RAILS];
static uint32_t rank, ranks, nrails, steps, sending; /* sending: writes under way */
static float *data;
static size_t count, segment;        /* of floats: of data, of each segment and slot */
static uint64_t got[2 * MEET_RANKS]; /* bytes that came, by step */
static double end_s;                 /* of this all-reduce, at the latest */

/* EFA wants an SGE also where data go elsewhere, as those of a write do. */
static void post_receive(struct rail *l)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = RECEIVED, .sg_list = &sge, .num_sge = 1};

	must(srd_sge(&sge, &l->mr, 0, 1), "srd_sge");
	must(srd_post_recv(&l->qp, &wr, NULL), "srd_post_recv");
}

static void rail_open(struct rail *l, struct card *card, const char *name)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	/* Room for all that can be under way, of us and of the left. Depths become powers of 2. */
	struct srd_cq_attr cq = {.direct = true, .cqe = 2 * 2 * (int)steps};
	struct srd_qp_attr qp = {.max_send_wr = steps, .max_recv_wr = steps};

	qp.send_cq = qp.recv_cq = &l->cq;
	must(srd_dev_open(&l->dev, name), name);
	must(4 * segment / nrails <= l->dev.attr.max_rdma_size ? 0 : -EMSGSIZE,
	     "BYTES: a stripe above max_rdma_size");
	must(srd_pd_init(&l->pd, &l->dev), "srd_pd_init");
	must(srd_cq_init(&l->cq, &l->dev, &cq), "srd_cq_init");
	must(srd_qp_init(&l->qp, &l->pd, &qp), "srd_qp_init");
	must(srd_qp_prepare(&l->qp, QKEY, SRD_RNR_DEFAULT), "srd_qp_prepare");
	must(srd_mr_init(&l->mr, &l->pd, data, 4 * (2 * count - segment), access), "srd_mr_init");
	for (uint32_t i = 0; i < steps; i++)
		post_receive(l);
	*card = (struct card){.addr = l->mr.addr, .bytes = l->mr.len, .rkey = l->mr.rkey};
	srd_ep_local(&l->qp, &card->ep);
}

/* Also of the left, that only writes to us: EFA refuses RDMA of whom it has no address handle. */
static void rail_peer(struct srd_peer *peer, struct rail *l, uint32_t of)
{
	const struct card *card = &cards[of % ranks][l - rails];

	must(card->bytes == l->mr.len ? 0 : -EINVAL, "BYTES or RAILS of a neighbour");
	must(srd_peer_init(peer, &l->pd, &card->ep), "srd_peer_init");
}

static void rail_close(struct rail *l)
{
	srd_peer_fini(&l->left);
	srd_peer_fini(&l->right);
	srd_mr_fini(&l->mr);
	srd_qp_fini(&l->qp);
	srd_cq_fini(&l->cq);
	srd_pd_fini(&l->pd);
	srd_dev_close(&l->dev);
}

static void poll_rails(void)
{
	struct srd_wc wc;
	int n;

	for (struct rail *l = rails; l < rails + nrails; l++) {
		while ((n = srd_cq_poll(&l->cq, &wc, 1)) > 0) {
			must(srd_wc_err(&wc), srd_status_str(wc.efa_status));
			sending -= wc.wr_id == SENT;
			if (wc.wr_id == RECEIVED) {
				got[wc.imm % steps] += wc.byte_len;
				post_receive(l);
			}
		}
		must(n, "srd_cq_poll");
	}
	must(now_s() < end_s ? 0 : -ETIMEDOUT, "completions");
}

/* Write the segment that is at @from to @to in the memory of the right. */
static void write_right(uint32_t step, size_t to, size_t from)
{
	size_t stripe = segment / nrails;
	struct srd_wr wr = {
		.wr_id = SENT, .op = IBV_WR_RDMA_WRITE_WITH_IMM, .nsge = 1, .imm = step};

	for (uint32_t i = 0; i < nrails; i++, to += stripe, from += stripe) {
		wr.to = &rails[i].right;
		wr.raddr = cards[(rank + 1) % ranks][i].addr + 4 * to;
		wr.rkey = cards[(rank + 1) % ranks][i].rkey;
		must(srd_sge(wr.sge, &rails[i].mr, 4 * from, 4 * stripe), "srd_sge");
		must(srd_post(&rails[i].qp, &wr, 1), "srd_post");
		sending++;
	}
}

static void allreduce(void)
{
	end_s = now_s() + WAIT_S;
	for (uint32_t step = 0; step < steps; step++) {
		bool sums = step >= ranks - 1;
		uint32_t turn = step % (ranks - 1), seg = (rank + sums + ranks - turn) % ranks;
		size_t out = segment * seg, in = segment * ((seg + ranks - 1) % ranks);
		size_t slot = count + segment * turn;

		write_right(step, sums ? out : slot, out);
		while (got[step] < 4 * segment)
			poll_rails();
		got[step] = 0;
		for (size_t i = 0; i < segment && !sums; i++)
			data[in + i] += data[slot + i];
	}
	while (sending > 0) /* what they read is the caller's from now on */
		poll_rails();
}

/* Two all-reduces, the second of the sums of the first, with no barrier in between. */
static void run(struct meet *meet)
{
	float sum = 0.5f * (float)(ranks * (ranks + 1)) * (float)ranks;
	double s, bytes = 4.0 * (double)count;

	for (size_t i = 0; i < count; i++)
		data[i] = (float)(rank + 1) * (float)(i % 7 + 1);
	meet_wait(meet); /* all have their address handles; the clock starts for all */
	s = now_s();
	allreduce();
	allreduce();
	s = (now_s() - s) / 2;
	for (size_t i = 0; i < count; i++)
		must(data[i] == sum * (float)(i % 7 + 1) ? 0 : -EBADMSG, "sums");
	if (rank == 0)
		printf("%.0f bytes, %u ranks, %u rails: %.3f GB/s, %.3f on the bus\n", bytes, ranks,
		       nrails, bytes / s / 1e9, bytes / s / 1e9 * steps / ranks);
}

int main(int argc, char **argv)
{
	struct srd_dev_info devs[RAILS];
	struct meet meet;

	must(argc == 6 ? 0 : -EINVAL, "usage: RANK RANKS IPv4:PORT BYTES RAILS");
	ranks = (uint32_t)number(argv[2], 2, MEET_RANKS, "RANKS");
	rank = (uint32_t)number(argv[1], 0, ranks - 1, "RANK");
	nrails = (uint32_t)number(argv[5], 1, RAILS, "RAILS");
	segment = number(argv[4], 8192, 1ull << 40, "BYTES") / (4 * ranks * nrails) * nrails;
	count = ranks * segment;
	steps = 2 * (ranks - 1);
	data = calloc(2 * count, 4);
	must(data ? 0 : -ENOMEM, "BYTES");
	must(srd_dev_list(devs, RAILS, true) >= (int)nrails ? 0 : -ENODEV, "RAILS: that many EFAs");
	for (uint32_t i = 0; i < nrails; i++)
		rail_open(&rails[i], &mine[i], devs[i].name);
	meet_open(&meet, argv[3], (int)rank, (int)ranks);
	meet_all(&meet, mine, sizeof(mine), cards);
	for (uint32_t i = 0; i < nrails; i++) {
		rail_peer(&rails[i].left, &rails[i], rank + ranks - 1);
		rail_peer(&rails[i].right, &rails[i], rank + 1);
	}
	for (int i = 0; i < RUNS; i++)
		run(&meet);
	meet_wait(&meet); /* nobody writes to us any more */
	for (uint32_t i = 0; i < nrails; i++)
		rail_close(&rails[i]);
	meet_close(&meet);
	free(data);
}
