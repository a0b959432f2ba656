/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: identity and objects. */
#include "ctx.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ah.h"
#include "channel.h"
#include "copy.h"
#include "cq.h"
#include "engine.h"
#include "log.h"
#include "mr.h"
#include "pd.h"
#include "qp.h"
#include "real.h"
#include "settings.h"

#define MAX_NUMBER (1 << 20) /* of files, when /proc cannot be asked */

static struct se_list contexts = SE_LIST_INIT(contexts);
static atomic_int ncontexts;

static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static struct se_ctx *ctx_new(uint32_t dev, const struct stat *st)
{
	struct se_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->dev = dev;
	ctx->pid = getpid();
	ctx->st_dev = st->st_dev;
	ctx->st_ino = st->st_ino;
	se_space_init(&ctx->space);
	ctx->qpn_mask = pow2_at_least(se_settings()->max_qp) - 1;
	ctx->qpn_used = calloc(ctx->qpn_mask + 1, 1);
	if (!ctx->qpn_used) {
		free(ctx);
		return NULL;
	}
	return ctx;
}

int se_ctx_open(uint32_t dev, bool cloexec)
{
	struct se_ctx *ctx = NULL;
	struct stat st;
	int fd, rc = se_copy_allowed();

	if (rc)
		return rc;
	fd = memfd_create("softefa", MFD_ALLOW_SEALING | (cloexec ? MFD_CLOEXEC : 0));
	if (fd < 0)
		return -errno;
	/* Sealed: if the application could cut it off, the engine would fall into the void. */
	if (ftruncate(fd, (off_t)SE_SPACE_SIZE) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    se_real.fstat(fd, &st))
		rc = -errno;
	else if (!(ctx = ctx_new(dev, &st)))
		rc = -ENOMEM;
	if (rc) {
		se_real.close(fd);
		return rc;
	}
	se_engine_lock();
	se_list_append(&contexts, &ctx->node);
	atomic_fetch_add(&ncontexts, 1);
	se_engine_unlock();
	se_log(SE_LOG_COMMAND, "uverbs%u opened as fd %d", dev, fd);
	return fd;
}

struct se_ctx *se_ctx_find(const struct stat *st)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &contexts) {
		struct se_ctx *ctx = se_container(n, struct se_ctx, node);

		if (ctx->st_ino == st->st_ino && ctx->st_dev == st->st_dev)
			return ctx;
	}
	return NULL;
}

bool se_ctx_any(void)
{
	return atomic_load_explicit(&ncontexts, memory_order_relaxed) != 0;
}

void se_ctx_forget_all(void)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &contexts)
		se_container(n, struct se_ctx, node)->dead = true;
	se_channel_forget_all();
}

static void destroy(struct se_obj *obj)
{
	switch (obj->type) {
	case SE_PD:
		se_pd_destroy(se_container(obj, struct se_pd, obj));
		break;
	case SE_MR:
		se_mr_destroy(se_container(obj, struct se_mr, obj));
		break;
	case SE_AH:
		se_ah_destroy(se_container(obj, struct se_ah, obj));
		break;
	case SE_CQ:
		se_cq_destroy(se_container(obj, struct se_cq, obj), &(struct se_cq_read){0});
		break;
	case SE_QP:
		se_qp_destroy(se_container(obj, struct se_qp, obj), &(uint32_t){0});
		break;
	}
}

/* The object is the parent's; only the memory is ours. */
static void forget(struct se_obj *obj)
{
	switch (obj->type) {
	case SE_PD:
		se_pd_forget(se_container(obj, struct se_pd, obj));
		break;
	case SE_MR:
		se_mr_forget(se_container(obj, struct se_mr, obj));
		break;
	case SE_AH:
		free(se_container(obj, struct se_ah, obj));
		break;
	case SE_CQ:
		se_cq_forget(se_container(obj, struct se_cq, obj));
		break;
	case SE_QP:
		se_qp_forget(se_container(obj, struct se_qp, obj));
		break;
	}
}

static void remove_from(struct se_ctx *ctx, uint32_t h)
{
	struct se_obj *obj = ctx->obj[h];

	if (!ctx->dead) {
		destroy(obj);
		return;
	}
	ctx->obj[h] = NULL;
	forget(obj);
}

void se_ctx_close(struct se_ctx *ctx)
{
	/* users before what they use */
	static const enum se_type order[] = {SE_QP, SE_CQ, SE_AH, SE_MR, SE_PD};

	ctx->space.fd = -1;
	for (unsigned t = 0; t < sizeof(order) / sizeof(order[0]); t++)
		for (uint32_t h = 0; h < ctx->nobj; h++)
			if (ctx->obj[h] && ctx->obj[h]->type == order[t])
				remove_from(ctx, h);
	se_channel_close_all(ctx);
	se_space_fini(&ctx->space);
	se_list_remove(&ctx->node);
	atomic_fetch_sub(&ncontexts, 1);
	free(ctx->obj);
	free(ctx->qpn_used);
	free(ctx);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

static void see(int fd, const struct stat *only)
{
	struct se_ctx *ctx;
	struct stat st;

	if (se_real.fstat(fd, &st) || (only && !same_file(&st, only)))
		return;
	ctx = se_ctx_find(&st);
	if (ctx)
		ctx->open = true;
}

static void see_all(const struct stat *only)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	struct rlimit l;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			see(atoi(e->d_name), only);
	if (dir)
		closedir(dir);
	else if (getrlimit(RLIMIT_NOFILE, &l) == 0)
		for (rlim_t fd = 0; fd < l.rlim_cur && fd < MAX_NUMBER; fd++)
			see((int)fd, only);
}

void se_ctx_reap(const struct stat *only)
{
	struct se_list *n, *nx;
	pid_t pid = getpid();

	se_list_each (n, nx, &contexts)
		se_container(n, struct se_ctx, node)->open = false;
	see_all(only);
	se_list_each (n, nx, &contexts) {
		struct se_ctx *ctx = se_container(n, struct se_ctx, node);

		if (only && (ctx->st_ino != only->st_ino || ctx->st_dev != only->st_dev))
			continue;
		/* The child of a vfork() closes its own files, but has the memory of its parent. */
		if (!ctx->open && (ctx->dead || ctx->pid == pid))
			se_ctx_close(ctx);
	}
}

int se_ctx_add(struct se_ctx *ctx, struct se_obj *obj, enum se_type type)
{
	uint32_t h = ctx->low_free;

	while (h < ctx->nobj && ctx->obj[h])
		h++;
	if (h == ctx->nobj) {
		uint32_t n = ctx->nobj ? 2 * ctx->nobj : 64;
		struct se_obj **p = realloc(ctx->obj, n * sizeof(struct se_obj *));

		if (!p)
			return -ENOMEM;
		memset(p + ctx->nobj, 0, (n - ctx->nobj) * sizeof(struct se_obj *));
		ctx->obj = p;
		ctx->nobj = n;
	}
	ctx->obj[h] = obj;
	ctx->low_free = h + 1;
	obj->type = type;
	obj->handle = h;
	obj->ctx = ctx;
	return 0;
}

void se_ctx_del(struct se_obj *obj)
{
	struct se_ctx *ctx = obj->ctx;

	ctx->obj[obj->handle] = NULL;
	if (obj->handle < ctx->low_free)
		ctx->low_free = obj->handle;
}

bool se_ctx_has(const struct se_ctx *ctx, uint32_t handle)
{
	return handle < ctx->nobj && ctx->obj[handle];
}

struct se_obj *se_ctx_get(const struct se_ctx *ctx, uint32_t handle, enum se_type type)
{
	if (!se_ctx_has(ctx, handle) || ctx->obj[handle]->type != type)
		return NULL;
	return ctx->obj[handle];
}
