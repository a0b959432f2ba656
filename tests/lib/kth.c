/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that fail on request. */
#include "kth.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/cuda_api.h"
#include "../../core/libs.h"

/*
 * All foreign calls are of this kind to us: up to six integers and pointers, which x86-64 and
 * aarch64 pass in registers whatever their number, and one result.
 */
typedef long any_fn(long, long, long, long, long, long);

enum { CUDA_OUT_OF_MEMORY = 2 };

struct foreign {
	const char *name, *result;
	any_fn *stand_in, *real;
};

static enum kth_side counted;
static unsigned left; /* calls until the one that fails; 0: none will */
static struct kth struck;
static long live;

/* Is this the one? */
static bool strikes(enum kth_side side, const char *call, const char *what, int rc)
{
	static char copy[512]; /* of what may be on the caller's stack */

	if (side != counted || !left || --left)
		return false;
	snprintf(copy, sizeof(copy), "%s", what);
	struck = (struct kth){call, copy, rc};
	return true;
}

void kth_arm(enum kth_side side, unsigned k)
{
	counted = side;
	left = k;
	struck = (struct kth){0};
}

struct kth kth_disarm(void)
{
	left = 0;
	return struck;
}

long kth_live(void)
{
	return live;
}

/* ---- libibverbs, libefa, CUDA ---- */

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static bool is_undo(const struct foreign *f)
{
	return begins(f->name, "ibv_destroy_") || begins(f->name, "ibv_dealloc_") ||
	       begins(f->name, "ibv_dereg_") || begins(f->name, "ibv_close_") ||
	       begins(f->name, "ibv_free_");
}

/* Those that return a new object; the others' pointers are another view of one. */
static bool is_new(const struct foreign *f)
{
	return strchr(f->result, '*') && strcmp(f->name, "ibv_qp_to_qp_ex") &&
	       strcmp(f->name, "efadv_cq_from_ibv_cq_ex");
}

/* Nothing to fail: plain reads. */
static bool cannot_fail(const struct foreign *f)
{
	return !strcmp(f->result, "void") || !strcmp(f->result, "__be64") ||
	       (strchr(f->result, '*') && !is_new(f)) || !strcmp(f->name, "cuGetErrorName");
}

/* -1 with errno, where the others return it. */
static bool says_minus_one(const struct foreign *f)
{
	static const char *const names[] = {"ibv_query_gid", "ibv_close_device", "ibv_get_cq_event",
					    "ibv_get_async_event"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(f->name, names[i]))
			return true;
	return false;
}

static long fail(const struct foreign *f)
{
	errno = 0;
	if (begins(f->name, "cu"))
		return CUDA_OUT_OF_MEMORY;
	if (!strchr(f->result, '*') && !says_minus_one(f))
		return KTH_ERRNO;
	errno = KTH_ERRNO;
	return says_minus_one(f) ? -1 : 0;
}

static void hook_context(struct ibv_context *ctx);

static long call(const struct foreign *f, long a, long b, long c, long d, long e, long g)
{
	enum kth_side side = is_undo(f) ? KTH_UNDO : KTH_MAKE;
	int rc = begins(f->name, "cu") ? -ENOMEM : -KTH_ERRNO;
	bool now = !cannot_fail(f) && strikes(side, f->name, f->name, rc);
	long result;

	if (now && side == KTH_MAKE)
		return fail(f);
	result = f->real(a, b, c, d, e, g);
	if (side == KTH_UNDO)
		live--;
	else if (is_new(f) && result)
		live++;
	if (!strcmp(f->name, "ibv_open_device") && result)
		hook_context((struct ibv_context *)result);
	return now ? fail(f) : result;
}

/* What is reached through a context. X(name, result, where it is) */
#define CONTEXT_OPS(X) \
	X(query_port, int, verbs->query_port) \
	X(alloc_td, struct ibv_td *, verbs->alloc_td) \
	X(dealloc_td, int, verbs->dealloc_td) \
	X(alloc_parent_domain, struct ibv_pd *, verbs->alloc_parent_domain) \
	X(create_qp_ex, struct ibv_qp *, verbs->create_qp_ex) \
	X(req_notify_cq, int, ctx->ops.req_notify_cq)

/* Of each an index, a stand-in and a row; the tables of the core say which there are. */
#define INDEX(name)            AT_##name,
#define IBV_INDEX(name, ...)   INDEX(ibv_##name)
#define EFADV_INDEX(name, ...) INDEX(efadv_##name)
#define CUDA_INDEX(name, ...)  INDEX(name)
#define OP_INDEX(name, ...)    INDEX(op_##name)

enum {
	SRD_IBV_SYMS(IBV_INDEX) SRD_EFADV_SYMS(EFADV_INDEX) SRD_CUDA_SYMS(CUDA_INDEX)
		CONTEXT_OPS(OP_INDEX) FOREIGN
};

static struct foreign foreign[FOREIGN];

#define STAND_IN(name) \
	static long name##_stands_in(long a, long b, long c, long d, long e, long g) \
	{ \
		return call(&foreign[AT_##name], a, b, c, d, e, g); \
	}
#define IBV_STAND_IN(name, ...)   STAND_IN(ibv_##name)
#define EFADV_STAND_IN(name, ...) STAND_IN(efadv_##name)
#define CUDA_STAND_IN(name, ...)  STAND_IN(name)
#define OP_STAND_IN(name, ...)    STAND_IN(op_##name)

SRD_IBV_SYMS(IBV_STAND_IN)
SRD_EFADV_SYMS(EFADV_STAND_IN)
SRD_CUDA_SYMS(CUDA_STAND_IN)
CONTEXT_OPS(OP_STAND_IN)

#define ROW(id, name, result)                 [AT_##id] = {name, #result, id##_stands_in, NULL},
#define IBV_ROW(name, needed, result, args)   ROW(ibv_##name, "ibv_" #name, result)
#define EFADV_ROW(name, needed, result, args) ROW(efadv_##name, "efadv_" #name, result)
#define CUDA_ROW(name, needed, args)          ROW(name, #name, int)
#define OP_ROW(name, result, at)              ROW(op_##name, "ibv_" #name, result)

static struct foreign foreign[FOREIGN] = {SRD_IBV_SYMS(IBV_ROW) SRD_EFADV_SYMS(EFADV_ROW)
						  SRD_CUDA_SYMS(CUDA_ROW) CONTEXT_OPS(OP_ROW)};

/* Put the stand-in where a function pointer is. */
static void hook(struct foreign *f, void *slot)
{
	any_fn *now;

	memcpy(&now, slot, sizeof(now));
	if (!now || now == f->stand_in)
		return;
	f->real = now;
	memcpy(slot, &f->stand_in, sizeof(now));
}

static void hook_context(struct ibv_context *ctx)
{
	struct verbs_context *verbs = verbs_get_ctx(ctx);

#define HOOK(name, result, at) hook(&foreign[AT_op_##name], &(at));
	CONTEXT_OPS(HOOK)
}

/* ---- the C library ---- */

#define X(name) extern __typeof__(name) __real_##name, __wrap_##name;
KTH_LIBC(X)
#undef X

#define FAILS(name, err) strikes(KTH_MAKE, #name, #name, -(err))

/* Counted only where the core uses them: what else is linked with us may free what it got. */
static void *counted_pointer(void *p)
{
	live += p ? 1 : 0;
	return p;
}

void *__wrap_malloc(size_t n)
{
	if (FAILS(malloc, ENOMEM))
		return NULL;
	return counted_pointer(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
	if (FAILS(calloc, ENOMEM))
		return NULL;
	return counted_pointer(__real_calloc(n, size));
}

void __wrap_free(void *p)
{
	live -= p ? 1 : 0;
	__real_free(p);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	errno = EMFILE;
	if (FAILS(fopen, EMFILE))
		return NULL;
	return counted_pointer(__real_fopen(path, mode));
}

int __wrap_fclose(FILE *f)
{
	live--;
	return __real_fclose(f);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr)
{
	return FAILS(pthread_mutex_init, ENOMEM) ? ENOMEM : __real_pthread_mutex_init(lock, attr);
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	errno = EMFILE;
	return FAILS(open, EMFILE) ? -1 : __real_open(path, flags, mode);
}

DIR *__wrap_opendir(const char *path)
{
	errno = EMFILE;
	if (FAILS(opendir, EMFILE))
		return NULL;
	return counted_pointer(__real_opendir(path));
}

int __wrap_closedir(DIR *dir)
{
	live--;
	return __real_closedir(dir);
}

int __wrap_fcntl(int fd, int cmd, ...)
{
	va_list args;
	long arg;

	va_start(args, cmd);
	arg = va_arg(args, long); /* as long as a pointer; what is not there is not read by it */
	va_end(args);
	errno = EMFILE;
	return FAILS(fcntl, EMFILE) ? -1 : __real_fcntl(fd, cmd, arg);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	errno = ENOMEM;
	return FAILS(poll, ENOMEM) ? -1 : __real_poll(fds, n, timeout_ms);
}

void *__wrap_dlopen(const char *name, int flags)
{
	if (strikes(KTH_MAKE, "dlopen", name, -ENOENT))
		return NULL;
	return __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *lib, const char *name)
{
	void *fn;

	if (strikes(KTH_MAKE, "dlsym", name, -EOPNOTSUPP))
		return NULL;
	fn = __real_dlsym(lib, name);
	for (struct foreign *f = foreign; f < foreign + AT_op_query_port; f++)
		if (!strcmp(f->name, name))
			hook(f, &fn);
	return fn;
}
