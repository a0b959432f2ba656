/* SPDX-License-Identifier: BSD-3-Clause */
/* stream: rank 2i sends to rank 2i + 1, a window of messages at a time. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "flow.h"

/* Bytes that the window of one connection may take. */
static const uint64_t window_bytes = UINT64_C(512) << 20;

struct stream {
	struct nb_flow *flows; /* one per channel, all in the same direction */
	int n;
};

static bool stream_sends(int from, int to, int nranks)
{
	(void)nranks;
	return from % 2 == 0 && to == from + 1;
}

static double stream_bus_factor(int nranks)
{
	(void)nranks;
	return 1;
}

static uint64_t stream_round(const struct nb_options *opt, uint64_t size, uint64_t *count)
{
	(void)opt;
	*count = size;
	return size;
}

/* Slots are cache line aligned, as NCCL's are. */
static size_t stride_of(uint64_t size)
{
	return (size + 63) / 64 * 64;
}

static uint64_t slots_of(const struct nb_options *opt, uint64_t size)
{
	uint64_t fit = size ? window_bytes / stride_of(size) : opt->window;

	if (!fit)
		return 1;
	return fit < opt->window ? fit : opt->window;
}

/* The worst size is the largest, or the one whose window just fits. */
static void stream_buffers(const struct nb *nb, size_t bytes[NB_BUFS])
{
	uint64_t most = nb->opt->window * stride_of(nb->opt->max);

	if (most > window_bytes)
		most = window_bytes;
	if (most < stride_of(nb->opt->max))
		most = stride_of(nb->opt->max);
	bytes[NB_SEND] = bytes[NB_RECV] = most * nb->opt->channels;
}

static int stream_init(struct nb *nb)
{
	struct stream *s = calloc(1, sizeof(*s));

	nb->state = s;
	if (!s)
		return -ENOMEM;
	s->n = nb->nconns;
	s->flows = calloc((size_t)s->n + 1, sizeof(*s->flows));
	if (!s->flows)
		return -ENOMEM;
	for (int i = 0; i < s->n; i++) {
		s->flows[i].conn = &nb->conns[i];
		s->flows[i].buf = nb->conns[i].sender ? NB_SEND : NB_RECV;
	}
	return 0;
}

static int stream_begin(struct nb *nb, uint64_t size, enum nb_mode mode)
{
	struct stream *s = nb->state;
	uint64_t slots = slots_of(nb->opt, size);

	for (int i = 0; i < s->n; i++) {
		struct nb_flow *f = &s->flows[i];
		size_t part = nb->buf[f->buf].size / nb->opt->channels;

		f->base = (char *)nb->buf[f->buf].addr + (size_t)f->conn->channel * part;
		f->stride = stride_of(size);
		f->len = f->last_len = size;
		f->slots = f->window = slots;
		if (mode == NB_STAMP)
			nb_flow_prepare(nb, f);
	}
	return 0;
}

static int stream_exchange(struct nb *nb, uint64_t iters, enum nb_mode mode)
{
	struct stream *s = nb->state;
	bool finished = false;
	int moved, rc;

	for (int i = 0; i < s->n; i++)
		nb_flow_restart(&s->flows[i], iters);
	while (!finished) {
		moved = 0;
		finished = true;
		for (int i = 0; i < s->n; i++) {
			if (nb_flow_finished(&s->flows[i]))
				continue;
			rc = nb_flow_pass(nb, &s->flows[i], mode, UINT64_MAX);
			if (rc < 0)
				return rc;
			moved |= rc;
			finished = false;
		}
		rc = nb_passed(nb, finished || moved);
		if (rc)
			return rc == -ETIME ? nb_flow_stalled(nb, s->flows, s->n) : rc;
	}
	return 0;
}

static void stream_verify(struct nb *nb)
{
	struct stream *s = nb->state;

	for (int i = 0; i < s->n; i++) {
		if (!s->flows[i].conn->sender)
			nb_flow_verify(nb, &s->flows[i]);
	}
}

static void stream_measure(struct nb *nb, uint64_t iters, double total_us, struct nb_sample *sample)
{
	sample->time_us = total_us / (double)(iters * nb->opt->channels);
}

static void stream_fini(struct nb *nb)
{
	struct stream *s = nb->state;

	if (s)
		free(s->flows);
	free(s);
	nb->state = NULL;
}

const struct nb_pattern nb_stream = {
	.name = "stream",
	.title = "one-way messages from rank 2i to 2i+1",
	.type = "uint8",
	.redop = "none",
	.pairs = true,
	.max_message = UINT64_C(1) << 30,
	.send_bufs = 1u << NB_SEND,
	.recv_bufs = 1u << NB_RECV,
	.sends = stream_sends,
	.bus_factor = stream_bus_factor,
	.round = stream_round,
	.buffers = stream_buffers,
	.init = stream_init,
	.begin = stream_begin,
	.exchange = stream_exchange,
	.verify = stream_verify,
	.measure = stream_measure,
	.fini = stream_fini,
};
