/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small correct net plugin over loopback TCP, and on demand a wrong one: a subject for the tools
 * that drive plugins. It also holds its caller to the contract: thread roles, registration, order
 * of the end; what breaks it gets NCCL_NET_INVALID_USAGE.
 *
 * TCPNET_FAULT=NAME[:N] breaks the Nth (from 1) occasion for it in each process; see the uses of
 * fault() for the names.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tables.h"

enum { DEVICES = 2, SLOTS = NCCL_NET_OUTSTANDING };

struct comm;

struct request {
	struct comm *comm;
	bool busy, done;
	char *data;
	size_t cap;   /* of the receive; the message of a send */
	uint64_t len; /* on the wire before the payload */
	size_t moved; /* bytes of len and payload so far */
};

struct comm {
	int fd;
	bool sender;
	bool held;         /* fault swap: one send waits for the next */
	pthread_t service; /* the thread that made it, which must not move data */
	int mrs;
	uint64_t posted, moved; /* requests */
	struct request slot[SLOTS];
};

struct listener {
	int fd;
	uint64_t nonce;
	struct comm *pending;
};

struct mr {
	struct comm *comm;
	char *data;
	size_t size;
};

/* Travels through the bootstrap; pending lives in the connector's copy. */
struct handle {
	uint64_t nonce;
	uint16_t port;
	struct comm *pending;
};

static struct {
	const char *name; /* "NAME:N", of which the first name_len bytes are the name */
	size_t name_len;
	_Atomic long left; /* occasions, this one included */
} net_fault;

/* ---- faults ---- */

static void fault_parse(void)
{
	const char *text = getenv("TCPNET_FAULT");

	if (!text)
		return;
	net_fault.name_len = strcspn(text, ":");
	net_fault.left = text[net_fault.name_len] ? atol(text + net_fault.name_len + 1) : 1;
	net_fault.name = text;
}

static bool fault_is(const char *name)
{
	return net_fault.name && strlen(name) == net_fault.name_len &&
	       !memcmp(net_fault.name, name, net_fault.name_len);
}

/* True on the one occasion that is to go wrong. */
static bool fault(const char *name)
{
	return fault_is(name) && --net_fault.left == 0;
}

/* ---- devices ---- */

static enum nccl_net_result init(void)
{
	fault_parse();
	return fault("init-error") ? NCCL_NET_SYSTEM_ERROR : NCCL_NET_OK;
}

static enum nccl_net_result devices(int *ndev)
{
	*ndev = fault("no-device") ? 0 : DEVICES;
	return NCCL_NET_OK;
}

static enum nccl_net_result properties(int dev, struct nccl_net_props_v12 *props)
{
	static char names[DEVICES][8] = {"tcp0", "tcp1"};

	props->name = names[dev];
	if (fault_is("no-host"))
		props->ptr_support = NCCL_NET_PTR_CUDA;
	return NCCL_NET_OK;
}

/* ---- connections ---- */

static struct comm *comm_new(int fd, bool sender)
{
	struct comm *c = calloc(1, sizeof(*c));
	int one = 1;

	if (!c) {
		close(fd);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->fd = fd;
	c->sender = sender;
	c->service = pthread_self();
	return c;
}

static enum nccl_net_result listen_on(int dev, void *handle, void **listen_comm)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct listener *l = calloc(1, sizeof(*l));
	socklen_t len = sizeof(addr);
	struct handle h = {0};

	if (!l || dev < 0 || dev >= DEVICES) {
		free(l);
		return NCCL_NET_INVALID_ARGUMENT;
	}
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(l->fd, 16) ||
	    getsockname(l->fd, (struct sockaddr *)&addr, &len)) {
		enum nccl_net_result rc = test_plugin_errno("listen");

		if (l->fd >= 0)
			close(l->fd);
		free(l);
		return rc;
	}
	h.port = addr.sin_port;
	h.nonce = l->nonce = (uint64_t)getpid() << 32 | (uintptr_t)l >> 4;
	memset(handle, 0, NCCL_NET_HANDLE_BYTES);
	memcpy(handle, &h, sizeof(h));
	*listen_comm = l;
	return NCCL_NET_OK;
}

static enum nccl_net_result connect_to(int dev, void *handle, void **send_comm)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct handle h;
	int fd;

	(void)dev;
	*send_comm = NULL;
	memcpy(&h, handle, sizeof(h));
	if (fault("connect-error"))
		return NCCL_NET_REMOTE_ERROR;
	if (fault_is("no-connect"))
		return NCCL_NET_OK;
	addr.sin_port = h.port;
	if (!h.pending) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		h.pending = fd < 0 ? NULL : comm_new(fd, true);
		if (!h.pending)
			return NCCL_NET_SYSTEM_ERROR;
		memcpy(handle, &h, sizeof(h));
	}
	fd = h.pending->fd;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) && errno != EISCONN)
		return errno == EINPROGRESS || errno == EALREADY ? NCCL_NET_OK
								 : NCCL_NET_REMOTE_ERROR;
	/* An empty socket takes 8 bytes. */
	if (send(fd, &h.nonce, sizeof(h.nonce), MSG_NOSIGNAL) != sizeof(h.nonce))
		return NCCL_NET_REMOTE_ERROR;
	*send_comm = h.pending;
	return NCCL_NET_OK;
}

static enum nccl_net_result accept_from(void *listen_comm, void **recv_comm)
{
	struct listener *l = listen_comm;
	uint64_t nonce;
	int fd;

	*recv_comm = NULL;
	if (!l->pending) {
		fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return errno == EAGAIN ? NCCL_NET_OK : NCCL_NET_SYSTEM_ERROR;
		l->pending = comm_new(fd, false);
		if (!l->pending)
			return NCCL_NET_SYSTEM_ERROR;
	}
	if (recv(l->pending->fd, &nonce, sizeof(nonce), MSG_PEEK) < (ssize_t)sizeof(nonce))
		return NCCL_NET_OK;
	if (recv(l->pending->fd, &nonce, sizeof(nonce), 0) != sizeof(nonce) || nonce != l->nonce)
		return NCCL_NET_REMOTE_ERROR;
	*recv_comm = l->pending;
	l->pending = NULL;
	return NCCL_NET_OK;
}

static enum nccl_net_result close_comm(struct comm *c)
{
	if (c->mrs)
		return test_plugin_usage("comm closed before its registrations");
	close(c->fd);
	free(c);
	return fault("close-error") ? NCCL_NET_SYSTEM_ERROR : NCCL_NET_OK;
}

static enum nccl_net_result close_send(void *send_comm)
{
	struct comm *c = send_comm;

	return c->sender ? close_comm(c) : test_plugin_usage("closeSend of a receive comm");
}

static enum nccl_net_result close_recv(void *recv_comm)
{
	struct comm *c = recv_comm;

	return c->sender ? test_plugin_usage("closeRecv of a send comm") : close_comm(c);
}

static enum nccl_net_result close_listen(void *listen_comm)
{
	struct listener *l = listen_comm;

	close(l->fd);
	free(l);
	return NCCL_NET_OK;
}

/* ---- registration ---- */

static enum nccl_net_result reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	struct mr *mr;

	if (type != NCCL_NET_PTR_HOST || !size)
		return test_plugin_usage("regMr of an empty range or of device memory");
	if (fault("reg-error"))
		return NCCL_NET_SYSTEM_ERROR;
	if (fault("no-mhandle"))
		return NCCL_NET_OK;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return NCCL_NET_SYSTEM_ERROR;
	*mr = (struct mr){.comm = comm, .data = data, .size = size};
	mr->comm->mrs++;
	*mhandle = mr;
	return NCCL_NET_OK;
}

static enum nccl_net_result dereg_mr(void *comm, void *mhandle)
{
	struct mr *mr = mhandle;

	if (mr->comm != comm)
		return test_plugin_usage("deregMr on another comm");
	mr->comm->mrs--;
	free(mr);
	return NCCL_NET_OK;
}

static bool mr_covers(const struct mr *mr, const struct comm *c, const char *data, size_t size)
{
	return mr && mr->comm == c && data >= mr->data && size <= mr->size &&
	       (size_t)(data - mr->data) <= mr->size - size;
}

/* ---- data ---- */

/* Bytes moved, 0 for not now, -1 for a broken connection. */
static ssize_t move(struct comm *c, struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
	ssize_t rc = c->sender ? sendmsg(c->fd, &msg, MSG_NOSIGNAL) : recvmsg(c->fd, &msg, 0);

	if (rc > 0)
		return rc;
	return rc < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* A longer message is cut off at the end of the receive. */
static size_t landed(const struct request *q)
{
	return q->len < q->cap ? q->len : q->cap;
}

/* What of the message is still to move: rest of the length, rest of the payload. */
static int rest_of(struct request *q, struct iovec iov[2], char *waste, size_t waste_bytes)
{
	size_t head = sizeof(q->len), at = q->moved - head;
	int n = 0;

	if (q->moved < head) {
		iov[n++] = (struct iovec){(char *)&q->len + q->moved, head - q->moved};
		at = 0;
	}
	if (q->comm->sender || (q->moved >= head && at < q->cap)) {
		if (landed(q) > at)
			iov[n++] = (struct iovec){q->data + at, landed(q) - at};
	} else if (q->moved >= head && at < q->len) {
		iov[n++] = (struct iovec){waste,
					  q->len - at < waste_bytes ? q->len - at : waste_bytes};
	}
	return n;
}

/* What the receiver does wrong once the message is here. */
static void spoil(struct request *q)
{
	size_t len = landed(q);

	if (!len)
		return;
	if (fault("flip"))
		q->data[len / 2] ^= 0x10;
	if (fault("stale"))
		memset(q->data, 0x5a, len);
	if (fault("tear"))
		memset(q->data + len / 2, 0x5a, len - len / 2);
}

static bool lost(const struct request *q)
{
	return q->comm->sender && !q->len && !q->moved && fault("lose-zero");
}

/* Move what the socket takes. Requests move strictly in order. */
static enum nccl_net_result comm_progress(struct comm *c)
{
	char waste[4096];
	struct iovec iov[2];

	if (fault_is("stall") && net_fault.left <= 0)
		return NCCL_NET_OK;
	while (c->moved < c->posted && !c->held) {
		struct request *q = &c->slot[c->moved % SLOTS];
		int n = lost(q) ? 0 : rest_of(q, iov, waste, sizeof(waste));
		ssize_t moved = n ? move(c, iov, n) : 0;

		if (moved < 0)
			return NCCL_NET_REMOTE_ERROR;
		if (n && !moved)
			break;
		q->moved += (size_t)moved;
		if (n && (q->moved < sizeof(q->len) || q->moved < sizeof(q->len) + q->len))
			continue;
		if (!c->sender)
			spoil(q);
		q->done = true;
		c->moved++;
	}
	return NCCL_NET_OK;
}

/* The last send overtakes the one before, if both are of one size. */
static void swap_with_previous(struct comm *c)
{
	struct request *a = &c->slot[(c->posted - 2) % SLOTS];
	struct request *b = &c->slot[(c->posted - 1) % SLOTS];
	char *data = a->data;

	c->held = false;
	if (a->len == b->len) {
		a->data = b->data;
		b->data = data;
	}
}

static enum nccl_net_result post(struct comm *c, void *data, size_t size, const struct mr *mr,
				 void **request)
{
	struct request *q = &c->slot[c->posted % SLOTS];

	if (pthread_equal(pthread_self(), c->service))
		return test_plugin_usage("data path on the service thread");
	if (!mr_covers(mr, c, data, size))
		return test_plugin_usage("message outside of its registration");
	*request = NULL;
	if (q->busy)
		return comm_progress(c);
	*q = (struct request){.comm = c, .busy = true, .data = data, .cap = size};
	c->posted++;
	*request = q;
	if (!c->sender)
		return comm_progress(c);
	q->len = size;
	if (c->held)
		swap_with_previous(c);
	else if (fault("swap"))
		c->held = true;
	fault("stall");
	if (fault("die"))
		raise(SIGKILL);
	if (fault("exit"))
		exit(0);
	return fault("isend-error") ? NCCL_NET_SYSTEM_ERROR : comm_progress(c);
}

static enum nccl_net_result isend(void *send_comm, void *data, size_t size, void *mhandle,
				  void **request)
{
	struct comm *c = send_comm;

	if (!c->sender)
		return test_plugin_usage("isend on a receive comm");
	if (fault("no-request"))
		return NCCL_NET_OK;
	return post(c, data, size, mhandle, request);
}

static enum nccl_net_result irecv(void *recv_comm, void *data, size_t size, void *mhandle,
				  void **request)
{
	struct comm *c = recv_comm;

	if (c->sender)
		return test_plugin_usage("irecv on a send comm");
	return post(c, data, size, mhandle, request);
}

static enum nccl_net_result test(void *request, int *done, int *sizes)
{
	struct request *q = request;
	enum nccl_net_result rc;

	if (fault("test-error"))
		return NCCL_NET_REMOTE_ERROR;
	if (fault("no-done"))
		return NCCL_NET_OK;
	if (fault("hang")) {
		for (;;)
			pause();
	}
	rc = comm_progress(q->comm);
	if (rc)
		return rc;
	*done = q->done;
	if (!q->done)
		return NCCL_NET_OK;
	if (!q->comm->sender)
		sizes[0] = (int)landed(q) - fault("size");
	q->busy = false;
	return NCCL_NET_OK;
}

const char test_plugin_name[] = "tcpnet";

const struct test_plugin test_plugin = {
	.ndev = DEVICES,
	.init = init,
	.devices = devices,
	.properties = properties,
	.listen = listen_on,
	.connect = connect_to,
	.accept = accept_from,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.isend = isend,
	.irecv = irecv,
	.test = test,
	.close_send = close_send,
	.close_recv = close_recv,
	.close_listen = close_listen,
};
