/* SPDX-License-Identifier: BSD-3-Clause */
/* pingpong: ranks 2i and 2i + 1 throw one message back and forth; rank 2i has the clock. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "flow.h"

/*
 * Two, although one message flies: the next receive is posted before the answer leaves, and the
 * next send does not wait for the completion of the one before, which may come after the answer.
 */
enum { SLOTS = 2 };

struct pingpong {
	struct nb_flow flow[2]; /* send, receive; unused by a rank without a peer */
	double *rounds_us;      /* [iters]: round trips of the last exchange */
};

static bool pingpong_sends(int from, int to, int nranks)
{
	(void)nranks;
	return (from ^ 1) == to;
}

static double pingpong_bus_factor(int nranks)
{
	(void)nranks;
	return 1;
}

static uint64_t pingpong_round(const struct nb_options *opt, uint64_t size, uint64_t *count)
{
	(void)opt;
	*count = size;
	return size;
}

static size_t stride_of(uint64_t size)
{
	return (size + 63) / 64 * 64;
}

static void pingpong_buffers(const struct nb *nb, size_t bytes[NB_BUFS])
{
	bytes[NB_SEND] = bytes[NB_RECV] = SLOTS * stride_of(nb->opt->max);
}

static int pingpong_init(struct nb *nb)
{
	struct pingpong *p = calloc(1, sizeof(*p));
	int peer = nb->self->rank ^ 1;

	nb->state = p;
	if (!p)
		return -ENOMEM;
	p->rounds_us = calloc(nb->opt->iters, sizeof(*p->rounds_us));
	if (!p->rounds_us)
		return -ENOMEM;
	p->flow[0].conn = nb_conn_find(nb, peer, 0, true);
	p->flow[1].conn = nb_conn_find(nb, peer, 0, false);
	p->flow[0].buf = NB_SEND;
	p->flow[1].buf = NB_RECV;
	return 0;
}

static int pingpong_begin(struct nb *nb, uint64_t size, enum nb_mode mode)
{
	struct pingpong *p = nb->state;

	for (int i = 0; i < 2; i++) {
		struct nb_flow *f = &p->flow[i];

		f->base = nb->buf[f->buf].addr;
		f->stride = stride_of(size);
		f->len = f->last_len = size;
		f->slots = f->window = SLOTS;
		if (mode == NB_STAMP)
			nb_flow_prepare(nb, f);
	}
	return 0;
}

/* Note the round trips that ended; at most one does per pass. */
static uint64_t clock_rounds(struct pingpong *p, uint64_t seen, uint64_t *since_ns, uint64_t cap)
{
	uint64_t now;

	if (p->flow[1].done == seen)
		return seen;
	now = host_now_ns();
	if (seen < cap)
		p->rounds_us[seen] = (double)(now - *since_ns) / 1e3;
	*since_ns = now;
	return seen + 1;
}

static int pingpong_exchange(struct nb *nb, uint64_t iters, enum nb_mode mode)
{
	struct pingpong *p = nb->state;
	struct nb_flow *send = &p->flow[0], *recv = &p->flow[1];
	uint64_t since_ns = host_now_ns(), seen = 0;
	uint64_t first = nb->self->rank % 2 == 0; /* rank 2i is one message ahead */

	nb_flow_restart(send, iters);
	nb_flow_restart(recv, iters);
	while (!nb_flow_finished(send) || !nb_flow_finished(recv)) {
		int moved = 0, rc;

		if (!nb_flow_finished(recv)) {
			moved = nb_flow_pass(nb, recv, mode, UINT64_MAX);
			if (moved < 0)
				return moved;
			seen = clock_rounds(p, seen, &since_ns, nb->opt->iters);
		}
		rc = nb_flow_pass(nb, send, mode, recv->done + first);
		if (rc < 0)
			return rc;
		rc = nb_passed(nb, moved | rc);
		if (rc)
			return rc == -ETIME ? nb_flow_stalled(nb, p->flow, 2) : rc;
	}
	return 0;
}

static void pingpong_verify(struct nb *nb)
{
	struct pingpong *p = nb->state;

	nb_flow_verify(nb, &p->flow[1]);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void pingpong_measure(struct nb *nb, uint64_t iters, double total_us,
			     struct nb_sample *sample)
{
	struct pingpong *p = nb->state;

	if (nb->self->rank % 2)
		return;
	qsort(p->rounds_us, iters, sizeof(*p->rounds_us), compare);
	sample->time_us = total_us / (double)iters / 2;
	sample->p50_us = p->rounds_us[iters / 2] / 2;
	sample->p99_us = p->rounds_us[(iters * 99 + 99) / 100 - 1] / 2;
	sample->p999_us = p->rounds_us[(iters * 999 + 999) / 1000 - 1] / 2;
}

static void pingpong_fini(struct nb *nb)
{
	struct pingpong *p = nb->state;

	if (p)
		free(p->rounds_us);
	free(p);
	nb->state = NULL;
}

const struct nb_pattern nb_pingpong = {
	.name = "pingpong",
	.title = "one message between ranks 2i and 2i+1, back and forth",
	.type = "uint8",
	.redop = "none",
	.pairs = true,
	.one_channel = true,
	.percentiles = true,
	.max_message = UINT64_C(1) << 30,
	.send_bufs = 1u << NB_SEND,
	.recv_bufs = 1u << NB_RECV,
	.sends = pingpong_sends,
	.bus_factor = pingpong_bus_factor,
	.round = pingpong_round,
	.buffers = pingpong_buffers,
	.init = pingpong_init,
	.begin = pingpong_begin,
	.exchange = pingpong_exchange,
	.verify = pingpong_verify,
	.measure = pingpong_measure,
	.fini = pingpong_fini,
};
