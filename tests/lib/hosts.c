/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts. */
#include "hosts.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kids.h"

/* What they share. Steps: 1 there is a node; 2 the child knows ours; from 3 on, orders. */
struct hosts_meeting {
	atomic_uint asked, done, apart;
	uint16_t port;
	struct hosts_attr attr;
	struct node_addr here, there;
	enum hosts_order order; /* or WAIT */
	uint64_t off;
	uint32_t len, seed;
	struct raw_wc wc;
	bool answer;
};

enum { WAIT = HOSTS_EXIT + 1 };

/* ---- network ---- */

static void set_address(int host, uint16_t port, bool apart)
{
	char text[32];

	snprintf(text, sizeof(text), "%s.%d:%u", apart ? "10.77.0" : "127.0.0", host, port);
	setenv("SOFTEFA_ADDRESS", text, 1);
}

__attribute__((format(printf, 1, 2))) static void shell(const char *fmt, ...)
{
	char line[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	MUST(system(line) == 0, "%s", line);
}

/*
 * A port that nobody uses: below those that the kernel hands out, one of which it might give away
 * between this look and the use, and by the process, as other tests look for theirs.
 */
static uint16_t free_port(void)
{
	enum { FIRST = 10000, PORTS = 10000 };
	static unsigned tries;

	while (tries < PORTS) {
		uint16_t port = (uint16_t)(FIRST + ((unsigned)getpid() * 7 + tries++) % PORTS);
		struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int rc = bind(fd, (struct sockaddr *)&a, sizeof(a));

		close(fd);
		if (rc == 0)
			return port;
	}
	MUST(false, "no port");
	return 0;
}

void hosts_cable(struct hosts *h, bool up)
{
	(void)h;
	shell("ip link set veth1 %s", up ? "up" : "down");
}

/* ---- the other host ---- */

static void obey(struct hosts_meeting *m, struct node *n)
{
	m->answer = true;
	switch ((int)m->order) {
	case HOSTS_FILL:
		node_fill(n->buf + m->off, m->len, m->seed);
		break;
	case HOSTS_FILLED:
		m->answer = node_filled(n->buf + m->off, m->len, m->seed);
		break;
	case HOSTS_RECV:
		node_recv(n, (uint16_t)m->seed, m->off, m->len);
		break;
	case HOSTS_RECV_2:
		node_recv(n, (uint16_t)m->seed, m->off, m->len);
		node_recv(n, (uint16_t)(m->seed + 1), m->off + m->len, m->len);
		break;
	case WAIT:
		m->wc = node_wait(&n->rcq);
		break;
	case HOSTS_QUIET:
		m->answer = node_quiet(&n->rcq, m->len);
		break;
	case HOSTS_DEREG:
		MUST_0(raw_mr_dereg(&n->mr, &n->dev));
		break;
	case HOSTS_FAIL:
		MUST_0(raw_qp_to(&n->qp, &n->dev, RAW_ERR));
		break;
	case HOSTS_LEAVE:
		node_fini(n);
		break;
	case HOSTS_EXIT:
		break;
	}
}

static void other_host(void *arg)
{
	struct hosts_meeting *m = arg;
	struct node n;

	if (m->attr.apart) {
		MUST(unshare(CLONE_NEWNET) == 0, "no namespace");
		m->apart = 1;
		kids_await(&m->apart, 2);
		shell("ip addr add 10.77.0.2/24 dev veth2 && ip link set veth2 up");
	}
	set_address(2, m->port, m->attr.apart);
	node_init(&n, &m->attr.node);
	m->there = node_addr(&n);
	m->done = 1;
	kids_await(&m->asked, 2);
	if (!m->attr.strangers)
		node_ahn(&n, &m->here);
	m->done = 2;
	for (unsigned step = 3;; step++) {
		kids_await(&m->asked, step);
		obey(m, &n);
		m->done = step;
		if (m->order == HOSTS_LEAVE || m->order == HOSTS_EXIT)
			return;
	}
}

/* ---- this host ---- */

static void connect_cable(struct hosts *h)
{
	kids_await(&h->meeting->apart, 1);
	shell("ip link add veth1 type veth peer name veth2 netns %d", (int)h->pid);
	shell("ip addr add 10.77.0.1/24 dev veth1 && ip link set veth1 up");
	h->meeting->apart = 2;
}

void hosts_begin(struct hosts *h, const struct hosts_attr *attr)
{
	struct hosts_meeting *m = kids_share(sizeof(*m));

	node_settings(attr->settings);
	if (attr->apart && unshare(CLONE_NEWNET))
		cr_skip("no right to make network namespaces");
	memset(h, 0, sizeof(*h));
	h->meeting = m;
	for (int i = 0; i < 2; i++)
		h->port[i] = attr->apart ? 7001 : free_port();
	m->port = h->port[1];
	m->attr = *attr;
	m->attr.node.bytes = HOSTS_BUF;
	h->pid = kids_start(other_host, m);
	if (attr->apart)
		connect_cable(h);
	set_address(1, h->port[0], attr->apart);
	node_init(&h->n, &m->attr.node);
	m->here = h->here = node_addr(&h->n);
	kids_await(&m->done, 1);
	m->asked = 2;
	kids_await(&m->done, 2);
	h->there = m->there;
	h->ahn = node_ahn(&h->n, &h->there);
}

bool hosts_order(struct hosts *h, enum hosts_order what, uint64_t off, uint32_t len, uint32_t seed)
{
	struct hosts_meeting *m = h->meeting;

	m->order = what;
	m->off = off;
	m->len = len;
	m->seed = seed;
	kids_await(&m->done, ++m->asked);
	return m->answer;
}

struct raw_wc hosts_wait(struct hosts *h)
{
	hosts_order(h, (enum hosts_order)WAIT, 0, 0, 0);
	return h->meeting->wc;
}

void hosts_end(struct hosts *h)
{
	hosts_order(h, HOSTS_LEAVE, 0, 0, 0);
	kids_join(h->pid);
	node_fini(&h->n);
}

struct raw_wr hosts_wr(struct hosts *h, enum raw_op op, uint64_t off, uint32_t len)
{
	return node_wr(&h->n, op, &h->there, h->ahn, off, len, off);
}

unsigned hosts_run(struct hosts *h, const struct raw_wr *wr)
{
	return node_run(&h->n, wr).status;
}
