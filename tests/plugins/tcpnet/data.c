/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages. All under the lock of the comm: registration comes from another thread. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tcpnet.h"

bool comm_idle(const struct comm *c)
{
	return c->posted == c->moved;
}

static void data_lock(struct comm *c)
{
	while (c->regs)
		sched_yield();
	pthread_mutex_lock(&c->lock);
}

/* ---- what faults do to messages ---- */

static void nap(void)
{
	usleep(200);
}

/* Flags of LL (the odd words of 4 bytes) or LL128 (the last 8 of 128 bytes) before the data. */
static bool copy_torn(char *dst, const char *src, size_t n)
{
	size_t line = fault_is("tear-ll") ? 8 : 128, flag = line == 8 ? 4 : 8;

	if ((line == 128 && !fault_is("tear-ll128")) || n < line)
		return false;
	for (size_t i = 0; i + line <= n; i += line)
		memcpy(dst + i + line - flag, src + i + line - flag, flag);
	nap();
	memcpy(dst, src, n);
	return true;
}

/* What the receiver does wrong once the message is here. */
static void spoil(struct comm *c, struct part *p)
{
	if (p->data && p->len < p->cap && fault_is("write-past"))
		p->data[p->len] = 0x5a;
	if (!p->data || !p->len) {
		if (p->data && fault_is("touch-zero"))
			p->data[0] = 0x5a;
		return;
	}
	if (fault("flip"))
		p->data[p->len / 2] ^= 0x10;
	if (fault("stale"))
		memset(p->data, 0x5a, p->len);
	if (fault("tear"))
		memset(p->data + p->len / 2, 0x5a, p->len - p->len / 2);
	if (fault_is("long-wrong") && p->len > 512 << 10)
		p->data[p->len - 1] ^= 0x10;
	if (!fault_is("late-dup"))
		return;
	if (c->dup_at && !--c->dup_wait) {
		memcpy(c->dup_at, c->dup, c->dup_len);
		c->dup_at = NULL;
	} else if (!c->dup_at) {
		c->dup_at = p->data;
		c->dup_wait = 5;
		c->dup_len = p->len < sizeof(c->dup) ? p->len : sizeof(c->dup);
		memcpy(c->dup, p->data, c->dup_len);
	}
}

static bool stalls(const struct comm *c)
{
	return c->wedged || fault_was("stall") || (fault_is("starve") && c->number % 256 > 64);
}

/* Faults of time: how long nothing has called, or a request has waited. */
static enum nccl_net_result time_wrong(struct comm *c, const struct request *q)
{
	const uint64_t short_ns = 300000000;
	uint64_t now;

	if (!fault_is("sleep-wedges") && !fault_is("wait-error"))
		return NCCL_NET_OK;
	now = now_ns();
	if (fault_is("sleep-wedges") && !c->sender && !comm_idle(c) && c->called_ns &&
	    now - c->called_ns > short_ns)
		c->wedged = true;
	c->called_ns = now;
	return q && fault_is("wait-error") && !q->done && now - q->born_ns > short_ns
		       ? NCCL_NET_REMOTE_ERROR
		       : NCCL_NET_OK;
}

/* ---- the sender ---- */

/* Offers that have come. False: the receiver is gone. */
static bool offers_read(struct comm *c)
{
	while (c->offers - c->used < SLOTS) {
		struct offer *o = &c->offer[c->offers % SLOTS];
		ssize_t n = recv(c->ctl, (char *)o + c->offer_at, sizeof(*o) - c->offer_at, 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n <= 0)
			return false;
		c->offer_at += (size_t)n;
		if (c->offer_at < sizeof(*o))
			continue;
		c->offer_at = 0;
		c->offers++;
	}
	return true;
}

/* The first free part of @tag in the first offer that is not full; -1: none. */
static int offer_find(struct comm *c, int tag)
{
	struct offer *o = &c->offer[c->used % SLOTS];

	if (c->offers == c->used)
		return -1;
	for (int p = 0; p < (int)o->n; p++) {
		if (!(o->taken & 1u << p) && (o->tag[p] == tag || fault_is("tag-ignored")))
			return p;
	}
	return -1;
}

static void offer_take(struct comm *c, int p)
{
	struct offer *o = &c->offer[c->used % SLOTS];

	o->taken |= 1u << p;
	if (o->taken == (1u << o->n) - 1)
		c->used++;
}

static bool lost(const struct request *q)
{
	return !q->part[0].len && !q->moved && fault("lose-zero");
}

/* What the socket takes, strictly in order. */
static bool send_progress(struct comm *c)
{
	while (c->moved < c->posted && !c->held && !stalls(c)) {
		struct request *q = &c->slot[c->moved % SENDS];
		struct part *p = &q->part[0];
		size_t head = sizeof(q->head), at = q->moved > head ? q->moved - head : 0;
		struct iovec iov[2];
		int n = 0;
		ssize_t rc;

		if (!lost(q)) {
			if (q->moved < head)
				iov[n++] = (struct iovec){(char *)&q->head + q->moved,
							  head - q->moved};
			if (p->len > at)
				iov[n++] = (struct iovec){p->data + at, p->len - at};
			rc = sendmsg(c->fd,
				     &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)n},
				     MSG_NOSIGNAL);
			if (rc < 0 && (errno == EAGAIN || errno == EINTR))
				return true;
			if (rc < 0)
				return false;
			q->moved += (size_t)rc;
			if (q->moved < head + p->len)
				continue;
		}
		q->done = true;
		c->moved++;
	}
	return true;
}

/* The last send overtakes the one before, if both are of one size. */
static void swap_with_previous(struct comm *c)
{
	struct part *a = &c->slot[(c->posted - 2) % SENDS].part[0];
	struct part *b = &c->slot[(c->posted - 1) % SENDS].part[0];
	char *data = a->data;

	c->held = false;
	if (a->len == b->len) {
		a->data = b->data;
		b->data = data;
	}
}

/* What may go wrong with a send that is posted; *@request is set. */
static enum nccl_net_result send_wrong(struct comm *c, void **request)
{
	if (c->held)
		swap_with_previous(c);
	else if (fault("swap"))
		c->held = true;
	fault("stall");
	if (fault("die"))
		raise(SIGKILL);
	if (fault("exit"))
		exit(0);
	if (fault("started-null")) {
		c->slot[(c->posted - 1) % SENDS].busy = false;
		*request = NULL;
	}
	return fault("isend-error") ? NCCL_NET_SYSTEM_ERROR : NCCL_NET_OK;
}

/* No offer fits. */
static enum nccl_net_result send_later(struct comm *c, int tag, bool alive)
{
	if (fault_is("tag-error") && c->offers != c->used)
		return test_plugin_usage("tag not in the first receive");
	if (!c->waits_ns)
		c->waits_ns = now_ns();
	if (fault_is("ahead-error") && now_ns() - c->waits_ns > 300000000)
		return NCCL_NET_REMOTE_ERROR;
	(void)tag;
	return alive ? NCCL_NET_OK : NCCL_NET_REMOTE_ERROR;
}

static enum nccl_net_result send_post(struct comm *c, char *data, size_t size, struct mr *mr,
				      int tag, void **request)
{
	struct request *q = &c->slot[c->posted % SENDS];
	bool alive = offers_read(c);
	int p = offer_find(c, tag);
	enum nccl_net_result rc;
	struct offer *o;
	size_t len;

	if (!fault_is("keep-request"))
		*request = NULL;
	if (c->broken)
		return NCCL_NET_REMOTE_ERROR;
	if (p < 0)
		return send_later(c, tag, alive);
	c->waits_ns = 0;
	if (q->busy)
		return send_progress(c) ? NCCL_NET_OK : NCCL_NET_REMOTE_ERROR;
	o = &c->offer[c->used % SLOTS];
	len = size < o->cap[p] ? size : (size_t)o->cap[p];
	*q = (struct request){.comm = c, .busy = true, .n = 1, .born_ns = now_ns()};
	q->part[0] = (struct part){.data = data, .mr = mr, .len = len};
	q->head = (struct head){.group = (uint32_t)c->used, .part = (uint32_t)p, .len = len};
	offer_take(c, p);
	c->posted++;
	*request = q;
	rc = send_wrong(c, request);
	if (rc || fault_is("send-early"))
		return rc;
	return send_progress(c) ? NCCL_NET_OK : NCCL_NET_REMOTE_ERROR;
}

/* Fault death-hangs: who finds the peer dead waits for it. */
static enum nccl_net_result mourn(enum nccl_net_result rc)
{
	while (rc == NCCL_NET_REMOTE_ERROR && fault_is("death-hangs"))
		pause();
	return rc;
}

static bool on_service(const struct comm *c)
{
	return pthread_equal(pthread_self(), c->service) && !lax();
}

/* Fault tls: what one thread began no other can go on with. */
static bool tls_lost(void)
{
	static _Thread_local bool mine;
	static _Atomic bool taken;

	if (!fault_is("tls"))
		return false;
	if (!atomic_exchange_explicit(&taken, true, memory_order_relaxed))
		mine = true;
	return !mine;
}

enum nccl_net_result tcpnet_isend(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				  void **request)
{
	struct comm *c = send_comm;
	enum nccl_net_result rc;
	char *at;

	if (!c->sender)
		return test_plugin_usage("isend on a receive comm");
	if (on_service(c))
		return test_plugin_usage("data path on the service thread");
	if (fault("no-request"))
		return NCCL_NET_OK;
	data_lock(c);
	at = mr_at(mhandle, c, data, size);
	rc = at ? send_post(c, at, size, mhandle, tag, request)
		: test_plugin_usage("message outside of its registration");
	pthread_mutex_unlock(&c->lock);
	return mourn(rc);
}

/* ---- the receiver ---- */

/* Eight bytes at a time in order of address, so that no flag shows before what it stands for. */
static void copy_in_order(char *dst, const char *src, size_t n)
{
	uint64_t word;

	if ((uintptr_t)dst % 8) {
		memcpy(dst, src, n);
		return;
	}
	for (; n >= 8; n -= 8, dst += 8, src += 8) {
		memcpy(&word, src, 8);
		__atomic_store_n((uint64_t *)dst, word, __ATOMIC_RELEASE);
	}
	memcpy(dst, src, n);
}

static bool message_begin(struct comm *c)
{
	struct request *q;

	if (c->in_end - c->in_at < sizeof(c->head))
		return false;
	memcpy(&c->head, c->in + c->in_at, sizeof(c->head));
	c->in_at += sizeof(c->head);
	c->got = 0;
	q = &c->slot[c->head.group % SLOTS];
	/* Not one that was offered, or longer than was offered. */
	if (!q->busy || c->head.part >= (uint32_t)q->n || c->head.len > q->part[c->head.part].cap) {
		c->broken = true;
		return false;
	}
	q->part[c->head.part].len = c->head.len;
	c->in_message = true;
	if (fault_is("recv-early"))
		q->early = true;
	return true;
}

/* Payload that was read goes where it belongs; true: the message is complete. */
static bool message_move(struct comm *c)
{
	struct part *p = &c->slot[c->head.group % SLOTS].part[c->head.part];
	size_t rest = c->head.len - c->got, n = c->in_end - c->in_at;
	char *at = p->data ? p->data + c->got : NULL;

	/* Never a part of eight bytes, unless the message ends there. */
	n = n < rest ? n / 8 * 8 : rest;
	if (at && fault_is("down-aligned"))
		at -= (uintptr_t)at % 8;
	if (at && !copy_torn(at, c->in + c->in_at, n))
		copy_in_order(at, c->in + c->in_at, n);
	c->in_at += n;
	c->got += n;
	return c->got == c->head.len;
}

static void message_end(struct comm *c)
{
	struct request *q = &c->slot[c->head.group % SLOTS];
	int there = 0;

	c->in_message = false;
	q->part[c->head.part].there = true;
	spoil(c, &q->part[c->head.part]);
	for (int p = 0; p < q->n; p++)
		there += q->part[p].there;
	if (fault_is("first-part"))
		there = q->n;
	if (there == q->n)
		q->done = true;
	while (c->moved < c->posted && c->slot[c->moved % SLOTS].done)
		c->moved++;
}

/* 1: read something. 0: nothing there. -1: the sender is gone. */
static int fill(struct comm *c)
{
	ssize_t n;

	memmove(c->in, c->in + c->in_at, c->in_end - c->in_at);
	c->in_end -= c->in_at;
	c->in_at = 0;
	n = recv(c->fd, c->in + c->in_end, sizeof(c->in) - c->in_end, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	c->in_end += (size_t)n;
	return n ? 1 : -1;
}

static bool recv_progress(struct comm *c)
{
	int rc;

	while (!stalls(c)) {
		while (c->in_message || message_begin(c)) {
			if (fault_is("recv-early") && c->slot[c->head.group % SLOTS].early &&
			    !c->got && c->head.len) {
				c->got = 0;
				c->slot[c->head.group % SLOTS].early = false;
				c->slot[c->head.group % SLOTS].done = true;
				return true;
			}
			if (!message_move(c))
				break;
			message_end(c);
		}
		if (c->broken)
			return false;
		rc = fill(c);
		if (rc <= 0)
			return rc == 0;
	}
	return true;
}

/* True: the sender has learned of it. */
static bool offer_send(struct comm *c, const struct request *q, const int *tags)
{
	struct offer o = {.n = (uint32_t)q->n};

	for (int p = 0; p < q->n; p++) {
		o.tag[p] = tags[p];
		o.cap[p] = fault_is("no-cap") ? SIZE_MAX : q->part[p].cap;
	}
	/* Of SLOTS offers that it has not read, the socket takes all. */
	return send(c->ctl, &o, sizeof(o), MSG_NOSIGNAL) == (ssize_t)sizeof(o);
}

static enum nccl_net_result recv_post(struct comm *c, int n, void **data, const size_t *sizes,
				      const int *tags, void **mhandles, void **request)
{
	struct request *q = &c->slot[c->posted % SLOTS];

	if (*request == NCCL_NET_EARLY_RECV_HINT && fault_is("hint-deref"))
		((struct request *)*request)->busy = false;
	if (*request == NCCL_NET_EARLY_RECV_HINT && fault_is("hint-kept"))
		return NCCL_NET_OK;
	if (!fault_is("keep-request"))
		*request = NULL;
	if (time_wrong(c, NULL))
		return NCCL_NET_REMOTE_ERROR;
	/* What came before a sender left is still to be had. */
	if (q->busy || (fault_is("few-slots") && c->posted - c->moved >= 4))
		return recv_progress(c) ? NCCL_NET_OK : NCCL_NET_REMOTE_ERROR;
	*q = (struct request){.comm = c, .busy = true, .n = n, .born_ns = now_ns()};
	for (int p = 0; p < n; p++) {
		char *at = mr_at(mhandles[p], c, data[p], sizes[p]);

		if (!at) {
			q->busy = false;
			return test_plugin_usage("receive outside of its registration");
		}
		q->part[p] = (struct part){.data = at, .mr = mhandles[p], .cap = sizes[p]};
		if (fault_is("no-cap"))
			q->part[p].cap = SIZE_MAX;
	}
	c->posted++;
	*request = q;
	/* A sender that has closed may have sent before; who posts on learns it from test. */
	offer_send(c, q, tags);
	recv_progress(c);
	return NCCL_NET_OK;
}

enum nccl_net_result tcpnet_irecv(void *recv_comm, int n, void **data, const size_t *sizes,
				  const int *tags, void **mhandles, void **request)
{
	struct comm *c = recv_comm;
	enum nccl_net_result rc;

	if (c->sender)
		return test_plugin_usage("irecv on a send comm");
	if (n < 1 || n > PARTS)
		return test_plugin_usage("irecv of so many parts");
	if (on_service(c))
		return test_plugin_usage("data path on the service thread");
	data_lock(c);
	rc = recv_post(c, n, data, sizes, tags, mhandles, request);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Nothing to flush: the CPU wrote it. */
enum nccl_net_result tcpnet_iflush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **request)
{
	static struct request never;

	(void)n, (void)sizes, (void)mhandles;
	*request = NULL;
	if (fault_is("flush-writes"))
		((char *)data[0])[0] ^= 1;
	if (fault_is("flush-hangs")) {
		never.comm = recv_comm;
		*request = &never;
	}
	return NCCL_NET_OK;
}

/* ---- both ---- */

static void sizes_tell(const struct request *q, int *sizes)
{
	if (!sizes)
		return;
	for (int p = 0; p < q->n; p++)
		sizes[p] = (int)q->part[p].len - (!q->comm->sender && fault("size"));
	if (!q->comm->sender && fault_is("sizes-past"))
		sizes[q->n] = 1;
}

static enum nccl_net_result test_locked(struct comm *c, struct request *q, int *done, int *sizes)
{
	bool alive = true;

	if (fault_is("newest-wedges") && q != &c->slot[c->moved % (c->sender ? SENDS : SLOTS)] &&
	    !q->done)
		c->wedged = true;
	if (time_wrong(c, q))
		return NCCL_NET_REMOTE_ERROR;
	/* Of no use to the peer, but what closes early must not stay unknown. */
	if (c->sender && fault_is("send-early") && !q->done)
		q->done = true;
	else if (!tls_lost())
		alive = c->sender ? send_progress(c) : recv_progress(c);
	*done = q->done;
	if (!q->done)
		return alive && !c->broken ? NCCL_NET_OK : NCCL_NET_REMOTE_ERROR;
	sizes_tell(q, sizes);
	q->busy = false;
	return NCCL_NET_OK;
}

enum nccl_net_result tcpnet_test(void *request, int *done, int *sizes)
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
	if (fault_is("sizes-needed"))
		*(volatile int *)sizes = 0;
	data_lock(q->comm);
	rc = test_locked(q->comm, q, done, sizes);
	pthread_mutex_unlock(&q->comm->lock);
	return mourn(rc);
}
