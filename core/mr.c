/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include "srd.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "libs.h"
#include "log.h"

static void memlock_limit(char *out, size_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		snprintf(out, size, "unknown");
	else if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(out, size, "unlimited");
	else
		snprintf(out, size, "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
}

/* Most often, ENOMEM means that the limit of locked memory is in the way: say what it is. */
static int reg_failed(struct srd_pd *pd, const char *call, size_t len, int access, int err)
{
	char limit[32];

	if (err != ENOMEM)
		return srd_failed(pd->ibv->context, call, err, ": %zu bytes, access %#x", len,
				  (unsigned)access);
	memlock_limit(limit, sizeof(limit));
	return srd_failed(pd->ibv->context, call, err,
			  ": %zu bytes, access %#x; RLIMIT_MEMLOCK is %s, max %u regions", len,
			  (unsigned)access, limit, pd->dev->attr.max_mr);
}

static void finish(struct srd_mr *mr, uint64_t addr, size_t len)
{
	mr->addr = addr;
	mr->len = len;
	mr->lkey = mr->ibv->lkey;
	mr->rkey = mr->ibv->rkey;
}

int srd_mr_init(struct srd_mr *mr, struct srd_pd *pd, void *addr, size_t len, int access)
{
	uint64_t start = (uintptr_t)addr;

	memset(mr, 0, sizeof(*mr));
	errno = 0;
	/* iova2 drops the optional access flags that an older kernel would refuse. */
	mr->ibv = srd_ibv.reg_mr_iova2(pd->ibv, addr, len, start, (unsigned)access);
	if (!mr->ibv)
		return reg_failed(pd, "ibv_reg_mr_iova2", len, access, errno);
	finish(mr, start, len);
	return 0;
}

int srd_mr_init_dmabuf(struct srd_mr *mr, struct srd_pd *pd, int fd, uint64_t offset, size_t len,
		       uint64_t addr, int access)
{
	memset(mr, 0, sizeof(*mr));
	if (!srd_ibv.reg_dmabuf_mr) {
		srd_warn("libibverbs lacks ibv_reg_dmabuf_mr: it is too old");
		return -EOPNOTSUPP;
	}
	errno = 0;
	mr->ibv = srd_ibv.reg_dmabuf_mr(pd->ibv, offset, len, addr, fd, access);
	if (!mr->ibv)
		return reg_failed(pd, "ibv_reg_dmabuf_mr", len, access, errno);
	finish(mr, addr, len);
	return 0;
}

void srd_mr_fini(struct srd_mr *mr)
{
	int rc = mr->ibv ? srd_ibv.dereg_mr(mr->ibv) : 0;

	if (rc)
		srd_warn("ibv_dereg_mr: %s (%d), lkey %u", strerror(rc), rc, mr->lkey);
	memset(mr, 0, sizeof(*mr));
}

int srd_mr_ids(const struct srd_mr *mr, struct srd_mr_ids *ids)
{
	struct srd_dv_mr_attr dv = {0};
	int rc;

	if (!srd_efadv.query_mr)
		return -EOPNOTSUPP;
	rc = srd_efadv.query_mr(mr->ibv, &dv, sizeof(dv));
	if (rc)
		return srd_failed(mr->ibv->context, "efadv_query_mr", rc, ": lkey %u", mr->lkey);
	ids->valid = dv.ic_id_validity;
	ids->recv = dv.recv_ic_id;
	ids->rdma_read = dv.rdma_read_ic_id;
	ids->rdma_recv = dv.rdma_recv_ic_id;
	return 0;
}
