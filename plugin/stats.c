/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of counters. */
#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "clock.h"
#include "engine.h"
#include "log.h"
#include "param.h"

enum { REFRESH_MS = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static bool failed;
static int64_t written_ms;

bool net_stats_wanted(void)
{
	return net_param()->stats[0];
}

void net_counts_add(struct net_counts *to, const struct net_counts *from)
{
	const uint64_t *f = (const uint64_t *)from;
	uint64_t *t = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*t); i++)
		t[i] += __atomic_load_n(&f[i], __ATOMIC_RELAXED);
}

/* ---- JSON ---- */

static void write_sizes(FILE *f, const char *name, const uint64_t *n)
{
	const char *comma = "";

	fprintf(f, "\"%s\":{", name);
	for (int i = 0; i < NET_SIZES; i++) {
		if (!n[i])
			continue;
		fprintf(f, "%s\"%" PRIu64 "\":%" PRIu64, comma, i ? (uint64_t)1 << (i - 1) : 0,
			n[i]);
		comma = ",";
	}
	fputc('}', f);
}

static void write_counts(FILE *f, const char *name, const struct net_counts *c, int nrails)
{
	fprintf(f, ",\n  \"%s\":{", name);
	write_sizes(f, "sends", c->sends);
	fprintf(f, ",\"send_bytes\":%" PRIu64 ",", c->send_bytes);
	write_sizes(f, "recvs", c->recvs);
	fprintf(f, ",\"recv_bytes\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"again\":%" PRIu64,
		c->recv_bytes, c->refused, c->again);
	fprintf(f, ",\"eager\":{\"sends\":%" PRIu64 ",\"recvs\":%" PRIu64 "}", c->eager_sends,
		c->eager_recvs);
	fprintf(f, ",\"quiet\":{\"recvs\":%" PRIu64 "}", c->quiet_recvs);
	fputs(",\"rails\":[", f);
	for (int i = 0; i < nrails; i++)
		fprintf(f, "%s{\"requests\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", i ? "," : "",
			c->rail_requests[i], c->rail_bytes[i]);
	fputs("]}", f);
}

static void write_device(FILE *f, struct net_dev *dev)
{
	static const char *const modes[PROTO_MODES] = {
		[PROTO_WRITE] = "write", [PROTO_READ] = "read", [PROTO_SEND] = "send"};
	struct net_counts sum[PROTO_MODES] = {0};
	uint64_t connections = 0, made = 0, shared = 0;

	for (struct net_dev *d = dev; d; d = atomic_load(&d->again)) {
		pthread_mutex_lock(&d->lock);
		for (int m = PROTO_WRITE; m < PROTO_MODES; m++)
			net_counts_add(&sum[m], &d->counts[m]);
		for (const struct net_engine *e = d->engines; e; e = e->next)
			net_counts_add(&sum[e->mode], &e->counts);
		connections += d->connections;
		made += d->made + __atomic_load_n(&d->mrs.made, __ATOMIC_RELAXED);
		shared += d->shared + __atomic_load_n(&d->mrs.shared, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&d->lock);
	}
	fprintf(f, "{\"name\":\"%s\",\"connections\":%" PRIu64, dev->name, connections);
	fprintf(f, ",\"registrations\":{\"made\":%" PRIu64 ",\"shared\":%" PRIu64 "}", made,
		shared);
	for (int m = PROTO_WRITE; m < PROTO_MODES; m++)
		write_counts(f, modes[m], &sum[m], dev->nefas);
	fputc('}', f);
}

static int write_all(FILE *f)
{
	struct net_dev *dev;

	fprintf(f, "{\"pid\":%d,\"devices\":[", (int)getpid());
	for (int i = 0; (dev = net_dev_at(i)); i++) {
		fputs(i ? ",\n" : "\n", f);
		write_device(f, dev);
	}
	fputs("\n]}\n", f);
	return ferror(f) ? -EIO : 0;
}

/* ---- file ---- */

/* %p in the name is the process. */
static void file_name(char *out, size_t size)
{
	const char *name = net_param()->stats, *p = strstr(name, "%p");

	if (p)
		snprintf(out, size, "%.*s%d%s", (int)(p - name), name, (int)getpid(), p + 2);
	else
		snprintf(out, size, "%s", name);
}

static void write_locked(void)
{
	char name[PATH_MAX], part[PATH_MAX + 8];
	int rc;
	FILE *f;

	file_name(name, sizeof(name));
	snprintf(part, sizeof(part), "%s.new", name);
	f = fopen(part, "we");
	rc = f ? write_all(f) : -errno;
	if (f && fclose(f) && !rc)
		rc = -errno;
	if (!rc && rename(part, name))
		rc = -errno;
	if (rc && !failed)
		net_warn("NET/EFA: NCCL_EFA_STATS: %s: %s", name, strerror(-rc));
	failed = rc != 0;
}

void net_stats_write(void)
{
	if (!net_stats_wanted())
		return;
	pthread_mutex_lock(&lock);
	write_locked();
	written_ms = net_now_ms();
	pthread_mutex_unlock(&lock);
}

void net_stats_refresh(void)
{
	if (!net_stats_wanted() || pthread_mutex_trylock(&lock))
		return;
	if (net_now_ms() - written_ms >= REFRESH_MS) {
		write_locked();
		written_ms = net_now_ms();
	}
	pthread_mutex_unlock(&lock);
}
