/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: all-reduce of float sums, out of place, as NCCL's Simple protocol does it.
 *
 * The data of a channel is cut into one segment per rank, a segment into slices. In step k, from
 * 0 to 2n - 3, rank r sends segment r - k (mod n) and receives segment r - k - 1, slice by slice:
 * message m = k * slices + slice. Steps 0 to n - 2 receive into scratch and add the own input
 * (reduce-scatter), the others receive the finished sums in place (all-gather). A slice leaves as
 * soon as the one it is made from, message m - slices, has been received; windows of slices are in
 * flight in both directions meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "conn.h"
#include "host/log.h"
#include "reduce.h"

enum {
	ALIGN_ELEMS = 32,  /* segments and slices start at 128-byte lines where that fits */
	SLICES_WANTED = 8, /* per segment, for the pipeline, but no slices below */
	SLICE_MIN_BYTES = 64 << 10,
};

struct ring { /* one channel */
	struct nb_conn *next, *prev;
	float *in, *out;  /* of the channel's part */
	float *scratch;   /* [window][slice_cap] */
	size_t slice_cap; /* elements of a scratch slot */

	/* This size. */
	uint64_t origin;              /* index of in[0] in the whole data */
	size_t count, segment, slice; /* elements; the last segments and slices may be short */
	uint64_t slices;              /* per segment */
	uint64_t messages;

	/* This iteration, in messages. */
	uint64_t started, sent;   /* isend gave a request, test was done */
	uint64_t posted, arrived; /* irecv gave a request, received and reduced */
	void *send_requests[NCCL_NET_OUTSTANDING], *recv_requests[NCCL_NET_OUTSTANDING];
};

struct rings {
	struct ring *ring;
	int n;
	uint64_t serial; /* of the last iteration; inputs depend on it */
	uint64_t body;   /* NB_STAMP: that of all elements but the stamps */
};

static bool ring_sends(int from, int to, int nranks)
{
	return to == (from + 1) % nranks;
}

static double ring_bus_factor(int nranks)
{
	return 2.0 * (nranks - 1) / nranks;
}

static uint64_t ring_round(const struct nb_options *opt, uint64_t size, uint64_t *count)
{
	(void)opt;
	*count = size / sizeof(float);
	return *count * sizeof(float);
}

static size_t slice_cap(const struct nb_options *opt)
{
	return opt->chunk / sizeof(float);
}

static void ring_buffers(const struct nb *nb, size_t bytes[NB_BUFS])
{
	const struct nb_options *opt = nb->opt;

	bytes[NB_SEND] = bytes[NB_RECV] = opt->max;
	bytes[NB_SCRATCH] = opt->channels * opt->window * slice_cap(opt) * sizeof(float);
}

static int ring_init(struct nb *nb)
{
	int rank = nb->self->rank, nranks = nb->self->nranks;
	struct rings *rings = calloc(1, sizeof(*rings));

	nb->state = rings;
	if (!rings)
		return -ENOMEM;
	rings->n = (int)nb->opt->channels;
	rings->ring = calloc((size_t)rings->n, sizeof(*rings->ring));
	if (!rings->ring)
		return -ENOMEM;
	for (int c = 0; c < rings->n; c++) {
		struct ring *r = &rings->ring[c];
		size_t slot = slice_cap(nb->opt);

		r->next = nb_conn_find(nb, (rank + 1) % nranks, c, true);
		r->prev = nb_conn_find(nb, (rank + nranks - 1) % nranks, c, false);
		r->slice_cap = slot;
		r->scratch = (float *)nb->buf[NB_SCRATCH].addr + (size_t)c * nb->opt->window * slot;
	}
	return 0;
}

/* ---- which elements a message has ---- */

static size_t divide_up(size_t a, size_t b)
{
	return (a + b - 1) / b;
}

/* The size of @n equal parts of @count, at line boundaries unless they are small. */
static size_t part_of(size_t count, size_t n)
{
	size_t unit = count >= 4 * n * ALIGN_ELEMS ? ALIGN_ELEMS : 1;

	return divide_up(divide_up(count, n), unit) * unit;
}

static void lay_out(struct nb *nb, struct ring *r, int channel, size_t count)
{
	size_t share = part_of(count, nb->opt->channels), from = (size_t)channel * share;
	size_t wanted;

	if (from > count)
		from = count;
	r->origin = from;
	r->in = (float *)nb->buf[NB_SEND].addr + from;
	r->out = (float *)nb->buf[NB_RECV].addr + from;
	r->count = count - from < share ? count - from : share;
	r->segment = part_of(r->count, (size_t)nb->self->nranks);
	wanted = part_of(r->segment, SLICES_WANTED);
	if (wanted < SLICE_MIN_BYTES / sizeof(float))
		wanted = SLICE_MIN_BYTES / sizeof(float);
	r->slice = wanted < r->slice_cap ? wanted : r->slice_cap;
	r->slices = r->segment ? divide_up(r->segment, r->slice) : 1;
	r->messages = 2 * (uint64_t)(nb->self->nranks - 1) * r->slices;
}

/* Elements of slice @index of segment @segment: where they start and how many there are. */
static size_t slice_at(const struct ring *r, size_t segment, size_t index, size_t *n)
{
	size_t from = segment * r->segment + index * r->slice;
	size_t end = index * r->slice + r->slice < r->segment ? from + r->slice
							      : (segment + 1) * r->segment;

	if (from > r->count)
		from = r->count;
	if (end > r->count)
		end = r->count;
	*n = end - from;
	return from;
}

static size_t sent_at(const struct nb *nb, const struct ring *r, uint64_t m, size_t *n)
{
	uint64_t nranks = (uint64_t)nb->self->nranks, step = m / r->slices;

	return slice_at(r, ((uint64_t)nb->self->rank + 2 * nranks - step) % nranks, m % r->slices,
			n);
}

static size_t received_at(const struct nb *nb, const struct ring *r, uint64_t m, size_t *n)
{
	return sent_at(nb, r, m + r->slices, n);
}

/* Messages of the reduce-scatter half. */
static uint64_t reduced(const struct ring *r)
{
	return r->messages / 2;
}

static float *scratch_at(const struct nb *nb, const struct ring *r, uint64_t m)
{
	return r->scratch + m % nb->opt->window * r->slice_cap;
}

/* ---- one pass ---- */

/*
 * In the all-gather half message m overwrites what went out as message m - (n-1) * slices, unless
 * that came from the input. A send buffer is the plugin's until its request is done.
 */
static bool target_is_free(const struct ring *r, uint64_t m)
{
	uint64_t before = m - reduced(r);

	return m < reduced(r) || before < r->slices || r->sent > before;
}

static int ring_post(struct nb *nb, struct ring *r)
{
	uint64_t m = r->posted;
	void **request = &r->recv_requests[m % nb->opt->window];
	size_t n, at;
	int rc;

	if (m == r->messages || m >= r->arrived + nb->opt->window || !target_is_free(r, m))
		return 0;
	/* As NCCL does, scratch is posted for a whole slice however short the message is. */
	if (m < reduced(r)) {
		rc = nb_irecv(nb, r->prev, NB_SCRATCH, scratch_at(nb, r, m),
			      r->slice * sizeof(float), request);
	} else {
		at = received_at(nb, r, m, &n);
		rc = nb_irecv(nb, r->prev, NB_RECV, r->out + at, n * sizeof(float), request);
	}
	if (rc > 0)
		r->posted++;
	return rc;
}

static int ring_arrive(struct nb *nb, struct ring *r)
{
	uint64_t m = r->arrived;
	size_t n, at;
	int rc, size;

	if (m == r->posted)
		return 0;
	rc = nb_test(nb, r->prev, r->recv_requests[m % nb->opt->window], &size);
	if (rc <= 0)
		return rc;
	at = received_at(nb, r, m, &n);
	if (nb->opt->check && (size < 0 || (size_t)size != n * sizeof(float)))
		nb_wrong(nb, r->prev, 1, "slice %" PRIu64 " of %zu bytes: test reports %d", m,
			 n * sizeof(float), size);
	if (m < reduced(r))
		nb_reduce(r->out + at, r->in + at, scratch_at(nb, r, m), n);
	r->arrived++;
	return 1;
}

static int ring_start(struct nb *nb, struct ring *r)
{
	uint64_t m = r->started;
	bool own = m < r->slices;
	size_t n, at;
	int rc;

	if (m == r->messages || m >= r->sent + nb->opt->window)
		return 0;
	if (!own && r->arrived <= m - r->slices)
		return 0;
	at = sent_at(nb, r, m, &n);
	rc = nb_isend(nb, r->next, own ? NB_SEND : NB_RECV, (own ? r->in : r->out) + at,
		      n * sizeof(float), &r->send_requests[m % nb->opt->window]);
	if (rc > 0)
		r->started++;
	return rc;
}

static int ring_sent(struct nb *nb, struct ring *r)
{
	int rc, size;

	if (r->sent == r->started)
		return 0;
	rc = nb_test(nb, r->next, r->send_requests[r->sent % nb->opt->window], &size);
	if (rc > 0)
		r->sent++;
	return rc;
}

static int ring_pass(struct nb *nb, struct ring *r)
{
	static int (*const steps[])(struct nb *, struct ring *) = {ring_post, ring_arrive,
								   ring_start, ring_sent};
	int moved = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int rc = steps[i](nb, r);

		if (rc < 0)
			return rc;
		moved |= rc;
	}
	return moved;
}

static bool ring_finished(const struct ring *r)
{
	return r->sent == r->messages && r->arrived == r->messages;
}

/* ---- fill and verify ---- */

/* Call @fn for every slice of the data of all channels. */
static void for_slices(struct nb *nb, void (*fn)(struct nb *, struct ring *, size_t at, size_t n))
{
	struct rings *rings = nb->state;

	for (int c = 0; c < rings->n; c++) {
		struct ring *r = &rings->ring[c];

		for (uint64_t i = 0; i < (uint64_t)nb->self->nranks * r->slices; i++) {
			size_t n, at = slice_at(r, i / r->slices, i % r->slices, &n);

			host_beat(nb->self, HOST_PROGRESS);
			if (n)
				fn(nb, r, at, n);
		}
	}
}

static void fill(struct nb *nb, struct ring *r, size_t at, size_t n, uint64_t serial)
{
	nb_reduce_fill(r->in + at, r->origin + at, n, nb->self->rank, nb->self->nranks, serial);
}

static void verify(struct nb *nb, struct ring *r, size_t at, size_t n, uint64_t serial)
{
	size_t first = 0, wrong;

	wrong = nb_reduce_check(r->out + at, r->origin + at, n, nb->self->nranks, serial, &first);
	if (wrong)
		nb_wrong(nb, NULL, wrong,
			 "elements %" PRIu64 " to %" PRIu64 ": %zu wrong, first %" PRIu64
			 " is %.9g",
			 r->origin + at, r->origin + at + n - 1, wrong, r->origin + at + first,
			 (double)r->out[at + first]);
}

static void slice_fill(struct nb *nb, struct ring *r, size_t at, size_t n)
{
	fill(nb, r, at, n, ((struct rings *)nb->state)->serial);
}

/* All bits set is a NaN: unequal to whatever is expected. */
static void slice_poison(struct nb *nb, struct ring *r, size_t at, size_t n)
{
	(void)nb;
	memset(r->out + at, 0xff, n * sizeof(float));
}

static void slice_verify(struct nb *nb, struct ring *r, size_t at, size_t n)
{
	verify(nb, r, at, n, ((struct rings *)nb->state)->serial);
}

static void slice_stamp(struct nb *nb, struct ring *r, size_t at, size_t n)
{
	uint64_t serial = ((struct rings *)nb->state)->serial;

	fill(nb, r, at, 1, serial);
	fill(nb, r, at + n - 1, 1, serial);
}

static void slice_verify_stamp(struct nb *nb, struct ring *r, size_t at, size_t n)
{
	uint64_t serial = ((struct rings *)nb->state)->serial;

	verify(nb, r, at, 1, serial);
	if (n > 1)
		verify(nb, r, at + n - 1, 1, serial);
}

static void slice_verify_body(struct nb *nb, struct ring *r, size_t at, size_t n)
{
	if (n > 2)
		verify(nb, r, at + 1, n - 2, ((struct rings *)nb->state)->body);
}

/* ---- the pattern ---- */

static int ring_begin(struct nb *nb, uint64_t size, enum nb_mode mode)
{
	struct rings *rings = nb->state;

	for (int c = 0; c < rings->n; c++)
		lay_out(nb, &rings->ring[c], c, size / sizeof(float));
	if (mode != NB_STAMP)
		return 0;
	rings->body = ++rings->serial;
	for_slices(nb, slice_fill);
	for_slices(nb, slice_poison);
	return 0;
}

static int rings_stalled(struct nb *nb, const struct rings *rings)
{
	for (int c = 0; c < rings->n; c++) {
		const struct ring *r = &rings->ring[c];

		if (ring_finished(r))
			continue;
		host_err("no progress for %d s at size %" PRIu64 ": of %" PRIu64 " slices %" PRIu64
			 " started to rank %d, %" PRIu64 " sent; %" PRIu64
			 " posted from rank %d, %" PRIu64 " received",
			 nb->self->timeout_s, nb->size, r->messages, r->started, r->next->peer,
			 r->sent, r->posted, r->prev->peer, r->arrived);
		break;
	}
	return -ETIME;
}

static int exchange_once(struct nb *nb, struct rings *rings)
{
	int left = rings->n, moved, rc;

	for (int c = 0; c < rings->n; c++) {
		struct ring *r = &rings->ring[c];

		r->started = r->sent = r->posted = r->arrived = 0;
	}
	while (left) {
		moved = 0;
		for (int c = 0; c < rings->n; c++) {
			struct ring *r = &rings->ring[c];

			if (ring_finished(r))
				continue;
			rc = ring_pass(nb, r);
			if (rc < 0)
				return rc;
			moved |= rc;
			left -= ring_finished(r);
		}
		rc = nb_passed(nb, moved);
		if (rc)
			return rc == -ETIME ? rings_stalled(nb, rings) : rc;
	}
	return 0;
}

static int ring_exchange(struct nb *nb, uint64_t iters, enum nb_mode mode)
{
	struct rings *rings = nb->state;
	int rc;

	for (uint64_t i = 0; i < iters; i++) {
		rings->serial++;
		if (mode == NB_FULL) {
			for_slices(nb, slice_fill);
			for_slices(nb, slice_poison);
		} else if (mode == NB_STAMP) {
			for_slices(nb, slice_stamp);
		}
		rc = exchange_once(nb, rings);
		if (rc)
			return rc;
		if (mode == NB_FULL)
			for_slices(nb, slice_verify);
		else if (mode == NB_STAMP)
			for_slices(nb, slice_verify_stamp);
	}
	return 0;
}

static void ring_verify(struct nb *nb)
{
	for_slices(nb, slice_verify_stamp);
	for_slices(nb, slice_verify_body);
}

static void ring_measure(struct nb *nb, uint64_t iters, double total_us, struct nb_sample *sample)
{
	(void)nb;
	sample->time_us = total_us / (double)iters;
}

static void ring_fini(struct nb *nb)
{
	struct rings *rings = nb->state;

	if (rings)
		free(rings->ring);
	free(rings);
	nb->state = NULL;
}

const struct nb_pattern nb_ring = {
	.name = "ring",
	.title = "ring all-reduce of float sums, out of place",
	.type = "float",
	.redop = "sum",
	.chunk = 512 << 10,
	.send_bufs = 1u << NB_SEND | 1u << NB_RECV,
	.recv_bufs = 1u << NB_RECV | 1u << NB_SCRATCH,
	.sends = ring_sends,
	.bus_factor = ring_bus_factor,
	.round = ring_round,
	.buffers = ring_buffers,
	.init = ring_init,
	.begin = ring_begin,
	.exchange = ring_exchange,
	.verify = ring_verify,
	.measure = ring_measure,
	.fini = ring_fini,
};
