/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program on libsrd that does what the lines of stdin say and answers each with a line: one end
 *of test_libsrd.py, whose other end is the Python package efa. It ends with its stdin.
 *
 * usage: srd_end QKEY [unsolicited]
 *
 *	pack GID QPN QKEY      the 24 bytes, in hex as all bytes here
 *	unpack BYTES           GID QPN QKEY, or "refused"
 *	card                   its own 24 bytes, ADDRESS RKEY of its region
 *	meet BYTES ADDRESS RKEY
 *	fill LEN SEED          the source, the first half of the region
 *	receive LEN            post one, into the target, the second half
 *	post OP LEN IMM        send, send_imm, write, write_imm, read; answers when it has completed
 *	await                  the next of what was received: LEN IMM QPN unsolicited, the last two
 *0 or 1 check LEN SEED         "same", or where the target differs
 *
 * What is done without more to say is answered with "ok".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "srd.h"

enum { HALF = 4 << 20, DEPTH = 64, CHUNK = 65536, WAIT_S = 30 };

static struct srd_dev dev;
static struct srd_pd pd;
static struct srd_cq send_cq, recv_cq;
static struct srd_qp qp;
static struct srd_mr mr;
static struct srd_peer to;
static uint64_t remote;
static uint32_t rkey;
static uint8_t *region;

static _Noreturn void die(const char *what, int rc)
{
	fprintf(stderr, "srd_end: %s: %s (%d)\n", what, strerror(abs(rc)), rc);
	exit(1);
}

static void ok(int rc, const char *what)
{
	if (rc < 0)
		die(what, rc);
}

static void open_all(uint32_t qkey, bool unsolicited)
{
	struct srd_cq_attr cq = {.cqe = DEPTH, .fields = SRD_CQ_SRC};
	struct srd_qp_attr attr = {
		.send_cq = &send_cq,
		.recv_cq = &recv_cq,
		.max_send_wr = DEPTH,
		.max_recv_wr = DEPTH,
		.unsolicited = unsolicited,
	};
	struct srd_dev_info info;

	if (srd_dev_list(&info, 1, true) < 1)
		die("no EFA here", -ENODEV);
	ok(srd_dev_open(&dev, info.name), "device");
	ok(srd_pd_init(&pd, &dev), "pd");
	ok(srd_cq_init(&send_cq, &dev, &cq), "cq");
	ok(srd_cq_init(&recv_cq, &dev, &cq), "cq");
	ok(srd_qp_init(&qp, &pd, &attr), "qp");
	ok(srd_qp_prepare(&qp, qkey, SRD_RNR_DEFAULT), "qp");
	region = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region == MAP_FAILED)
		die("memory", errno);
	ok(srd_mr_init(&mr, &pd, region, 2 * HALF,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
	   "memory");
}

static void close_all(void)
{
	srd_peer_fini(&to);
	srd_mr_fini(&mr);
	srd_qp_fini(&qp);
	srd_cq_fini(&recv_cq);
	srd_cq_fini(&send_cq);
	srd_pd_fini(&pd);
	srd_dev_close(&dev);
}

/* ---- endpoints ---- */

static bool from_hex(uint8_t *bytes, size_t n, const char *hex)
{
	unsigned byte;

	if (strlen(hex) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return false;
		bytes[i] = (uint8_t)byte;
	}
	return true;
}

static void say_hex(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
}

static void say_wire(const struct srd_ep *ep)
{
	struct srd_ep_wire wire;

	srd_ep_pack(&wire, ep);
	say_hex(wire.b, sizeof(wire.b));
}

static int read_wire(struct srd_ep *ep, const char *hex)
{
	struct srd_ep_wire wire;

	return from_hex(wire.b, sizeof(wire.b), hex) ? srd_ep_unpack(ep, &wire) : -EINVAL;
}

static void pack(char **arg)
{
	struct srd_ep ep = {.qpn = (uint32_t)strtoul(arg[1], NULL, 0),
			    .qkey = (uint32_t)strtoul(arg[2], NULL, 0)};

	if (!from_hex(ep.gid.raw, sizeof(ep.gid.raw), arg[0]))
		die("GID", EINVAL);
	say_wire(&ep);
	putchar('\n');
}

static void unpack(char **arg)
{
	struct srd_ep ep;

	if (read_wire(&ep, arg[0])) {
		puts("refused");
		return;
	}
	say_hex(ep.gid.raw, sizeof(ep.gid.raw));
	printf(" %u %u\n", ep.qpn, ep.qkey);
}

static void card(char **arg)
{
	struct srd_ep ep;

	(void)arg;
	srd_ep_local(&qp, &ep);
	say_wire(&ep);
	printf(" %" PRIu64 " %u\n", mr.addr, mr.rkey);
}

static void meet(char **arg)
{
	struct srd_ep ep;

	ok(read_wire(&ep, arg[0]), "endpoint of the other");
	ok(srd_peer_init(&to, &pd, &ep), "peer");
	remote = strtoull(arg[1], NULL, 0);
	rkey = (uint32_t)strtoul(arg[2], NULL, 0);
	puts("ok");
}

/* ---- data ---- */

/* As test_libsrd.py has it. */
static uint8_t byte_at(uint32_t i, uint32_t seed)
{
	return (uint8_t)((i * 2654435761u + seed * 40503u) >> 24);
}

static void fill(char **arg)
{
	uint32_t n = (uint32_t)strtoul(arg[0], NULL, 0), seed = (uint32_t)strtoul(arg[1], NULL, 0);

	for (uint32_t i = 0; i < n && i < HALF; i++)
		region[i] = byte_at(i, seed);
	memset(region + HALF, 0, HALF);
	puts("ok");
}

static void check(char **arg)
{
	uint32_t n = (uint32_t)strtoul(arg[0], NULL, 0), seed = (uint32_t)strtoul(arg[1], NULL, 0);

	for (uint32_t i = 0; i < HALF; i++) {
		if (region[HALF + i] != (i < n ? byte_at(i, seed) : 0)) {
			printf("differs at %u\n", i);
			return;
		}
	}
	puts("same");
}

/* ---- messages ---- */

static bool wait_for(struct srd_cq *cq, struct srd_wc *wc)
{
	time_t end = time(NULL) + WAIT_S;
	int n;

	while ((n = srd_cq_poll(cq, wc, 1)) == 0)
		if (time(NULL) > end)
			die("no completion", ETIMEDOUT);
	ok(n, "poll");
	return srd_wc_err(wc) == 0;
}

static void receive(char **arg)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	ok(srd_sge(&sge, &mr, HALF, strtoul(arg[0], NULL, 0)), "receive");
	ok(srd_post_recv(&qp, &wr, NULL), "receive");
	puts("ok");
}

static void await(char **arg)
{
	struct srd_wc wc = {0};

	(void)arg;
	if (wait_for(&recv_cq, &wc))
		printf("%u %u %u %d\n", wc.byte_len, wc.flags & SRD_WC_IMM ? wc.imm : 0, wc.src_qpn,
		       (wc.flags & SRD_WC_UNSOLICITED) != 0);
	else
		puts(srd_status_str(wc.efa_status));
}

static bool post_one(const struct srd_wr *wr)
{
	struct srd_wc wc;

	ok(srd_post(&qp, wr, 1), "post");
	if (wait_for(&send_cq, &wc))
		return true;
	puts(srd_status_str(wc.efa_status));
	return false;
}

/* In chunks, one after the other. */
static bool post_rdma(enum ibv_wr_opcode op, uint64_t len)
{
	bool read = op == IBV_WR_RDMA_READ;
	struct srd_xfer x = {.op = op, .to = &to, .mr = &mr, .len = len, .rkey = rkey};
	struct srd_wr wr;

	x.off = read ? HALF : 0;
	x.raddr = remote + (read ? 0 : HALF);
	x.chunk = CHUNK;
	ok(srd_xfer_begin(&x), "transfer");
	while (srd_xfer_next(&x, &wr))
		if (!post_one(&wr))
			return false;
	return true;
}

static bool post_message(enum ibv_wr_opcode op, uint64_t len, uint32_t imm)
{
	struct srd_wr wr = {
		.to = &to, .op = op, .nsge = 1, .imm = imm, .raddr = remote + HALF, .rkey = rkey};

	ok(srd_sge(&wr.sge[0], &mr, 0, len), "message");
	return post_one(&wr);
}

static void post(char **arg)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode op;
	} ops[] = {
		{"send", IBV_WR_SEND},        {"send_imm", IBV_WR_SEND_WITH_IMM},
		{"write", IBV_WR_RDMA_WRITE}, {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
		{"read", IBV_WR_RDMA_READ},
	};
	uint64_t len = strtoull(arg[1], NULL, 0);
	uint32_t imm = (uint32_t)strtoul(arg[2], NULL, 0);
	enum ibv_wr_opcode op;
	size_t i = 0;

	while (i < sizeof(ops) / sizeof(ops[0]) && strcmp(ops[i].name, arg[0]))
		i++;
	if (i == sizeof(ops) / sizeof(ops[0]))
		die(arg[0], EINVAL);
	op = ops[i].op;
	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ ? post_rdma(op, len)
							      : post_message(op, len, imm))
		puts("ok");
}

/* ---- the lines ---- */

static const struct {
	const char *name;
	int args;
	void (*run)(char **arg);
} commands[] = {
	{"pack", 3, pack}, {"unpack", 1, unpack}, {"card", 0, card},
	{"meet", 3, meet}, {"fill", 2, fill},     {"receive", 1, receive},
	{"post", 3, post}, {"await", 0, await},   {"check", 2, check},
};

static void obey(char *line)
{
	char *rest = line, *arg[4] = {NULL}, *name = strtok_r(rest, " \n", &rest);
	int n = 0;

	while (n < 4 && (arg[n] = strtok_r(rest, " \n", &rest)))
		n++;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (name && strcmp(name, commands[i].name) == 0 && n == commands[i].args) {
			commands[i].run(arg);
			fflush(stdout);
			return;
		}
	}
	die(name ? name : "empty line", EINVAL);
}

int main(int argc, char **argv)
{
	char line[256];

	if (argc < 2)
		die("usage: srd_end QKEY [unsolicited]", EINVAL);
	open_all((uint32_t)strtoul(argv[1], NULL, 0), argc > 2);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	close_all();
	return 0;
}
