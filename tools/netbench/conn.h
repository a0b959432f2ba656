/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: what the service role does, and the data path calls of the progress role. */
#ifndef NETBENCH_CONN_H
#define NETBENCH_CONN_H

#include <string.h>

#include "bench.h"

/* Jobs of the service role; @arg is the struct nb. 0 or an internal error code. */
int nb_conns_listen(void *arg);
int nb_conns_connect(void *arg);
int nb_conns_register(void *arg);
int nb_conns_deregister(void *arg);
int nb_conns_close(void *arg);

/* Allocate nb->conns for the pattern. */
int nb_conns_init(struct nb *nb);
void nb_conns_fini(struct nb *nb);

/* The buffers a connection uses, as a mask of 1 << enum nb_buf. */
unsigned nb_conn_bufs(const struct nb *nb, const struct nb_conn *conn);

/* Give each sender its receiver's handle. Collective, on the main thread. */
int nb_conns_swap_handles(struct nb *nb);
size_t nb_conns_share(const struct nb_options *opt);

/*
 * What NCCL tells a plugin through setNetAttr before each attempt to connect or accept and before
 * each operation; nothing where the table has no such call. @conn may be NULL.
 */
int nb_conn_hint(struct nb *nb, const struct nb_conn *conn, enum host_actor actor);

/* The only connection to or from @peer on @channel; NULL if there is none. */
struct nb_conn *nb_conn_find(struct nb *nb, int peer, int channel, bool sender);

/* NCCL leaves old pointers in request slots and *done uninitialised: plugins must write them. */
#define NB_STALE_REQUEST ((void *)0xdead00000000dead)
enum { NB_STALE_DONE = 0x5a5aa5a5 };

/* 1: started, 0: not now (*request is NULL), or an internal error code. */
static inline int nb_isend(struct nb *nb, struct nb_conn *conn, enum nb_buf buf, void *data,
			   size_t size, void **request)
{
	enum nccl_net_result rc;

	*request = NB_STALE_REQUEST;
	host_entering(nb->self, HOST_PROGRESS, "isend");
	rc = nb->net.isend(&nb->net, conn->comm, data, size, nb->self->rank, conn->mhandle[buf],
			   NULL, request);
	if (rc)
		return nb_call_failed(nb, conn, "isend", rc);
	if (*request == NB_STALE_REQUEST)
		return nb_call_broken(nb, conn, "isend", "left *request as it was");
	return *request != NULL;
}

static inline int nb_irecv(struct nb *nb, struct nb_conn *conn, enum nb_buf buf, void *data,
			   size_t size, void **request)
{
	void *phandle = NULL;
	int tag = conn->peer;
	enum nccl_net_result rc;

	*request = NB_STALE_REQUEST;
	host_entering(nb->self, HOST_PROGRESS, "irecv");
	rc = nb->net.irecv(&nb->net, conn->comm, 1, &data, &size, &tag, &conn->mhandle[buf],
			   &phandle, request);
	if (rc)
		return nb_call_failed(nb, conn, "irecv", rc);
	if (*request == NB_STALE_REQUEST)
		return nb_call_broken(nb, conn, "irecv", "left *request as it was");
	return *request != NULL;
}

/* 1: done, 0: not yet, or an internal error code. @size as reported; unset for sends. */
static inline int nb_test(struct nb *nb, struct nb_conn *conn, void *request, int *size)
{
	int sizes[NCCL_NET_TEST_SIZES];
	int done = NB_STALE_DONE;
	enum nccl_net_result rc;

	/* NCCL gives a send one int, and it may be anything. */
	if (!conn->sender)
		memset(sizes, 0, sizeof(sizes));
	host_entering(nb->self, HOST_PROGRESS, "test");
	rc = nb->net.test(request, &done, sizes);
	if (rc)
		return nb_call_failed(nb, conn, "test", rc);
	if (done == NB_STALE_DONE)
		return nb_call_broken(nb, conn, "test", "left *done unset");
	if (!done)
		return 0;
	*size = conn->sender ? 0 : sizes[0];
	return 1;
}

#endif
