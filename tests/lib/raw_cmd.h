/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One command of the uverbs ioctl ABI, built attribute by attribute. Stated from the ABI's
 * description, not from the adapter's headers: a second opinion on them.
 */
#ifndef TESTS_RAW_CMD_H
#define TESTS_RAW_CMD_H

#include <stdint.h>

/* How an open, a command and a close get to the other side; 0, an fd, or -errno. */
struct raw_sys {
	int (*open)(unsigned dev);
	int (*ioctl)(int fd, void *cmd);
	void (*close)(int fd);
};

/* By open(), ioctl() and close() of libc: under LD_PRELOAD=libsoftefa.so, or a real kernel. */
extern const struct raw_sys raw_libc;

enum {
	RAW_MAX_ATTRS = 20,
	RAW_MANDATORY = 1, /* attribute flags */
	RAW_VALID_OUTPUT = 2,
	RAW_DRIVER = 17, /* driver_id of EFA */
	RAW_UHW_IN = 0x1000,
	RAW_UHW_OUT = 0x1001,
};

/* Objects and their methods. */
enum { RAW_DEVICE = 0, RAW_PD = 1, RAW_CQ = 3, RAW_QP = 4, RAW_AH = 6, RAW_MR = 7, RAW_ASYNC = 16 };
enum { RAW_INVOKE_WRITE = 0, RAW_GET_CONTEXT = 3, RAW_QUERY_GID = 6 }; /* of DEVICE */
enum { RAW_CREATE = 0, RAW_DESTROY = 1 };                              /* of CQ, QP */
enum { RAW_PD_FREE = 0, RAW_AH_FREE = 0 };
/* of MR; the last is EFA's own */
enum {
	RAW_MR_FREE = 1,
	RAW_MR_QUERY = 3,
	RAW_MR_REG_DMABUF = 4,
	RAW_MR_REG = 5,
	RAW_MR_IC = 0x1000
};

struct raw_attr {
	uint16_t id, len, flags, reserved;
	uint64_t data;
};

struct raw_cmd {
	uint16_t length, object, method, nattrs;
	uint64_t reserved1;
	uint32_t driver, reserved2;
	struct raw_attr attr[RAW_MAX_ATTRS];
};

void raw_cmd_init(struct raw_cmd *c, uint16_t object, uint16_t method);
/* Each returns the attribute, for tests that bend it. @p of more than 8 bytes is kept until run. */
struct raw_attr *raw_cmd_in(struct raw_cmd *c, uint16_t id, const void *p, uint16_t len);
struct raw_attr *raw_cmd_u64(struct raw_cmd *c, uint16_t id, uint64_t v); /* a constant */
struct raw_attr *raw_cmd_u32(struct raw_cmd *c, uint16_t id, uint32_t v);
struct raw_attr *raw_cmd_out(struct raw_cmd *c, uint16_t id, void *p, uint16_t len);
struct raw_attr *raw_cmd_handle(struct raw_cmd *c, uint16_t id, uint64_t handle); /* or an fd */

int raw_cmd_run(const struct raw_sys *sys, int fd, struct raw_cmd *c);

/*
 * A command in its old form inside INVOKE_WRITE: @in starts with 8 bytes of response address,
 * which nobody reads. @out, @uhw_out may be NULL.
 */
struct raw_write {
	uint32_t cmd;
	const void *in;
	uint16_t in_len;
	void *out;
	uint16_t out_len;
	void *uhw_out;
	uint16_t uhw_len;
};

int raw_write_run(const struct raw_sys *sys, int fd, const struct raw_write *w);

#endif
