/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One command: the ioctl envelope and its attributes, copied in, with the rules by which values
 * travel. Nothing in it is trusted; application memory is only touched by safe copies.
 */
#ifndef SE_CMD_H
#define SE_CMD_H

#include <stddef.h>
#include <stdint.h>

#include "ctx.h"

#define SE_CMD_MAX_ATTRS 64

struct se_cmd_attr {
	uint16_t id;
	uint16_t len;
	uint16_t flags;
	uint16_t reserved;
	uint64_t data; /* the value when len <= 8, else a pointer; handle or fd when len is 0 */
};

struct se_cmd_hdr {
	uint16_t length;
	uint16_t object, method;
	uint16_t nattrs;
	uint64_t reserved1;
	uint32_t driver_id;
	uint32_t reserved2;
};

struct se_cmd {
	struct se_ctx *ctx;
	uint64_t user; /* where the application has it */
	struct se_cmd_hdr hdr;
	struct se_cmd_attr attr[SE_CMD_MAX_ATTRS];
};

/* Read the command at @user. 0, -EFAULT, -EINVAL or -EPROTONOSUPPORT. */
int se_cmd_read(struct se_cmd *c, struct se_ctx *ctx, uint64_t user);
/* Write back the attributes (handles, flags). */
int se_cmd_write(const struct se_cmd *c);
/* -EPROTONOSUPPORT when a mandatory attribute is not in @known, which ends with 0xffff. */
int se_cmd_check_known(const struct se_cmd *c, const uint16_t *known);

struct se_cmd_attr *se_cmd_find(struct se_cmd *c, uint16_t id);

/* Input: bytes beyond the attribute's are zero. -EINVAL: not there (optional: no error, zeros). */
int se_cmd_in(struct se_cmd *c, uint16_t id, void *dst, size_t len);
int se_cmd_in_optional(struct se_cmd *c, uint16_t id, void *dst, size_t len);
/* The object of @type that the attribute names; -EINVAL: no attribute, -ENOENT: no such object. */
int se_cmd_in_object(struct se_cmd *c, uint16_t id, enum se_type type, struct se_obj **obj);

/* Output, cut to the application's room and padded with zeros. No error when nobody asks for it. */
int se_cmd_out(struct se_cmd *c, uint16_t id, const void *src, size_t len);
int se_cmd_out_handle(struct se_cmd *c, uint16_t id, uint64_t handle);

#endif
