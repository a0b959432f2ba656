/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srd-pingpong: a message to another host and back, again and again. The smallest complete program
 * on srd.h, to be read from top to bottom. What every such program does:
 *
 *   - open a device; make a protection domain, memory, a completion queue and a queue pair;
 *   - tell the other side the endpoint, by other means, and make a peer of what it tells;
 *   - post, and poll for what came of it.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/meet.h"
#include "common/options.h"
#include "common/payload.h"
#include "common/say.h"
#include "srd.h"

enum {
	TO_SEND = 2,       /* slot of memory with the message to send; 0 and 1 are for receives */
	QKEY = 0x70696e67, /* any number: the other side is told */
	MAX_ROUNDS = 1000000,
};

struct pingpong {
	const char *device, *host; /* host NULL: this is the server */
	uint64_t port, size, rounds;
	struct meet tcp;
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_mr mr;
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_peer peer;
	uint8_t *buf; /* three slots of stride bytes */
	uint64_t stride;
	uint64_t sent, received; /* completions so far */
	uint64_t slot;           /* of the latest message */
};

/* Calls return -errno. What fails ends the program; @what NULL: it was said why. */
static void need(int rc, const char *what)
{
	if (rc >= 0)
		return;
	if (what)
		say("%s: %s", what, strerror(-rc));
	exit(1);
}

/* ---- the queue pair and what belongs to it ---- */

/* A message that finds no receive waits for another try, which is slow: be ahead of it. */
static void post_receive(struct pingpong *p, uint64_t slot)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	need(srd_sge(&sge, &p->mr, slot * p->stride, p->dev.attr.max_msg_size), "receive");
	need(srd_post_recv(&p->qp, &wr, NULL), "receive");
}

static void open_device(struct pingpong *p)
{
	struct srd_dev_info first;

	if (!p->device && srd_dev_list(&first, 1, true) < 1)
		need(-ENODEV, "EFA");
	need(srd_dev_open(&p->dev, p->device ? p->device : first.name),
	     p->device ? p->device : first.name);
}

static void open_queues(struct pingpong *p)
{
	/* Room for completions of all that is posted: 128 sends and receives are the default. */
	struct srd_cq_attr cq = {.cqe = 1024};
	struct srd_qp_attr qp = {.send_cq = &p->cq, .recv_cq = &p->cq};

	p->stride = (p->dev.attr.max_msg_size + 4095) & ~UINT64_C(4095);
	p->buf = aligned_alloc(4096, (TO_SEND + 1) * p->stride);
	need(p->buf ? 0 : -ENOMEM, "memory");
	need(srd_pd_init(&p->pd, &p->dev), "protection domain");
	need(srd_mr_init(&p->mr, &p->pd, p->buf, (TO_SEND + 1) * p->stride, IBV_ACCESS_LOCAL_WRITE),
	     "memory");
	need(srd_cq_init(&p->cq, &p->dev, &cq), "completion queue");
	need(srd_qp_init(&p->qp, &p->pd, &qp), "queue pair");
	need(srd_qp_prepare(&p->qp, QKEY, SRD_RNR_DEFAULT), "queue pair");
	post_receive(p, 0);
	post_receive(p, 1);
}

static void close_all(struct pingpong *p)
{
	srd_peer_fini(&p->peer); /* the reverse of the order of making */
	srd_qp_fini(&p->qp);
	srd_cq_fini(&p->cq);
	srd_mr_fini(&p->mr);
	srd_pd_fini(&p->pd);
	srd_dev_close(&p->dev);
	free(p->buf);
	meet_close(&p->tcp);
}

/* ---- the other side ---- */

static const char magic[8] = "srdping1";

/* What each tells the other by TCP: its endpoint; and what the client wants is done. */
struct hello {
	char magic[8];
	struct srd_ep_wire ep;
	uint32_t size, rounds; /* network order */
};
static_assert(sizeof(struct hello) == 40, "no padding: it is sent as it is");

/* SRD cuts no messages: what exceeds the device's MTU cannot be sent. */
static void check_wishes(const struct pingpong *p)
{
	uint32_t mtu = p->dev.attr.max_msg_size;

	if (p->size >= 1 && p->size <= mtu && p->rounds >= 1 && p->rounds <= MAX_ROUNDS)
		return;
	say("%" PRIu64 " bytes, %" PRIu64 " rounds: must be 1 to %u and 1 to %d", p->size,
	    p->rounds, mtu, MAX_ROUNDS);
	exit(1);
}

static void meet_peer(struct pingpong *p)
{
	struct hello mine = {.size = htonl(p->size), .rounds = htonl(p->rounds)}, theirs;
	struct srd_ep ep;

	memcpy(mine.magic, magic, sizeof(magic));
	srd_ep_local(&p->qp, &ep);
	srd_ep_pack(&mine.ep, &ep);
	need(meet_open(&p->tcp, p->host, p->port), NULL);
	need(meet_put(&p->tcp, &mine, sizeof(mine)), NULL);
	need(meet_get(&p->tcp, &theirs, sizeof(theirs), MEET_SILENCE_S), NULL);
	if (memcmp(theirs.magic, magic, sizeof(magic)) || srd_ep_unpack(&ep, &theirs.ep))
		need(-EPROTO, p->tcp.where);
	if (!p->host) {
		p->size = ntohl(theirs.size);
		p->rounds = ntohl(theirs.rounds);
		check_wishes(p);
	}
	need(srd_peer_init(&p->peer, &p->pd, &ep), "peer");
	/* A SEND needs no peer where it arrives, RDMA does: here both sides have theirs. */
	need(meet_sync(&p->tcp), NULL);
}

/* ---- messages ---- */

static void post_message(struct pingpong *p)
{
	struct srd_wr wr = {.wr_id = TO_SEND, .to = &p->peer, .nsge = 1, .op = IBV_WR_SEND};

	need(srd_sge(&wr.sge[0], &p->mr, TO_SEND * p->stride, p->size), "message");
	need(srd_post(&p->qp, &wr, 1), "message");
}

/* Completions come in any order: wr_id tells of what. */
static void take(struct pingpong *p, const struct srd_wc *wc)
{
	if (srd_wc_err(wc)) {
		say("%s failed: status %u, %s. %s", wc->wr_id == TO_SEND ? "message" : "receive",
		    wc->efa_status, srd_status_str(wc->efa_status),
		    srd_status_hint(wc->efa_status));
		exit(1);
	}
	if (wc->wr_id == TO_SEND) {
		p->sent++;
	} else {
		need(wc->byte_len == p->size ? 0 : -EMSGSIZE, "message");
		p->received++;
		p->slot = wc->wr_id;
	}
}

/* Until so many messages have left, and so many have come. Nobody waits for the dead. */
static void await(struct pingpong *p, uint64_t sent, uint64_t received)
{
	uint64_t end_ns = meet_now_ns() + MEET_SILENCE_S * UINT64_C(1000000000);
	struct srd_wc wc;

	for (unsigned idle = 1; p->sent < sent || p->received < received; idle++) {
		int n = srd_cq_poll(&p->cq, &wc, 1);

		need(n, "poll");
		if (n)
			take(p, &wc);
		if (idle % 64)
			continue;
		sched_yield();
		need(meet_look(&p->tcp, 0), NULL);
		need(meet_now_ns() < end_ns ? 0 : -ETIMEDOUT, "message");
	}
}

/* No two messages are the same: a wrong one shows. */
static void compare(const struct pingpong *p, uint64_t key)
{
	size_t first = 0, wrong;

	wrong = payload_check(p->buf + p->slot * p->stride, p->size, key, key, &first);
	if (!wrong)
		return;
	say("%zu of %" PRIu64 " bytes are wrong, the first at %zu", wrong, p->size, first);
	exit(1);
}

/* Returns ns. The server answers before it looks at a message: that takes no time of the client. */
static uint64_t play(struct pingpong *p, uint64_t round)
{
	uint64_t key = payload_key(p->host != NULL, p->host == NULL, 0, round), start_ns;

	await(p, round, round); /* the slot is free again */
	payload_fill(p->buf + TO_SEND * p->stride, p->size, key);
	payload_stamp(p->buf + TO_SEND * p->stride, p->size, key);
	if (!p->host)
		await(p, round, round + 1);
	start_ns = meet_now_ns();
	post_message(p);
	if (p->host)
		await(p, round, round + 1);
	start_ns = meet_now_ns() - start_ns;
	compare(p, payload_key(p->host == NULL, p->host != NULL, 0, round));
	post_receive(p, p->slot);
	return start_ns;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void run(struct pingpong *p)
{
	uint64_t *ns = calloc(p->rounds, sizeof(*ns));

	need(ns ? 0 : -ENOMEM, "memory");
	for (uint64_t round = 0; round < p->rounds; round++)
		ns[round] = play(p, round);
	await(p, p->rounds, p->rounds);
	need(meet_sync(&p->tcp), NULL); /* neither needs the other's queue pair any more */
	qsort(ns, p->rounds, sizeof(*ns), ascending);
	if (p->host)
		printf("# half a round trip, us\n#bytes   rounds      min   median      p99\n"
		       "%6" PRIu64 " %8" PRIu64 " %8.2f %8.2f %8.2f\n",
		       p->size, p->rounds, (double)ns[0] / 2e3, (double)ns[p->rounds / 2] / 2e3,
		       (double)ns[p->rounds * 99 / 100] / 2e3);
	free(ns);
}

#define AT(field) offsetof(struct pingpong, field)

static const struct option_row rows[] = {
	{"device", 'd', OPTION_STRING, "NAME", AT(device), 0, 0, NULL,
	 "EFA device (default: the first)"},
	{"port", 'p', OPTION_NUMBER, "PORT", AT(port), 1, UINT16_MAX, "18515",
	 "of the server, TCP"},
	{"size", 's', OPTION_NUMBER, "BYTES", AT(size), 1, UINT16_MAX, "64",
	 "of a message; no more than the device's MTU"},
	{"iters", 'n', OPTION_NUMBER, "N", AT(rounds), 1, MAX_ROUNDS, "1000", "round trips"},
	{"help", 'h', OPTION_HELP, NULL, 0, 0, 0, NULL, "this text"},
};

int main(int argc, char **argv)
{
	const struct options options = {
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.operands = 1,
		.intro = "usage: srd-pingpong [options] [HOST]\n"
			 "A message to HOST and back, again and again. Without HOST: be a "
			 "server.\n\n",
		.notes = "\nA server takes --size and --iters from its client.\n",
	};
	struct pingpong p = {.tcp.fd = -1};
	int rc;

	say_init("srd-pingpong");
	rc = options_parse(&options, &p, argc, argv);
	if (rc)
		return rc < 0 ? 2 : 0;
	p.host = argv[optind];
	open_device(&p);
	if (p.host)
		check_wishes(&p);
	open_queues(&p);
	meet_peer(&p);
	run(&p);
	close_all(&p);
	return 0;
}
