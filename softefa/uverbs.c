/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatch of commands. */
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "abi.h"
#include "control.h"
#include "engine.h"
#include "log.h"

/* Attributes, as the kernel's uverbs_std_types_*.c declare them; the letters are those there. */
#define IN(id, n) \
	{ \
		id, SE_CMD_IN, true, n, n \
	}
#define IN_OPT(id, n) \
	{ \
		id, SE_CMD_IN, false, n, n \
	}
#define CONST(id) IN(id, 8)
#define FLAGS(id) \
	{ \
		id, SE_CMD_IN, true, 4, 8 \
	}
#define FLAGS_OPT(id) \
	{ \
		id, SE_CMD_IN, false, 4, 8 \
	}
#define STRUCT(id, n) \
	{ \
		id, SE_CMD_IN_ZERO, true, n, n \
	}
#define FILE_NO(id, m) \
	{ \
		id, SE_CMD_IN, m, 0, 8 \
	} /* no object: libraries differ in its length */
#define OUT(id, n) \
	{ \
		id, SE_CMD_OUT, true, n, n \
	}
#define OUT_OPT(id, n) \
	{ \
		id, SE_CMD_OUT, false, n, n \
	}
#define OUT_MIN(id, n) \
	{ \
		id, SE_CMD_OUT, true, n, UINT16_MAX \
	}
#define OBJ(id) \
	{ \
		id, SE_CMD_OBJECT, true, 0, 0 \
	}
#define OBJ_OPT(id) \
	{ \
		id, SE_CMD_OBJECT, false, 0, 0 \
	}
#define ABSENT(id) \
	{ \
		id, SE_CMD_ABSENT, false, 0, 0 \
	}
#define UHW \
	{UVERBS_ATTR_UHW_IN, SE_CMD_IN, false, 0, UINT16_MAX}, \
	{ \
		UVERBS_ATTR_UHW_OUT, SE_CMD_OUT, false, 0, UINT16_MAX \
	}

struct method {
	uint16_t object, method;
	int (*run)(struct se_cmd *c);
	const struct se_cmd_spec *spec;
};

#define EX(cmd) (IB_USER_VERBS_CMD_FLAG_EXTENDED | (cmd))

/* Commands that travel in their old form inside INVOKE_WRITE, with the sizes a kernel wants. */
static const struct {
	uint32_t cmd;
	uint16_t in, out;
	int (*run)(struct se_cmd *c);
} write_commands[] = {
	{IB_USER_VERBS_CMD_QUERY_DEVICE, 8, 176, se_query_device_short},
	{EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE), 8, 184, se_query_device},
	{IB_USER_VERBS_CMD_ALLOC_PD, 8, 4, se_verbs_alloc_pd},
	{IB_USER_VERBS_CMD_REG_MR, 40, 12, se_verbs_reg_mr},
	{IB_USER_VERBS_CMD_CREATE_AH, 56, 4, se_verbs_create_ah},
	{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 8, 4, se_verbs_create_channel},
	{IB_USER_VERBS_CMD_MODIFY_QP, 112, 0, se_verbs_modify_qp},
	{IB_USER_VERBS_CMD_QUERY_QP, 16, 128, se_verbs_query_qp},
};

/*
 * The library's first ioctl, a query without anything, asks whether this way works: any errno will
 * do but "no such method".
 */
static int write_command(struct se_cmd *c)
{
	struct se_cmd_attr *in = se_cmd_find(c, UVERBS_ATTR_CORE_IN);
	struct se_cmd_attr *out = se_cmd_find(c, UVERBS_ATTR_CORE_OUT);
	uint32_t cmd;
	int rc = se_cmd_in(c, UVERBS_ATTR_WRITE_CMD, &cmd, sizeof(cmd));

	if (rc)
		return rc;
	for (unsigned i = 0; i < sizeof(write_commands) / sizeof(write_commands[0]); i++) {
		if (write_commands[i].cmd != cmd)
			continue;
		if ((in ? in->len : 0) < write_commands[i].in ||
		    (out ? out->len : 0) < write_commands[i].out)
			return -ENOSPC;
		if (!c->ctx->ready)
			return -EINVAL;
		return write_commands[i].run(c);
	}
	se_log(SE_LOG_COMMAND, "write command %#x is not supported", cmd);
	return cmd & ~EX(0xffu) ? -EINVAL : -EOPNOTSUPP;
}

/* What the kernel knows and the driver of the device does not. */
static int unsupported(struct se_cmd *c)
{
	(void)c;
	return -EOPNOTSUPP;
}

/* clang-format off */
#define ATTRS(...) (const struct se_cmd_spec[]){__VA_ARGS__, {.id = SE_CMD_END}}

static const struct method methods[] = {
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, write_command, ATTRS(
		{UVERBS_ATTR_CORE_IN, SE_CMD_IN, false, 4, UINT16_MAX},
		{UVERBS_ATTR_CORE_OUT, SE_CMD_OUT, false, 0, UINT16_MAX},
		CONST(UVERBS_ATTR_WRITE_CMD), UHW)},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES, se_query_handles, ATTRS(
		CONST(UVERBS_ATTR_INFO_OBJECT_ID),
		OUT_OPT(UVERBS_ATTR_INFO_TOTAL_HANDLES, 4),
		{UVERBS_ATTR_INFO_HANDLES_LIST, SE_CMD_OUT, false, 4, UINT16_MAX})},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, se_query_context, ATTRS(
		OUT_OPT(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4),
		OUT_OPT(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8), UHW)},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, unsupported, ATTRS(
		OUT_OPT(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4),
		OUT_OPT(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8))},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, se_query_port, ATTRS(
		CONST(UVERBS_ATTR_QUERY_PORT_PORT_NUM),
		OUT_MIN(UVERBS_ATTR_QUERY_PORT_RESP, 44))},
	{UVERBS_OBJECT_DEVICE, SE_METHOD_QUERY_PORT_SPEED, se_query_port_speed, ATTRS(
		CONST(SE_ATTR_PORT_SPEED_PORT), OUT(SE_ATTR_PORT_SPEED_RESP, 8))},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, se_query_gid_entry, ATTRS(
		CONST(UVERBS_ATTR_QUERY_GID_ENTRY_PORT),
		CONST(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
		FLAGS(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS),
		OUT_MIN(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 32))},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, se_query_gid_table, ATTRS(
		{UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, SE_CMD_IN, false, 8, 8},
		FLAGS_OPT(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS),
		OUT_MIN(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0),
		OUT(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8))},
	{UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, se_verbs_alloc_async_fd,
	 ATTRS(OBJ(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE))},
	{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, se_verbs_dealloc_pd,
	 ATTRS(OBJ(UVERBS_ATTR_DESTROY_PD_HANDLE))},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, se_verbs_dereg_mr,
	 ATTRS(OBJ(UVERBS_ATTR_DESTROY_MR_HANDLE))},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, unsupported, ATTRS(
		OBJ(UVERBS_ATTR_ADVISE_MR_PD_HANDLE), CONST(UVERBS_ATTR_ADVISE_MR_ADVICE),
		FLAGS(UVERBS_ATTR_ADVISE_MR_FLAGS),
		{UVERBS_ATTR_ADVISE_MR_SGE_LIST, SE_CMD_IN, true, 16, UINT16_MAX})},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, se_verbs_query_mr, ATTRS(
		OBJ(UVERBS_ATTR_QUERY_MR_HANDLE),
		OUT(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4), OUT(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4),
		OUT(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8),
		OUT_OPT(UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8))},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, se_verbs_reg_dmabuf_mr, ATTRS(
		OBJ(UVERBS_ATTR_REG_DMABUF_MR_HANDLE), OBJ(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE),
		IN(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8), IN(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8),
		IN(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8),
		FILE_NO(UVERBS_ATTR_REG_DMABUF_MR_FD, true),
		FLAGS(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS),
		OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4),
		OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4))},
	{UVERBS_OBJECT_MR, SE_METHOD_REG_MR, se_verbs_reg_mr_ex, ATTRS(
		OBJ(SE_ATTR_REG_MR_HANDLE), OBJ(SE_ATTR_REG_MR_PD), ABSENT(SE_ATTR_REG_MR_DMAH),
		IN(SE_ATTR_REG_MR_IOVA, 8), IN_OPT(SE_ATTR_REG_MR_ADDR, 8),
		IN(SE_ATTR_REG_MR_LENGTH, 8), FLAGS(SE_ATTR_REG_MR_ACCESS),
		FILE_NO(SE_ATTR_REG_MR_FD, false), IN_OPT(SE_ATTR_REG_MR_FD_OFFSET, 8),
		OUT(SE_ATTR_REG_MR_LKEY, 4), OUT(SE_ATTR_REG_MR_RKEY, 4))},
	{UVERBS_OBJECT_MR, SE_METHOD_MR_QUERY, se_verbs_query_mr_ic, ATTRS(
		OBJ(SE_ATTR_MR_QUERY_HANDLE), OUT(SE_ATTR_MR_QUERY_VALIDITY, 2),
		OUT(SE_ATTR_MR_QUERY_RECV, 2), OUT(SE_ATTR_MR_QUERY_READ, 2),
		OUT(SE_ATTR_MR_QUERY_WRITE, 2))},
	{UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, se_verbs_destroy_ah,
	 ATTRS(OBJ(UVERBS_ATTR_DESTROY_AH_HANDLE))},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, se_verbs_create_cq, ATTRS(
		OBJ(UVERBS_ATTR_CREATE_CQ_HANDLE), IN(UVERBS_ATTR_CREATE_CQ_CQE, 4),
		IN(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8),
		OBJ_OPT(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL),
		IN(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4), FLAGS_OPT(UVERBS_ATTR_CREATE_CQ_FLAGS),
		OUT(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4), OBJ_OPT(UVERBS_ATTR_CREATE_CQ_EVENT_FD),
		IN_OPT(SE_ATTR_CREATE_CQ_VA, 8), IN_OPT(SE_ATTR_CREATE_CQ_LENGTH, 8),
		FILE_NO(SE_ATTR_CREATE_CQ_FD, false), IN_OPT(SE_ATTR_CREATE_CQ_OFFSET, 8), UHW)},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, se_verbs_destroy_cq, ATTRS(
		OBJ(UVERBS_ATTR_DESTROY_CQ_HANDLE), OUT(UVERBS_ATTR_DESTROY_CQ_RESP, 8))},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, se_verbs_create_qp, ATTRS(
		OBJ(UVERBS_ATTR_CREATE_QP_HANDLE), ABSENT(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE),
		OBJ_OPT(UVERBS_ATTR_CREATE_QP_PD_HANDLE), ABSENT(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
		OBJ_OPT(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
		OBJ_OPT(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
		ABSENT(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE),
		IN(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8), STRUCT(UVERBS_ATTR_CREATE_QP_CAP, 20),
		CONST(UVERBS_ATTR_CREATE_QP_TYPE), FLAGS_OPT(UVERBS_ATTR_CREATE_QP_FLAGS),
		IN_OPT(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, 4),
		OBJ_OPT(UVERBS_ATTR_CREATE_QP_EVENT_FD),
		OUT_MIN(UVERBS_ATTR_CREATE_QP_RESP_CAP, 20),
		OUT(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4), UHW)},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, se_verbs_destroy_qp, ATTRS(
		OBJ(UVERBS_ATTR_DESTROY_QP_HANDLE), OUT(UVERBS_ATTR_DESTROY_QP_RESP, 4))},
};
/* clang-format on */

static const struct method *find(const struct se_cmd_hdr *h)
{
	for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].object == h->object && methods[i].method == h->method)
			return &methods[i];
	return NULL;
}

static int run(struct se_cmd *c, int fd)
{
	const struct method *m = find(&c->hdr);
	int rc;

	if (c->ctx->dead || c->ctx->fatal)
		return -EIO;
	if (!m)
		return -EPROTONOSUPPORT;
	rc = se_cmd_check(c, m->spec);
	if (rc)
		return rc;
	if (c->ctx->ready ? m->run == se_query_context
			  : m->run != se_query_context && m->run != write_command)
		return -EINVAL;
	/* Handles travel in the command itself: nothing is made that could not be told. */
	rc = se_cmd_write(c);
	if (rc)
		return rc;
	c->ctx->space.fd = fd;
	rc = m->run(c);
	return rc ? rc : se_cmd_write(c);
}

int se_uverbs_ioctl(int fd, const struct stat *st, uint64_t arg)
{
	struct se_ctx *ctx;
	struct se_cmd c;
	int rc;

	c.hdr = (struct se_cmd_hdr){0};
	se_engine_lock();
	ctx = se_ctx_find(st);
	if (!ctx) {
		se_engine_unlock();
		return -ENOTTY;
	}
	se_control_check();
	rc = se_cmd_read(&c, ctx, arg);
	if (!rc)
		rc = run(&c, fd);
	se_engine_unlock();
	se_log(SE_LOG_COMMAND, "object %u method %#x: %s", c.hdr.object, c.hdr.method,
	       rc ? strerror(-rc) : "ok");
	return rc;
}
