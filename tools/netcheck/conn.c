/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: listen, connect, accept, in all orders and numbers. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"

static const uint64_t ms_ns = 1000000;

/* A connection of this rank to itself, step by step, by the service thread. */
struct self {
	struct check_ctx *ctx;
	_Alignas(8) char handle[NCCL_NET_HANDLE_BYTES];
	void *listen, *send, *recv;
};

static void self_listen(struct self *s)
{
	s->listen = check_listen(s->ctx, s->handle);
}

static bool self_step(struct self *s)
{
	bool both = s->send || check_try_connect(s->ctx, s->handle, &s->send);

	if (!s->recv && check_try_accept(s->ctx, s->listen, &s->recv)) {
		check_close_listen(s->ctx, s->listen);
		s->listen = NULL;
	}
	return both && s->recv;
}

static void self_finish(struct self *s)
{
	uint64_t since = host_now_ns();

	while (!self_step(s))
		check_tick(s->ctx, since, "both ends of a connection");
}

static void self_close(struct self *s)
{
	check_ok(s->ctx, s->ctx->net->close_send(s->send), "closeSend");
	check_ok(s->ctx, s->ctx->net->close_recv(s->recv), "closeRecv");
}

/* The median of @n times; they get sorted. */
static uint64_t median(uint64_t *times, int n)
{
	for (int i = 1; i < n; i++) {
		for (int k = i; k && times[k] < times[k - 1]; k--) {
			uint64_t t = times[k];

			times[k] = times[k - 1];
			times[k - 1] = t;
		}
	}
	return times[n / 2];
}

/* ---- C20, C21 ---- */

/* Bytes that keep each of three patterns have not been written. */
static void handle_filled(struct check_ctx *ctx)
{
	static const unsigned char pattern[] = {0xaa, 0x55, 0xe7};
	unsigned char kept[NCCL_NET_HANDLE_BYTES] = {0}, handle[NCCL_NET_HANDLE_BYTES];
	uint64_t least = UINT64_MAX;
	int unwritten = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t began = host_now_ns(), took;
		void *comm;

		memset(handle, pattern[i], sizeof(handle));
		comm = check_listen(ctx, handle);
		took = host_now_ns() - began;
		least = took < least ? took : least;
		check_close_listen(ctx, comm);
		for (int b = 0; b < NCCL_NET_HANDLE_BYTES; b++)
			kept[b] += handle[b] == pattern[i];
	}
	for (int b = 0; b < NCCL_NET_HANDLE_BYTES; b++)
		unwritten += kept[b] == 3;
	/* Who waits for something does so each time; others may have the CPU now and then. */
	check_expect(ctx, least < 100 * ms_ns,
		     "expected listen to return within 100 ms, saw %llu ms",
		     (unsigned long long)(least / ms_ns));
	/* What the plugin does not read need not be written; the peer gets to see it. */
	if (unwritten)
		check_report(ctx, "%d of the handle's %d bytes go to the peer as they were",
			     unwritten, NCCL_NET_HANDLE_BYTES);
}

static int odd_handle_job(void *arg)
{
	struct self *s = arg;
	struct host_guard mine;
	char *copy;

	/* As between ranks: written in one place, used in another. */
	check_buf_init(s->ctx, &mine, NCCL_NET_HANDLE_BYTES + 1);
	s->listen = check_listen(s->ctx, mine.addr);
	check_expect(s->ctx, !mine.addr[NCCL_NET_HANDLE_BYTES],
		     "expected %d bytes of handle, saw one more written", NCCL_NET_HANDLE_BYTES);
	copy = mine.addr + 1;
	memmove(copy, mine.addr, NCCL_NET_HANDLE_BYTES);
	for (uint64_t since = host_now_ns();;) {
		if (!s->send)
			check_try_connect(s->ctx, copy, &s->send);
		if (!s->recv)
			check_try_accept(s->ctx, s->listen, &s->recv);
		if (s->send && s->recv)
			break;
		check_tick(s->ctx, since, "both ends of a connection");
	}
	check_close_listen(s->ctx, s->listen);
	check_buf_fini(s->ctx, &mine, "the handle");
	self_close(s);
	return 0;
}

static void odd_handle(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, odd_handle_job, &s);
}

/* ---- C22, C23 ---- */

enum { CALLS = 21, PROMPT_MS = 50 };

static int connect_first_job(void *arg)
{
	uint64_t times[CALLS];
	struct self *s = arg;
	int n = 0;

	self_listen(s);
	while (n < CALLS && !s->send) {
		uint64_t began = host_now_ns();

		check_try_connect(s->ctx, s->handle, &s->send);
		times[n++] = host_now_ns() - began;
	}
	check_expect(s->ctx, median(times, n) < PROMPT_MS * ms_ns,
		     "expected connect to return at once while nobody accepts, saw %llu ms",
		     (unsigned long long)(times[n / 2] / ms_ns));
	self_finish(s);
	self_close(s);
	return 0;
}

static void connect_first(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, connect_first_job, &s);
}

static int accept_first_job(void *arg)
{
	uint64_t times[CALLS];
	struct self *s = arg;

	self_listen(s);
	for (int i = 0; i < CALLS; i++) {
		uint64_t began = host_now_ns();

		check_need(s->ctx, !check_try_accept(s->ctx, s->listen, &s->recv),
			   "expected no comm before anybody connects, saw one");
		times[i] = host_now_ns() - began;
	}
	check_expect(s->ctx, median(times, CALLS) < PROMPT_MS * ms_ns,
		     "expected accept to return at once while nobody connects, saw %llu ms",
		     (unsigned long long)(times[CALLS / 2] / ms_ns));
	self_finish(s);
	self_close(s);
	return 0;
}

static void accept_first(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, accept_first_job, &s);
}

/* ---- C24, C25, C26 ---- */

/* The second connection gets its handle where the first left what it kept there. */
static int two_listens_job(void *arg)
{
	struct self *s = arg, first;

	self_listen(s);
	self_finish(s);
	first = *s;
	s->send = s->recv = NULL;
	self_listen(s);
	self_finish(s);
	check_expect(s->ctx, s->send != first.send && s->recv != first.recv,
		     "expected four comms, saw some twice");
	self_close(&first);
	self_close(s);
	return 0;
}

static void two_listens(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, two_listens_job, &s);
}

static int self_test_job(void *arg)
{
	struct self *s = arg;
	uint64_t since = host_now_ns();
	bool alone;

	self_listen(s);
	self_finish(s);
	self_close(s);
	*s = (struct self){.ctx = s->ctx};
	self_listen(s);
	while (!s->send && host_now_ns() - since < 500 * ms_ns)
		check_try_connect(s->ctx, s->handle, &s->send);
	alone = s->send;
	check_report(s->ctx, "connect %s before anybody accepts, as NCCL 2.12 wants it",
		     alone ? "ends" : "does not end");
	self_finish(s);
	self_close(s);
	return 0;
}

static void self_test(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, self_test_job, &s);
}

struct crowd {
	struct check_ctx *ctx;
	struct self *of;
	int n;
};

static int crowd_job(void *arg)
{
	struct crowd *c = arg;
	uint64_t since = host_now_ns();

	for (int i = 0; i < c->n; i++) {
		c->of[i].ctx = c->ctx;
		self_listen(&c->of[i]);
	}
	for (int left = c->n; left;) {
		int before = left;

		left = 0;
		for (int i = 0; i < c->n; i++)
			left += !c->of[i].recv || !c->of[i].send ? !self_step(&c->of[i]) : 0;
		if (left < before)
			since = host_now_ns();
		check_tick(c->ctx, since, "one more of many pending connections");
	}
	check_expect(c->ctx, c->of[0].send && c->of[c->n - 1].recv, "expected all, saw some");
	for (int i = 0; i < c->n; i++)
		self_close(&c->of[i]);
	return 0;
}

static void crowd(struct check_ctx *ctx)
{
	struct crowd c = {.ctx = ctx, .n = (int)check_scale(ctx, 100, 1000)};
	struct rlimit files;

	/* Sockets are what plugins may use. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	c.of = calloc((size_t)c.n, sizeof(*c.of));
	if (!c.of)
		check_skip(ctx, "no memory");
	check_service(ctx, crowd_job, &c);
	free(c.of);
}

/* ---- C27 ---- */

static int skew_job(void *arg)
{
	struct self *s = arg;
	uint64_t skew_ns = check_scale(s->ctx, 300, 10000) * ms_ns;

	for (int side = 0; side < 2; side++) {
		uint64_t since = host_now_ns();

		self_listen(s);
		while (host_now_ns() - since < skew_ns) {
			if (side)
				check_try_accept(s->ctx, s->listen, &s->recv);
			else if (!s->send)
				check_try_connect(s->ctx, s->handle, &s->send);
			check_tick(s->ctx, since, "the end of a pause");
		}
		self_finish(s);
		check_expect(s->ctx, s->send && s->recv, "expected both ends, saw one");
		self_close(s);
		*s = (struct self){.ctx = s->ctx};
	}
	return 0;
}

static void skew(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, skew_job, &s);
}

/* ---- C28, C29, C30 ---- */

/* check_connect() closes the listen comm at once. */
static void close_listen_at_once(struct check_ctx *ctx)
{
	struct check_lane lane;

	check_lane_open(ctx, &lane, 100000);
	for (size_t i = 0; i < 10; i++)
		check_lane_pass(ctx, &lane, 10000 * i);
	check_lane_close(ctx, &lane);
}

static int unused_listen_job(void *arg)
{
	struct self *s = arg;

	self_listen(s);
	check_close_listen(s->ctx, s->listen);
	self_listen(s);
	for (int i = 0; i < 10; i++)
		check_try_accept(s->ctx, s->listen, &s->recv);
	check_close_listen(s->ctx, s->listen);
	self_listen(s); /* and is left to the end of the process */
	check_expect(s->ctx, !s->recv, "expected no comm where nobody connected, saw one");
	return 0;
}

static void unused_listen(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, unused_listen_job, &s);
}

static int accept_twice_job(void *arg)
{
	struct nccl_net_device_handle *none = NULL;
	struct self *s = arg, second = {.ctx = s->ctx};
	struct host_net *net = s->ctx->net;
	uint64_t since = host_now_ns();
	enum nccl_net_result rc = NCCL_NET_OK;

	second.listen = s->listen = check_listen(s->ctx, s->handle);
	memcpy(second.handle, s->handle, sizeof(s->handle));
	while (!s->send || !s->recv) {
		if (!s->send)
			check_try_connect(s->ctx, s->handle, &s->send);
		if (!s->recv)
			check_try_accept(s->ctx, s->listen, &s->recv);
		check_tick(s->ctx, since, "both ends of a connection");
	}
	since = host_now_ns();
	while (!rc && (!second.send || !second.recv) && host_now_ns() - since < 1000 * ms_ns) {
		if (!second.send)
			rc = net->connect(net, s->ctx->net_ctx, s->ctx->dev, second.handle,
					  &second.send, &none);
		if (!rc && !second.recv)
			rc = net->accept(net, second.listen, &second.recv, &none);
	}
	check_report(s->ctx, "a listen comm accepts %s",
		     second.send && second.recv ? "more than once"
		     : rc                       ? "once, then an error comes"
						: "once, then nobody");
	check_close_listen(s->ctx, s->listen);
	self_close(s);
	if (second.send)
		check_ok(s->ctx, net->close_send(second.send), "closeSend");
	if (second.recv)
		check_ok(s->ctx, net->close_recv(second.recv), "closeRecv");
	return 0;
}

static void accept_twice(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, accept_twice_job, &s);
}

/* ---- C31, C32, C33 ---- */

static void all_at_once(struct check_ctx *ctx)
{
	int n = ctx->self->nranks, rank = ctx->self->rank;
	int next = (rank + 1) % n, before = (rank + n - 1) % n;
	struct check_lane lane[3];

	check_connect(ctx, &lane[0].link, next, before);
	check_connect(ctx, &lane[1].link, before, next);
	check_self(ctx, &lane[2].link);
	for (int i = 0; i < 3; i++)
		check_lane_bufs(ctx, &lane[i], 20000);
	for (int i = 0; i < 30; i++)
		check_lane_pass(ctx, &lane[i % 3], 20000);
	for (int i = 0; i < 3; i++)
		check_lane_close(ctx, &lane[i]);
}

/* An error or nothing, whatever it does before. */
static void connect_to_nobody(struct check_ctx *ctx, void *handle)
{
	struct nccl_net_device_handle *none = NULL;
	uint64_t since = host_now_ns(), ms = check_scale(ctx, 300, 5000);
	enum nccl_net_result rc = NCCL_NET_OK;
	void *comm = NULL;

	host_entering(ctx->self, HOST_SERVICE, "connect");
	while (!rc && !comm && host_now_ns() - since < ms * ms_ns) {
		rc = ctx->net->connect(ctx->net, ctx->net_ctx, ctx->dev, handle, &comm, &none);
		check_tick(ctx, since, "the end of a pause");
	}
	check_expect(ctx, !comm, "expected an error or NULL where nobody listens, saw a comm");
}

static void nobody_listens(struct check_ctx *ctx)
{
	bool dies = ctx->self->nranks > 1 && !ctx->opt->threads;
	char mine[NCCL_NET_HANDLE_BYTES], all[HOST_MAX_RANKS][NCCL_NET_HANDLE_BYTES];
	void *comm = check_listen(ctx, mine);

	if (dies) {
		check_allgather(ctx, mine, all, sizeof(mine));
		if (ctx->self->rank)
			check_die(ctx);
		check_sleep_ms(50);
		connect_to_nobody(ctx, all[1]);
	}
	check_close_listen(ctx, comm);
	connect_to_nobody(ctx, mine);
}

static int device_handles_job(void *arg)
{
	struct nccl_net_device_handle *of_send = NULL, *of_recv = NULL;
	struct self *s = arg;
	struct host_net *net = s->ctx->net;
	uint64_t since = host_now_ns();

	self_listen(s);
	while (!s->send || !s->recv) {
		if (!s->send)
			check_ok(s->ctx,
				 net->connect(net, s->ctx->net_ctx, s->ctx->dev, s->handle,
					      &s->send, &of_send),
				 "connect");
		if (!s->recv)
			check_ok(s->ctx, net->accept(net, s->listen, &s->recv, &of_recv), "accept");
		check_tick(s->ctx, since, "both ends of a connection");
	}
	check_expect(s->ctx, !of_send && !of_recv,
		     "expected no device handles of a HOST device, saw %s",
		     of_send ? "that of connect" : "that of accept");
	check_close_listen(s->ctx, s->listen);
	self_close(s);
	return 0;
}

static void device_handles(struct check_ctx *ctx)
{
	struct self s = {.ctx = ctx};

	check_service(ctx, device_handles_job, &s);
}

#define SERVICE "src/proxy.cc: the service thread polls all pending connections in turn"

const struct check conn_checks[] = {
	{
		.id = "C20",
		.group = "conn",
		.title = "listen returns soon, with a comm and a handle",
		.rule = "src/transport/net.cc: recvProxySetup; all 128 bytes go to the peer",
		.run = handle_filled,
	},
	{
		.id = "C21",
		.group = "conn",
		.title = "a handle is 128 bytes, at any address",
		.rule = "src/include/nccl_net.h: NCCL_NET_HANDLE_MAXSIZE; src/graph/topo.cc: the "
			"self-test has one on its stack",
		.run = odd_handle,
	},
	{
		.id = "C22",
		.group = "conn",
		.title = "connect does not wait for the peer to accept",
		.rule = SERVICE,
		.run = connect_first,
	},
	{
		.id = "C23",
		.group = "conn",
		.title = "accept does not wait for a peer",
		.rule = SERVICE,
		.run = accept_first,
	},
	{
		.id = "C24",
		.group = "conn",
		.title =
			"connect is called again with the same handle until it ends; then the next",
		.rule = "src/transport/net.cc: sendProxyConnect has the handle in its request",
		.run = two_listens,
	},
	{
		.id = "C25",
		.group = "conn",
		.title = "one thread makes both ends by connect and accept in turn",
		.rule = "src/init.cc, src/transport/net.cc: the GPU Direct self-test",
		.run = self_test,
	},
	{
		.id = "C26",
		.group = "conn",
		.title = "1000 pending connections go on by one thread (quick: 100)",
		.rule = SERVICE,
		.run = crowd,
	},
	{
		.id = "C27",
		.group = "conn",
		.title = "one side may come 10 s after the other (quick: 0.3 s)",
		.rule = "src/bootstrap.cc: ranks start when they do",
		.run = skew,
	},
	{
		.id = "C28",
		.group = "conn",
		.title = "a connection works after closeListen, which comes right after accept",
		.rule = "src/transport/net.cc: recvProxyConnect closes the listen comm as soon as "
			"accept gave a comm",
		.run = close_listen_at_once,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C29",
		.group = "conn",
		.title = "a listen comm may end unused, or never",
		.rule = "src/transport/net.cc: shared comms leave listens that nobody connects to",
		.run = unused_listen,
	},
	{
		.id = "C30",
		.group = "conn",
		.title = "accepts on one listen comm",
		.rule = "NCCL accepts once",
		.run = accept_twice,
	},
	{
		.id = "C31",
		.group = "conn",
		.title = "both directions and to itself, at once",
		.rule = "src/transport/net.cc: a connection per channel and direction",
		.run = all_at_once,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C32",
		.group = "conn",
		.title = "connect to who is gone gives an error or nothing",
		.rule = "src/proxy.cc: an error of connect ends set-up; abort ends the polling",
		.run = nobody_listens,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C33",
		.group = "conn",
		.title = "connect and accept leave the device handle NULL",
		.rule = "src/transport/net.cc: only devices of type UNPACK have one",
		.run = device_handles,
		.min_abi = 7,
	},
	{0},
};
