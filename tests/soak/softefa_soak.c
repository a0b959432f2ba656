/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter for a long time, with all that befalls it: processes of two hosts that move checked
 * data and make, break and destroy objects; others that come and go, by exit and by SIGKILL; the
 * plugin, by netbench; faults that change each second. Then: nothing was wrong, nobody hung, the
 * processes that stayed have not grown, and nothing is left behind.
 *
 * softefa_soak SECONDS CONTROL-FILE NETBENCH PLUGIN, below softefa with that control file
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/raw.h"

enum {
	STAYERS = 4,  /* of these the last is another host */
	VISITORS = 3, /* at a time; of these the last is a third host */
	SEATS = STAYERS + VISITORS,
	WINDOW = 16, /* requests under way of a process */
	RECVS = 64,
	RECV = 9216,
	SEND_MAX = 8928,
	SLOT = 96 * 1024,
	SRC = 0, /* what is sent, and read by others: never changes */
	OUT = SRC + SLOT + SEND_MAX,
	IN = OUT + WINDOW * SLOT, /* where others write: nobody looks */
	INBOX = IN + SLOT,
	BYTES = INBOX + RECVS * RECV,
	QKEY = 0x50a0,
	WAIT_S = 60, /* a completion that takes longer is lost */
	SAMPLES = 4096,
};

static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	fprintf(stderr, "softefa_soak: ");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	_exit(99);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void nap_us(long us)
{
	nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static uint32_t rnd(uint64_t *s, uint32_t n)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33) % n;
}

/* The byte at @i of what every process has in SRC. */
static uint8_t src_byte(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + 1);
}

/* ---- who is where ---- */

/* Written by its owner, read by all; @version is odd while it changes, 0: nobody. */
struct seat {
	atomic_uint version;
	struct raw_gid gid;
	uint16_t qpn;
	struct raw_sge mem;
};

static struct board {
	struct seat seat[SEATS];
	atomic_ulong requests, moved, failed, received, churned;
	atomic_bool stop;
} * board;

static bool seat_read(unsigned i, struct seat *copy)
{
	struct seat *s = &board->seat[i];
	unsigned v = atomic_load(&s->version);

	if (!v || v % 2)
		return false;
	memcpy(copy, s, sizeof(*copy));
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&s->version) == v;
}

/* ---- one process ---- */

struct xfer {
	bool busy;
	enum raw_op op;
	uint32_t len, off;
};

struct actor {
	unsigned me;
	struct raw_dev dev;
	struct raw_pd pd;
	struct raw_cq cq;
	struct raw_qp qp;
	struct raw_mr mr;
	struct raw_ah ah[SEATS];
	struct raw_gid known[SEATS];
	struct xfer x[WINDOW];
	unsigned flying;
	uint8_t *buf;
	uint64_t rng;
	double progress_s;
};

/* Faults refuse objects now and then: try until it works. */
#define UNTIL(call) \
	do { \
		double end = now_s() + WAIT_S; \
		int rc_; \
\
		while ((rc_ = (call)) == -ENOMEM && now_s() < end) \
			nap_us(1000); \
		if (rc_) \
			fail("%s: %s", #call, strerror(-rc_)); \
	} while (0)

static void must(int rc, const char *what)
{
	if (rc)
		fail("%s: %s", what, strerror(-rc));
}

static void sit_down(struct actor *a)
{
	struct seat *s = &board->seat[a->me];

	atomic_fetch_or(&s->version, 1);
	must(raw_gid(&a->dev, &s->gid), "GID");
	s->qpn = (uint16_t)a->qp.qpn;
	s->mem = raw_sge(&a->mr, 0, BYTES);
	atomic_fetch_add(&s->version, 1);
}

static void post_receive(struct actor *a, unsigned i)
{
	struct raw_sge sge = raw_sge(&a->mr, INBOX + i * RECV, RECV);

	raw_post_recv(&a->qp, (uint16_t)i, &sge, 1);
}

static void qp_make(struct actor *a)
{
	struct raw_qp_attr attr = {.type = RAW_SRD, .sq = WINDOW, .rq = RECVS};

	UNTIL(raw_qp_create(&a->qp, &a->dev, &a->pd, &a->cq, &a->cq, &attr));
	must(raw_qp_up(&a->qp, &a->dev, QKEY, 5), "QP to RTS");
}

static void receives_init(struct actor *a)
{
	for (unsigned i = 0; i < RECVS; i++)
		post_receive(a, i);
	raw_ring(&a->qp);
}

static void actor_open(struct actor *a)
{
	memset(a->ah, 0, sizeof(a->ah));
	memset(a->known, 0, sizeof(a->known));
	must(raw_open(&a->dev, &raw_libc, rnd(&a->rng, 2)), "open");
	UNTIL(raw_pd_alloc(&a->pd, &a->dev));
	UNTIL(raw_cq_create(&a->cq, &a->dev, &(struct raw_cq_attr){.depth = 256}));
	UNTIL(raw_mr_reg(&a->mr, &a->dev, &a->pd, a->buf, BYTES, RAW_ALL_ACCESS));
	qp_make(a);
	receives_init(a);
	sit_down(a);
}

/* One by one, or by the close. */
static void actor_close(struct actor *a)
{
	bool orderly = rnd(&a->rng, 2);

	memset(a->x, 0, sizeof(a->x));
	a->flying = 0;
	if (!orderly)
		raw_close(&a->dev);
	must(raw_qp_destroy(&a->qp, &a->dev), "destroy QP");
	must(raw_cq_destroy(&a->cq, &a->dev, NULL), "destroy CQ");
	must(raw_mr_dereg(&a->mr, &a->dev), "deregister");
	for (unsigned i = 0; i < SEATS; i++)
		must(raw_ah_destroy(&a->ah[i], &a->dev), "destroy AH");
	must(raw_pd_free(&a->pd, &a->dev), "free PD");
	raw_close(&a->dev);
}

/* ---- traffic ---- */

static bool reach(struct actor *a, unsigned to, const struct seat *s)
{
	if (a->ah[to].live && memcmp(&a->known[to], &s->gid, sizeof(s->gid)) == 0)
		return true;
	must(raw_ah_destroy(&a->ah[to], &a->dev), "destroy AH");
	a->known[to] = s->gid;
	return raw_ah_create(&a->ah[to], &a->dev, &a->pd, &s->gid) == 0;
}

static void start_one(struct actor *a)
{
	unsigned to = rnd(&a->rng, SEATS), slot = 0;
	struct raw_wr wr = {.qkey = QKEY, .nsge = 1};
	struct seat s;
	struct xfer *x;

	if (!seat_read(to, &s) || !reach(a, to, &s))
		return;
	while (a->x[slot].busy)
		slot++;
	x = &a->x[slot];
	*x = (struct xfer){.busy = true, .op = (enum raw_op)rnd(&a->rng, 3)};
	x->len = 1 + rnd(&a->rng, x->op == RAW_SEND ? SEND_MAX : rnd(&a->rng, 8) ? 4096 : SLOT);
	x->off = rnd(&a->rng, SEND_MAX);
	wr.req_id = slot;
	wr.op = x->op;
	wr.imm_on = x->op == RAW_SEND;
	wr.imm = x->off;
	wr.ahn = a->ah[to].ahn;
	wr.qpn = s.qpn;
	wr.remote = s.mem;
	wr.remote.addr += x->op == RAW_READ ? SRC + x->off : IN;
	wr.remote.len = x->len;
	wr.sge[0] = raw_sge(&a->mr, x->op == RAW_READ ? OUT + slot * SLOT : SRC + x->off, x->len);
	if (x->op == RAW_READ)
		memset(a->buf + OUT + slot * SLOT, 0, x->len);
	raw_post(&a->qp, &wr);
	raw_ring(&a->qp);
	a->flying++;
	board->requests++;
}

static void check(const uint8_t *p, uint32_t off, uint32_t len, const char *what)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != src_byte(off + i))
			fail("%s of %u bytes from %u: byte %u is %#x", what, len, off, i, p[i]);
}

static void take_request(struct actor *a, const struct raw_wc *wc)
{
	struct xfer *x = &a->x[wc->req_id % WINDOW];

	if (wc->req_id >= WINDOW || !x->busy || wc->op != x->op)
		fail("completion of request %u, op %u", (unsigned)wc->req_id, wc->op);
	x->busy = false;
	a->flying--;
	if (wc->status) {
		board->failed++;
		return;
	}
	board->moved += x->len;
	if (x->op == RAW_READ)
		check(a->buf + OUT + wc->req_id * SLOT, x->off, x->len, "read");
}

static void take_receive(struct actor *a, const struct raw_wc *wc)
{
	if (wc->req_id >= RECVS)
		fail("completion of receive %u", (unsigned)wc->req_id);
	if (wc->status == 0) {
		board->received++;
		check(a->buf + INBOX + wc->req_id * RECV, wc->imm, wc->len, "message");
	}
	post_receive(a, (unsigned)wc->req_id);
	raw_ring(&a->qp);
}

static unsigned poll(struct actor *a)
{
	struct raw_wc wc;
	unsigned n = 0;

	while (raw_poll(&a->cq, &wc)) {
		if (wc.qpn != a->qp.qpn)
			fail("completion of QP %u, not %u", wc.qpn, a->qp.qpn);
		(wc.recv ? take_receive : take_request)(a, &wc);
		n++;
	}
	if (n || !a->flying)
		a->progress_s = now_s();
	if (now_s() - a->progress_s > WAIT_S)
		fail("process %u: %u requests are under way for %d s", a->me, a->flying, WAIT_S);
	return n;
}

/* ---- what else happens ---- */

static void forget_work(struct actor *a)
{
	struct raw_wc wc;

	while (raw_poll(&a->cq, &wc))
		;
	memset(a->x, 0, sizeof(a->x));
	a->flying = 0;
}

static void churn(struct actor *a)
{
	atomic_fetch_or(&board->seat[a->me].version, 1);
	switch (rnd(&a->rng, 4)) {
	case 0:
		must(raw_qp_to(&a->qp, &a->dev, RAW_RESET), "QP to RESET");
		forget_work(a);
		must(raw_qp_up(&a->qp, &a->dev, QKEY, 5), "QP to RTS");
		receives_init(a);
		break;
	case 1:
		must(raw_qp_destroy(&a->qp, &a->dev), "destroy QP");
		forget_work(a);
		qp_make(a);
		receives_init(a);
		break;
	case 2:
		must(raw_mr_dereg(&a->mr, &a->dev), "deregister");
		UNTIL(raw_mr_reg(&a->mr, &a->dev, &a->pd, a->buf, BYTES, RAW_ALL_ACCESS));
		/* Receives posted before are of no use any more. */
		must(raw_qp_to(&a->qp, &a->dev, RAW_RESET), "QP to RESET");
		forget_work(a);
		must(raw_qp_up(&a->qp, &a->dev, QKEY, 5), "QP to RTS");
		receives_init(a);
		break;
	default:
		actor_close(a);
		actor_open(a);
		board->churned++;
		return;
	}
	sit_down(a);
	board->churned++;
}

/* Until the end, or for @seconds. */
static void act(unsigned me, uint64_t seed, double seconds)
{
	struct actor a = {.me = me, .rng = seed};
	double end = now_s() + seconds;

	a.buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a.buf == MAP_FAILED)
		fail("no memory");
	for (uint32_t i = 0; i < OUT; i++)
		a.buf[i] = src_byte(i);
	memset(a.buf + OUT, 0, BYTES - OUT); /* all pages are there from the start */
	actor_open(&a);
	a.progress_s = now_s();
	for (unsigned n = 0; !board->stop && now_s() < end; n++) {
		if (a.flying < WINDOW)
			start_one(&a);
		if (!poll(&a))
			nap_us(50 + rnd(&a.rng, 200));
		if (rnd(&a.rng, 400) == 0)
			churn(&a);
	}
	atomic_store(&board->seat[me].version, 0);
	actor_close(&a);
	munmap(a.buf, BYTES);
}

/* ---- the processes ---- */

static uint16_t port[3]; /* of the other hosts; 0: this one */

static pid_t start(unsigned me, uint64_t seed, double seconds)
{
	unsigned host = me == STAYERS - 1 ? 1 : me == SEATS - 1 ? 2 : 0;
	char text[64];
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port[host]);
	setenv("SOFTEFA_ADDRESS", text, 1);
	if (me >= STAYERS && seed % 4 == 0)
		setenv("SOFTEFA_SET", "fault=die_placing 20000 p=0.001", 1);
	if (me >= STAYERS && seed % 4 == 1)
		setenv("SOFTEFA_SET", "fault=die_sending 2000 p=0.001", 1);
	act(me, seed, seconds);
	_exit(seed % 3 == 0 ? 0 : (exit(0), 0));
}

static pid_t start_plugin(char **argv, unsigned round)
{
	static const char *const patterns[] = {"ring", "alltoall", "stream"};
	char text[32];
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port[0]);
	setenv("SOFTEFA_ADDRESS", text, 1);
	fd = open("/dev/null", O_WRONLY);
	dup2(fd, 1);
	dup2(fd, 2);
	execl(argv[3], argv[3], "--plugin", argv[4], "--pattern", patterns[round % 3], "--max",
	      "256K", "--iters", "5", "--timeout", "20", "--dev", "2", (char *)NULL);
	_exit(98);
}

struct visitor {
	pid_t pid;
	double kill_s; /* 0: it goes by itself */
};

static struct {
	pid_t stayer[STAYERS], plugin;
	struct visitor visitor[VISITORS];
	unsigned visits, kills, deaths, plugins, plugins_failed;
	uint64_t rng;
} all = {.rng = 1};

static void visitor_ended(struct visitor *v, unsigned i, int status)
{
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	/* By us, or by the fault that it carries. */
	if (killed && v->kill_s)
		all.kills++;
	else if (killed)
		all.deaths++;
	else if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("a visitor ended with status %#x", (unsigned)status);
	atomic_store(&board->seat[STAYERS + i].version, 0);
	v->pid = 0;
}

static void plugin_ended(int status)
{
	/* Its data must never be wrong; faults may make it give up. */
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 2))
		fail("netbench ended with status %#x", (unsigned)status);
	all.plugins++;
	all.plugins_failed += WEXITSTATUS(status) != 0;
	all.plugin = 0;
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < STAYERS; i++)
			if (pid == all.stayer[i])
				fail("process %u ended with status %#x", i, (unsigned)status);
		for (unsigned i = 0; i < VISITORS; i++)
			if (pid == all.visitor[i].pid)
				visitor_ended(&all.visitor[i], i, status);
		if (pid == all.plugin)
			plugin_ended(status);
	}
}

static void replace(char **argv)
{
	for (unsigned i = 0; i < VISITORS; i++) {
		struct visitor *v = &all.visitor[i];

		if (v->pid && v->kill_s && now_s() > v->kill_s)
			kill(v->pid, SIGKILL);
		if (v->pid)
			continue;
		v->kill_s = rnd(&all.rng, 2) ? now_s() + 0.01 * rnd(&all.rng, 200) : 0;
		v->pid = start(STAYERS + i, ++all.visits, 0.1 + 0.01 * rnd(&all.rng, 200));
	}
	if (!all.plugin)
		all.plugin = start_plugin(argv, all.plugins);
}

/* ---- faults ---- */

/* What ends requests or refuses objects spares the device of the plugin, which gives up at once. */
static const char *const rules[] = {
	"status 5 dev=0 p=0.01",
	"status 9 dev=1 p=0.005",
	"delay 2000 p=0.1 jitter=3000",
	"rnr ms=50",
	"rate 400 ms=500",
	"reorder 64 ms=900",
	"twice p=0.2",
	"lines p=0.2",
	"refuse qp dev=0 p=0.1",
	"refuse mr dev=0 p=0.1",
	"refuse ah dev=1 p=0.1",
	"refuse pd dev=1 p=0.1",
	"refuse cq dev=1 p=0.1",
	"dead dev=1 ms=200",
};

/* Some of them, at once: the file is replaced whole. */
static void new_faults(const char *path)
{
	char next[4096];
	FILE *f;

	snprintf(next, sizeof(next), "%s.next", path);
	f = fopen(next, "we");
	if (!f)
		fail("%s: %s", next, strerror(errno));
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rnd(&all.rng, 3) == 0)
			fprintf(f, "%s\n", rules[i]);
	if (fclose(f) || rename(next, path))
		fail("%s: %s", path, strerror(errno));
}

/* ---- growth ---- */

struct sample {
	long rss_kib, fds;
};

static struct sample samples[STAYERS][SAMPLES];

static struct sample look(pid_t pid)
{
	struct sample s = {0, -3}; /* itself, "." and ".." */
	char path[64], line[256];
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "RssAnon: %ld", &s.rss_kib);
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && readdir(d))
		s.fds++;
	if (d)
		closedir(d);
	return s;
}

static int by_value(const void *a, const void *b)
{
	return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

static long median(unsigned who, unsigned from, unsigned to, size_t field)
{
	long v[SAMPLES];

	for (unsigned i = from; i < to; i++)
		memcpy(&v[i - from], (char *)&samples[who][i] + field, sizeof(long));
	qsort(v, to - from, sizeof(long), by_value);
	return v[(to - from) / 2];
}

/* The last quarter against the second: the first is for warming up. */
static void check_growth(unsigned n)
{
	for (unsigned i = 0; i < STAYERS; i++) {
		size_t rss = offsetof(struct sample, rss_kib), fds = offsetof(struct sample, fds);
		long rss0 = median(i, n / 4, n / 2, rss), rss1 = median(i, n - n / 4, n, rss);
		long fds0 = median(i, n / 4, n / 2, fds), fds1 = median(i, n - n / 4, n, fds);

		printf("process %u: %ld -> %ld KiB, %ld -> %ld files\n", i, rss0, rss1, fds0, fds1);
		if (rss1 > rss0 + rss0 / 10 + 1024)
			fail("process %u has grown by %ld KiB", i, rss1 - rss0);
		if (fds1 > fds0 + 6)
			fail("process %u has %ld files more", i, fds1 - fds0);
	}
}

/* ---- the end ---- */

static void finish(pid_t pid, const char *who)
{
	double end = now_s() + WAIT_S;
	int status = 0;
	pid_t rc;

	while ((rc = waitpid(pid, &status, WNOHANG)) == 0 && now_s() < end)
		nap_us(10000);
	if (rc == 0)
		kill(pid, SIGKILL);
	if (rc != pid || status)
		fail("%s does not end well: status %#x", who, (unsigned)status);
}

/* A process that comes and goes in good order clears away what the killed ones of its host left. */
static void check_leftovers(void)
{
	const char *domain = getenv("SOFTEFA_DOMAIN");
	char pattern[128];
	glob_t g;

	finish(start(0, 2, 0), "the last process");
	finish(start(STAYERS - 1, 2, 0), "the last process of the second host");
	finish(start(SEATS - 1, 2, 0), "the last process of the third host");
	snprintf(pattern, sizeof(pattern), "/dev/shm/softefa-%u-%s*", (unsigned)geteuid(), domain);
	if (glob(pattern, 0, NULL, &g) == 0)
		fail("%zu are left, such as %s", g.gl_pathc, g.gl_pathv[0]);
	globfree(&g);
}

/* Below those that the kernel hands out, which connections of anybody may get. */
static uint16_t free_port(void)
{
	static unsigned tries;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

	if (fd < 0)
		fail("socket: %s", strerror(errno));
	do {
		a.sin_port = htons((uint16_t)(10000 + ((unsigned)getpid() * 13 + tries++) % 20000));
		rc = bind(fd, (struct sockaddr *)&a, sizeof(a));
	} while (rc && tries < 1000);
	close(fd);
	if (rc)
		fail("no port");
	return ntohs(a.sin_port);
}

static unsigned watch(char **argv, double seconds)
{
	double end = now_s() + seconds, step = seconds / SAMPLES > 0.1 ? seconds / SAMPLES : 0.1;
	double faults_s = 0, sample_s = now_s();
	unsigned n = 0;

	while (now_s() < end) {
		reap();
		replace(argv);
		if (now_s() > faults_s) {
			new_faults(argv[2]);
			faults_s = now_s() + 1;
		}
		if (now_s() > sample_s && n < SAMPLES) {
			for (unsigned i = 0; i < STAYERS; i++)
				samples[i][n] = look(all.stayer[i]);
			n++;
			sample_s += step;
		}
		nap_us(10000);
	}
	return n;
}

int main(int argc, char **argv)
{
	double seconds = argc == 5 ? strtod(argv[1], NULL) : 0;
	unsigned n;

	if (seconds < 5) {
		fprintf(stderr, "usage: softefa_soak SECONDS(>= 5) CONTROL-FILE NETBENCH PLUGIN\n");
		return 2;
	}
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		fail("no memory");
	for (unsigned i = 0; i < 3; i++)
		port[i] = free_port();
	for (unsigned i = 0; i < STAYERS; i++)
		all.stayer[i] = start(i, 100 + 3 * i, 1e9);
	n = watch(argv, seconds);
	fclose(fopen(argv[2], "we")); /* no faults any more */
	board->stop = true;
	for (unsigned i = 0; i < STAYERS; i++)
		finish(all.stayer[i], "a process that stayed");
	for (unsigned i = 0; i < VISITORS; i++) {
		kill(all.visitor[i].pid, SIGKILL);
		waitpid(all.visitor[i].pid, NULL, 0);
	}
	kill(all.plugin, SIGTERM);
	waitpid(all.plugin, NULL, 0);
	printf("%lu requests, %lu failed, %lu messages, %.1f GB, %lu objects made anew\n",
	       board->requests, board->failed, board->received, (double)board->moved / 1e9,
	       board->churned);
	printf("%u visits, %u killed, %u dead by a fault; netbench: %u runs, %u given up\n",
	       all.visits, all.kills, all.deaths, all.plugins, all.plugins_failed);
	check_growth(n);
	check_leftovers();
	if (!board->received || !board->failed || !all.kills || !all.plugins)
		fail("that was no soak");
	return 0;
}
