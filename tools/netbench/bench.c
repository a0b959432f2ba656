/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank, from loading the plugin to unloading it. */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conn.h"
#include "host/log.h"
#include "report.h"
#include "resources.h"

enum {
	MAX_COMPLAINTS = 5, /* wrong messages told by a rank */
	LOOK_EVERY = 64     /* idle passes between two looks at the clock */
};

/* ---- trouble ---- */

static void where_str(const struct nb_conn *conn, char *text, size_t size)
{
	if (conn)
		snprintf(text, size, " %s rank %d channel %d", conn->sender ? "to" : "from",
			 conn->peer, conn->channel);
	else
		*text = 0;
}

int nb_call_failed(struct nb *nb, const struct nb_conn *conn, const char *call,
		   enum nccl_net_result rc)
{
	char where[48];

	where_str(conn, where, sizeof(where));
	host_err("%s%s returned %d (%s) at size %" PRIu64, call, where, (int)rc,
		 host_result_str(rc), nb->size);
	return -EIO;
}

int nb_call_broken(struct nb *nb, const struct nb_conn *conn, const char *call, const char *rule)
{
	char where[48];

	where_str(conn, where, sizeof(where));
	host_err("%s%s returned success but %s at size %" PRIu64, call, where, rule, nb->size);
	return -EIO;
}

void nb_wrong(struct nb *nb, const struct nb_conn *conn, uint64_t wrong, const char *fmt, ...)
{
	char where[48], text[256];
	va_list args;

	nb->wrong += wrong;
	if (nb->complaints++ >= MAX_COMPLAINTS)
		return;
	where_str(conn, where, sizeof(where));
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	host_err("wrong data at size %" PRIu64 "%s: %s%s", nb->size, where, text,
		 nb->complaints == MAX_COMPLAINTS ? "; no more of these" : "");
}

int nb_passed(struct nb *nb, bool moved)
{
	uint64_t now;

	host_beat(nb->self, HOST_PROGRESS);
	if (moved) {
		nb->idle_passes = 0;
		nb->idle_ns = 0;
		return 0;
	}
	/* NCCL's progress thread yields too when a pass moved nothing. */
	sched_yield();
	if (++nb->idle_passes % LOOK_EVERY)
		return 0;
	if (host_over(nb->self))
		return -ECANCELED;
	now = host_now_ns();
	if (!nb->idle_ns)
		nb->idle_ns = now;
	return now - nb->idle_ns > (uint64_t)nb->self->timeout_s * 1000000000u ? -ETIME : 0;
}

/* ---- one size, on the progress thread ---- */

struct point {
	struct nb *nb;
	struct nb_sample sample;
};

static int point_warm_up(struct nb *nb)
{
	enum nb_mode mode = nb->opt->check ? NB_FULL : NB_PLAIN;
	int rc = nb->pattern->begin(nb, nb->size, mode);

	if (!rc)
		rc = host_barrier(nb->self, HOST_PROGRESS);
	if (!rc)
		rc = nb->pattern->exchange(nb, nb->opt->warmup, mode);
	return rc;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int point_run(void *arg)
{
	struct point *point = arg;
	struct nb *nb = point->nb;
	enum nb_mode mode = nb->opt->check ? NB_STAMP : NB_PLAIN;
	uint64_t start_ns, start_cpu_ns;
	double total_us;
	int rc;

	rc = nb_conn_hint(nb, NULL, HOST_PROGRESS);
	if (!rc)
		rc = point_warm_up(nb);
	if (!rc)
		rc = nb->pattern->begin(nb, nb->size, mode);
	if (!rc)
		rc = host_barrier(nb->self, HOST_PROGRESS);
	if (rc)
		return rc;
	start_cpu_ns = cpu_ns();
	start_ns = host_now_ns();
	rc = nb->pattern->exchange(nb, nb->opt->iters, mode);
	if (rc)
		return rc;
	total_us = (double)(host_now_ns() - start_ns) / 1e3;
	point->sample.cpu = (double)(cpu_ns() - start_cpu_ns) / 1e3 / total_us;
	nb->pattern->measure(nb, nb->opt->iters, total_us, &point->sample);
	if (mode == NB_STAMP)
		nb->pattern->verify(nb);
	point->sample.wrong = nb->wrong;
	return 0;
}

/* The slowest rank's times, everybody's errors. */
static struct nb_row row_of(const struct nb *nb, const struct nb_sample *samples, uint64_t size,
			    uint64_t count)
{
	struct nb_row row = {.size = size, .count = count};

	for (int r = 0; r < nb->self->nranks; r++) {
		const struct nb_sample *s = &samples[r];

		row.time_us = s->time_us > row.time_us ? s->time_us : row.time_us;
		row.p50_us = s->p50_us > row.p50_us ? s->p50_us : row.p50_us;
		row.p99_us = s->p99_us > row.p99_us ? s->p99_us : row.p99_us;
		row.p999_us = s->p999_us > row.p999_us ? s->p999_us : row.p999_us;
		row.cpu = s->cpu > row.cpu ? s->cpu : row.cpu;
		for (int i = 0; i < NB_CALLS; i++)
			row.calls[i] += s->calls[i];
		row.unplanned += s->unplanned;
		row.wrong += s->wrong;
	}
	row.algbw = row.time_us > 0 ? (double)size / row.time_us / 1e3 : 0;
	row.busbw = row.algbw * nb->pattern->bus_factor(nb->self->nranks);
	return row;
}

static int bench_size(struct nb *nb, struct nb_report *report, uint64_t asked, uint64_t *wrong)
{
	struct nb_sample samples[HOST_MAX_RANKS];
	struct point point = {.nb = nb};
	uint64_t count, size = nb->pattern->round(nb->opt, asked, &count);
	struct nb_row row;
	int rc;

	nb->size = size;
	nb->wrong = 0;
	rc = host_role_run(&nb->progress, point_run, &point);
	if (!rc)
		rc = host_allgather(nb->self, HOST_MAIN, &point.sample, samples,
				    sizeof(point.sample));
	if (rc)
		return rc;
	row = row_of(nb, samples, size, count);
	*wrong += row.wrong;
	if (nb->self->rank || report->nrows == NB_MAX_ROWS)
		return 0;
	report->rows[report->nrows++] = row;
	nb_progress_hide(&nb->watch);
	if (!nb->run->quiet)
		nb_report_row(nb->pattern, nb->opt, &row);
	return 0;
}

static uint64_t next_size(const struct nb_options *opt, uint64_t size)
{
	return size ? size * opt->factor : 8;
}

static int bench_sizes(struct nb *nb, struct nb_report *report, uint64_t *wrong)
{
	const struct nb_options *opt = nb->opt;
	int rc = nb->pattern->init(nb), of = 0, at = 0;

	for (uint64_t size = opt->min; size <= opt->max; size = next_size(opt, size))
		of++;
	if (!rc && !nb->self->rank && opt->progress)
		rc = nb_progress_start(&nb->watch, nb->run->stage);
	for (uint64_t size = opt->min; !rc && size <= opt->max; size = next_size(opt, size)) {
		nb_progress_size(&nb->watch, size, ++at, of);
		rc = bench_size(nb, report, size, wrong);
	}
	nb_progress_stop(&nb->watch);
	nb->pattern->fini(nb);
	return rc;
}

/* ---- set-up and end ---- */

/* As NCCL: init, devices, getProperties of all, choose. */
static int device_open(struct nb *nb, const struct nb_options *opt)
{
	struct nccl_net_config config = {.traffic_class = NCCL_NET_TRAFFIC_CLASS_NONE};
	enum nccl_net_result rc;

	host_entering(nb->self, HOST_MAIN, "init");
	rc = nb->net.init(&nb->net, &nb->ctx, UINT64_C(0x6e657462656e6368), &config, host_nccl_log,
			  NULL);
	if (rc)
		return nb_call_failed(nb, NULL, "init", rc);
	host_entering(nb->self, HOST_MAIN, "devices");
	rc = nb->net.devices(&nb->ndev);
	if (rc)
		return nb_call_failed(nb, NULL, "devices", rc);
	if (nb->ndev < 1) {
		host_err("plugin %s has no device here; with NCCL_DEBUG=INFO it may say why",
			 nb->net.name);
		return -EIO;
	}
	nb->dev = opt->dev == NB_DEV_BY_RANK ? nb->self->rank % nb->ndev : (int)opt->dev;
	if (nb->dev >= nb->ndev) {
		host_err("--dev %d: must be below %d, the number of devices", nb->dev, nb->ndev);
		return -EINVAL;
	}
	for (int i = 0; i <= nb->ndev; i++) { /* the chosen one last, to stay in props */
		memset(&nb->props, 0, sizeof(nb->props));
		host_entering(nb->self, HOST_MAIN, "getProperties");
		rc = nb->net.get_properties(&nb->net, i < nb->ndev ? i : nb->dev, &nb->props);
		if (rc)
			return nb_call_failed(nb, NULL, "getProperties", rc);
	}
	return 0;
}

/* What NCCL would refuse, and what these patterns cannot do. */
static int device_check(const struct nb *nb)
{
	const struct nb_pattern *p = nb->pattern;
	uint64_t largest = p->max_message ? nb->opt->max : nb->opt->chunk;

	if (!(nb->props.ptr_support & NCCL_NET_PTR_HOST)) {
		host_err("device %d (%s) does not take host memory (ptrSupport 0x%x)", nb->dev,
			 nb->props.name, (unsigned)nb->props.ptr_support);
		return -EIO;
	}
	if (nb->props.device_type != NCCL_NET_DEV_HOST) {
		host_err("device %d (%s) is of type %d, NCCL's CPU path needs 0", nb->dev,
			 nb->props.name, (int)nb->props.device_type);
		return -EIO;
	}
	if (!nb->props.max_p2p_bytes || nb->props.max_p2p_bytes > NCCL_NET_MAX_BYTES_LIMIT) {
		host_err("device %d (%s): maxP2pBytes %zu, NCCL accepts 1 to 2^40", nb->dev,
			 nb->props.name, nb->props.max_p2p_bytes);
		return -EIO;
	}
	if (largest > nb->props.max_p2p_bytes) {
		host_err("messages of %" PRIu64 " bytes: device %d (%s) takes at most %zu", largest,
			 nb->dev, nb->props.name, nb->props.max_p2p_bytes);
		return -EINVAL;
	}
	return 0;
}

/* Those that the connections of this rank use. */
static int buffers_init(struct nb *nb)
{
	size_t bytes[NB_BUFS] = {0};
	unsigned used = 0;
	int rc = 0;

	for (int i = 0; i < nb->nconns; i++)
		used |= nb_conn_bufs(nb, &nb->conns[i]);
	nb->pattern->buffers(nb, bytes);
	for (int b = 0; b < NB_BUFS && !rc; b++) {
		if (!(used & 1u << b))
			continue;
		rc = host_buf_init(&nb->buf[b], bytes[b] ? bytes[b] : 1);
		if (rc) {
			host_err("buffer of %zu bytes: %s", bytes[b], strerror(-rc));
			return rc;
		}
		/* Pages must exist before anybody is timed. A page at a time, to beat. */
		for (size_t at = 0; at < nb->buf[b].size; at += 4096) {
			((volatile char *)nb->buf[b].addr)[at] = 0;
			host_beat(nb->self, HOST_MAIN);
		}
	}
	return rc;
}

/* What came on top; it may be that something was given back. */
static int64_t more(int64_t before, int64_t after)
{
	if (before < 0 || after < 0)
		return -1;
	return after > before ? after - before : 0;
}

static int connect_all(struct nb *nb)
{
	/* The clock must not count others' start. */
	int rc = host_barrier(nb->self, HOST_MAIN);
	struct nb_resources before = nb_resources_now(), after;
	uint64_t start_ns = host_now_ns();

	if (!rc)
		rc = host_role_run(&nb->service, nb_conns_listen, nb);
	if (!rc)
		rc = nb_conns_swap_handles(nb);
	if (!rc)
		rc = host_role_run(&nb->service, nb_conns_connect, nb);
	nb->taken.connect_ms = (double)(host_now_ns() - start_ns) / 1e6;
	if (!rc)
		rc = host_role_run(&nb->service, nb_conns_register, nb);
	after = nb_resources_now();
	nb->taken.comms = nb->nconns;
	nb->taken.memory = more(before.memory, after.memory);
	nb->taken.qps = after.qps;
	return rc;
}

static void taken_most(struct nb_taken *most, const struct nb_taken *t)
{
	most->connect_ms = t->connect_ms > most->connect_ms ? t->connect_ms : most->connect_ms;
	most->comms = t->comms > most->comms ? t->comms : most->comms;
	most->memory = t->memory > most->memory ? t->memory : most->memory;
	most->qps = t->qps > most->qps ? t->qps : most->qps;
}

static int introduce(struct nb *nb, struct nb_report *report)
{
	struct nb_taken all[HOST_MAX_RANKS];
	int rc = host_allgather(nb->self, HOST_MAIN, &nb->taken, all, sizeof(all[0]));

	if (rc || nb->self->rank)
		return rc;
	report->taken = all[0];
	for (int r = 1; r < nb->self->nranks; r++)
		taken_most(&report->taken, &all[r]);
	snprintf(report->plugin, sizeof(report->plugin), "%s", nb->net.name);
	snprintf(report->path, sizeof(report->path), "%s", nb->net.path);
	snprintf(report->device, sizeof(report->device), "%s",
		 nb->props.name ? nb->props.name : "unnamed");
	report->abi = nb->net.abi;
	report->ndev = nb->ndev;
	if (!nb->run->quiet)
		nb_report_header(nb, report);
	return 0;
}

/* NCCL's order: registrations, then the memory, then the comms. */
static int part(struct nb *nb)
{
	enum nccl_net_result end;
	int rc = host_role_run(&nb->service, nb_conns_deregister, nb);

	for (int b = 0; b < NB_BUFS; b++)
		host_buf_fini(&nb->buf[b]);
	if (!rc)
		rc = host_role_run(&nb->service, nb_conns_close, nb);
	nb_conns_fini(nb);
	if (rc)
		return rc;
	host_entering(nb->self, HOST_MAIN, "finalize");
	end = nb->net.finalize(&nb->net, nb->ctx);
	return end ? nb_call_failed(nb, NULL, "finalize", end) : 0;
}

/* On an error nothing is undone: the process ends, and the plugin may be in any state. */
static int bench(struct nb *nb, struct nb_report *report, uint64_t *wrong)
{
	int rc = device_open(nb, nb->opt);

	if (!rc)
		rc = device_check(nb);
	if (!rc)
		rc = nb_conns_init(nb);
	if (!rc)
		rc = buffers_init(nb);
	if (!rc)
		rc = host_role_start(&nb->service, "service");
	if (!rc)
		rc = connect_all(nb);
	if (!rc)
		rc = introduce(nb, report);
	if (!rc)
		rc = host_role_start(&nb->progress, "progress");
	if (!rc)
		rc = bench_sizes(nb, report, wrong);
	if (rc)
		return rc;
	/* No comm is closed before its progress thread is gone. */
	host_role_stop(&nb->progress);
	rc = part(nb);
	if (!rc)
		host_role_stop(&nb->service);
	return rc;
}

static int exit_code(const struct nb *nb, int rc, uint64_t wrong)
{
	switch (rc) {
	case 0:
		return wrong ? HOST_WRONG : HOST_PASS;
	case -ECANCELED: /* somebody else knows why */
		return HOST_PASS;
	case -EIO:
	case -ETIME:
		return HOST_FAIL;
	case -EINVAL:
		return HOST_USAGE;
	default:
		host_err("size %" PRIu64 ": %s", nb->size, strerror(-rc));
		return HOST_USAGE;
	}
}

int nb_rank_main(struct host_rank *self, void *arg)
{
	const struct nb_run *run = arg;
	struct nb nb = {.self = self, .opt = run->opt, .pattern = run->pattern, .run = run};
	uint64_t wrong = 0;
	int rc;

	host_entering(self, HOST_MAIN, "dlopen");
	if (host_net_open(&nb.net, run->opt->plugin, (int)run->opt->abi))
		return HOST_FAIL;
	rc = bench(&nb, run->report, &wrong);
	if (!rc) {
		host_entering(self, HOST_MAIN, "dlclose");
		host_net_close(&nb.net);
	}
	return exit_code(&nb, rc, wrong);
}
