/* SPDX-License-Identifier: BSD-3-Clause */
/* alltoall: every rank sends a part of its buffer to every other, cut as NCCL cuts send/recv. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "flow.h"

struct alltoall {
	struct nb_flow *flows; /* one per connection */
	int n;
};

static bool alltoall_sends(int from, int to, int nranks)
{
	(void)nranks;
	return from != to;
}

static double alltoall_bus_factor(int nranks)
{
	return (double)(nranks - 1) / nranks;
}

static uint64_t alltoall_round(const struct nb_options *opt, uint64_t size, uint64_t *count)
{
	*count = size / opt->ranks;
	return *count * opt->ranks;
}

static void alltoall_buffers(const struct nb *nb, size_t bytes[NB_BUFS])
{
	bytes[NB_SEND] = bytes[NB_RECV] = nb->opt->max;
}

static int alltoall_init(struct nb *nb)
{
	struct alltoall *a = calloc(1, sizeof(*a));

	nb->state = a;
	if (!a)
		return -ENOMEM;
	a->n = nb->nconns;
	a->flows = calloc((size_t)a->n, sizeof(*a->flows));
	if (!a->flows)
		return -ENOMEM;
	for (int i = 0; i < a->n; i++) {
		a->flows[i].conn = &nb->conns[i];
		a->flows[i].buf = nb->conns[i].sender ? NB_SEND : NB_RECV;
	}
	return 0;
}

/* The part for (or from) a peer is shared out over the channels, and that cut into chunks. */
static void lay_out(struct nb *nb, struct nb_flow *f, uint64_t part)
{
	uint64_t channels = nb->opt->channels, chunk = nb->opt->chunk;
	uint64_t share = (part + channels - 1) / channels;
	uint64_t from = (uint64_t)f->conn->channel * share;
	uint64_t len;

	if (from > part)
		from = part;
	len = part - from < share ? part - from : share;
	f->base = (char *)nb->buf[f->buf].addr + (uint64_t)f->conn->peer * part + from;
	f->slots = len ? (len + chunk - 1) / chunk : 1;
	f->stride = f->len = chunk;
	f->last_len = len - (f->slots - 1) * chunk;
	f->window = nb->opt->window;
}

static int alltoall_begin(struct nb *nb, uint64_t size, enum nb_mode mode)
{
	struct alltoall *a = nb->state;

	for (int i = 0; i < a->n; i++) {
		lay_out(nb, &a->flows[i], size / nb->opt->ranks);
		if (mode == NB_STAMP)
			nb_flow_prepare(nb, &a->flows[i]);
	}
	return 0;
}

static int exchange_once(struct nb *nb, struct alltoall *a, enum nb_mode mode)
{
	int left = a->n, moved, rc;

	for (int i = 0; i < a->n; i++)
		nb_flow_restart(&a->flows[i], a->flows[i].slots);
	while (left) {
		moved = 0;
		for (int i = 0; i < a->n; i++) {
			struct nb_flow *f = &a->flows[i];

			if (nb_flow_finished(f))
				continue;
			rc = nb_flow_pass(nb, f, mode, UINT64_MAX);
			if (rc < 0)
				return rc;
			moved |= rc;
			left -= nb_flow_finished(f);
		}
		rc = nb_passed(nb, moved);
		if (rc)
			return rc == -ETIME ? nb_flow_stalled(nb, a->flows, a->n) : rc;
	}
	return 0;
}

static int alltoall_exchange(struct nb *nb, uint64_t iters, enum nb_mode mode)
{
	int rc = 0;

	for (uint64_t i = 0; i < iters && !rc; i++)
		rc = exchange_once(nb, nb->state, mode);
	return rc;
}

static void alltoall_verify(struct nb *nb)
{
	struct alltoall *a = nb->state;

	for (int i = 0; i < a->n; i++) {
		if (!a->flows[i].conn->sender)
			nb_flow_verify(nb, &a->flows[i]);
	}
}

static void alltoall_measure(struct nb *nb, uint64_t iters, double total_us,
			     struct nb_sample *sample)
{
	(void)nb;
	sample->time_us = total_us / (double)iters;
}

static void alltoall_fini(struct nb *nb)
{
	struct alltoall *a = nb->state;

	if (a)
		free(a->flows);
	free(a);
	nb->state = NULL;
}

const struct nb_pattern nb_alltoall = {
	.name = "alltoall",
	.title = "a part of each rank's buffer to each other rank",
	.type = "uint8",
	.redop = "none",
	.chunk = 128 << 10,
	.send_bufs = 1u << NB_SEND,
	.recv_bufs = 1u << NB_RECV,
	.sends = alltoall_sends,
	.bus_factor = alltoall_bus_factor,
	.round = alltoall_round,
	.buffers = alltoall_buffers,
	.init = alltoall_init,
	.begin = alltoall_begin,
	.exchange = alltoall_exchange,
	.verify = alltoall_verify,
	.measure = alltoall_measure,
	.fini = alltoall_fini,
};
