/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of memory regions. */
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "abi.h"
#include "mr.h"
#include "uverbs.h"

#define RELAXED_ORDERING (1u << 20)
/* Of a dma-buf the kernel's core takes no other access flags, optional or not. */
#define DMABUF_ACCESS \
	(SE_LOCAL_WRITE | SE_REMOTE_WRITE | SE_REMOTE_READ | SE_REMOTE_ATOMIC | RELAXED_ORDERING)

#define OBJ(type, o) se_container(o, struct type, obj)

int se_verbs_reg_mr(struct se_cmd *c)
{
	struct ib_uverbs_reg_mr in;
	struct ib_uverbs_reg_mr_resp r = {0};
	struct se_mr_attr a = {0};
	struct se_obj *pd;
	struct se_mr *mr;
	int rc = se_cmd_in(c, UVERBS_ATTR_CORE_IN, &in, sizeof(in));

	if (rc)
		return rc;
	pd = se_ctx_get(c->ctx, in.pd_handle, SE_PD);
	if (!pd)
		return -EINVAL;
	a.addr = in.start;
	a.len = in.length;
	a.iova = in.hca_va;
	a.access = in.access_flags;
	rc = se_mr_create(OBJ(se_pd, pd), &a, &mr);
	if (rc)
		return rc;
	r.mr_handle = mr->obj.handle;
	r.lkey = r.rkey = mr->key;
	rc = se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	if (rc)
		se_mr_destroy(mr);
	return rc;
}

/* Make a region and tell handle and keys in attributes @handle, @lkey and @lkey + 1. */
static int create(struct se_cmd *c, struct se_obj *pd, const struct se_mr_attr *a, uint16_t handle,
		  uint16_t lkey)
{
	struct se_mr *mr;
	int rc = se_mr_create(OBJ(se_pd, pd), a, &mr);

	if (rc)
		return rc;
	rc = se_cmd_out(c, lkey, &mr->key, sizeof(mr->key));
	if (!rc)
		rc = se_cmd_out(c, lkey + 1, &mr->key, sizeof(mr->key));
	if (!rc)
		rc = se_cmd_out_handle(c, handle, mr->obj.handle);
	if (rc)
		se_mr_destroy(mr);
	return rc;
}

int se_verbs_reg_dmabuf_mr(struct se_cmd *c)
{
	struct se_mr_attr a = {.dmabuf = true};
	struct se_obj *pd;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, SE_PD, &pd);

	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &a.addr, sizeof(a.addr));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &a.len, sizeof(a.len));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_REG_DMABUF_MR_IOVA, &a.iova, sizeof(a.iova));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_REG_DMABUF_MR_FD, &a.fd, sizeof(a.fd));
	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &a.access,
			       sizeof(a.access));
	if (rc)
		return rc;
	if (a.access & ~DMABUF_ACCESS)
		return -EINVAL;
	return create(c, pd, &a, UVERBS_ATTR_REG_DMABUF_MR_HANDLE,
		      UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY);
}

/* Memory comes by address, or by descriptor and offset. */
static int mr_ex_memory(struct se_cmd *c, struct se_mr_attr *a)
{
	bool addr = se_cmd_find(c, SE_ATTR_REG_MR_ADDR);
	bool off = se_cmd_find(c, SE_ATTR_REG_MR_FD_OFFSET);
	int rc;

	a->dmabuf = se_cmd_find(c, SE_ATTR_REG_MR_FD);
	if (a->dmabuf ? addr || !off : !addr || off)
		return -EINVAL;
	rc = se_cmd_in_optional(c, SE_ATTR_REG_MR_FD, &a->fd, sizeof(a->fd));
	return rc ? rc
		  : se_cmd_in(c, a->dmabuf ? SE_ATTR_REG_MR_FD_OFFSET : SE_ATTR_REG_MR_ADDR,
			      &a->addr, sizeof(a->addr));
}

int se_verbs_reg_mr_ex(struct se_cmd *c)
{
	struct se_mr_attr a = {0};
	struct se_obj *pd;
	int rc = se_cmd_in_object(c, SE_ATTR_REG_MR_PD, SE_PD, &pd);

	if (!rc)
		rc = mr_ex_memory(c, &a);
	if (!rc)
		rc = se_cmd_in(c, SE_ATTR_REG_MR_IOVA, &a.iova, sizeof(a.iova));
	if (!rc)
		rc = se_cmd_in(c, SE_ATTR_REG_MR_LENGTH, &a.len, sizeof(a.len));
	if (!rc)
		rc = se_cmd_in(c, SE_ATTR_REG_MR_ACCESS, &a.access, sizeof(a.access));
	if (!rc && a.dmabuf && a.access & ~DMABUF_ACCESS)
		rc = -EINVAL;
	return rc ? rc : create(c, pd, &a, SE_ATTR_REG_MR_HANDLE, SE_ATTR_REG_MR_LKEY);
}

int se_verbs_dereg_mr(struct se_cmd *c)
{
	struct se_obj *o;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_DESTROY_MR_HANDLE, SE_MR, &o);

	return rc ? rc : se_mr_destroy(OBJ(se_mr, o));
}

int se_verbs_query_mr(struct se_cmd *c)
{
	struct se_obj *o;
	struct se_mr *mr;
	int rc = se_cmd_in_object(c, UVERBS_ATTR_QUERY_MR_HANDLE, SE_MR, &o);

	if (rc)
		return rc;
	mr = OBJ(se_mr, o);
	rc = se_cmd_out(c, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mr->len, sizeof(mr->len));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &mr->iova, sizeof(mr->iova));
	return rc;
}

/* Which interconnect serves a region: no such thing here, so nothing is valid. */
int se_verbs_query_mr_ic(struct se_cmd *c)
{
	const uint16_t none = 0;
	struct se_obj *o;
	int rc = se_cmd_in_object(c, SE_ATTR_MR_QUERY_HANDLE, SE_MR, &o);

	for (uint16_t id = SE_ATTR_MR_QUERY_VALIDITY; !rc && id <= SE_ATTR_MR_QUERY_WRITE; id++)
		rc = se_cmd_out(c, id, &none, sizeof(none));
	return rc;
}
