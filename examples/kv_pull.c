/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mover of a paged KV cache: one process holds blocks, another pulls those it wants by RDMA read.
 *
 *	kv_pull hold IPv4:PORT BLOCKS BYTES	hold that many blocks of BYTES, listen there
 *	kv_pull pull IPv4:PORT COUNT WINDOW	pull the first COUNT of them, WINDOW at a time
 *
 * A block lies in any page of the holder, and comes into any page of the puller: only block tables
 * know. The puller gets the holder's when they meet. Reads complete in any order: wr_id says which
 * block it is, and it can be used at once, here checked, while others are under way. The holder's
 * CPU has no part in it.
 */
#include <srd.h>

#include "shared.h"

enum { BLOCKS = 4096, QKEY = 0x6b76, HOLDER = 0, PULLER = 1 };

struct card { /* what one must know of the other */
	struct srd_ep_wire ep;
	uint32_t blocks, bytes, rkey;
	uint64_t addr;
	uint32_t page[BLOCKS]; /* the block table */
	uint64_t sum[BLOCKS];
};

static struct {
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_mr mr;
	struct srd_peer peer;
} self;
static struct card mine, cards[2];
static const struct card *const held = &cards[HOLDER];

static void open_all(uint32_t window)
{
	struct srd_dev_info info;
	struct srd_qp_attr qp = {.send_cq = &self.cq, .recv_cq = &self.cq, .max_recv_wr = 1};
	struct srd_cq_attr cq = {.direct = true, .cqe = 2 * ((int)window + 1)};

	must(srd_dev_list(&info, 1, true) > 0 ? 0 : -ENODEV, "EFA");
	must(srd_dev_open(&self.dev, info.name), info.name);
	must(self.dev.attr.caps & SRD_CAP_RDMA_READ ? 0 : -EOPNOTSUPP, "RDMA read");
	qp.max_send_wr = window;
	must(srd_pd_init(&self.pd, &self.dev), "srd_pd_init");
	must(srd_cq_init(&self.cq, &self.dev, &cq), "srd_cq_init");
	must(srd_qp_init(&self.qp, &self.pd, &qp), "srd_qp_init");
	must(srd_qp_prepare(&self.qp, QKEY, SRD_RNR_DEFAULT), "srd_qp_prepare");
}

static void *pages(uint32_t n, uint32_t bytes, int access)
{
	void *mem = calloc(n, bytes);

	must(mem ? 0 : -ENOMEM, "pages");
	must(srd_mr_init(&self.mr, &self.pd, mem, (size_t)n * bytes, access), "srd_mr_init");
	return mem;
}

/* The holder needs an address handle of the puller, too: EFA refuses the reads of strangers. */
static void exchange(struct meet *meet)
{
	struct srd_ep ep;

	srd_ep_local(&self.qp, &ep);
	srd_ep_pack(&mine.ep, &ep);
	meet_all(meet, &mine, sizeof(mine), cards);
	must(srd_ep_unpack(&ep, &cards[1 - meet->rank].ep), "srd_ep_unpack");
	must(srd_peer_init(&self.peer, &self.pd, &ep), "srd_peer_init");
	meet_wait(meet);
}

static void close_all(struct meet *meet, void *mem)
{
	meet_wait(meet); /* nobody reads any more */
	srd_peer_fini(&self.peer);
	srd_mr_fini(&self.mr);
	srd_qp_fini(&self.qp);
	srd_cq_fini(&self.cq);
	srd_pd_fini(&self.pd);
	srd_dev_close(&self.dev);
	meet_close(meet);
	free(mem);
}

static uint64_t sum_of(const uint64_t *words, uint32_t bytes)
{
	uint64_t sum = bytes;

	for (uint32_t i = 0; i < bytes / 8; i++)
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
	return sum;
}

static void hold(const char *root, uint32_t blocks, uint32_t bytes)
{
	struct meet meet;
	char *mem;

	open_all(1);
	mem = pages(blocks, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	mine.blocks = blocks;
	mine.bytes = bytes;
	mine.addr = self.mr.addr;
	mine.rkey = self.mr.rkey;
	for (uint32_t b = 0; b < blocks; b++) {
		uint64_t *words;

		mine.page[b] = (b * 7919 + 1) % blocks; /* each once: a prime above BLOCKS */
		words = (uint64_t *)(mem + (size_t)mine.page[b] * bytes);
		for (uint32_t i = 0; i < bytes / 8; i++)
			words[i] = ((uint64_t)b << 32 | i) * 0x9e3779b97f4a7c15;
		mine.sum[b] = sum_of(words, bytes);
	}
	meet_open(&meet, root, HOLDER, 2);
	exchange(&meet);
	close_all(&meet, mem);
}

/* Ask for @block of the holder, into @page of ours. */
static void post_read(uint32_t block, uint32_t page)
{
	struct srd_wr wr = {.wr_id = block, .op = IBV_WR_RDMA_READ, .to = &self.peer, .nsge = 1};

	wr.raddr = held->addr + (uint64_t)held->page[block] * held->bytes;
	wr.rkey = held->rkey;
	must(srd_sge(wr.sge, &self.mr, (uint64_t)page * held->bytes, held->bytes), "srd_sge");
	must(srd_post(&self.qp, &wr, 1), "srd_post");
}

/* The block that came, once it is right. */
static uint32_t await_block(const char *mem, const uint32_t *page)
{
	double end_s = now_s() + WAIT_S;
	struct srd_wc wc;
	uint32_t block;
	int n;

	while ((n = srd_cq_poll(&self.cq, &wc, 1)) == 0)
		must(now_s() < end_s ? 0 : -ETIMEDOUT, "a read");
	must(n, "srd_cq_poll");
	must(srd_wc_err(&wc), srd_status_str(wc.efa_status));
	block = (uint32_t)wc.wr_id;
	if (sum_of((const uint64_t *)(mem + (size_t)page[block] * held->bytes), held->bytes) !=
	    held->sum[block])
		must(-EBADMSG, "a block");
	return block;
}

static void pull(const char *root, uint32_t count, uint32_t window)
{
	static uint32_t page[BLOCKS], order[BLOCKS];
	uint32_t posted = 0, came = 0, newest = 0, overtaken = 0;
	struct meet meet;
	double s;
	char *mem;

	open_all(window);
	meet_open(&meet, root, PULLER, 2);
	exchange(&meet);
	must(count <= held->blocks ? 0 : -EINVAL, "COUNT: more blocks than there are");
	must(held->bytes <= self.dev.attr.max_rdma_size ? 0 : -EMSGSIZE,
	     "BYTES: a block above max_rdma_size");
	mem = pages(count, held->bytes, IBV_ACCESS_LOCAL_WRITE);
	s = now_s();
	while (came < count) {
		for (; posted < count && posted - came < window; posted++) {
			page[posted] = count - 1 - posted; /* whichever is free */
			post_read(posted, page[posted]);
		}
		order[came] = await_block(mem, page);
		overtaken += order[came] < newest;
		newest = order[came] > newest ? order[came] : newest;
		came++;
	}
	s = now_s() - s;
	printf("%u blocks of %u bytes, window %u, each checked: %.3f GB/s, %u came late\norder:",
	       count, held->bytes, window, (double)count * held->bytes / s / 1e9, overtaken);
	for (uint32_t i = 0; i < count; i++)
		printf(" %u", order[i]);
	puts("");
	close_all(&meet, mem);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "hold"))
		hold(argv[2], (uint32_t)number(argv[3], 1, BLOCKS, "BLOCKS"),
		     (uint32_t)number(argv[4], 8, 1u << 30, "BYTES") / 8 * 8);
	else if (argc == 5 && !strcmp(argv[1], "pull"))
		pull(argv[2], (uint32_t)number(argv[3], 1, BLOCKS, "COUNT"),
		     (uint32_t)number(argv[4], 1, BLOCKS, "WINDOW"));
	else
		must(-EINVAL, "usage: hold IPv4:PORT BLOCKS BYTES, or pull IPv4:PORT COUNT WINDOW");
}
