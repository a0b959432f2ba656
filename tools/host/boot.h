/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap: the rank processes of a run, their rendezvous, and the supervisor that ends the run
 * when one of them fails, dies or hangs. Plugins never see any of it.
 *
 * Every wait is bounded: waits of ranks for each other end when the supervisor calls the run off,
 * and the supervisor does so when a rank has not beaten for the time limit. In a run over several
 * hosts each rank has a supervisor of its own; that of one which fails tells the others.
 */
#ifndef HOST_BOOT_H
#define HOST_BOOT_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_net_abi.h"

enum { HOST_MAX_RANKS = 64, HOST_TERMS_BYTES = 400, HOST_CALLS_BYTES = 128 };

/* Exit codes of a rank and of a run; a run ends with the largest of its ranks'. */
enum host_exit {
	HOST_PASS = 0,
	HOST_WRONG = 1, /* the data is not what was sent */
	HOST_FAIL = 2,  /* the plugin failed: an error result, a broken rule, a hang, a death */
	HOST_USAGE = 3, /* bad options, or the tool could not do its work: a rank did not come */
};

/* The threads of a rank which touch the plugin. */
enum host_actor { HOST_MAIN, HOST_SERVICE, HOST_PROGRESS, HOST_ACTORS };

/* One cache line per actor: written by that thread alone, read by the supervisor. */
struct host_pulse {
	_Alignas(64) _Atomic uint64_t beats;
	_Atomic(const char *)
		call; /* last plugin call entered; string literals, same in all ranks */
};

struct host_boot;

/* A rank's own view; borrowed from the run. */
struct host_rank {
	int rank;
	int nranks;
	int timeout_s;
	struct host_boot *boot;
	struct host_pulse *pulse; /* [HOST_ACTORS] */
};

struct host_run {
	const char *program; /* for messages */
	int nranks;
	int timeout_s; /* a rank without a beat for so long hangs */
	size_t share;  /* largest contribution to host_allgather(), bytes */
	/*
	 * root.sin_port 0: all ranks are started here. Else only @rank is; the others are started
	 * like it, on any host, and meet where rank 0 listens. Those whose terms differ are turned
	 * away. Shares travel as they lie in memory: the hosts must be alike.
	 */
	struct sockaddr_in root;
	int rank;
	const char *terms; /* all must agree on: "--name value ...", below HOST_TERMS_BYTES */
	int (*main)(struct host_rank *self, void *arg); /* in each rank; returns enum host_exit */
	void *arg;
};

/*
 * Start the ranks, watch them, reap them. Returns an enum host_exit, or 128 + N when signal N
 * interrupted the run. Call it before the process has threads: it forks.
 */
int host_run(const struct host_run *run);

/*
 * For callers that start and watch ranks themselves, as processes they fork or as threads: what
 * the ranks share. NULL when there is no memory, which is said.
 */
struct host_boot *host_boot_new(int nranks, size_t share);
void host_boot_free(struct host_boot *boot);
struct host_rank host_boot_rank(struct host_boot *boot, int rank, int nranks, int timeout_s);
/* Call the run off: waits of the ranks for each other end. */
void host_boot_off(struct host_boot *boot);
/* "service regMr, progress test": which of them is stuck the reader can tell, we cannot. */
void host_boot_calls(struct host_boot *boot, int rank, char *text, size_t size);

/* Called by one thread of each rank, @actor. 0, or -ECANCELED when the run is called off. */
int host_barrier(struct host_rank *self, enum host_actor actor);

/* @bytes from each rank to all, in order of rank. Same results as the barrier. */
int host_allgather(struct host_rank *self, enum host_actor actor, const void *mine, void *all,
		   size_t bytes);

/* The run is called off: unwind and leave. */
bool host_over(const struct host_rank *self);

/* "I am alive": once per pass of a polling loop, and between the pieces of what takes long. */
static inline void host_beat(struct host_rank *self, enum host_actor actor)
{
	_Atomic uint64_t *beats = &self->pulse[actor].beats;

	/* One writer: no read-modify-write needed. */
	atomic_store_explicit(beats, atomic_load_explicit(beats, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* @actor is about to enter @call, a string literal; shown if it does not come back. */
static inline void host_entering(struct host_rank *self, enum host_actor actor, const char *call)
{
	atomic_store_explicit(&self->pulse[actor].call, call, memory_order_relaxed);
}

/* Monotonic time. */
uint64_t host_now_ns(void);

#endif
