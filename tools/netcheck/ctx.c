/* SPDX-License-Identifier: BSD-3-Clause */
/* Verdicts, time, chance, and the ranks of a check. */
#include "check.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host/log.h"

/* See check_yield(). */
enum { NAP_NS = 30000, CROWDED_NS = 1000000, CROWDED_FOR_NS = 500000000 };

/* ---- verdicts ---- */

/* The first text stays: what comes later is often its consequence. */
static void note_write(struct check_note *note, _Atomic bool *verdict, const char *fmt,
		       va_list args)
{
	bool free = false;

	if (atomic_compare_exchange_strong(&note->claimed, &free, true)) {
		note->claimed_ns = host_now_ns();
		vsnprintf(note->text, sizeof(note->text), fmt, args);
	}
	atomic_store(verdict, true);
}

/* The process ends, with all its ranks; the runner ends the others. */
static _Noreturn void leave(struct check_ctx *ctx)
{
	atomic_store(&ctx->note->state, CHECK_LEFT);
	fflush(NULL);
	_exit(0);
}

bool check_expect(struct check_ctx *ctx, bool ok, const char *fmt, ...)
{
	va_list args;

	atomic_fetch_add(&ctx->note->expected, 1);
	if (ok)
		return true;
	va_start(args, fmt);
	note_write(ctx->note, &ctx->note->failed, fmt, args);
	va_end(args);
	return false;
}

void check_need(struct check_ctx *ctx, bool ok, const char *fmt, ...)
{
	va_list args;

	atomic_fetch_add(&ctx->note->expected, 1);
	if (ok)
		return;
	va_start(args, fmt);
	note_write(ctx->note, &ctx->note->failed, fmt, args);
	va_end(args);
	leave(ctx);
}

void check_fail(struct check_ctx *ctx, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	note_write(ctx->note, &ctx->note->failed, fmt, args);
	va_end(args);
	leave(ctx);
}

void check_skip(struct check_ctx *ctx, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	note_write(ctx->note, &ctx->note->skipped, fmt, args);
	va_end(args);
	leave(ctx);
}

void check_report(struct check_ctx *ctx, const char *fmt, ...)
{
	struct check_note *note = ctx->note;
	va_list args;

	if (atomic_exchange(&note->reported, true))
		return;
	va_start(args, fmt);
	vsnprintf(note->report, sizeof(note->report), fmt, args);
	va_end(args);
	atomic_fetch_add(&note->expected, 1);
}

void check_ok(struct check_ctx *ctx, enum nccl_net_result rc, const char *call)
{
	check_need(ctx, !rc, "expected success of %s, saw %d (%s)", call, (int)rc,
		   host_result_str(rc));
}

/* ---- time and chance ---- */

void check_yield(void)
{
	static _Thread_local uint64_t crowded_until_ns;
	uint64_t before_ns = host_now_ns(), after_ns;

	if (before_ns < crowded_until_ns) {
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
		return;
	}
	sched_yield();
	after_ns = host_now_ns();
	if (after_ns - before_ns > CROWDED_NS)
		crowded_until_ns = after_ns + CROWDED_FOR_NS;
}

void check_tick(struct check_ctx *ctx, uint64_t since_ns, const char *what)
{
	uint64_t limit_ms = ctx->opt->timeout * 1000;

	host_beat(ctx->self, HOST_PROGRESS);
	if (host_over(ctx->self))
		leave(ctx);
	if (host_now_ns() - since_ns > limit_ms * 1000000)
		check_fail(ctx, "expected %s, saw nothing of it in %d s", what,
			   (int)(limit_ms / 1000));
	if (since_ns == ctx->ticked_ns)
		check_yield();
	ctx->ticked_ns = since_ns;
}

void check_sleep_ms(uint64_t ms)
{
	struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

uint64_t check_random(struct check_ctx *ctx, uint64_t n)
{
	/* splitmix64 */
	uint64_t x = ctx->random += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x ^ (x >> 31)) % n;
}

/* ---- ranks ---- */

void check_barrier(struct check_ctx *ctx)
{
	host_entering(ctx->self, HOST_MAIN, "barrier");
	if (host_barrier(ctx->self, HOST_MAIN))
		leave(ctx);
	host_entering(ctx->self, HOST_MAIN, NULL);
}

void check_allgather(struct check_ctx *ctx, const void *mine, void *all, size_t bytes)
{
	host_entering(ctx->self, HOST_MAIN, "all-gather");
	if (host_allgather(ctx->self, HOST_MAIN, mine, all, bytes))
		leave(ctx);
	host_entering(ctx->self, HOST_MAIN, NULL);
}

void check_die(struct check_ctx *ctx)
{
	atomic_store(&ctx->note->state, CHECK_DYING);
	raise(SIGKILL);
	_exit(1);
}

/* ---- memory ---- */

void check_buf_init(struct check_ctx *ctx, struct host_guard *buf, size_t size)
{
	int rc = host_guard_init(buf, size, 64);

	if (rc)
		check_skip(ctx, "no %zu bytes of memory: %s", size, strerror(-rc));
}

void check_buf_intact(struct check_ctx *ctx, const struct host_guard *buf, const char *what)
{
	const char *bad = host_guard_broken(buf);

	check_expect(ctx, !bad, "expected no byte beside %s written, saw one %td bytes from its %s",
		     what, bad && bad < buf->addr ? buf->addr - bad : bad - buf->addr,
		     bad && bad < buf->addr ? "start, before it" : "start");
}

void check_buf_fini(struct check_ctx *ctx, struct host_guard *buf, const char *what)
{
	check_buf_intact(ctx, buf, what);
	host_guard_fini(buf);
}

char *check_pages(struct check_ctx *ctx, void *at, size_t bytes)
{
	int fixed = at ? MAP_FIXED_NOREPLACE : 0;
	char *map = mmap(at, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);

	if (map == MAP_FAILED || (at && map != at))
		check_skip(ctx, "no %zu bytes of memory%s", bytes,
			   at ? " where some had been before" : "");
	return map;
}
