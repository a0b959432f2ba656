/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small correct net plugin over loopback TCP, and on demand (fault.h) a wrong one: a subject for
 * the tools that drive plugins. It also holds its caller to the contract: thread roles,
 * registration, order of the end; what breaks it gets NCCL_NET_INVALID_USAGE. TCPNET_LAX=1 lets
 * one thread do all and comms be closed before their registrations.
 *
 * A comm has two connections. On one the receiver offers what it posted, in order; on the other
 * come the messages, each for a part of an offer. What is not read when a sender closes is offers,
 * which nobody misses: on one connection it would reset what was sent.
 */
#ifndef TESTS_PLUGINS_TCPNET_H
#define TESTS_PLUGINS_TCPNET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../fault.h"
#include "../tables.h"

enum {
	DEVICES = 2,
	VDEVICES = 8, /* at most */
	SLOTS = NCCL_NET_OUTSTANDING,
	PARTS = 4, /* of a receive */
	SENDS = SLOTS * PARTS,
	IN_BYTES = 64 << 10
};

/* Memory that a caller registered; data is where the caller sees it. */
struct mr {
	struct mr *next;
	struct comm *comm;
	char *data;
	size_t size;
	char *map; /* of a dma-buf: where we see it; else NULL */
	size_t map_bytes;
	char *old; /* fault mr-cache: what was there in an earlier life */
};

/* One message of a request; a send has one. */
struct part {
	char *data;    /* where we see it; NULL: deregistered meanwhile */
	struct mr *mr; /* NULL likewise */
	size_t cap;    /* of the receive */
	size_t len;    /* of the message, at most cap */
	bool there;    /* all of it has moved */
};

/* Before each message. */
struct head {
	uint32_t group, part; /* the receive, counted from 0, and which of its parts */
	uint64_t len;
};

/* Of a receive, to the sender. */
struct offer {
	uint32_t n;
	int32_t tag[PARTS];
	uint32_t taken; /* the sender's: parts that have a message */
	uint64_t cap[PARTS];
};

struct request {
	struct comm *comm;
	bool busy, done;
	bool early; /* fault recv-early: reported done before it is */
	int n;
	struct head head; /* of a send */
	size_t moved;     /* of a send: bytes of head and data so far */
	uint64_t born_ns;
	struct part part[PARTS];
};

struct comm {
	int fd;  /* messages */
	int ctl; /* offers */
	int dev;
	bool sender;
	bool reached;      /* a sender that connects: both connections are made */
	bool held;         /* fault swap: one send waits for the next */
	bool wedged;       /* a fault ended all progress */
	bool broken;       /* the connection is */
	unsigned number;   /* of those made in this process */
	pthread_t service; /* the thread that made it, which must not move data */
	pthread_mutex_t lock;
	_Atomic int regs;           /* threads that wait to register */
	struct mr *mrs;             /* registered */
	uint64_t posted, moved;     /* requests; of receives, all before moved are complete */
	uint64_t called_ns;         /* last call, for faults of time */
	struct request slot[SENDS]; /* SLOTS of a receiver */

	/* A sender's: offers whose messages are not all posted. */
	struct offer offer[SLOTS];
	uint64_t offers, used; /* got, and those before used are full */
	size_t offer_at;       /* bytes of the next one */
	uint64_t waits_ns;     /* since when it found no offer; 0: not */

	/* A receiver's: what was read. */
	size_t in_at, in_end, got; /* got: of the current message's payload */
	bool in_message;
	struct head head;
	char *dup_at, dup[256]; /* fault late-dup: a message to write again */
	size_t dup_len;
	int dup_wait;
	char in[IN_BYTES];
};

uint64_t now_ns(void);
bool lax(void);

/* conn.c */
enum nccl_net_result tcpnet_listen(int dev, void *handle, void **listen_comm);
enum nccl_net_result tcpnet_connect(int dev, void *handle, void **send_comm);
enum nccl_net_result tcpnet_accept(void *listen_comm, void **recv_comm);
enum nccl_net_result tcpnet_close_send(void *send_comm);
enum nccl_net_result tcpnet_close_recv(void *recv_comm);
enum nccl_net_result tcpnet_close_listen(void *listen_comm);

/* mr.c */
enum nccl_net_result tcpnet_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
enum nccl_net_result tcpnet_reg_mr_dma_buf(void *comm, void *data, size_t size, int type,
					   uint64_t offset, int fd, void **mhandle);
enum nccl_net_result tcpnet_dereg_mr(void *comm, void *mhandle);
/* Where @data of the caller is for us; NULL: not in @mr, or not of @c. */
char *mr_at(const struct mr *mr, const struct comm *c, const char *data, size_t size);

/* data.c */
enum nccl_net_result tcpnet_isend(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				  void **request);
enum nccl_net_result tcpnet_irecv(void *recv_comm, int n, void **data, const size_t *sizes,
				  const int *tags, void **mhandles, void **request);
enum nccl_net_result tcpnet_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **request);
enum nccl_net_result tcpnet_test(void *request, int *done, int *sizes);
bool comm_idle(const struct comm *c);

#endif
