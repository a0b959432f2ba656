/* SPDX-License-Identifier: BSD-3-Clause */
/* Many connections: at the same time, and one after the other. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { HANDLE = NCCL_NET_HANDLE_BYTES };

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW = 4 }; /* times slower, and memory is kept back: fewer rounds, no memory figures */
#else
enum { SLOW = 1 };
#endif

struct ends {
	uint8_t handle[HANDLE];
	void *listen, *send, *recv;
};

/* One thread polls them all in turn, as NCCL's does. */
static void connect_all(struct plug *p, int dev, struct ends *e, int n)
{
	int64_t end = now_ms() + 60000;
	unsigned tries = 0;
	int left = 2 * n;

	for (int i = 0; i < n; i++)
		e[i].listen = plug_listen(p, dev, e[i].handle);
	while (left) {
		for (int i = 0; i < n; i++) {
			if (!e[i].send && (e[i].send = plug_connect_once(p, dev, e[i].handle)))
				left--;
			if (!e[i].recv && (e[i].recv = plug_accept_once(p, e[i].listen)))
				left--;
		}
		need(now_ms() < end, "%d of %d ends are not connected", left, 2 * n);
		relax(&tries);
	}
	for (int i = 0; i < n; i++)
		plug_close_listen(p, e[i].listen);
}

static void close_all(struct plug *p, struct ends *e, int n)
{
	for (int i = 0; i < n; i++) {
		plug_close_send(p, e[i].send);
		plug_close_recv(p, e[i].recv);
	}
}

/* One message on each at the same time: from word i of a common buffer to word i of another. */
static void message_on_all(struct plug *p, struct ends *e, int n)
{
	size_t bytes = (size_t)n * sizeof(uint64_t);
	void **request = calloc(4 * (size_t)n, sizeof(void *));
	void **mh = request + 2 * (size_t)n;
	struct mem from, to;
	uint64_t *word;
	long bad;

	mem_get(&from, p, e[0].send, bytes, 0);
	mem_get(&to, p, e[0].recv, bytes, 0);
	bytes_fill(from.at, bytes, 3);
	word = (uint64_t *)(void *)to.at;
	for (int i = 0; i < n; i++) {
		mh[2 * i] = plug_reg(p, e[i].recv, to.at, bytes);
		mh[2 * i + 1] = plug_reg(p, e[i].send, from.at, bytes);
		request[2 * i] = plug_recv(p, e[i].recv, word + i, sizeof(*word), i, mh[2 * i]);
	}
	for (int i = 0; i < n; i++)
		request[2 * i + 1] =
			plug_send(p, e[i].send, from.at + 8 * i, sizeof(*word), i, mh[2 * i + 1]);
	for (int i = 0; i < 2 * n; i++)
		plug_wait(p, request[i]);
	bad = bytes_differ(to.at, bytes, 3);
	need(bad < 0, "the message of comm %ld is wrong", bad / 8);
	for (int i = 0; i < n; i++) {
		plug_dereg(p, e[i].recv, mh[2 * i]);
		plug_dereg(p, e[i].send, mh[2 * i + 1]);
	}
	mem_put(&from);
	mem_put(&to);
	free(request);
}

Test(scale, two_hundred_pending_connections_come_up_with_one_polling_thread)
{
	static struct ends e[200];
	struct plug p;

	plug_open(&p, 0);
	connect_all(&p, 0, e, 200);
	message_on_all(&p, e, 200);
	close_all(&p, e, 200);
	plug_close(&p);
}

/* More than the listener's queue has receives for, or the connector's has room to send. */
enum { CROWD = 400 };

/* Does nothing for its listens until it is told to. */
static void listen_late(struct twin *t, void *arg)
{
	static struct ends e[CROWD];
	struct plug p;
	unsigned tries = 0;
	int left = CROWD;

	(void)arg;
	plug_open(&p, 0);
	for (int i = 0; i < CROWD; i++) {
		e[i].listen = plug_listen(&p, 0, e[i].handle);
		twin_put(t, e[i].handle, HANDLE);
	}
	for (twin_meet(t); left; relax(&tries))
		for (int i = 0; i < CROWD; i++)
			if (!e[i].recv && (e[i].recv = plug_accept_once(&p, e[i].listen)))
				left--;
	twin_meet(t);
	for (int i = 0; i < CROWD; i++) {
		plug_close_listen(&p, e[i].listen);
		plug_close_recv(&p, e[i].recv);
	}
	plug_close(&p);
}

static int poll_connects(struct plug *p, struct ends *e, int n)
{
	int there = 0;

	for (int i = 0; i < n; i++) {
		if (!e[i].send)
			e[i].send = plug_connect_once(p, 0, e[i].handle);
		there += e[i].send != NULL;
	}
	return there;
}

Test(scale, crowd_before_a_listener_that_is_late_holds_up_nobody_else)
{
	static struct ends e[CROWD];
	unsigned tries = 0;
	struct twin t;
	struct plug p;
	struct link own;
	int64_t end;

	twin_start(&t, listen_late, NULL);
	plug_open(&p, 0);
	for (int i = 0; i < CROWD; i++)
		twin_get(&t, e[i].handle, HANDLE);
	for (end = now_ms() + 200; now_ms() < end;)
		cr_assert(zero(int, poll_connects(&p, e, CROWD)));
	link_open(&own, &p, 0, 0);
	link_message(&own, 1000, 1);
	twin_meet(&t);
	for (end = now_ms() + PLUG_WAIT_MS; poll_connects(&p, e, CROWD) < CROWD; relax(&tries))
		need(now_ms() < end, "%d of %d are connected", poll_connects(&p, e, CROWD), CROWD);
	twin_meet(&t);
	for (int i = 0; i < CROWD; i++)
		plug_close_send(&p, e[i].send);
	twin_end(&t);
	link_close(&own);
	plug_forget(); /* the listener's end may come as an error to what is closed */
	plug_close(&p);
}

/* ---- more comms than queue pairs ---- */

/*
 * Each test with limits has a device that other tests of this domain leave alone: the limits are
 * the device's. This one counts from the last.
 */
struct caps {
	char settings[32];
	int dev;
};

static struct caps with_and_without[] = {{"max_qp=8,caps=0x6f", 1}, {"max_qp=8,caps=0x2f", 2}};

static int own_device(const struct plug *p, int n)
{
	if (p->ndev <= n)
		cr_skip("needs %d devices", n + 1);
	return p->ndev - n;
}

ParameterizedTestParameters(scale, thousand_comms_at_once_need_no_more_than_8_queue_pairs)
{
	return cr_make_param_array(struct caps, with_and_without, 2);
}

ParameterizedTest(struct caps *c, scale, thousand_comms_at_once_need_no_more_than_8_queue_pairs)
{
	static struct ends e[1000];
	struct plug p;

	plug_softefa(c->settings);
	plug_open(&p, 0);
	connect_all(&p, own_device(&p, c->dev), e, 1000);
	message_on_all(&p, e, 1000);
	close_all(&p, e, 1000);
	plug_close(&p);
}

/* ---- pinned memory ---- */

/* What docs/scale.md says of each protocol: bytes on each NIC. */
struct pinned {
	char protocol[8];
	int pairs, engines, rails;
	long long engine, pair;
};

enum { CONNECTING = 320 * 512, RETIRED = 128 * 16384 };

#define WRITE_PINS 2359296 + 256 * 8256, (16 + 16 + 4) * 1024
#define READ_PINS  2359296 + 256 * 8256 + 65536, (16 + 4 + 4) * 1024 + (41 + 33) * 64
#define SEND_PINS \
	2359296 + 524288 + (1024 + 256) * (8832 + 64) + ((1 << 30) / 8832 + 1) * 4, \
		(16 + 16 + 4) * 1024 + (87 + 9) * 512

static long long bound(const struct pinned *m)
{
	return CONNECTING + m->engines * m->engine + m->pairs * m->pair;
}

ParameterizedTestParameters(scale, memory_that_is_pinned_is_what_was_said)
{
	static struct pinned all[] = {
		{"write", 1, 1, 1, WRITE_PINS},   {"write", 1, 1, 2, WRITE_PINS},
		{"write", 300, 1, 1, WRITE_PINS}, {"read", 1, 1, 1, READ_PINS},
		{"read", 100, 1, 1, READ_PINS},   {"read", 300, 2, 1, READ_PINS},
		{"send", 1, 1, 1, SEND_PINS},     {"send", 100, 1, 1, SEND_PINS},
		{"send", 300, 2, 1, SEND_PINS},
	};

	return cr_make_param_array(struct pinned, all, sizeof(all) / sizeof(all[0]));
}

/* Public report 13. */
ParameterizedTest(struct pinned *m, scale, memory_that_is_pinned_is_what_was_said)
{
	static struct ends e[300];
	struct plug p;

	counters_apart();
	setenv("NCCL_EFA_PROTOCOL", m->protocol, 1);
	setenv("NCCL_EFA_RAILS", m->rails == 1 ? "1" : "2", 1);
	plug_open(&p, 0);
	connect_all(&p, 0, e, m->pairs);
	/* What it goes by is not registered any more afterwards; all NICs have had traffic. */
	link_message(&(struct link){&p, e[0].send, e[0].recv}, 1 << 20, 1);
	for (int i = 0; i < m->rails; i++) {
		long long bytes = counters_registered(i), most = bound(m);

		need(bytes <= most, "%s, %d pairs: NIC %d has %lld bytes, and not %lld at most",
		     m->protocol, m->pairs, i, bytes, most);
		need(bytes > most / 2, "%s, %d pairs: %lld bytes are few", m->protocol, m->pairs,
		     bytes);
	}
	close_all(&p, e, m->pairs);
	plug_close(&p);
	for (int i = 0; i < m->rails; i++)
		cr_assert(zero(llong, counters_registered(i)));
}

/* Some of it is not given back while there are comms. */
Test(scale, comms_that_come_and_go_beside_one_that_stays_pin_no_more)
{
	const struct pinned m = {"write", 2, 2, 1, WRITE_PINS};
	struct plug p;
	struct link stays, l;

	counters_apart();
	setenv("NCCL_EFA_PROTOCOL", "write", 1);
	setenv("NCCL_EFA_RAILS", "1", 1);
	plug_open(&p, 0);
	link_open(&stays, &p, 0, 0);
	for (int i = 0; i < 1200; i++) {
		link_open(&l, &p, 0, 0);
		link_close(&l);
	}
	cr_assert(le(llong, counters_registered(0), bound(&m) + m.engines * RETIRED));
	link_message(&stays, 1000, 1);
	link_close(&stays);
	plug_close(&p);
}

/* ---- leaks ---- */

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long size, resident;

	need(f && fscanf(f, "%ld %ld", &size, &resident) == 2, "/proc/self/statm");
	fclose(f);
	return resident * sysconf(_SC_PAGESIZE) / 1024;
}

static void once(struct plug *p, int dev, uint32_t seed)
{
	struct link l;

	link_open(&l, p, dev, dev);
	if (seed % 50 == 0)
		link_message(&l, 3000, seed);
	link_close(&l);
}

/* The device has barely what one connection needs: what leaks is soon missing. */
Test(scale, thousand_connections_in_a_row_leak_nothing)
{
	struct plug p;
	int dev, fds, tasks;
	long kib;

	plug_softefa("max_qp=8,max_cq=4,max_mr=8,max_pd=3,max_ah=2,max_cqe=512,max_sq_wr=128");
	plug_open(&p, 0);
	dev = own_device(&p, 3);
	for (uint32_t i = 0; i < 100; i++)
		once(&p, dev, i);
	fds = entries("/proc/self/fd");
	tasks = entries("/proc/self/task");
	kib = resident_kib();
	for (uint32_t i = 100; i < 1000; i++)
		once(&p, dev, i);
	need(entries("/proc/self/fd") == fds, "%d fds, %d before", entries("/proc/self/fd"), fds);
	need(entries("/proc/self/task") == tasks, "%d threads, %d before",
	     entries("/proc/self/task"), tasks);
	need(SLOW > 1 || resident_kib() < kib + 1024, "%ld KiB resident, %ld before",
	     resident_kib(), kib);
	plug_close(&p);
}

Test(scale, hundred_times_init_and_finalize_leak_nothing)
{
	struct plug p;
	int fds = 0, tasks = 0;
	long kib = 0;

	plug_load(&p, 11);
	for (uint32_t i = 0; i < 100; i++) {
		plug_init(&p);
		if (!p.ndev)
			cr_skip("no EFA here: run below softefa");
		once(&p, 0, i);
		need(p.net.finalize(&p.net, p.ctx) == NCCL_NET_OK, "round %u", i);
		if (i == 10) {
			fds = entries("/proc/self/fd");
			tasks = entries("/proc/self/task");
			kib = resident_kib();
		}
	}
	need(entries("/proc/self/fd") == fds, "%d fds, %d before", entries("/proc/self/fd"), fds);
	need(entries("/proc/self/task") == tasks, "%d threads, %d before",
	     entries("/proc/self/task"), tasks);
	need(SLOW > 1 || resident_kib() < kib + 1024, "%ld KiB resident, %ld before",
	     resident_kib(), kib);
	host_net_close(&p.net);
}
