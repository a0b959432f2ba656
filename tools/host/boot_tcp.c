/* SPDX-License-Identifier: BSD-3-Clause */
/* A run over several supervisors, once they know each other: rounds, reports, the end. */
#include "boot_tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "log.h"

static const uint64_t ping_every_ns = 250 * 1000 * 1000;

enum { MAX_CODE = 255 };

size_t host_tcp_largest(const struct host_tcp *tcp)
{
	size_t shares = tcp->boot->share * (tcp->run->rank ? (size_t)tcp->run->nranks : 1);

	return shares > HOST_TEXT_BYTES ? shares : HOST_TEXT_BYTES;
}

void host_tcp_put(struct host_tcp *tcp, int rank, enum host_frame_type type, int value,
		  const char *text)
{
	struct host_frame f = {
		.type = type,
		.rank = tcp->run->rank,
		.value = (uint32_t)value,
		.bytes = text ? (uint32_t)strnlen(text, HOST_TEXT_BYTES) : 0,
		.body = text,
	};

	if (tcp->link[rank].fd >= 0)
		host_link_put(&tcp->link[rank], &f);
}

static void put_all(struct host_tcp *tcp, int but, const struct host_frame *f)
{
	for (int r = 0; r < tcp->run->nranks; r++) {
		if (r != but && tcp->link[r].fd >= 0)
			host_link_put(&tcp->link[r], f);
	}
}

/* ---- the run is off ---- */

static void learn(struct host_tcp *tcp, int code)
{
	if (code > tcp->code)
		tcp->code = code;
}

static void off(struct host_tcp *tcp, int from, int code, const char *why)
{
	struct host_frame f = {
		.type = HOST_REPORT,
		.rank = tcp->run->rank,
		.value = (uint32_t)code,
		.bytes = (uint32_t)strnlen(why, HOST_TEXT_BYTES),
		.body = why,
	};

	tcp->off = true;
	learn(tcp, code);
	put_all(tcp, from, &f);
}

void host_tcp_off(struct host_tcp *tcp, int from, int code, const char *why)
{
	host_err("%s", why);
	off(tcp, from, code, why);
}

void host_tcp_report(struct host_tcp *tcp, int code, const char *why)
{
	off(tcp, -1, code, why);
}

/* ---- rounds of the barrier ---- */

/* Rank 0: all must do the same thing. */
static bool round_agrees(struct host_tcp *tcp)
{
	char why[HOST_TEXT_BYTES];

	for (int r = 1; r < tcp->run->nranks; r++) {
		if (tcp->offered[r] == tcp->offered[0])
			continue;
		snprintf(why, sizeof(why),
			 "rank %d offers %zu bytes in round %u, rank 0 %zu: not the same program",
			 r, tcp->offered[r], (unsigned)atomic_load(&tcp->boot->round),
			 tcp->offered[0]);
		host_tcp_off(tcp, -1, HOST_USAGE, why);
		return false;
	}
	return true;
}

/* Rank 0: everybody's shares to everybody. */
static void round_open(struct host_tcp *tcp)
{
	size_t bytes = tcp->offered[0];
	char *all = malloc((size_t)tcp->run->nranks * bytes + 1);
	struct host_frame f = {
		.type = HOST_OPEN,
		.value = atomic_load(&tcp->boot->round),
		.bytes = (uint32_t)((size_t)tcp->run->nranks * bytes),
		.body = all,
	};

	if (!all) {
		host_tcp_off(tcp, -1, HOST_USAGE, "rank 0: no memory for the shares of a round");
		return;
	}
	for (int r = 0; r < tcp->run->nranks; r++)
		memcpy(all + (size_t)r * bytes, host_boot_share(tcp->boot, r), bytes);
	put_all(tcp, -1, &f);
	free(all);
	memset(tcp->arrived, 0, sizeof(tcp->arrived));
	host_boot_open(tcp->boot);
}

/* Has the rank of this supervisor arrived? */
static void round_look(struct host_tcp *tcp)
{
	struct host_boot *boot = tcp->boot;
	int rank = tcp->run->rank;
	eventfd_t rings;

	eventfd_read(boot->bell, &rings);
	if (!tcp->started || tcp->off || tcp->arrived[rank] ||
	    atomic_load(&boot->arrived) != boot->here)
		return;
	tcp->arrived[rank] = true;
	tcp->offered[rank] = atomic_load(&boot->bytes);
	if (rank) {
		struct host_frame f = {
			.type = HOST_ARRIVE,
			.rank = rank,
			.value = atomic_load(&boot->round),
			.bytes = (uint32_t)tcp->offered[rank],
			.body = host_boot_share(boot, rank),
		};

		host_link_put(&tcp->link[0], &f);
	}
}

static void round_end(struct host_tcp *tcp)
{
	if (tcp->run->rank || !tcp->started || tcp->off)
		return;
	for (int r = 0; r < tcp->run->nranks; r++) {
		if (!tcp->arrived[r])
			return;
	}
	if (round_agrees(tcp))
		round_open(tcp);
}

/* Rank 0: @r has arrived. */
static int take_arrive(struct host_tcp *tcp, int r, const struct host_frame *f)
{
	if (!tcp->started || f->value != atomic_load(&tcp->boot->round) || tcp->arrived[r] ||
	    f->bytes > tcp->boot->share)
		return -EPROTO;
	memcpy(host_boot_share(tcp->boot, r), f->body, f->bytes);
	tcp->offered[r] = f->bytes;
	tcp->arrived[r] = true;
	return 0;
}

/* Others: all have arrived. */
static int take_open(struct host_tcp *tcp, const struct host_frame *f)
{
	int rank = tcp->run->rank;
	size_t bytes = tcp->offered[rank];

	if (tcp->off)
		return 0;
	if (!tcp->arrived[rank] || f->value != atomic_load(&tcp->boot->round) ||
	    f->bytes != (size_t)tcp->run->nranks * bytes)
		return -EPROTO;
	for (int r = 0; r < tcp->run->nranks; r++)
		memcpy(host_boot_share(tcp->boot, r), (const char *)f->body + (size_t)r * bytes,
		       bytes);
	tcp->arrived[rank] = false;
	host_boot_open(tcp->boot);
	return 0;
}

/* ---- frames ---- */

static int take_report(struct host_tcp *tcp, int r, const struct host_frame *f)
{
	char why[HOST_TEXT_BYTES + 1];

	if (f->value > MAX_CODE)
		return -EPROTO;
	host_frame_text(f, why);
	/* Rank 0 passes it on. */
	host_tcp_off(tcp, r, (int)f->value, why);
	return 0;
}

static int take_refuse(struct host_tcp *tcp, const struct host_frame *f)
{
	char why[HOST_TEXT_BYTES + 1];

	host_frame_text(f, why);
	host_err("rank 0 at %s refuses rank %d: %s", tcp->where, tcp->run->rank, why);
	tcp->off = tcp->ended = true;
	learn(tcp, HOST_USAGE);
	return 0;
}

/* Rank 0: from rank @r. */
static int take_from_rank(struct host_tcp *tcp, int r, const struct host_frame *f)
{
	switch (f->type) {
	case HOST_PING:
		return 0;
	case HOST_ARRIVE:
		return tcp->off ? 0 : take_arrive(tcp, r, f);
	case HOST_REPORT:
		return take_report(tcp, r, f);
	case HOST_DONE:
		if (f->value > MAX_CODE)
			return -EPROTO;
		tcp->done[r] = true;
		learn(tcp, (int)f->value);
		return 0;
	default:
		return -EPROTO;
	}
}

/* Others: from rank 0. */
static int take_from_root(struct host_tcp *tcp, const struct host_frame *f)
{
	tcp->welcome = true;
	switch (f->type) {
	case HOST_PING:
		return 0;
	case HOST_REFUSE:
		return tcp->started ? -EPROTO : take_refuse(tcp, f);
	case HOST_START:
		tcp->started = true;
		return 0;
	case HOST_OPEN:
		return take_open(tcp, f);
	case HOST_REPORT:
		return take_report(tcp, 0, f);
	case HOST_END:
		if (f->value > MAX_CODE)
			return -EPROTO;
		tcp->ended = true;
		learn(tcp, (int)f->value);
		return 0;
	default:
		return -EPROTO;
	}
}

/* ---- links ---- */

static void lost(struct host_tcp *tcp, int r, int rc)
{
	char why[HOST_TEXT_BYTES];

	host_link_fini(&tcp->link[r]);
	if (tcp->ended || tcp->done[r])
		return;
	if (tcp->run->rank && !tcp->welcome) {
		tcp->refusal = rc; /* the next attempt may fare better */
		return;
	}
	if (!tcp->run->rank && !tcp->started && !tcp->off) {
		host_err("rank %d left before the run began; waiting for it", r);
		return;
	}
	if (rc == -ETIMEDOUT)
		snprintf(why, sizeof(why), "rank %d is gone: no sign of life for %d s", r,
			 tcp->run->timeout_s);
	else if (rc == -EPROTO)
		snprintf(why, sizeof(why), "rank %d is gone: it sent what is not understood", r);
	else
		snprintf(why, sizeof(why), "rank %d is gone: %s", r,
			 rc == -EPIPE ? "it closed its connection" : strerror(-rc));
	host_tcp_off(tcp, r, HOST_FAIL, why);
}

static void serve(struct host_tcp *tcp, int r)
{
	uint64_t limit = (uint64_t)tcp->run->timeout_s * 1000000000u;
	struct host_link *link = &tcp->link[r];
	struct host_frame f;
	int rc;

	host_link_flush(link);
	while ((rc = host_link_get(link, &f)) > 0) {
		rc = tcp->run->rank ? take_from_root(tcp, &f) : take_from_rank(tcp, r, &f);
		if (rc)
			break;
	}
	if (!rc && host_now_ns() - link->heard_ns > limit)
		rc = -ETIMEDOUT;
	if (rc < 0)
		lost(tcp, r, rc);
}

static void ping(struct host_tcp *tcp)
{
	struct host_frame f = {.type = HOST_PING, .rank = tcp->run->rank};
	uint64_t now = host_now_ns();

	if (now - tcp->ping_ns < ping_every_ns)
		return;
	tcp->ping_ns = now;
	put_all(tcp, -1, &f);
}

int host_tcp_watch(const struct host_tcp *tcp, struct pollfd fds[HOST_TCP_FDS])
{
	int n = 0;

	fds[n++] = (struct pollfd){.fd = tcp->boot->bell, .events = POLLIN};
	if (tcp->listener >= 0)
		fds[n++] = (struct pollfd){.fd = tcp->listener, .events = POLLIN};
	for (int i = 0; i < HOST_STRANGERS; i++) {
		if (tcp->stranger[i].fd >= 0)
			fds[n++] = (struct pollfd){.fd = tcp->stranger[i].fd, .events = POLLIN};
	}
	for (int r = 0; r < tcp->run->nranks; r++) {
		const struct host_link *link = &tcp->link[r];
		short out = link->out_at < link->out_end ? POLLOUT : 0;

		if (link->fd >= 0)
			fds[n++] = (struct pollfd){.fd = link->fd, .events = (short)(POLLIN | out)};
	}
	return n;
}

void host_tcp_step(struct host_tcp *tcp)
{
	if (!tcp->started && !tcp->off)
		host_tcp_join(tcp);
	for (int r = 0; r < tcp->run->nranks; r++) {
		if (tcp->link[r].fd >= 0)
			serve(tcp, r);
	}
	round_look(tcp);
	round_end(tcp);
	ping(tcp);
}

/* ---- the end ---- */

static bool all_done(const struct host_tcp *tcp)
{
	for (int r = 1; r < tcp->run->nranks; r++) {
		if (tcp->link[r].fd >= 0 && !tcp->done[r])
			return false;
	}
	return true;
}

/* Others wait for rank 0's word, or its end. */
static bool done_rank(struct host_tcp *tcp)
{
	if (!tcp->done[tcp->run->rank]) {
		tcp->done[tcp->run->rank] = true;
		host_tcp_put(tcp, 0, HOST_DONE, tcp->code, NULL);
	}
	return tcp->ended || !tcp->welcome || tcp->link[0].fd < 0;
}

static bool done_root(struct host_tcp *tcp)
{
	bool sent = true;

	if (!all_done(tcp))
		return false;
	for (int r = 1; r < tcp->run->nranks; r++) {
		if (!tcp->ended)
			host_tcp_put(tcp, r, HOST_END, tcp->code, NULL);
		sent &= tcp->link[r].out_at == tcp->link[r].out_end;
	}
	tcp->ended = true;
	return sent;
}

bool host_tcp_done(struct host_tcp *tcp, int code)
{
	learn(tcp, code);
	return tcp->run->rank ? done_rank(tcp) : done_root(tcp);
}
