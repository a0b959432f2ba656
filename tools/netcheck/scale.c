/* SPDX-License-Identifier: BSD-3-Clause */
/* Many comms, many threads, many times. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "count.h"

/* ---- C72 ---- */

struct turn {
	struct check_ctx *ctx;
	struct check_lane *lane;
};

static void *turn_main(void *arg)
{
	struct turn *t = arg;

	check_lane_pass(t->ctx, t->lane, 10000);
	return NULL;
}

static void other_threads(struct check_ctx *ctx)
{
	struct check_lane lane;
	struct turn t = {ctx, &lane};

	check_lane_open(ctx, &lane, 10000);
	for (uint64_t i = check_scale(ctx, 20, 1000); i; i--) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, turn_main, &t))
			check_skip(ctx, "no thread can be started");
		pthread_join(thread, NULL);
	}
	check_lane_close(ctx, &lane);
}

/* ---- C73 ---- */

enum { SETS = 2, MAX_LANES = 2 * HOST_MAX_RANKS };

/* @SETS connections to each other rank, or to itself where it is alone. */
static int lanes_open(struct check_ctx *ctx, struct check_lane *lane)
{
	int n = ctx->self->nranks, rank = ctx->self->rank, lanes = 0;

	for (int set = 0; set < SETS; set++) {
		for (int d = n > 1; d < n; d++) {
			struct check_lane *l = &lane[lanes++];

			check_connect(ctx, &l->link, (rank + d) % n, (rank + n - d) % n);
			check_lane_bufs(ctx, l, 8192);
		}
	}
	return lanes;
}

static void cycle(struct check_ctx *ctx, struct check_lane *lane)
{
	int lanes = lanes_open(ctx, lane);

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < lanes; i++)
			check_lane_pass(ctx, &lane[i], 2048 * (size_t)(round + 1));
	}
	for (int i = 0; i < lanes; i++)
		check_lane_close(ctx, &lane[i]);
}

/* Nobody is at work meanwhile: ranks may be threads of one process. */
static void count_still(struct check_ctx *ctx, struct count *c)
{
	check_barrier(ctx);
	count_take(c);
	check_barrier(ctx);
}

/*
 * Cycles, and the counts at their end but for memory, which is the least that there was: a plugin
 * may collect what it frees, as long as it does free it.
 */
static void cycles(struct check_ctx *ctx, struct check_lane *lane, uint64_t n, struct count *c)
{
	size_t least = SIZE_MAX;

	for (uint64_t i = 0; i < n; i++) {
		cycle(ctx, lane);
		count_still(ctx, c);
		least = c->resident < least ? c->resident : least;
	}
	c->resident = least;
}

static void nothing_grows(struct check_ctx *ctx)
{
	uint64_t half = check_scale(ctx, 3, 100);
	static const size_t slack = 4 << 20;
	struct check_lane *lane = calloc(MAX_LANES, sizeof(*lane));
	struct count before, after;

	if (!lane)
		check_skip(ctx, "no memory");
	cycles(ctx, lane, half, &before);
	cycles(ctx, lane, half, &after);
	check_expect(ctx, after.fds <= before.fds,
		     "expected %d descriptors after connections came and went, saw %d", before.fds,
		     after.fds);
	check_expect(ctx, after.threads <= before.threads, "expected %d threads, saw %d",
		     before.threads, after.threads);
	check_expect(ctx, !ctx->opt->full || after.resident <= before.resident + slack,
		     "expected about %zu bytes of memory, saw %zu at least", before.resident,
		     after.resident);
	free(lane);
}

/* ---- C74 ---- */

enum { WINDOW = 8, BYTES = 256 };

/* A comm to itself, with a window of messages. */
struct busy {
	struct check_link link;
	char *out, *in; /* [WINDOW][BYTES] */
	void *out_mh, *in_mh;
	void *send[WINDOW], *recv[WINDOW];
	int sent, posted, put, got; /* messages: started and done */
};

static void busy_start(struct check_ctx *ctx, struct busy *b, int messages)
{
	size_t at;

	if (b->posted < messages && b->posted < b->got + WINDOW) {
		at = (size_t)(b->posted % WINDOW);
		b->recv[at] = check_irecv(ctx, &b->link.recv, b->in + at * BYTES, BYTES,
					  check_tag(ctx, &b->link.recv), b->in_mh);
		b->posted += b->recv[at] != NULL;
	}
	if (b->sent < messages && b->sent < b->put + WINDOW) {
		at = (size_t)(b->sent % WINDOW);
		memset(b->out + at * BYTES, b->sent, BYTES);
		b->send[at] = check_isend(ctx, &b->link.send, b->out + at * BYTES, BYTES,
					  check_tag(ctx, &b->link.send), b->out_mh);
		b->sent += b->send[at] != NULL;
	}
}

static void busy_end(struct check_ctx *ctx, struct busy *b)
{
	int sizes[NCCL_NET_TEST_SIZES] = {0};
	const char *in = b->in + b->got % WINDOW * BYTES;

	if (b->put < b->sent && check_test(ctx, b->send[b->put % WINDOW], sizes))
		b->put++;
	if (b->got == b->posted || !check_test(ctx, b->recv[b->got % WINDOW], sizes))
		return;
	check_need(ctx, !host_guard_differs(in, (char)b->got, BYTES),
		   "expected message %d of a comm, saw other bytes", b->got);
	b->got++;
}

/* The slowest has a part when the fastest has all. */
static void busy_run(struct check_ctx *ctx, struct busy *busy, int n, int messages)
{
	uint64_t since = host_now_ns();
	int least = 0, most = 0;
	bool fair = false;

	while (least < messages) {
		least = messages;
		for (int i = 0; i < n; i++) {
			busy_start(ctx, &busy[i], messages);
			busy_end(ctx, &busy[i]);
			least = busy[i].got < least ? busy[i].got : least;
			most = busy[i].got > most ? busy[i].got : most;
		}
		if (most >= messages / 2 && !fair) {
			check_expect(ctx, least,
				     "expected messages of each comm when one had %d, "
				     "saw a comm without",
				     most);
			fair = true;
		}
		check_tick(ctx, since, "messages of many comms");
	}
	for (int i = 0; i < n; i++) {
		while (busy[i].put < messages) {
			busy_end(ctx, &busy[i]);
			check_tick(ctx, since, "the last sends of many comms");
		}
	}
}

static void many_comms(struct check_ctx *ctx)
{
	int n = (int)check_scale(ctx, 40, 200), messages = (int)check_scale(ctx, 64, 1000);
	struct busy *busy = calloc((size_t)n, sizeof(*busy));
	size_t bytes = (size_t)n * WINDOW * BYTES;
	char *out = check_pages(ctx, NULL, bytes), *in = check_pages(ctx, NULL, bytes);

	if (!busy)
		check_skip(ctx, "no memory");
	for (int i = 0; i < n; i++) {
		struct busy *b = &busy[i];

		check_self(ctx, &b->link);
		b->out = out + (size_t)i * WINDOW * BYTES;
		b->in = in + (size_t)i * WINDOW * BYTES;
		b->out_mh = check_reg(ctx, &b->link.send, b->out, WINDOW * BYTES);
		b->in_mh = check_reg(ctx, &b->link.recv, b->in, WINDOW * BYTES);
	}
	busy_run(ctx, busy, n, messages);
	for (int i = 0; i < n; i++) {
		check_dereg(ctx, &busy[i].link.send, busy[i].out_mh);
		check_dereg(ctx, &busy[i].link.recv, busy[i].in_mh);
		check_disconnect(ctx, &busy[i].link);
	}
	free(busy);
}

/* ---- C75 ---- */

/* A child that runs another program, and one that lives for a while with copies of our pages. */
static void children(struct check_ctx *ctx)
{
	struct check_lane lane;
	pid_t runs, stays;
	int status;

	check_lane_open(ctx, &lane, 50000);
	check_lane_pass(ctx, &lane, 50000);
	runs = fork();
	if (!runs) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	stays = fork();
	while (!stays)
		pause();
	for (int i = 0; i < 10; i++)
		check_lane_pass(ctx, &lane, 50000);
	check_expect(ctx, runs > 0 && waitpid(runs, &status, 0) == runs && !status,
		     "expected that a child can run /bin/true, saw that it cannot");
	check_need(ctx, stays > 0, "expected that the process can fork, saw that it cannot");
	kill(stays, SIGKILL);
	waitpid(stays, &status, 0);
	for (int i = 0; i < 5; i++)
		check_lane_pass(ctx, &lane, 50000);
	check_lane_close(ctx, &lane);
}

const struct check scale_checks[] = {
	{
		.id = "C72",
		.group = "scale",
		.title = "messages of a comm may be moved by one thread after the other",
		.rule = "src/proxy.cc: the progress thread starts with the first connection, again "
			"with the next communicator",
		.run = other_threads,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C73",
		.group = "scale",
		.title = "nothing grows when connections of all to all come and go, 200 times "
			 "(quick: 6 times, memory aside)",
		.rule = "src/transport/net.cc: communicators come and go in a process that stays",
		.run = nothing_grows,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C74",
		.group = "scale",
		.title = "200 comms of 8 messages each share a device (quick: 40)",
		.rule = "src/transport/net.cc: a connection per channel, peer and direction",
		.run = many_comms,
	},
	{
		.id = "C75",
		.group = "scale",
		.title = "the process may fork, and its children run programs",
		.rule = "applications of NCCL do: data loaders, launchers",
		.run = children,
		.flags = CHECK_RANKS,
	},
	{0},
};
