/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls: what each call costs, in instructions, for callgrind to count. Ranks 2i and 2i+1 go in
 * lockstep, so that it is known beforehand which calls find something to do: each kind is made in
 * a function of its own name. Times mean nothing here.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "common/payload.h"
#include "conn.h"
#include "host/log.h"

/* Merged or cloned they would not be found by their names. */
#ifdef __clang__
#define COUNTED __attribute__((noinline))
#else
#define COUNTED __attribute__((noipa))
#endif

enum {
	IDLE_TESTS = 20, /* of a receive, while nothing is sent */
	SETTLE_MS = 60,  /* for the peer's part, the adapter's and their threads' */
};

struct calls {
	struct nb_conn *conn;
	uint64_t serial; /* messages before this one */
	uint64_t n[NB_CALLS];
	uint64_t unplanned; /* calls that found nothing where they should have */
};

/* ---- the calls ---- */

/* Nothing but the plugin's own call, or almost: what old tables need is adapted. */

static COUNTED enum nccl_net_result counted_irecv(struct nb *nb, struct nb_conn *conn,
						  void **request)
{
	void *data = nb->buf[NB_RECV].addr, *phandle = NULL;
	size_t size = nb->size;
	int tag = conn->peer;

	return nb->net.irecv(&nb->net, conn->comm, 1, &data, &size, &tag, &conn->mhandle[NB_RECV],
			     &phandle, request);
}

static COUNTED enum nccl_net_result counted_isend(struct nb *nb, struct nb_conn *conn,
						  void **request)
{
	return nb->net.isend(&nb->net, conn->comm, nb->buf[NB_SEND].addr, nb->size, nb->self->rank,
			     conn->mhandle[NB_SEND], NULL, request);
}

static COUNTED enum nccl_net_result counted_test_recv(struct nb *nb, void *request, int *done,
						      int *sizes)
{
	return nb->net.test(request, done, sizes);
}

static COUNTED enum nccl_net_result counted_test_send(struct nb *nb, void *request, int *done,
						      int *sizes)
{
	return nb->net.test(request, done, sizes);
}

static COUNTED enum nccl_net_result counted_idle_test(struct nb *nb, void *request, int *done,
						      int *sizes)
{
	return nb->net.test(request, done, sizes);
}

/* As nb_isend(), nb_irecv(). */
static int try_start(struct nb *nb, struct calls *c, void **request)
{
	bool sender = c->conn->sender;
	const char *call = sender ? "isend" : "irecv";
	enum nccl_net_result rc;

	*request = NB_STALE_REQUEST;
	host_entering(nb->self, HOST_PROGRESS, call);
	c->n[sender ? NB_ISEND : NB_IRECV]++;
	rc = sender ? counted_isend(nb, c->conn, request) : counted_irecv(nb, c->conn, request);
	if (rc)
		return nb_call_failed(nb, c->conn, call, rc);
	if (*request == NB_STALE_REQUEST)
		return nb_call_broken(nb, c->conn, call, "left *request as it was");
	return *request != NULL;
}

/* As nb_test(). */
static int try_finish(struct nb *nb, struct calls *c, enum nb_call kind, void *request, int *size)
{
	int sizes[NCCL_NET_TEST_SIZES] = {0}, done = NB_STALE_DONE;
	enum nccl_net_result rc;

	host_entering(nb->self, HOST_PROGRESS, "test");
	c->n[kind]++;
	if (kind == NB_IDLE_TEST)
		rc = counted_idle_test(nb, request, &done, sizes);
	else if (kind == NB_TEST_RECV)
		rc = counted_test_recv(nb, request, &done, sizes);
	else
		rc = counted_test_send(nb, request, &done, sizes);
	if (rc)
		return nb_call_failed(nb, c->conn, "test", rc);
	if (done == NB_STALE_DONE)
		return nb_call_broken(nb, c->conn, "test", "left *done unset");
	*size = sizes[0];
	return done != 0;
}

/* ---- one message ---- */

static void settle(struct nb *nb)
{
	const struct timespec ts = {0, SETTLE_MS * 1000000};

	nanosleep(&ts, NULL);
	host_beat(nb->self, HOST_PROGRESS);
}

/* A call that found nothing: @tries so far. 0: try again. */
static int not_yet(struct nb *nb, struct calls *c, const char *call, int tries)
{
	c->unplanned++;
	if (host_over(nb->self))
		return -ECANCELED;
	if (tries * SETTLE_MS > nb->self->timeout_s * 1000) {
		host_err("no progress for %d s at size %" PRIu64 ": %s", nb->self->timeout_s,
			 nb->size, call);
		return -ETIME;
	}
	settle(nb);
	return 0;
}

static int start(struct nb *nb, struct calls *c, void **request)
{
	for (int tries = 0;; tries++) {
		int rc = try_start(nb, c, request);

		if (!rc)
			rc = not_yet(nb, c, c->conn->sender ? "isend" : "irecv", tries);
		if (rc)
			return rc < 0 ? rc : 0;
	}
}

static int finish(struct nb *nb, struct calls *c, void *request, int *size)
{
	enum nb_call kind = c->conn->sender ? NB_TEST_SEND : NB_TEST_RECV;

	for (int tries = 0;; tries++) {
		int rc = try_finish(nb, c, kind, request, size);

		if (!rc)
			rc = not_yet(nb, c, "test", tries);
		if (rc)
			return rc < 0 ? rc : 0;
	}
}

static int idle(struct nb *nb, struct calls *c, void *request)
{
	for (int i = 0; i < IDLE_TESTS; i++) {
		int size, rc = try_finish(nb, c, NB_IDLE_TEST, request, &size);

		if (rc)
			return rc < 0 ? rc
				      : nb_call_broken(nb, c->conn, "test",
						       "is done, though nothing was sent");
	}
	return 0;
}

static uint64_t key(const struct nb *nb, const struct calls *c)
{
	int me = nb->self->rank, peer = c->conn->peer;

	return payload_key(c->conn->sender ? me : peer, c->conn->sender ? peer : me, 0, c->serial);
}

static void verify(struct nb *nb, const struct calls *c, int size)
{
	size_t first = 0, wrong;

	if (size < 0 || (uint64_t)size != nb->size)
		nb_wrong(nb, c->conn, 1, "message %" PRIu64 ": test reports %d", c->serial, size);
	wrong = payload_check(nb->buf[NB_RECV].addr, nb->size, key(nb, c), key(nb, c), &first);
	if (wrong)
		nb_wrong(nb, c->conn, wrong, "message %" PRIu64 ": %zu wrong, first at %zu",
			 c->serial, wrong, first);
}

static int send_one(struct nb *nb, struct calls *c, enum nb_mode mode)
{
	void *request;
	int size, rc;

	if (mode != NB_PLAIN) {
		payload_fill(nb->buf[NB_SEND].addr, nb->size, key(nb, c));
		payload_stamp(nb->buf[NB_SEND].addr, nb->size, key(nb, c));
	}
	rc = host_barrier(nb->self, HOST_PROGRESS);
	settle(nb);
	if (!rc)
		rc = host_barrier(nb->self, HOST_PROGRESS);
	if (!rc)
		rc = start(nb, c, &request);
	settle(nb);
	return rc ? rc : finish(nb, c, request, &size);
}

static int recv_one(struct nb *nb, struct calls *c, enum nb_mode mode)
{
	void *request;
	int size, rc;

	memset(nb->buf[NB_RECV].addr, PAYLOAD_POISON, nb->size);
	rc = start(nb, c, &request);
	if (!rc)
		rc = host_barrier(nb->self, HOST_PROGRESS);
	if (!rc)
		rc = idle(nb, c, request);
	if (!rc)
		rc = host_barrier(nb->self, HOST_PROGRESS);
	settle(nb);
	if (!rc)
		rc = finish(nb, c, request, &size);
	if (!rc && mode != NB_PLAIN)
		verify(nb, c, size);
	return rc;
}

static int calls_exchange(struct nb *nb, uint64_t iters, enum nb_mode mode)
{
	struct calls *c = nb->state;
	int rc = 0;

	for (uint64_t i = 0; !rc && i < iters; i++) {
		rc = c->conn->sender ? send_one(nb, c, mode) : recv_one(nb, c, mode);
		if (!rc)
			rc = host_barrier(nb->self, HOST_PROGRESS);
		c->serial++;
	}
	return rc;
}

/* ---- the pattern ---- */

static bool calls_sends(int from, int to, int nranks)
{
	(void)nranks;
	return from % 2 == 0 && to == from + 1;
}

static double calls_bus_factor(int nranks)
{
	(void)nranks;
	return 1;
}

static uint64_t calls_round(const struct nb_options *opt, uint64_t size, uint64_t *count)
{
	(void)opt;
	*count = size;
	return size;
}

static void calls_buffers(const struct nb *nb, size_t bytes[NB_BUFS])
{
	bytes[NB_SEND] = bytes[NB_RECV] = nb->opt->max;
}

static int calls_init(struct nb *nb)
{
	struct calls *c = calloc(1, sizeof(*c));

	nb->state = c;
	if (!c)
		return -ENOMEM;
	c->conn = &nb->conns[0];
	return 0;
}

/* Warm-up counts: callgrind sees it, too. */
static int calls_begin(struct nb *nb, uint64_t size, enum nb_mode mode)
{
	(void)nb;
	(void)size;
	(void)mode;
	return 0;
}

static void calls_verify(struct nb *nb)
{
	(void)nb; /* each message was */
}

static void calls_measure(struct nb *nb, uint64_t iters, double total_us, struct nb_sample *sample)
{
	struct calls *c = nb->state;

	sample->time_us = total_us / (double)iters;
	memcpy(sample->calls, c->n, sizeof(c->n));
	sample->unplanned = c->unplanned;
	memset(c->n, 0, sizeof(c->n));
	c->unplanned = 0;
}

static void calls_fini(struct nb *nb)
{
	free(nb->state);
	nb->state = NULL;
}

const struct nb_pattern nb_calls = {
	.name = "calls",
	.title = "calls one by one, for callgrind to count their instructions",
	.type = "uint8",
	.redop = "none",
	.pairs = true,
	.one_channel = true,
	.calls = true,
	.max_message = UINT64_C(1) << 30,
	.send_bufs = 1u << NB_SEND,
	.recv_bufs = 1u << NB_RECV,
	.sends = calls_sends,
	.bus_factor = calls_bus_factor,
	.round = calls_round,
	.buffers = calls_buffers,
	.init = calls_init,
	.begin = calls_begin,
	.exchange = calls_exchange,
	.verify = calls_verify,
	.measure = calls_measure,
	.fini = calls_fini,
};
