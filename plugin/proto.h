/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes over the wire: the connection handle, the messages of a connection, the clear-to-send
 * line and the immediate of a write. Messages are packed byte by byte in network order; every
 * field that comes from outside is checked here against its limit.
 */
#ifndef NET_PROTO_H
#define NET_PROTO_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"
#include "srd.h"

enum {
	PROTO_VERSION = 2,
	PROTO_HANDLE_BYTES = 128,
	PROTO_MSG_BYTES = 512, /* the most a message takes */
	PROTO_SEGMENT_MIN = 512,
	PROTO_SEGMENT_MAX = 65024, /* with its number less than a receive can say */
};

/* What a device can, and a connection then uses. */
enum {
	PROTO_CAP_WRITE = 1u << 0,
	PROTO_CAP_UNSOLICITED = 1u << 1,
	PROTO_CAP_READ = 1u << 2,
	PROTO_CAP_EAGER = 1u << 3,  /* that side knows of eager messages */
	PROTO_CAP_QUIET = 1u << 4,  /* and of quiet lines */
	PROTO_SAYS_ORDER = 1u << 7, /* in a handle: that side lets NCCL use LL and LL128 */
};

/* How the data of a connection move. */
enum proto_mode {
	PROTO_WRITE = 1, /* RDMA writes of the sender */
	PROTO_READ = 2,  /* RDMA reads of the receiver */
	PROTO_SEND = 3,  /* messages */
};

enum { PROTO_MODES = PROTO_SEND + 1 }; /* as the length of an array by mode */

/* ---- connection handle ---- */

/*
 * Made by listen, carried by NCCL to the connector. All rails of a device have GIDs with one
 * prefix. The last 8 bytes of the handle are the connector's: a cookie across its retries.
 */
struct proto_handle {
	struct srd_ep cm; /* where to send the request; its GID is rail 0's */
	uint32_t listen_id;
	uint64_t token; /* random: proves that the connector has this handle */
	uint8_t caps;   /* PROTO_CAP_* */
	uint8_t nrails;
	uint64_t iid[NET_MAX_RAILS]; /* lower halves of the rails' GIDs, host order */
	uint32_t spare_qpn; /* on rail 1, with cm's key, where cm does not answer; 0: none */
};

void proto_handle_pack(uint8_t out[PROTO_HANDLE_BYTES], const struct proto_handle *h);
/* -EINVAL: not a handle of this plugin, or damaged. -EPROTO: of another version. */
int proto_handle_unpack(struct proto_handle *h, const uint8_t in[PROTO_HANDLE_BYTES]);
/* The GID of rail @i. */
union ibv_gid proto_handle_gid(const struct proto_handle *h, int i);

uint64_t proto_cookie_get(const uint8_t handle[PROTO_HANDLE_BYTES]);
void proto_cookie_set(uint8_t handle[PROTO_HANDLE_BYTES], uint64_t cookie);

/* ---- messages of a connection ---- */

enum proto_type {
	PROTO_REQ = 1,
	PROTO_RESP = 2,
	PROTO_ASK = 3, /* nothing: whoever sends it finds out whether it arrives */
};

/* One side's queue pairs on one rail. */
struct proto_rail {
	union ibv_gid gid;
	uint32_t data_qpn, ctrl_qpn;
	uint32_t qkey; /* of both */
};

/* The connector asks. */
struct proto_req {
	uint32_t listen_id;
	uint64_t token;
	uint32_t conn_id; /* the connector's, echoed */
	struct srd_ep cm; /* where to answer */
	uint8_t caps;     /* PROTO_CAP_*, of both sides: what is to be used */
	uint8_t nrails;
	struct proto_rail rail[NET_MAX_RAILS];
	uint64_t ring_addr;    /* where clear-to-send lines go */
	uint16_t ring_entries; /* NET_MAX_RECVS ... NET_RING_MAX, a power of two */
	uint32_t ring_rkey[NET_MAX_RAILS];
	uint8_t mode;       /* enum proto_mode */
	uint32_t comm_id;   /* to be put into messages */
	uint32_t segment;   /* bytes of one, PROTO_SEGMENT_MIN ... _MAX */
	uint32_t spare_qpn; /* as in a handle */
};

/* The listener answers. */
struct proto_resp {
	uint64_t token; /* the request's */
	uint32_t conn_id;
	uint32_t refused; /* an errno, or 0; then nothing below is set */
	uint8_t nrails;   /* used by both from now on */
	struct proto_rail rail[NET_MAX_RAILS];
	uint32_t comm_id;      /* to be put into immediates */
	uint64_t scratch_addr; /* where messages of 0 bytes go */
	uint32_t scratch_rkey[NET_MAX_RAILS];
	uint32_t segment; /* likewise */
	uint32_t eager;   /* bytes of data that an eager message may have; 0: none, not sent */
};

/* Return the length. */
size_t proto_req_pack(uint8_t out[PROTO_MSG_BYTES], const struct proto_req *req);
size_t proto_resp_pack(uint8_t out[PROTO_MSG_BYTES], const struct proto_resp *resp);
size_t proto_ask_pack(uint8_t out[PROTO_MSG_BYTES]);
/* The type of a message, -EINVAL (not one of ours) or -EPROTO (another version). */
int proto_type(const uint8_t *in, size_t len);
int proto_req_unpack(struct proto_req *req, const uint8_t *in, size_t len);
int proto_resp_unpack(struct proto_resp *resp, const uint8_t *in, size_t len);

/* Numbers that come round: @a is before @b. */
static inline bool proto_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* ---- clear to send ---- */

/* Of a line. Peers that know of none of these have small numbers in place of the flags. */
enum {
	PROTO_QUIET = 1u << 7, /* the data are to come without an immediate */
};

/*
 * One buffer of a posted receive, written by the receiver into the sender's ring; those of a group
 * follow each other. seq is its last word and lands last: who sees it sees the line. It counts
 * buffers from 1 and never repeats within 2^32, so a line of the lap before is not mistaken for a
 * new one; conn_id keeps what was on its way to an earlier comm from being taken for one of this
 * comm.
 */
struct proto_cts {
	uint64_t addr;
	uint32_t len;
	uint32_t tag;
	uint32_t conn_id; /* the sender's */
	uint32_t rkey[NET_MAX_RAILS];
	uint8_t n;      /* lines of its group of receives */
	uint8_t flags;  /* PROTO_QUIET */
	uint8_t eager;  /* low bits: the first eager message that may not be sent yet */
	uint8_t rail0;  /* where the first piece goes */
	uint32_t grant; /* messages that may be sent since the beginning, or 0: not counted */
	uint32_t seq;
};

static_assert(sizeof(struct proto_cts) == 64, "one cache line");
static_assert(offsetof(struct proto_cts, seq) == 60, "seq is the last word");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "clear-to-send lines are little-endian"
#endif

/* ---- immediate ---- */

/* What a write says of itself: pieces - 1 (3 bits), piece (3), ring entry (9), comm (17). */
struct proto_imm {
	uint32_t comm, entry, piece, pieces;
};

static_assert(NET_MAX_COMMS == 1 << 17 && NET_RING_MAX == 1 << 9 && NET_MAX_RAILS == 1 << 3,
	      "fields of the immediate");

/* From one piece to the next. */
#define PROTO_IMM_PIECE (1u << 26)

static inline uint32_t proto_imm_pack(uint32_t comm, uint32_t entry, uint32_t piece,
				      uint32_t pieces)
{
	return (pieces - 1) << 29 | piece << 26 | entry << 17 | comm;
}

static inline struct proto_imm proto_imm_unpack(uint32_t imm)
{
	return (struct proto_imm){
		.comm = imm & (NET_MAX_COMMS - 1),
		.entry = imm >> 17 & (NET_RING_MAX - 1),
		.piece = imm >> 26 & 7,
		.pieces = (imm >> 29) + 1,
	};
}

/* ---- immediate of a message ---- */

enum proto_note_type {
	PROTO_LINES,        /* clear-to-send lines, up to NET_MAX_RECVS */
	PROTO_READY,        /* a struct proto_ready: where the data of a send are */
	PROTO_FIN,          /* a struct proto_fin: which of them have been read */
	PROTO_SEGMENT,      /* a part of the data; entry is the ring's */
	PROTO_LAST_SEGMENT, /* the one with the highest number */
	PROTO_OVER,         /* the comm has failed, or was closed before its requests were done */
	PROTO_GRANT,        /* what the grant of a line says, its low bits as lap and entry */
	PROTO_EAGER,        /* a struct proto_eager and data that go ahead of their line */
};

/* type (3 bits), lap (3), entry (9), comm (17) */
struct proto_note {
	uint32_t comm;
	uint16_t entry;
	uint8_t lap; /* low bits of a count: not what came before in the same place */
	uint8_t type;
};

enum { PROTO_NOTE_LAP = 7 };

static inline uint32_t proto_note_pack(enum proto_note_type type, uint32_t comm, uint32_t entry,
				       uint32_t seq)
{
	return (uint32_t)type << 29 | (seq & PROTO_NOTE_LAP) << 26 | entry << 17 | comm;
}

/* The count as far as it fits: what is told apart must be nearer than half of that. */
enum { PROTO_GRANTS = (PROTO_NOTE_LAP + 1) * NET_RING_MAX };

static inline uint32_t proto_grant_pack(uint32_t comm, uint32_t grant)
{
	return proto_note_pack(PROTO_GRANT, comm, grant % NET_RING_MAX, grant / NET_RING_MAX);
}

static inline struct proto_note proto_note_unpack(uint32_t imm)
{
	return (struct proto_note){
		.comm = imm & (NET_MAX_COMMS - 1),
		.entry = imm >> 17 & (NET_RING_MAX - 1),
		.lap = imm >> 26 & PROTO_NOTE_LAP,
		.type = (uint8_t)(imm >> 29),
	};
}

/* All of the count, by what is @known of it. */
static inline uint32_t proto_grant(const struct proto_note *note, uint32_t known)
{
	uint32_t low = (uint32_t)note->lap * NET_RING_MAX + note->entry;
	uint32_t ahead = (low - known) % PROTO_GRANTS;

	return ahead < PROTO_GRANTS / 2 ? known + ahead : known + ahead - PROTO_GRANTS;
}

/* ---- eager messages ---- */

/*
 * What the receiver needs to match a message that was sent before its line was there: as the sender
 * would have, in the order of seq, to the first line from base on that has the tag and no message
 * yet. seq counts from 0 and never repeats within 2^32. Little-endian, as lines.
 */
struct proto_eager {
	uint32_t seq;
	uint32_t base; /* line: all before it have their messages; by reads there are no lines */
	uint32_t tag;
	uint32_t len; /* of the data that follow */
};

static_assert(sizeof(struct proto_eager) == 16, "data behind it are aligned");

/* ---- reads ---- */

/* Where the data of a send are, for the receiver to match as an eager message, and to read. */
struct proto_ready {
	uint64_t addr;
	uint32_t len;
	uint32_t tag;
	uint32_t conn_id; /* the sender's */
	uint32_t rkey[NET_MAX_RAILS];
	uint32_t seq;    /* among eager messages and these */
	uint32_t number; /* among these, from 0; in turn at most NET_SENDS_UNREAD are not read */
};

static_assert(sizeof(struct proto_ready) == 64, "no receive is larger than lines need");

/*
 * What a receiver has done, all of it: who sees the newest needs no other, and the same twice does
 * no harm. It goes whenever a poll has found that reads are over, for all of them.
 */
struct proto_fin {
	uint32_t conn_id; /* the sender's */
	uint32_t read;    /* all numbers before it have been read */
	uint32_t beyond;  /* and these from it on, a bit each */
	uint32_t eager;   /* eager messages that may be sent since the beginning */
};

static_assert(sizeof(struct proto_fin) == 16, "fits into a request");
static_assert(NET_SENDS_UNREAD == 32, "bits of beyond");

/* Has number @k been read? */
static inline bool proto_fin_has(const struct proto_fin *fin, uint32_t k)
{
	uint32_t ahead = k - fin->read;

	return proto_before(k, fin->read) || (ahead < NET_SENDS_UNREAD && fin->beyond >> ahead & 1);
}

#endif
