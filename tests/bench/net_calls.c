/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a net plugin's calls cost, in instructions: two processes in lockstep, so that each call is
 * known to find something to do, or nothing. Each kind of call is made inside a function of its own
 * name (counted_...), for callgrind to count by; scripts/bench.sh reads its output.
 *
 * usage: net_calls PLUGIN.so [bytes] [messages]
 *        net_calls PLUGIN.so early [bytes] [messages]
 *                           with the hint that receives may be done early
 *        net_calls PLUGIN.so idle SECONDS
 *                           prints what an idle process uses, in % of a core
 *        net_calls PLUGIN.so connect COMMS
 *                           prints what each of that many connections takes, once there are some:
 *                           microseconds, and bytes of the two ends that each process has then
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_net_abi.h"

#define NOINLINE      __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))

enum {
	WARM_UP = 5,
	IDLE_CALLS = 20,
	SETTLE_MS = 60, /* for the other process and the adapter to have done their part */
	TAG = 7,
};

static const struct nccl_net_v11 *net;
static int sock; /* to the other process */
static void *ctx;
static void *send_comm, *recv_comm, *send_mr, *recv_mr;
static char *send_buf, *recv_buf;
static int early;     /* receives have the hint */
static int unplanned; /* calls that did not find what they should */

static void die(const char *what, int rc)
{
	fprintf(stderr, "net_calls: %s: %d\n", what, rc);
	exit(1);
}

static ALWAYS_INLINE void ok(enum nccl_net_result rc, const char *what)
{
	if (rc != NCCL_NET_OK)
		die(what, (int)rc);
}

static void rest(int times)
{
	const struct timespec ts = {0, SETTLE_MS * 1000000};

	for (int i = 0; i < times; i++)
		nanosleep(&ts, NULL);
}

/* One byte to the other process, or from it. */
static void tell(void)
{
	if (write(sock, "x", 1) != 1)
		die("write to the other process", errno);
}

static void hear(void)
{
	char c;

	if (read(sock, &c, 1) != 1)
		die("the other process is gone", errno);
}

/* ---- the calls ---- */

static ALWAYS_INLINE void *start_send(size_t bytes)
{
	void *req = NULL;

	ok(net->isend(send_comm, send_buf, bytes, TAG, send_mr, NULL, &req), "isend");
	return req;
}

static ALWAYS_INLINE void *start_recv(size_t bytes)
{
	void *req = early ? NCCL_NET_EARLY_RECV_HINT : NULL, *buf = recv_buf;
	int tag = TAG;

	ok(net->irecv(recv_comm, 1, &buf, &bytes, &tag, &recv_mr, NULL, &req), "irecv");
	return req;
}

static ALWAYS_INLINE int test(void *req)
{
	int done, size;

	ok(net->test(req, &done, &size), "test");
	return done;
}

/* What callgrind counts by; one function for each answer, or they would be folded into one. */
static NOINLINE void *counted_isend(size_t bytes)
{
	return start_send(bytes);
}

static NOINLINE void *counted_idle_isend(size_t bytes)
{
	return start_send(bytes);
}

static NOINLINE void *counted_irecv(size_t bytes)
{
	return start_recv(bytes);
}

static NOINLINE int counted_completing_test_of_isend(void *req)
{
	return test(req);
}

static NOINLINE int counted_completing_test_of_irecv(void *req)
{
	return test(req);
}

static NOINLINE int counted_idle_test(void *req)
{
	return test(req);
}

/* ---- one message ---- */

static void finish(void *req)
{
	const struct timespec ts = {0, 200000};

	while (!test(req))
		nanosleep(&ts, NULL);
}

static void receive(size_t bytes)
{
	void *req = start_recv(bytes);

	hear();
	tell();
	finish(req);
	tell();
}

static void send_one(size_t bytes)
{
	void *req;

	tell();
	hear();
	while (!(req = start_send(bytes)))
		rest(1);
	finish(req);
	hear();
}

/* In lockstep: irecv and isend first find nothing to do, then all that they wait for. */
static void receive_counted(size_t bytes)
{
	void *req;

	hear();
	req = counted_irecv(bytes);
	if (!req)
		die("irecv started nothing", 0);
	for (int i = 0; i < IDLE_CALLS; i++)
		unplanned += counted_idle_test(req);
	tell();
	rest(6);
	if (!counted_completing_test_of_irecv(req)) {
		unplanned++;
		finish(req);
	}
	if (bytes && recv_buf[bytes - 1] != 1)
		die("wrong data", recv_buf[bytes - 1]);
	memset(recv_buf, 0, bytes);
	tell();
}

/* Done when the sender knows of it; who waits for the data looks for them. */
static void receive_early(size_t bytes)
{
	volatile char *last = recv_buf + bytes - 1;
	void *req;

	hear();
	memset(recv_buf, 0, bytes); /* all that was sent before is here */
	req = counted_irecv(bytes);
	if (!req)
		die("irecv started nothing", 0);
	rest(2);
	if (!counted_completing_test_of_irecv(req)) {
		unplanned++;
		finish(req);
	}
	tell();
	for (int i = 0; i < 1000 && bytes && *last != 1; i++)
		rest(1);
	if (bytes && *last != 1)
		die("wrong data", *last);
	tell();
}

static void send_counted(size_t bytes)
{
	void *req = NULL;

	for (int i = 0; i < IDLE_CALLS && !req; i++)
		req = counted_idle_isend(bytes);
	unplanned += req != NULL;
	tell();
	hear();
	rest(2);
	if (!req)
		req = counted_isend(bytes);
	if (!req)
		die("isend found no receive", 0);
	rest(2);
	if (!counted_completing_test_of_isend(req)) {
		unplanned++;
		finish(req);
	}
	hear();
}

/* ---- set-up ---- */

/* Plugins count on a logger: NCCL gives them one always. */
static void say_nothing(enum nccl_net_log_level level, unsigned long subsys, const char *where,
			int line, const char *fmt, ...) NCCL_NET_PRINTF(5, 6);
static void say_nothing(enum nccl_net_log_level level, unsigned long subsys, const char *where,
			int line, const char *fmt, ...)
{
	(void)level, (void)subsys, (void)where, (void)line, (void)fmt;
}

static void init(void)
{
	struct nccl_net_config config = {NCCL_NET_TRAFFIC_CLASS_NONE};
	int ndev;

	ok(net->init(&ctx, 0, &config, say_nothing, NULL), "init");
	ok(net->devices(&ndev), "devices");
	if (ndev < 1)
		die("no device", ndev);
}

struct ends {
	char mine[NCCL_NET_HANDLE_BYTES], theirs[NCCL_NET_HANDLE_BYTES];
	void *listen, *to, *from;
};

/* @n connections to the other process and as many from it, all pending at once. */
static void connect_all(struct ends *e, int n)
{
	struct nccl_net_device_handle *none = NULL;
	int left = 2 * n;

	for (int i = 0; i < n; i++) {
		memset(&e[i], 0, sizeof(e[i]));
		ok(net->listen(ctx, 0, e[i].mine, &e[i].listen), "listen");
		if (send(sock, e[i].mine, sizeof(e[i].mine), 0) != sizeof(e[i].mine))
			die("send of a handle", errno);
	}
	for (int i = 0; i < n; i++)
		if (recv(sock, e[i].theirs, sizeof(e[i].theirs), MSG_WAITALL) !=
		    sizeof(e[i].theirs))
			die("receive of a handle", errno);
	while (left)
		for (int i = 0; i < n; i++) {
			if (!e[i].to) {
				ok(net->connect(ctx, 0, e[i].theirs, &e[i].to, &none), "connect");
				left -= e[i].to != NULL;
			}
			if (!e[i].from) {
				ok(net->accept(e[i].listen, &e[i].from, &none), "accept");
				left -= e[i].from != NULL;
			}
		}
	for (int i = 0; i < n; i++)
		ok(net->close_listen(e[i].listen), "closeListen");
}

static void make_buffers(size_t bytes)
{
	size_t room = (bytes / 4096 + 1) * 4096;

	send_buf = aligned_alloc(4096, room);
	recv_buf = aligned_alloc(4096, room);
	memset(send_buf, 1, room);
	memset(recv_buf, 0, room);
	ok(net->reg_mr(send_comm, send_buf, room, NCCL_NET_PTR_HOST, &send_mr), "regMr");
	ok(net->reg_mr(recv_comm, recv_buf, room, NCCL_NET_PTR_HOST, &recv_mr), "regMr");
}

/* The child is executed anew: a fork of a process with devices is no process with devices. */
static int start_peer(char **argv)
{
	const char *fd = getenv("NET_CALLS_FD");
	char text[16];
	int sv[2];

	if (fd) {
		sock = atoi(fd);
		return 1;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv))
		die("socketpair", errno);
	snprintf(text, sizeof(text), "%d", sv[1]);
	if (fork() == 0) {
		setenv("NET_CALLS_FD", text, 1);
		close(sv[0]);
		execv(argv[0], argv);
		_exit(9);
	}
	close(sv[1]);
	sock = sv[0];
	return 0;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void idle(int seconds, int receiver)
{
	double before;

	sleep(1); /* the adapter goes to rest by steps */
	before = cpu_seconds();
	sleep((unsigned)seconds);
	if (!receiver)
		printf("%.2f\n", (cpu_seconds() - before) / seconds * 100);
	fflush(stdout);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long size, resident;

	if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2)
		die("/proc/self/statm", errno);
	fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* The first ones make what all share. */
static void count_connections(int n, int receiver)
{
	enum { AT_ONCE = 100 };
	struct ends e[AT_ONCE];
	double start, bytes;

	connect_all(e, AT_ONCE);
	start = seconds();
	bytes = resident_bytes();
	for (int i = 0; i < n; i += AT_ONCE)
		connect_all(e, n - i < AT_ONCE ? n - i : AT_ONCE);
	/* Of the two processes, each has an end of 2 * n. */
	if (!receiver)
		printf("%.1f %.0f\n", (seconds() - start) / n / 2 * 1e6,
		       (resident_bytes() - bytes) / n);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int has_hint = argc > 2 && strcmp(argv[2], "early") == 0;
	int is_connect = argc > 3 && strcmp(argv[2], "connect") == 0;
	int is_idle = argc > 3 && strcmp(argv[2], "idle") == 0;
	char **arg = argv + has_hint;
	int args = argc - has_hint, receiver;
	size_t bytes = args > 2 && !is_idle ? strtoul(arg[2], NULL, 0) : 65536;
	int messages = args > 3 && !is_idle ? atoi(arg[3]) : 20;
	struct ends first;
	void *dl = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

	net = dl ? dlsym(dl, "ncclNetPlugin_v11") : NULL;
	if (!net)
		die(argc > 1 ? dlerror() : "usage: net_calls PLUGIN.so [bytes] [messages]", 0);
	receiver = start_peer(argv);
	early = has_hint;
	init();
	if (is_connect) {
		count_connections(atoi(argv[3]), receiver);
		if (!receiver)
			wait(NULL);
		return 0;
	}
	connect_all(&first, 1);
	send_comm = first.to;
	recv_comm = first.from;
	make_buffers(bytes);
	for (int i = 0; i < WARM_UP; i++)
		receiver ? receive(bytes) : send_one(bytes);
	if (is_idle)
		idle(atoi(argv[3]), receiver);
	for (int i = 0; i < messages && !is_idle; i++)
		!receiver ? send_counted(bytes)
		: early   ? receive_early(bytes)
			  : receive_counted(bytes);
	if (unplanned)
		fprintf(stderr, "net_calls: %d calls did not find what they should\n", unplanned);
	if (!receiver)
		wait(NULL);
	return unplanned > messages / 4;
}
