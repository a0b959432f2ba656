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

#define MAX_KNOWN 16
#define END       0xffff

struct method {
	uint16_t object, method;
	int (*run)(struct se_cmd *c);
	uint16_t known[MAX_KNOWN]; /* attributes, ends with END */
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
		return write_commands[i].run(c);
	}
	se_log(SE_LOG_COMMAND, "write command %#x is not supported", cmd);
	return -EOPNOTSUPP;
}

/* clang-format off */
static const struct method methods[] = {
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, write_command,
	 {UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_ATTR_UHW_IN,
	  UVERBS_ATTR_UHW_OUT, END}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, se_query_context,
	 {UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
	  UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT, END}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, se_query_port,
	 {UVERBS_ATTR_QUERY_PORT_PORT_NUM, UVERBS_ATTR_QUERY_PORT_RESP, END}},
	{UVERBS_OBJECT_DEVICE, SE_METHOD_QUERY_PORT_SPEED, se_query_port_speed, {0, 1, END}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, se_query_gid_entry,
	 {UVERBS_ATTR_QUERY_GID_ENTRY_PORT, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
	  UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, END}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, se_query_gid_table,
	 {UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
	  UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
	  END}},
	{UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, se_verbs_alloc_async_fd,
	 {UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, END}},
	{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, se_verbs_dealloc_pd,
	 {UVERBS_ATTR_DESTROY_PD_HANDLE, END}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, se_verbs_dereg_mr,
	 {UVERBS_ATTR_DESTROY_MR_HANDLE, END}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, se_verbs_query_mr,
	 {UVERBS_ATTR_QUERY_MR_HANDLE, UVERBS_ATTR_QUERY_MR_RESP_LKEY,
	  UVERBS_ATTR_QUERY_MR_RESP_RKEY, UVERBS_ATTR_QUERY_MR_RESP_LENGTH,
	  UVERBS_ATTR_QUERY_MR_RESP_IOVA, END}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, se_verbs_reg_dmabuf_mr,
	 {UVERBS_ATTR_REG_DMABUF_MR_HANDLE, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE,
	  UVERBS_ATTR_REG_DMABUF_MR_OFFSET, UVERBS_ATTR_REG_DMABUF_MR_LENGTH,
	  UVERBS_ATTR_REG_DMABUF_MR_IOVA, UVERBS_ATTR_REG_DMABUF_MR_FD,
	  UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY,
	  UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, END}},
	{UVERBS_OBJECT_MR, SE_METHOD_REG_MR, se_verbs_reg_mr_ex,
	 {SE_ATTR_REG_MR_HANDLE, SE_ATTR_REG_MR_PD, SE_ATTR_REG_MR_DMAH, SE_ATTR_REG_MR_IOVA,
	  SE_ATTR_REG_MR_ADDR, SE_ATTR_REG_MR_LENGTH, SE_ATTR_REG_MR_ACCESS, SE_ATTR_REG_MR_FD,
	  SE_ATTR_REG_MR_FD_OFFSET, SE_ATTR_REG_MR_LKEY, SE_ATTR_REG_MR_RKEY, END}},
	{UVERBS_OBJECT_MR, SE_METHOD_MR_QUERY, se_verbs_query_mr_ic,
	 {SE_ATTR_MR_QUERY_HANDLE, SE_ATTR_MR_QUERY_VALIDITY, SE_ATTR_MR_QUERY_RECV,
	  SE_ATTR_MR_QUERY_READ, SE_ATTR_MR_QUERY_WRITE, END}},
	{UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, se_verbs_destroy_ah,
	 {UVERBS_ATTR_DESTROY_AH_HANDLE, END}},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, se_verbs_create_cq,
	 {UVERBS_ATTR_CREATE_CQ_HANDLE, UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_ATTR_CREATE_CQ_USER_HANDLE,
	  UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR,
	  UVERBS_ATTR_CREATE_CQ_FLAGS, UVERBS_ATTR_CREATE_CQ_RESP_CQE, UVERBS_ATTR_CREATE_CQ_EVENT_FD,
	  UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT, END}},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, se_verbs_destroy_cq,
	 {UVERBS_ATTR_DESTROY_CQ_HANDLE, UVERBS_ATTR_DESTROY_CQ_RESP, END}},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, se_verbs_create_qp,
	 {UVERBS_ATTR_CREATE_QP_HANDLE, UVERBS_ATTR_CREATE_QP_PD_HANDLE,
	  UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
	  UVERBS_ATTR_CREATE_QP_USER_HANDLE, UVERBS_ATTR_CREATE_QP_CAP, UVERBS_ATTR_CREATE_QP_TYPE,
	  UVERBS_ATTR_CREATE_QP_FLAGS, UVERBS_ATTR_CREATE_QP_EVENT_FD,
	  UVERBS_ATTR_CREATE_QP_RESP_CAP, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, UVERBS_ATTR_UHW_IN,
	  UVERBS_ATTR_UHW_OUT, END}},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, se_verbs_destroy_qp,
	 {UVERBS_ATTR_DESTROY_QP_HANDLE, UVERBS_ATTR_DESTROY_QP_RESP, END}},
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
	rc = se_cmd_check_known(c, m->known);
	if (rc)
		return rc;
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
