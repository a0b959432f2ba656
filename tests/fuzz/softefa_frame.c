/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile host: frames of all kinds, sound, bent and nonsense, over real connections; by the side
 * that makes one, and by the side that the adapter asks. Whatever comes, only memory that is open
 * to the peer changes, each request of ours completes once, and the adapter goes on for others.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../softefa/engine.h"
#include "../../softefa/frame.h"
#include "../lib/raw.h"
#include "../lib/raw_linked.h"
#include "input.h"

enum { QKEY = 1, OPEN = 1 << 16, ARENA = 3 * OPEN, DEPTH = 32, WAIT_S = 10, MAX_FRAMES = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct raw_dev dev;
static struct raw_pd pd;
static struct raw_mr mr; /* the middle third of the arena */
static struct raw_ah them, self;
static struct raw_gid own, theirs;
static struct raw_cq cq, probe_cq;
static struct raw_qp qp, probe;
static uint8_t *arena;
static int listener;
static uint16_t port; /* of the device */

static uint32_t u32(struct input *in)
{
	uint32_t lo = u16(in);

	return lo | (uint32_t)u16(in) << 16;
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "softefa_frame: %s\n", what);
	abort();
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- frames ---- */

static void put(int fd, const void *p, size_t n)
{
	/* The device may have closed, or not read on: then that is that. */
	if (send(fd, p, n, MSG_NOSIGNAL) < 0)
		return;
}

static void frame(int fd, struct input *in, uint8_t type, uint8_t flags, const void *p, uint32_t n)
{
	uint8_t text[sizeof(struct se_frame) + 4096], bend = u8(in);
	struct se_frame f = {.type = type, .flags = flags, .len = n};
	size_t all = sizeof(f) + n;

	memcpy(text, &f, sizeof(f));
	memcpy(text + sizeof(f), p, n);
	if (bend < 40) /* some of it is other than it should be */
		for (unsigned k = 1 + bend % 3; k; k--)
			text[u8(in) % all] ^= u8(in);
	put(fd, text, all);
}

static void hello(int fd, struct input *in)
{
	const char *domain = getenv("SOFTEFA_DOMAIN");
	struct se_hello h = {.magic = {'S', 'E', 'F', 'A'},
			     .version = SE_FRAME_VERSION,
			     .domain = se_hash(domain, strlen(domain), 0)};

	frame(fd, in, SE_FRAME_HELLO, 0, &h, sizeof(h));
}

static void some_memory(struct input *in, uint64_t *addr, uint32_t *key, uint32_t *len)
{
	uint8_t what = u8(in);

	*addr = mr.addr + u16(in);
	*len = u16(in) % 4000;
	*key = mr.key;
	if (what % 8 == 0)
		*key ^= 1u << u8(in) % 24;
	if (what % 8 == 1)
		*addr = mr.addr + OPEN - u8(in); /* across its end */
	if (what % 8 == 2)
		*addr -= 1ull << u8(in) % 64;
	if (what % 8 == 3)
		*len = u32(in);
}

static void request(int fd, struct input *in)
{
	uint8_t text[sizeof(struct se_msg) + 4096] = {0}, flags = 0;
	struct se_msg m = {.type = SE_MSG_REQUEST,
			   .op = u8(in) % 3,
			   .rnr_retry = u8(in) % 8,
			   .src_qpn = u16(in),
			   .dst_qpn = (uint16_t)qp.qpn,
			   .qkey = QKEY,
			   .imm = u8(in),
			   .token = u16(in)};
	uint32_t n = 0;

	some_memory(in, &m.raddr, &m.rkey, &m.len);
	memcpy(&m.sgid, theirs.b, sizeof(theirs.b));
	m.flags = u8(in) % 2 ? SE_MSG_IMM : 0;
	if (m.op == SE_OP_SEND || (m.op == SE_OP_WRITE && u8(in) % 2)) {
		flags = SE_FRAME_PAYLOAD;
		m.len %= 4000;
		n = m.len;
		memset(text + SE_MSG_HEAD, 0x5a, n);
	}
	memcpy(text, &m, SE_MSG_HEAD);
	frame(fd, in, SE_FRAME_MESSAGE, flags, text, (uint32_t)SE_MSG_HEAD + n);
}

static void response(int fd, struct input *in, uint64_t token)
{
	struct se_msg m = {.type = SE_MSG_RESPONSE,
			   .op = u8(in) % 3,
			   .status = u8(in) % 4 ? 0 : u8(in),
			   .token = u8(in) % 8 ? token : u16(in)};

	some_memory(in, &m.seg[0].addr, &m.seg[0].key, &m.seg[0].len);
	m.len = m.seg[0].len;
	frame(fd, in, SE_FRAME_MESSAGE, 0, &m, SE_MSG_HEAD);
}

static void pull(int fd, struct input *in, uint64_t token)
{
	struct se_pull p = {.id = u8(in),
			    .what = token,
			    .kind = 1 + u8(in) % 2,
			    .qpn = (uint16_t)qp.qpn,
			    .off = u8(in) % 4 ? 0 : u32(in)};

	if (p.kind == SE_PULL_MEMORY)
		some_memory(in, &p.what, &p.key, &p.len);
	else
		p.len = u16(in);
	frame(fd, in, SE_FRAME_PULL, 0, &p, sizeof(p));
}

static void data(int fd, struct input *in)
{
	uint8_t text[sizeof(struct se_data) + 3000] = {0};
	struct se_data d = {.id = u8(in) % 16, .status = u8(in) % 8 ? 0 : u8(in)};
	uint32_t n = d.status ? 0 : u16(in) % 3000;

	memcpy(text, &d, sizeof(d));
	frame(fd, in, SE_FRAME_DATA, 0, text, (uint32_t)sizeof(d) + n);
}

static void question(int fd, struct input *in, uint8_t type, uint16_t answer)
{
	struct se_ask a = {.qpn = u8(in) % 4 ? (uint16_t)qp.qpn : u16(in), .port = answer};

	a.dev = u8(in) % 8 ? 0 : u16(in);
	frame(fd, in, type, 0, &a, sizeof(a));
}

static void noise(int fd, struct input *in)
{
	uint8_t text[64];
	unsigned n = u8(in) % sizeof(text);

	for (unsigned i = 0; i < n; i++)
		text[i] = u8(in);
	put(fd, text, n);
}

static void any_frame(int fd, struct input *in, uint64_t token)
{
	switch (u8(in) % 12) {
	case 0:
		question(fd, in, SE_FRAME_ASK, 0);
		break;
	case 1:
		question(fd, in, SE_FRAME_TOLD, port);
		break;
	case 2:
		data(fd, in);
		break;
	case 3:
	case 4:
		pull(fd, in, token);
		break;
	case 5:
	case 6:
		response(fd, in, token);
		break;
	case 7:
		frame(fd, in, SE_FRAME_ALIVE, 0, "", 0);
		break;
	case 8:
		if (u8(in) % 4 == 0)
			frame(fd, in, SE_FRAME_BYE, 0, "", 0);
		else
			noise(fd, in);
		break;
	default:
		request(fd, in);
	}
}

/* ---- connections ---- */

static void set_timeouts(int fd)
{
	struct timeval t = {.tv_usec = 10000};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
}

/* Until the device has nothing more to say, or not for a while. */
static void drain(int fd)
{
	uint8_t text[4096];

	while (recv(fd, text, sizeof(text), 0) > 0)
		;
}

static void end(int fd, struct input *in)
{
	if (u8(in) % 4) {
		shutdown(fd, SHUT_WR);
		drain(fd);
	}
	close(fd);
}

/* We call the device. */
static void maker(struct input *in)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	set_timeouts(fd);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		fail("nobody listens");
	if (u8(in) % 16)
		hello(fd, in);
	for (unsigned n = 0; in->left && n < MAX_FRAMES; n++)
		any_frame(fd, in, u16(in));
	end(fd, in);
}

static int accept_soon(int ms)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int fd = poll(&p, 1, ms) == 1 ? accept(listener, NULL, NULL) : -1;

	if (fd >= 0)
		set_timeouts(fd);
	return fd;
}

/* The token of the device's request, which stands at its place in the MESSAGE; 0: none came. */
static uint64_t token_in(const uint8_t *p, size_t n)
{
	struct se_frame f;
	struct se_msg m;

	for (; n >= sizeof(f); p += sizeof(f) + f.len, n -= sizeof(f) + f.len) {
		memcpy(&f, p, sizeof(f));
		if (f.len > n - sizeof(f))
			return 0;
		if (f.type != SE_FRAME_MESSAGE || f.len < SE_MSG_HEAD)
			continue;
		memcpy(&m, p + sizeof(f), SE_MSG_HEAD);
		return m.token;
	}
	return 0;
}

/* The device calls us: first at the port of the GID, then where we told it to. */
static void answerer(struct input *in)
{
	struct raw_wr wr = {.req_id = 7,
			    .op = (enum raw_op)(u8(in) % 3),
			    .imm_on = u8(in) % 2,
			    .ahn = them.ahn,
			    .qpn = (uint16_t)(0x100 + u8(in)),
			    .qkey = QKEY,
			    .nsge = 1};
	double until = now_s() + 0.1;
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	uint8_t text[8192];
	int fd;

	wr.imm_on = wr.imm_on && wr.op != RAW_READ;
	wr.sge[0] = raw_sge(&mr, u16(in) % 1000, 1 + u16(in) % 8000);
	wr.remote = wr.sge[0];
	raw_post(&qp, &wr);
	raw_ring(&qp);
	getsockname(listener, (struct sockaddr *)&a, &len);
	while (now_s() < until && (fd = accept_soon(10)) >= 0) {
		ssize_t n = recv(fd, text, sizeof(text), 0);
		uint64_t token = n > 0 ? token_in(text, (size_t)n) : 0;

		if (u8(in) % 16)
			hello(fd, in);
		if (u8(in) % 8)
			question(fd, in, SE_FRAME_TOLD, ntohs(a.sin_port));
		if (!token && (n = recv(fd, text, sizeof(text), 0)) > 0)
			token = token_in(text, (size_t)n);
		for (unsigned k = u8(in) % 6; k; k--)
			any_frame(fd, in, token);
		end(fd, in);
	}
}

/* ---- what must hold ---- */

static void check_arena(void)
{
	for (unsigned i = 0; i < OPEN; i++)
		if (arena[i] != 0xee || arena[2 * OPEN + i] != 0xee)
			fail("memory outside of the region has changed");
}

static void check_device(void)
{
	double end_s = now_s() + WAIT_S;
	struct raw_wc wc;

	raw_post(&probe,
		 &(struct raw_wr){
			 .op = RAW_SEND, .ahn = self.ahn, .qpn = (uint16_t)probe.qpn, .qkey = 999});
	raw_ring(&probe);
	while (!raw_poll(&probe_cq, &wc))
		if (now_s() > end_s)
			fail("the device stands still");
	if (wc.status != 9)
		fail("wrong status");
}

static void victim_init(void)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = DEPTH, .rq = DEPTH};
	struct raw_sge sge = raw_sge(&mr, 0, 4096);

	if (raw_cq_create(&cq, &dev, &(struct raw_cq_attr){.depth = 128}) ||
	    raw_qp_create(&qp, &dev, &pd, &cq, &cq, &attr) || raw_qp_up(&qp, &dev, QKEY, -1))
		fail("cannot make a queue pair");
	for (uint16_t i = 0; i < 8; i++)
		raw_post_recv(&qp, i, &sge, 1);
	raw_ring(&qp);
}

/* @requests of ours are outstanding or complete. */
static void victim_fini(unsigned requests)
{
	double end_s = now_s() + WAIT_S;
	unsigned done = 0, received = 0;
	struct raw_wc wc;

	if (raw_qp_to(&qp, &dev, RAW_ERR))
		fail("cannot fail a queue pair");
	while (done < requests || received < 8) {
		if (!raw_poll(&cq, &wc)) {
			if (now_s() > end_s)
				fail("a request or receive never completes");
			continue;
		}
		if (!wc.recv)
			done++;
		else if (!wc.unsolicited)
			received++;
	}
	if (raw_poll(&cq, &wc) || done > requests || received > 8)
		fail("something completes twice");
	if (raw_qp_destroy(&qp, &dev) || raw_cq_destroy(&cq, &dev, NULL))
		fail("cannot destroy");
}

static uint16_t listen_somewhere(int *fd)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	*fd = socket(AF_INET, SOCK_STREAM, 0);
	if (*fd < 0 || bind(*fd, (struct sockaddr *)&a, sizeof(a)) || listen(*fd, 16) ||
	    getsockname(*fd, (struct sockaddr *)&a, &len))
		fail("cannot listen");
	return ntohs(a.sin_port);
}

static void device_init(void)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = 16};
	uint16_t their_port = listen_somewhere(&listener);

	if (raw_open(&dev, &raw_linked, 0) || raw_pd_alloc(&pd, &dev) || raw_gid(&dev, &own) ||
	    raw_mr_reg(&mr, &dev, &pd, arena + OPEN, OPEN, RAW_ALL_ACCESS) ||
	    raw_ah_create(&self, &dev, &pd, &own))
		fail("cannot begin");
	theirs = own;
	theirs.b[12] = (uint8_t)(their_port >> 8);
	theirs.b[13] = (uint8_t)their_port;
	if (raw_ah_create(&them, &dev, &pd, &theirs) ||
	    raw_cq_create(&probe_cq, &dev, &(struct raw_cq_attr){.depth = 16}) ||
	    raw_qp_create(&probe, &dev, &pd, &probe_cq, &probe_cq, &attr) ||
	    raw_qp_up(&probe, &dev, QKEY, -1))
		fail("cannot begin");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char text[64];
	int fd;

	(void)argc;
	(void)argv;
	port = listen_somewhere(&fd);
	close(fd);
	snprintf(text, sizeof(text), "fuzz-%d", (int)getpid());
	setenv("SOFTEFA_DOMAIN", text, 1);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	setenv("SOFTEFA_ADDRESS", text, 1);
	setenv("SOFTEFA_SET", "log=0,timeout_ms=20,rnr_timer_us=1,spin_us=1000000", 1);
	atexit(se_engine_stop);
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		fail("no memory");
	memset(arena, 0xee, ARENA);
	device_init();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, size};
	bool asks = u8(&in) % 3 == 0;

	victim_init();
	if (asks)
		answerer(&in);
	else
		maker(&in);
	check_device();
	victim_fini(asks);
	check_arena();
	return 0;
}
