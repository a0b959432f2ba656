/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the supervisors of a run find each other: rank 0 listens at the root until all have said
 * who they are. What else connects there is turned away, and the run waits on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot_tcp.h"
#include "log.h"

static const uint64_t retry_every_ns = 100 * 1000 * 1000;

enum { MAX_COMPLAINTS = 5, BACKLOG = 128 };

static void where_str(const struct sockaddr_in *addr, char text[32])
{
	char ip[INET_ADDRSTRLEN] = "?";

	inet_ntop(AF_INET, &addr->sin_addr, ip, sizeof(ip));
	snprintf(text, 32, "%s:%u", ip, (unsigned)ntohs(addr->sin_port));
}

/* ---- rank 0: who comes ---- */

static int listen_at(struct host_tcp *tcp)
{
	const struct sockaddr_in *addr = &tcp->run->root;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	/* The connections of a run before may still linger on this port. */
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	tcp->listener = fd;
	if (fd < 0 || bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) ||
	    listen(fd, BACKLOG)) {
		host_err("rank 0 cannot listen at %s: %s", tcp->where, strerror(errno));
		return -errno;
	}
	return 0;
}

/* Whoever has been silent for longest makes room. */
static void let_in(struct host_tcp *tcp)
{
	for (int i = 0; i < HOST_STRANGERS; i++) {
		struct host_link *link = &tcp->stranger[tcp->strangers % HOST_STRANGERS];
		struct sockaddr_in addr = {0};
		socklen_t len = sizeof(addr);
		int fd = accept4(tcp->listener, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC);

		if (fd < 0)
			return;
		tcp->strangers++;
		host_link_fini(link);
		host_link_init(link, fd, HOST_TEXT_BYTES);
		where_str(&addr, link->name);
	}
}

static void complain(struct host_tcp *tcp, const struct host_link *link, const char *why)
{
	if (tcp->complaints++ < MAX_COMPLAINTS)
		host_err("turned away %s: %s%s", link->name, why,
			 tcp->complaints == MAX_COMPLAINTS ? "; no more of these" : "");
}

/* "--name value" at @terms. */
static int term_len(const char *terms)
{
	const char *next = strstr(terms, " --");

	return next ? (int)(next - terms) : (int)strlen(terms);
}

/* Name the first option in which they differ. */
static void terms_differ(const struct host_frame *f, const char *ours, char *why, size_t size)
{
	char theirs[HOST_TEXT_BYTES + 1];
	size_t at = 0;

	host_frame_text(f, theirs);
	while (theirs[at] && theirs[at] == ours[at])
		at++;
	while (at && strncmp(ours + at, "--", 2))
		at--;
	snprintf(why, size, "rank %d runs with %.*s, rank 0 with %.*s", f->rank,
		 term_len(theirs + at), theirs + at, term_len(ours + at), ours + at);
}

/* True if @f is from a rank that this run waits for, else why not. */
static bool hello_check(const struct host_tcp *tcp, const struct host_frame *f, char *why,
			size_t size)
{
	const char *terms = tcp->run->terms;

	if (f->type != HOST_HELLO)
		snprintf(why, size, "it does not say who it is");
	else if (f->value != (uint32_t)tcp->run->nranks)
		snprintf(why, size, "rank %d is one of %u ranks, this run has %d", f->rank,
			 (unsigned)f->value, tcp->run->nranks);
	else if (!f->rank || f->rank >= tcp->run->nranks)
		snprintf(why, size, "rank %d: must be 1 to %d", f->rank, tcp->run->nranks - 1);
	else if (tcp->link[f->rank].fd >= 0)
		snprintf(why, size, "rank %d is here already, from %s", f->rank,
			 tcp->link[f->rank].name);
	else if (f->bytes != strlen(terms) || memcmp(f->body, terms, f->bytes))
		terms_differ(f, terms, why, size);
	else
		return true;
	return false;
}

static void greet(struct host_tcp *tcp, struct host_link *link, const struct host_frame *f)
{
	struct host_frame answer = {.type = HOST_PING};
	char why[HOST_TEXT_BYTES];

	if (hello_check(tcp, f, why, sizeof(why))) {
		link->largest = host_tcp_largest(tcp);
		host_link_put(link, &answer);
		tcp->link[f->rank] = *link;
		*link = (struct host_link){.fd = -1};
		return;
	}
	complain(tcp, link, why);
	answer.type = HOST_REFUSE;
	answer.bytes = (uint32_t)strnlen(why, sizeof(why));
	answer.body = why;
	host_link_put(link, &answer);
	host_link_fini(link);
}

static void hear(struct host_tcp *tcp)
{
	for (int i = 0; i < HOST_STRANGERS; i++) {
		struct host_link *link = &tcp->stranger[i];
		struct host_frame f;
		int rc = link->fd < 0 ? 0 : host_link_get(link, &f);

		if (rc > 0)
			greet(tcp, link, &f);
		if (rc >= 0)
			continue;
		if (rc == -EPROTO)
			complain(tcp, link, "what it sends is not understood");
		host_link_fini(link);
	}
}

static void close_door(struct host_tcp *tcp)
{
	for (int i = 0; i < HOST_STRANGERS; i++)
		host_link_fini(&tcp->stranger[i]);
	if (tcp->listener >= 0)
		close(tcp->listener);
	tcp->listener = -1;
}

/* "rank 1, 4 did not come": returns how many. */
static int missing(const struct host_tcp *tcp, char *text, size_t size)
{
	size_t at = 0;
	int n = 0;

	for (int r = 1; r < tcp->run->nranks; r++) {
		if (tcp->link[r].fd >= 0)
			continue;
		at += (size_t)snprintf(text + at, size - at, "%s%d", n++ ? ", " : "rank ", r);
	}
	snprintf(text + at, size - at, " did not come to %s within %d s", tcp->where,
		 tcp->run->timeout_s);
	return n;
}

static void join_root(struct host_tcp *tcp)
{
	char why[HOST_TEXT_BYTES];

	let_in(tcp);
	hear(tcp);
	if (!missing(tcp, why, sizeof(why))) {
		for (int r = 1; r < tcp->run->nranks; r++)
			host_tcp_put(tcp, r, HOST_START, 0, NULL);
		tcp->started = true;
		close_door(tcp);
	} else if (host_now_ns() > tcp->limit_ns) {
		close_door(tcp);
		host_tcp_off(tcp, -1, HOST_USAGE, why);
	}
}

/* ---- the others: come ---- */

static void call_root(struct host_tcp *tcp)
{
	const struct sockaddr_in *root = &tcp->run->root;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		tcp->refusal = -errno;
		return;
	}
	if (connect(fd, (const struct sockaddr *)root, sizeof(*root)) && errno != EINPROGRESS) {
		tcp->refusal = -errno;
		close(fd);
		return;
	}
	/* The hello leaves when the connection stands. */
	host_link_init(&tcp->link[0], fd, host_tcp_largest(tcp));
	host_tcp_put(tcp, 0, HOST_HELLO, tcp->run->nranks, tcp->run->terms);
}

static void join_rank(struct host_tcp *tcp)
{
	char why[HOST_TEXT_BYTES];
	uint64_t now = host_now_ns();

	if (tcp->welcome)
		return;
	if (now > tcp->limit_ns) {
		const char *what = tcp->link[0].fd >= 0      ? "no answer"
				   : tcp->refusal == -EPIPE  ? "it closes the connection"
				   : tcp->refusal == -EPROTO ? "what answers is no rank 0"
							     : strerror(-tcp->refusal);

		snprintf(why, sizeof(why), "rank %d did not reach rank 0 at %s within %d s: %s",
			 tcp->run->rank, tcp->where, tcp->run->timeout_s, what);
		host_link_fini(&tcp->link[0]);
		host_tcp_off(tcp, -1, HOST_USAGE, why);
	} else if (tcp->link[0].fd < 0 && now >= tcp->retry_ns) {
		tcp->retry_ns = now + retry_every_ns;
		call_root(tcp);
	}
}

void host_tcp_join(struct host_tcp *tcp)
{
	if (tcp->run->rank)
		join_rank(tcp);
	else
		join_root(tcp);
}

/* ---- both ---- */

int host_tcp_init(struct host_tcp *tcp, const struct host_run *run, struct host_boot *boot)
{
	*tcp = (struct host_tcp){.run = run, .boot = boot, .listener = -1};
	for (int i = 0; i < HOST_STRANGERS; i++)
		tcp->stranger[i].fd = -1;
	for (int r = 0; r < HOST_MAX_RANKS; r++)
		tcp->link[r].fd = -1;
	where_str(&run->root, tcp->where);
	tcp->limit_ns = host_now_ns() + (uint64_t)run->timeout_s * 1000000000u;
	return !run->rank && listen_at(tcp) ? HOST_USAGE : 0;
}

void host_tcp_fini(struct host_tcp *tcp)
{
	close_door(tcp);
	for (int r = 0; r < HOST_MAX_RANKS; r++)
		host_link_fini(&tcp->link[r]);
}
