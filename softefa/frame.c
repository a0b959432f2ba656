/* SPDX-License-Identifier: BSD-3-Clause */
/* What a frame must be to be believed. */
#include "frame.h"

#include <errno.h>
#include <string.h>

#define UD_OR_IMM (SE_MSG_IMM | SE_MSG_UNSOLICITED | SE_MSG_UD)

static bool request_ok(const struct se_msg *m, bool payload, uint32_t bytes)
{
	if (m->rnr_retry > 7 || m->status || (payload && bytes != m->len) || (!payload && bytes))
		return false;
	switch (m->op) {
	case SE_OP_SEND:
		return payload;
	case SE_OP_WRITE:
		return !(m->flags & SE_MSG_UD);
	case SE_OP_READ:
		return !payload && !(m->flags & SE_MSG_UD);
	default:
		return false;
	}
}

int se_frame_message(const struct se_frame *f, const void *payload, struct se_msg *m,
		     const void **bytes)
{
	bool brings = f->flags & SE_FRAME_PAYLOAD;
	uint32_t n;

	if (f->len < SE_MSG_HEAD)
		return -EPROTO;
	memcpy(m, payload, SE_MSG_HEAD);
	n = f->len - (uint32_t)SE_MSG_HEAD;
	*bytes = brings ? (const uint8_t *)payload + SE_MSG_HEAD : NULL;
	if (m->nseg || m->flags & ~UD_OR_IMM || m->src_dev >= SE_GID_DEVICES ||
	    m->dst_dev >= SE_GID_DEVICES)
		return -EPROTO;
	if (m->type == SE_MSG_RESPONSE)
		return n || brings ? -EPROTO : 0;
	return m->type == SE_MSG_REQUEST && request_ok(m, brings, n) ? 0 : -EPROTO;
}
