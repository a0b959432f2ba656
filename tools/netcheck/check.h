/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a check is written against.
 *
 * A check is one function. It runs in processes of its own, in one or in each of the ranks, and
 * ends by returning; or at the first broken expectation that makes no sense to go on from, which
 * ends its process. A crash, a hang and an exit of the plugin are noticed from outside. So bodies
 * need no error paths, and clean up only what belongs to the check.
 *
 * It passes if it expected something and all of that was seen.
 */
#ifndef NETCHECK_CHECK_H
#define NETCHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/boot.h"
#include "host/guard.h"
#include "host/net.h"
#include "host/role.h"
#include "options.h"

struct check_ctx;

enum {
	CHECK_RANKS = 1,   /* the body runs in each of --ranks; else in one alone */
	CHECK_SOFTEFA = 2, /* skipped unless the plugin runs on softefa */
	CHECK_BARE = 4,    /* nothing is loaded: the body does that itself */
};

struct check {
	const char *id;    /* "C50" */
	const char *group; /* docs/netcheck.md lists them */
	const char *title; /* what holds, as a sentence without a full stop */
	const char *rule;  /* where in NCCL that comes from */
	void (*run)(struct check_ctx *ctx);
	unsigned flags;
	int min_abi; /* 0: all */
};

/* All checks of a file; the last has no id. The list of these is in table.c. */
extern const struct check load_checks[], props_checks[], conn_checks[], reg_checks[], data_checks[],
	request_checks[], wait_checks[], group_checks[], loop_checks[], scale_checks[],
	close_checks[], fail_checks[];

/* What a rank tells the runner. */
enum check_state {
	CHECK_RUNS,
	CHECK_DONE,  /* the body has returned */
	CHECK_LEFT,  /* failed or skipped: nothing more to come */
	CHECK_DYING, /* the check kills this rank, which is no fault */
};

/* In shared memory, one per rank. */
struct check_note {
	_Atomic int state;
	_Atomic uint64_t expected; /* how much was */
	_Atomic bool failed, skipped, reported;
	_Atomic bool claimed; /* text is being, or is, written; the first to claim it does so */
	uint64_t claimed_ns;
	char text[600];
	char report[600];
};

/* One per rank. */
struct check_ctx {
	const struct check *check;
	const struct nk_options *opt;
	int abi;
	struct host_net *net; /* shared by ranks that are threads; bare: not open */
	void *net_ctx;        /* of this rank */
	int ndev, dev;        /* devices there are; this rank's */
	struct host_rank *self;
	struct host_role service; /* NCCL's service thread; the body plays the progress thread */
	struct check_note *note;
	uint64_t random;    /* state of check_random() */
	uint64_t ticked_ns; /* since_ns of the last check_tick() */
};

/* ---- verdicts ---- */

/* @fmt reads "expected ..., saw ...". Returns @ok. */
bool check_expect(struct check_ctx *ctx, bool ok, const char *fmt, ...) NCCL_NET_PRINTF(3, 4);
/* The same; does not return if not @ok. */
void check_need(struct check_ctx *ctx, bool ok, const char *fmt, ...) NCCL_NET_PRINTF(3, 4);
_Noreturn void check_fail(struct check_ctx *ctx, const char *fmt, ...) NCCL_NET_PRINTF(2, 3);
/* For what is missing here and not wrong. */
_Noreturn void check_skip(struct check_ctx *ctx, const char *fmt, ...) NCCL_NET_PRINTF(2, 3);
/* What was chosen where rules leave a choice; counts as something expected and seen. */
void check_report(struct check_ctx *ctx, const char *fmt, ...) NCCL_NET_PRINTF(2, 3);

/* Fails unless @rc is success. */
void check_ok(struct check_ctx *ctx, enum nccl_net_result rc, const char *call);

/* ---- life of the plugin: for bare checks; for others the harness does all of it ---- */

void check_load(struct check_ctx *ctx, int abi);
void check_unload(struct check_ctx *ctx);
enum nccl_net_result check_init(struct check_ctx *ctx, nccl_net_log_fn log, void **net_ctx);
void check_finalize(struct check_ctx *ctx, void *net_ctx);
/* init, devices, the service thread; and their end. */
void check_begin(struct check_ctx *ctx, nccl_net_log_fn log);
/* The same; what init returns: an error, and nothing has begun. */
enum nccl_net_result check_try_begin(struct check_ctx *ctx, nccl_net_log_fn log);
void check_over(struct check_ctx *ctx);

/* ---- time and chance ---- */

/* @quick, or @full with --full. */
static inline uint64_t check_scale(const struct check_ctx *ctx, uint64_t quick, uint64_t full)
{
	return ctx->opt->full ? full : quick;
}

/*
 * Once per pass of any loop that waits for the plugin: beats, ends what takes too long, and yields,
 * unless the pass has moved @since_ns, as NCCL's progress thread does.
 */
void check_tick(struct check_ctx *ctx, uint64_t since_ns, const char *what);
/*
 * Let others run. A yield lasts until each of them had its turn: no time while cores are free, tens
 * of milliseconds while they are not, and a check of a million passes would take hours. Then it is
 * a short sleep, which ends on time.
 */
void check_yield(void);
void check_sleep_ms(uint64_t ms);

/* By --seed, check and rank; below @n. */
uint64_t check_random(struct check_ctx *ctx, uint64_t n);

/* ---- ranks ---- */

/* Fail, or leave when the run is off. By the body's thread. */
void check_barrier(struct check_ctx *ctx);
void check_allgather(struct check_ctx *ctx, const void *mine, void *all, size_t bytes);
enum { CHECK_SHARE = 8192 }; /* largest of those bytes */

/* Kills this rank's process. */
_Noreturn void check_die(struct check_ctx *ctx);

/* ---- connections: all calls here are made by the service thread ---- */

struct check_end {
	void *comm; /* NULL: none, or closed */
	bool sender;
	int peer; /* rank */
};

struct check_link {
	struct check_end send, recv;
};

/*
 * Connect to rank @to and from rank @from, as NCCL does: listen, swap of handles, connect and
 * accept in turn, closeListen. All ranks call it; with one's own rank for both it is this rank's
 * affair alone.
 */
void check_connect(struct check_ctx *ctx, struct check_link *link, int to, int from);
/* To the next rank and from the one before: all ranks in a ring; one rank: to itself. */
void check_ring(struct check_ctx *ctx, struct check_link *link);
void check_self(struct check_ctx *ctx, struct check_link *link);
void check_close(struct check_ctx *ctx, struct check_end *end);
void check_disconnect(struct check_ctx *ctx, struct check_link *link);

/*
 * The steps of these, by the calling thread: which must be the service thread when messages
 * follow. Errors fail.
 */
void *check_listen(struct check_ctx *ctx, void *handle);
/* True when *@comm has been given. */
bool check_try_connect(struct check_ctx *ctx, void *handle, void **comm);
bool check_try_accept(struct check_ctx *ctx, void *listen_comm, void **comm);
void check_close_listen(struct check_ctx *ctx, void *listen_comm);

/* The mhandle. */
void *check_reg(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size);
void check_dereg(struct check_ctx *ctx, const struct check_end *end, void *mhandle);

/* Run @job by the service thread. */
void check_service(struct check_ctx *ctx, int (*job)(void *arg), void *arg);

/* ---- memory ---- */

/* Between guard pages; ends 64 bytes of canary before one. Fails without memory. */
void check_buf_init(struct check_ctx *ctx, struct host_guard *buf, size_t size);
/* Expects that nobody wrote beside it. */
void check_buf_intact(struct check_ctx *ctx, const struct host_guard *buf, const char *what);
/* Expects so, and frees it. */
void check_buf_fini(struct check_ctx *ctx, struct host_guard *buf, const char *what);

/* Ordinary pages, at @at if that is not NULL; for munmap(). */
char *check_pages(struct check_ctx *ctx, void *at, size_t bytes);

/* ---- data: made by the body's thread ---- */

/* What NCCL leaves in request slots and *done: plugins must write them. */
#define CHECK_STALE_REQUEST ((void *)0xdead00000000dead)
enum { CHECK_STALE_DONE = 0x5a5aa5a5 };

/* The tag NCCL gives: the sender's rank. */
int check_tag(const struct check_ctx *ctx, const struct check_end *end);

/* Requests a comm must hold: NCCL before 2.19, which has no newer table than v6, has 8. */
int check_outstanding(const struct check_ctx *ctx);

/* The request, or NULL for not now. Errors and a slot that is not written fail. */
void *check_isend(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		  int tag, void *mhandle);
void *check_irecv(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		  int tag, void *mhandle);
/* A group; *@request on entry as given, and checked against that only if it is the stale one. */
void check_irecv_group(struct check_ctx *ctx, const struct check_end *end, int n, void **addrs,
		       size_t *sizes, int *tags, void **mhandles, void **request);
/*
 * Done? @sizes may be NULL; it holds NCCL_NET_TEST_SIZES ints for a receive, one for a send. Not
 * written when not done.
 */
bool check_test(struct check_ctx *ctx, void *request, int *sizes);

/* Again until it starts. */
void *check_send(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		 void *mhandle);
void *check_recv(struct check_ctx *ctx, const struct check_end *end, void *addr, size_t size,
		 void *mhandle);
/* Whatever @request has become, errors are welcome: NULL when it is no more. The result of test. */
enum nccl_net_result check_test_anyway(struct check_ctx *ctx, void **request);
/* The same for a send that may be refused: the request or NULL. */
void *check_isend_anyway(struct check_ctx *ctx, const struct check_end *end, void *addr,
			 size_t size, void *mhandle);

/* Again until it is done: the size of a receive, 0 for a send. */
int check_finish(struct check_ctx *ctx, const struct check_end *end, void *request);

/* ---- the usual: a link, and a registered buffer at either end ---- */

struct check_lane {
	struct check_link link;
	struct host_guard out, in;
	void *out_mh, *in_mh;
	uint64_t serial; /* messages passed */
};

/* In the ring of all ranks. */
void check_lane_open(struct check_ctx *ctx, struct check_lane *lane, size_t bytes);
/* On a link that there is. */
void check_lane_bufs(struct check_ctx *ctx, struct check_lane *lane, size_t bytes);
/* Expects success of all calls and that nobody wrote beside the buffers. */
void check_lane_close(struct check_ctx *ctx, struct check_lane *lane);
/*
 * One message of @size in both ends of the lane, with new contents: the receive is for all of the
 * buffer. Expects size and bytes, and no byte behind them.
 */
void check_lane_pass(struct check_ctx *ctx, struct check_lane *lane, size_t size);

#endif
