/* SPDX-License-Identifier: BSD-3-Clause */
/* How bytes land when a rule says so, and processes that die of one. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/duo.h"
#include "../lib/faults.h"
#include "../lib/kids.h"

TestSuite(softefa_landing, .timeout = 60);

enum { LEN = 512, LINE = 64, LINES = LEN / LINE, MEDIUM = 32 << 10, BIG = 1 << 20 };

static void init(struct duo *d, const char *settings)
{
	node_settings(settings);
	faults_init();
	duo_init(d, &(struct node_attr){.bytes = BIG});
}

static uint8_t look(const uint8_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void start(struct duo *d, enum raw_op op, uint32_t len)
{
	struct raw_wr wr = node_wr(&d->a, op, &d->to_b, d->ahn, 0, len, 0);

	if (op == RAW_SEND)
		node_recv(&d->b, 1, 0, len);
	node_post(&d->a, &wr);
}

/* ---- twice ---- */

/* Source and destination of an operation from A. */
static uint8_t *source(struct duo *d, enum raw_op op)
{
	return op == RAW_READ ? d->b.buf : d->a.buf;
}

static uint8_t *target(struct duo *d, enum raw_op op)
{
	return op == RAW_READ ? d->a.buf : d->b.buf;
}

ParameterizedTestParameters(softefa_landing, bytes_are_placed_twice_before_the_completion)
{
	static enum raw_op ops[] = {RAW_SEND, RAW_READ, RAW_WRITE};

	return cr_make_param_array(enum raw_op, ops, 3);
}

/*
 * What the receiver writes into the place after the first time is gone at the completion, what it
 * writes later stays. On a machine so busy that the completion came first it tries again.
 */
ParameterizedTest(enum raw_op *op, softefa_landing, bytes_are_placed_twice_before_the_completion)
{
	uint8_t *at;
	bool in_time = false;
	struct raw_wc wc;
	struct duo d;

	init(&d, NULL);
	faults_set(&d.a.dev, "twice gap=200000");
	at = target(&d, *op);
	for (unsigned i = 1; i <= 5 && !in_time; i++) {
		node_fill(source(&d, *op), LEN, i);
		memset(at, 0, LEN);
		start(&d, *op, LEN);
		while (look(&at[LEN - 1]) == 0)
			kids_nap_us(100);
		memset(at, 0xee, LEN);
		in_time = !raw_poll(&d.a.scq, &wc);
		if (in_time)
			wc = node_wait(&d.a.scq);
		cr_assert(zero(int, wc.status));
		if (in_time)
			cr_assert(node_filled(at, LEN, i));
		if (*op == RAW_SEND)
			node_wait_status(&d.b.rcq, 0);
	}
	cr_assert(in_time);
	memset(at, 0xdd, LEN);
	kids_nap_us(300000);
	cr_assert(eq(u8, at[0], 0xdd));
	cr_assert(eq(u8, at[LEN - 1], 0xdd));
	duo_fini(&d);
}

/* A line of a ring that its sender writes again too early: the old one comes back over the new. */
Test(softefa_landing, second_placement_has_the_bytes_of_the_first)
{
	struct duo d;

	init(&d, "reorder=0");
	faults_set(&d.a.dev, "twice gap=300000 nth=1");
	memset(d.a.buf, 1, MEDIUM);
	start(&d, RAW_WRITE, MEDIUM);
	while (look(&d.b.buf[MEDIUM - 1]) != 1)
		kids_nap_us(100);
	memset(d.a.buf, 2, MEDIUM);
	start(&d, RAW_WRITE, MEDIUM);
	node_wait_status(&d.a.scq, 0);
	node_wait_status(&d.a.scq, 0);
	cr_assert(eq(u8, d.b.buf[0], 1));
	cr_assert(eq(u8, d.b.buf[MEDIUM - 1], 1));
	duo_fini(&d);
}

/* ---- line by line ---- */

/* Is line @i of @at there: its first and last word? 2: half of it is. */
static int landed(const uint8_t *at, const uint8_t *want, unsigned i)
{
	bool last = look(&at[i * LINE + LINE - 1]) == want[i * LINE + LINE - 1];
	bool first = look(&at[i * LINE]) == want[i * LINE];

	return last == first ? last : 2;
}

/* Watch a transfer; returns how many lines were there while one before them was not. */
static unsigned watch(struct duo *d, const uint8_t *at, const uint8_t *want)
{
	unsigned ahead = 0;
	struct raw_wc wc;

	while (!raw_poll(&d->a.scq, &wc)) {
		bool gap = false;

		/* From the end: what is there before a look at what is missing in front of it. */
		for (unsigned i = LINES; i-- > 0;) {
			if (landed(at, want, i) == 1)
				gap = true;
			else if (gap)
				ahead++;
		}
	}
	cr_assert(zero(int, wc.status));
	return ahead;
}

ParameterizedTestParameters(softefa_landing, lines_land_one_by_one_in_any_order)
{
	static enum raw_op ops[] = {RAW_SEND, RAW_READ, RAW_WRITE};

	return cr_make_param_array(enum raw_op, ops, 3);
}

ParameterizedTest(enum raw_op *op, softefa_landing, lines_land_one_by_one_in_any_order)
{
	unsigned ahead = 0;
	uint8_t *at;
	struct duo d;

	init(&d, NULL);
	faults_set(&d.a.dev, "lines gap=3000");
	at = target(&d, *op);
	for (unsigned i = 0; i < 8; i++) {
		memset(source(&d, *op), 1 + (int)i, LEN);
		memset(at, 0xff, LEN);
		start(&d, *op, LEN);
		ahead += watch(&d, at, source(&d, *op));
		for (unsigned k = 0; k < LEN; k++)
			cr_assert(eq(u8, at[k], 1 + i));
		if (*op == RAW_SEND)
			node_wait_status(&d.b.rcq, 0);
	}
	cr_assert(ge(uint, ahead, 8), "%u", ahead);
	duo_fini(&d);
}

/* Without a rule the lines of a small write land in order: never the last before the first. */
Test(softefa_landing, lines_keep_their_order_without_a_rule)
{
	struct duo d;

	init(&d, NULL);
	for (unsigned i = 0; i < 100; i++) {
		memset(d.a.buf, 1 + (int)i, LEN);
		start(&d, RAW_WRITE, LEN);
		cr_assert(zero(uint, watch(&d, d.b.buf, d.a.buf)));
	}
	duo_fini(&d);
}

/* All lengths and places: nothing is left out, nothing beside it is touched. */
Test(softefa_landing, lines_of_any_length_and_place_are_complete)
{
	struct duo d;

	init(&d, NULL);
	faults_set(&d.a.dev, "lines\ntwice p=0.3");
	node_fill(d.a.buf, 2 * LEN, 5);
	for (unsigned len = 1; len <= LEN; len += 7) {
		unsigned at = LINE + len * 13 % 200;
		struct raw_wr wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, len, at);

		memset(d.b.buf, 0xee, 2 * LEN);
		cr_assert(zero(int, node_run(&d.a, &wr).status));
		cr_assert(node_filled(d.b.buf + at, len, 5), "%u bytes at %u", len, at);
		cr_assert(eq(u8, d.b.buf[at - 1], 0xee));
		cr_assert(eq(u8, d.b.buf[at + len], 0xee));
	}
	duo_fini(&d);
}

Test(softefa_landing, large_and_empty_transfers_survive_all_at_once)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL);
	faults_set(&d.a.dev, "lines\ntwice");
	node_fill(d.a.buf, BIG, 7);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, BIG, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(node_filled(d.b.buf, BIG, 7));
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 0, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	node_recv(&d.b, 1, 0, LEN);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 0, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	duo_fini(&d);
}

/* ---- death ---- */

struct meeting {
	atomic_uint parent, kid;
	struct node_addr server, client;
	uint8_t buf[BIG] __attribute__((aligned(4096)));
};

static size_t bytes_that_are(const uint8_t *at, size_t len, uint8_t value)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += at[i] == value;
	return n;
}

/* The signal that ended it, or 0 when it left with 0. */
static int death_of(pid_t pid)
{
	int64_t end = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		cr_assert(lt(i64, kids_now_us(), end), "it lives");
		kids_nap_us(1000);
	}
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	return WEXITSTATUS(status) ? -1 : 0;
}

/* Its region is in memory that outlives it. */
static void victim(void *arg)
{
	struct meeting *m = arg;
	struct raw_mr mr;
	struct node n;

	setenv("SOFTEFA_SET", "fault=die_placing 300001", 1);
	node_init(&n, &(struct node_attr){0});
	MUST_0(raw_mr_reg(&mr, &n.dev, &n.pd, m->buf, BIG, RAW_ALL_ACCESS));
	m->server = node_addr(&n);
	m->server.mr = raw_sge(&mr, 0, BIG);
	kids_await(&m->parent, 1);
	node_ahn(&n, &m->client);
	m->kid = 1;
	pause();
}

Test(softefa_landing, receiver_dies_in_the_middle_of_a_write)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct raw_wr wr;
	struct node n;
	pid_t pid;

	node_settings(NULL);
	pid = kids_start(victim, m);
	node_init(&n, &(struct node_attr){.bytes = BIG});
	m->client = node_addr(&n);
	m->parent = 1;
	kids_await(&m->kid, 1);
	memset(n.buf, 0x77, BIG);
	wr = node_wr(&n, RAW_WRITE, &m->server, node_ahn(&n, &m->server), 0, BIG, 0);
	cr_assert(eq(int, node_run(&n, &wr).status, 8));
	cr_assert(eq(int, death_of(pid), SIGKILL));
	cr_assert(eq(u8, m->buf[300000], 0x77));
	cr_assert(zero(u8, m->buf[300001]));
	node_fini(&n);
}

/* Its message is long on its way when it dies. */
static void sender(void *arg)
{
	struct meeting *m = arg;
	struct raw_wr wr;
	struct node n;

	setenv("SOFTEFA_SET", "fault=die_sending 50000", 1);
	node_init(&n, &(struct node_attr){.bytes = BIG});
	memset(n.buf, 0x77, BIG);
	m->client = node_addr(&n);
	kids_await(&m->parent, 1);
	wr = node_wr(&n, RAW_WRITE, &m->server, node_ahn(&n, &m->server), 0, BIG, 0);
	node_post(&n, &wr);
	pause();
}

Test(softefa_landing, sender_dies_in_the_middle_of_its_write)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct node_addr self;
	struct raw_wr wr;
	struct node n;
	pid_t pid;

	/* A line per millisecond: 16384 of them. */
	node_settings("fault=lines gap=1000 times=1");
	pid = kids_start(sender, m);
	node_init(&n, &(struct node_attr){.bytes = BIG});
	m->server = self = node_addr(&n);
	wr = node_wr(&n, RAW_WRITE, &self, node_ahn(&n, &self), 0, 8, 8);
	m->parent = 1;
	cr_assert(eq(int, death_of(pid), SIGKILL));
	kids_nap_us(100000);
	cr_assert(ge(long, BIG - (long)bytes_that_are(n.buf, BIG, 0), LINE), "none landed");
	cr_assert(ge(long, (long)bytes_that_are(n.buf, BIG, 0), BIG / 2), "most did not");
	cr_assert(zero(int, node_run(&n, &wr).status), "the receiver goes on");
	node_fini(&n);
}

/* ---- overflow ---- */

/* Two completions more than the queue has room for; the device is told of none that was read. */
static void overflow(void *arg)
{
	unsigned seen = 0;
	struct raw_wr wr;
	struct raw_wc wc;
	struct duo d;

	dup2(*(int *)arg, STDERR_FILENO);
	duo_init(&d, &(struct node_attr){.cq = 16});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 8, 0);
	for (unsigned i = 0; i < 18; i++)
		raw_post(&d.a.qp, &wr);
	raw_ring(&d.a.qp);
	while (seen < 16)
		seen += raw_cq_next(&d.a.scq, &wc);
	kids_nap_us(1000000);
}

static void read_all(int fd, char *text, size_t len)
{
	ssize_t n = pread(fd, text, len - 1, 0);

	cr_assert(n >= 0);
	text[n] = '\0';
}

Test(softefa_landing, overflow_of_a_completion_queue_is_fatal_and_loud_if_asked_for)
{
	int fd = memfd_create("said", 0);
	char said[512];

	node_settings("fault=overflow dev=0");
	cr_assert(eq(int, death_of(kids_start(overflow, &fd)), SIGABRT));
	read_all(fd, said, sizeof(said));
	cr_assert(ne(ptr, strstr(said, "overflows: 16 entries"), NULL), "%s", said);
	node_settings("fault=overflow dev=1");
	cr_assert(zero(int, death_of(kids_start(overflow, &fd))), "another device");
	node_settings(NULL);
	cr_assert(zero(int, death_of(kids_start(overflow, &fd))), "by default it waits");
}

static void full_and_no_more(void *arg)
{
	struct raw_wr wr;
	struct duo d;

	(void)arg;
	duo_init(&d, &(struct node_attr){.cq = 16});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 8, 0);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < 16; i++)
			raw_post(&d.a.qp, &wr);
		raw_ring(&d.a.qp);
		for (unsigned i = 0; i < 16; i++)
			node_wait_status(&d.a.scq, 0);
	}
	duo_fini(&d);
}

Test(softefa_landing, full_completion_queue_is_no_overflow)
{
	node_settings("fault=overflow");
	cr_assert(zero(int, death_of(kids_start(full_and_no_more, NULL))));
}
