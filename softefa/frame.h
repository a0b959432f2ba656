/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hosts send each other over TCP: frames, each a header and @len bytes. Little-endian. A
 * connection carries the requests of the side that made it, and what answers them:
 *
 *   maker              other side
 *   HELLO                           first, and only then: who are you, do we agree
 *   ASK        ->      <- TOLD      which port leads to the process that has a QP?
 *   MESSAGE    ->      <- MESSAGE   a request; small ones bring their bytes. Its response
 *   DATA       ->      <- PULL      the bytes of a large or parked send or write
 *   PULL       ->      <- DATA      the bytes of a read, after its response
 *   ALIVE      ->      <- ALIVE     nothing, but it must be acknowledged
 *   BYE        ->      <- BYE       this process ends in good order
 *
 * Nobody is trusted: what is pulled is named by a request or a memory key, and checked as such.
 */
#ifndef SE_FRAME_H
#define SE_FRAME_H

#include <stdbool.h>

#include "gid.h"
#include "msg.h"

#define SE_FRAME_VERSION 1
#define SE_PULL_MAX      65536 /* bytes of one DATA */
#define SE_FRAME_MAX     (SE_PULL_MAX + 256)
#define SE_EAGER_MAX     65535 /* bytes that a MESSAGE can bring: those of any send */
#define SE_PULLS         64    /* that one side of a connection may have unanswered */

enum se_frame_type {
	SE_FRAME_HELLO = 1,
	SE_FRAME_ASK,
	SE_FRAME_TOLD,
	SE_FRAME_MESSAGE,
	SE_FRAME_PULL,
	SE_FRAME_DATA,
	SE_FRAME_ALIVE,
	SE_FRAME_BYE,
	SE_FRAME_TYPES,
};

struct se_frame {
	uint8_t type;
	uint8_t flags;
	uint16_t reserved;
	uint32_t len;
};

#define SE_FRAME_PAYLOAD 1 /* of a MESSAGE: its bytes follow */

struct se_hello {
	char magic[4]; /* "SEFA" */
	uint32_t version;
	uint64_t domain; /* hash of its name */
};

struct se_ask {
	uint16_t dev, qpn;
	uint16_t port; /* TOLD: 0 when nobody has it */
	uint16_t reserved;
};

enum se_pull_kind { SE_PULL_REQUEST = 1, SE_PULL_MEMORY };

struct se_pull {
	uint64_t id;   /* the asker's, echoed */
	uint64_t what; /* token of the request, or address as a remote peer sees it */
	uint32_t kind;
	uint32_t key;      /* memory: rkey */
	uint16_t dev, qpn; /* memory: of the QP that was asked */
	uint32_t off, len; /* of the request: from where in it */
};

struct se_data {
	uint64_t id;
	uint32_t status; /* 0, or enum se_data_status and no bytes */
	uint32_t reserved;
};

enum se_data_status {
	SE_DATA_BAD = 1, /* not registered, not there */
	SE_DATA_VOID,    /* the request was given up */
};

#define SE_MSG_HEAD offsetof(struct se_msg, data)

/*
 * The message in a MESSAGE frame, whose bytes, if it brings any, are at *@bytes. 0, or -EPROTO when
 * it cannot be one.
 */
int se_frame_message(const struct se_frame *f, const void *payload, struct se_msg *m,
		     const void **bytes);

_Static_assert(sizeof(struct se_frame) == 8, "frame");
_Static_assert(sizeof(struct se_hello) == 16, "hello");
_Static_assert(sizeof(struct se_ask) == 8, "ask");
_Static_assert(sizeof(struct se_pull) == 40, "pull");
_Static_assert(sizeof(struct se_data) == 16, "data");
_Static_assert(SE_MSG_HEAD == 96, "message");
_Static_assert(SE_MSG_HEAD + SE_EAGER_MAX <= SE_FRAME_MAX, "the largest message");

#endif
