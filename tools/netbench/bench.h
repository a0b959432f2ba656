/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of a run: what the parts of netbench share. */
#ifndef NETBENCH_BENCH_H
#define NETBENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/boot.h"
#include "host/buf.h"
#include "host/net.h"
#include "host/role.h"
#include "options.h"
#include "progress.h"

/* Buffers of a rank; each is registered once per comm that uses it. */
enum nb_buf { NB_SEND, NB_RECV, NB_SCRATCH, NB_BUFS };

/* How much of an exchange is verified. */
enum nb_mode {
	NB_PLAIN, /* nothing */
	NB_STAMP, /* sizes and stamps */
	NB_FULL,  /* sizes and every byte, targets poisoned before */
};

/* One direction between two ranks. */
struct nb_conn {
	int peer;
	int channel;
	bool sender;
	void *listen_comm; /* receivers, from listen to the end of accept */
	void *comm;
	void *mhandle[NB_BUFS];
	char handle[NCCL_NET_HANDLE_BYTES]; /* senders: one copy for all attempts to connect */
};

struct nb;
struct nb_run;

/* What the connections of a rank took, in all; -1: unknown. */
struct nb_taken {
	double connect_ms;          /* listen to last accept */
	int64_t comms, memory, qps; /* bytes; queue pairs */
};

/* Kinds of calls that --instructions tells apart. */
enum nb_call { NB_IRECV, NB_ISEND, NB_TEST_RECV, NB_TEST_SEND, NB_IDLE_TEST, NB_CALLS };

/* What a rank measured of one size. */
struct nb_sample {
	double time_us; /* per iteration, in the pattern's sense */
	double p50_us;  /* pingpong only */
	double p99_us, p999_us;
	double cpu; /* of one core, all threads of the process: 1.0 is one that never rests */
	uint64_t calls[NB_CALLS]; /* warm-up's as well */
	uint64_t unplanned;       /* of those: found nothing to do where they should have */
	uint64_t wrong;
};

struct nb_pattern {
	const char *name;
	const char *title;
	const char *type;
	const char *redop;
	bool pairs; /* needs an even number of ranks */
	bool one_channel;
	bool percentiles;
	bool calls;           /* counts them */
	uint64_t max_message; /* sizes above are refused; 0: messages are cut */
	uint64_t chunk;       /* default of --chunk */
	unsigned send_bufs;   /* bit masks of enum nb_buf: what the comms of either kind use */
	unsigned recv_bufs;
	bool (*sends)(int from, int to, int nranks);
	double (*bus_factor)(int nranks);
	/* The size as it is run, and how many elements that is. */
	uint64_t (*round)(const struct nb_options *opt, uint64_t size, uint64_t *count);
	/* Bytes of each buffer that serve all sizes of the run. */
	void (*buffers)(const struct nb *nb, size_t bytes[NB_BUFS]);
	/*
	 * Allocates nb->state once; sizes set up by begin, which also writes what NB_STAMP sends.
	 */
	int (*init)(struct nb *nb);
	int (*begin)(struct nb *nb, uint64_t size, enum nb_mode mode);
	int (*exchange)(struct nb *nb, uint64_t iters, enum nb_mode mode);
	/* Verify in full what the last exchange in NB_STAMP left behind. */
	void (*verify)(struct nb *nb);
	/* Divide the time of all iterations; percentiles. */
	void (*measure)(struct nb *nb, uint64_t iters, double total_us, struct nb_sample *sample);
	void (*fini)(struct nb *nb);
};

extern const struct nb_pattern nb_pingpong, nb_stream, nb_ring, nb_alltoall, nb_calls;

struct nb {
	struct host_rank *self;
	const struct nb_options *opt;
	const struct nb_pattern *pattern;
	const struct nb_run *run;
	struct host_net net;
	void *ctx;
	int ndev, dev;
	struct nccl_net_props_v12 props;
	struct host_role service, progress;
	struct host_buf buf[NB_BUFS];
	struct nb_conn *conns;
	int nconns;
	struct nb_taken taken;    /* by the connections of this rank */
	struct nb_progress watch; /* rank 0 */

	/* Progress thread only. */
	void *state;          /* the pattern's */
	uint64_t size;        /* being run, for messages */
	uint64_t wrong;       /* elements of this size */
	int complaints;       /* said so far, all sizes */
	uint32_t idle_passes; /* in a row */
	uint64_t idle_ns;     /* since when, 0: unknown yet */
};

/*
 * Internal error codes: -EIO the plugin failed, -ETIME no progress, both already said;
 * -ECANCELED the run is called off; others are the tool's own trouble.
 */

/* Say that @call on @conn (may be NULL) failed or broke a rule. Returns -EIO. */
int nb_call_failed(struct nb *nb, const struct nb_conn *conn, const char *call,
		   enum nccl_net_result rc);
int nb_call_broken(struct nb *nb, const struct nb_conn *conn, const char *call, const char *rule);

/* Count @wrong elements; says where, but only the first few times. */
void nb_wrong(struct nb *nb, const struct nb_conn *conn, uint64_t wrong, const char *fmt, ...)
	NCCL_NET_PRINTF(4, 5);

/*
 * After each pass over all connections of an exchange. 0: go on, -ECANCELED, or -ETIME when
 * nothing has moved for too long.
 */
int nb_passed(struct nb *nb, bool moved);

/* A rank process: enum host_exit. @arg is a struct nb_run. */
int nb_rank_main(struct host_rank *self, void *arg);

#endif
