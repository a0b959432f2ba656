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

#define SE_CMD_MAX_ATTRS 254 /* what a page holds */

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

/* What a method knows of an attribute. */
enum se_cmd_kind {
	SE_CMD_IN,      /* @min to @max bytes */
	SE_CMD_IN_ZERO, /* as above; beyond @max only zeros */
	SE_CMD_OUT,     /* @min to @max bytes */
	SE_CMD_OBJECT,  /* a handle or file of the context, or the place for a new one */
	SE_CMD_ABSENT,  /* an object of a type that this device does not have */
};

struct se_cmd_spec {
	uint16_t id; /* SE_CMD_END after the last */
	uint8_t kind;
	bool must;
	uint16_t min, max;
};

#define SE_CMD_END 0xffff

/*
 * The kernel's rules: -EPROTONOSUPPORT when an attribute is unknown and mandatory, -EINVAL when a
 * known one is missing that must be there, comes twice or has a wrong length, -EOPNOTSUPP when it
 * says more than is known here.
 */
int se_cmd_check(const struct se_cmd *c, const struct se_cmd_spec *spec);

struct se_cmd_attr *se_cmd_find(struct se_cmd *c, uint16_t id);

/* Input: bytes beyond the attribute's are zero. -EINVAL: not there (optional: no error, zeros). */
int se_cmd_in(struct se_cmd *c, uint16_t id, void *dst, size_t len);
int se_cmd_in_optional(struct se_cmd *c, uint16_t id, void *dst, size_t len);
/*
 * The object of @type that the attribute names; -EINVAL: no attribute, or another type; -ENOENT: no
 * such object.
 */
int se_cmd_in_object(struct se_cmd *c, uint16_t id, enum se_type type, struct se_obj **obj);

/* Output, cut to the application's room and padded with zeros. No error when nobody asks for it. */
int se_cmd_out(struct se_cmd *c, uint16_t id, const void *src, size_t len);
int se_cmd_out_handle(struct se_cmd *c, uint16_t id, uint64_t handle);

#endif
