/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What devices tell each other. A request describes one work request and where its bytes are; the
 * responder checks it, moves the bytes and answers. For an RDMA read the answer says where the
 * bytes are and the requester moves them: whoever owns the destination writes it.
 */
#ifndef SE_MSG_H
#define SE_MSG_H

#include <stdint.h>

#include "desc.h"
#include "gid.h"

enum se_msg_type { SE_MSG_REQUEST = 1, SE_MSG_RESPONSE = 2 };

/* Status of a response to another host: its QP is behind another process now. */
#define SE_NOT_HERE 0xff

enum {
	SE_MSG_IMM = 1 << 0,
	SE_MSG_INLINE = 1 << 1,      /* the bytes are in data[] */
	SE_MSG_UNSOLICITED = 1 << 2, /* the sending QP was made for unsolicited writes */
	SE_MSG_UD = 1 << 3,
};

/* Bytes in the memory of the process that sends the message. */
struct se_seg {
	uint64_t addr;
	uint32_t len;
	uint32_t key; /* on the device src_dev: still registered afterwards? */
};

#define SE_MSG_DATA 160 /* bytes that a message can bring: those of any inline request */

struct se_msg {
	uint8_t type;
	uint8_t op; /* enum se_op */
	uint8_t flags;
	uint8_t status; /* response: enum se_status */
	uint8_t nseg;
	uint8_t rnr_retry;
	uint8_t src_dev, dst_dev;
	uint16_t src_qpn, dst_qpn;
	uint32_t qkey;
	uint32_t imm;
	uint32_t len;   /* bytes of the transfer */
	uint64_t token; /* the requester's, echoed in the response */
	uint64_t raddr;
	uint32_t rkey;
	struct se_gid sgid;
	uint32_t life; /* of the sending QP: void when that has moved on */
	struct se_seg seg[2];
	uint8_t data[SE_MSG_DATA];
};

#define SE_MSG_SIZE 256
_Static_assert(sizeof(struct se_msg) <= SE_MSG_SIZE, "a message fits its slot");
_Static_assert(SE_MSG_DATA >= SE_INLINE_MAX, "inline requests bring their data");
_Static_assert(sizeof(struct se_msg) - SE_MSG_DATA <= 128, "without data: two lines");

#endif
