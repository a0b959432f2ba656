/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin under test: loaded, initialised, listened to. */
#include "plug.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/host/log.h"
#include "need.h"

struct plug_abi plug_abis[PLUG_ABIS] = {{6}, {7}, {8}, {9}, {10}, {11}, {12}};

/* ---- what it said ---- */

static struct {
	pthread_mutex_t lock;
	int warned, informed;
	char warning[1024], info[1024];
	char all[1 << 14]; /* what does not fit is not kept */
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static NCCL_NET_PRINTF(5, 6) void listen_to(enum nccl_net_log_level level, unsigned long subsys,
					    const char *where, int line, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	need(level >= NCCL_NET_LOG_VERSION && level <= NCCL_NET_LOG_TRACE, "level %d: %s",
	     (int)level, text);
	need(text[0] && !strchr(text, '\n'), "a log line with a line feed: %s", text);
	need(where && line > 0 && subsys, "%s:%d: subsystem %#lx", where, line, subsys);
	pthread_mutex_lock(&said.lock);
	if (level == NCCL_NET_LOG_WARN) {
		said.warned++;
		strcpy(said.warning, text);
	} else {
		said.informed++;
		strcpy(said.info, text);
	}
	strncat(said.all, text, sizeof(said.all) - strlen(said.all) - 1);
	strncat(said.all, "\n", sizeof(said.all) - strlen(said.all) - 1);
	pthread_mutex_unlock(&said.lock);
}

static int locked_count(const int *count)
{
	int n;

	pthread_mutex_lock(&said.lock);
	n = *count;
	pthread_mutex_unlock(&said.lock);
	return n;
}

int plug_warned(void)
{
	return locked_count(&said.warned);
}

int plug_informed(void)
{
	return locked_count(&said.informed);
}

const char *plug_warning(void)
{
	return said.warning;
}

const char *plug_info(void)
{
	return said.info;
}

bool plug_said(const char *text)
{
	bool found;

	pthread_mutex_lock(&said.lock);
	found = strstr(said.all, text);
	pthread_mutex_unlock(&said.lock);
	return found;
}

static bool has_all(const char *line, size_t len, const char *const *texts)
{
	while (*texts && memmem(line, len, *texts, strlen(*texts)))
		texts++;
	return !*texts;
}

bool plug_said_once(const char *const *texts)
{
	bool found = false;

	pthread_mutex_lock(&said.lock);
	for (const char *line = said.all, *end; !found && (end = strchr(line, '\n'));
	     line = end + 1)
		found = has_all(line, (size_t)(end - line), texts);
	pthread_mutex_unlock(&said.lock);
	return found;
}

void plug_forget(void)
{
	pthread_mutex_lock(&said.lock);
	said.warned = said.informed = 0;
	said.warning[0] = said.info[0] = said.all[0] = 0;
	pthread_mutex_unlock(&said.lock);
}

/* ---- protocol ---- */

static char protocol[8]; /* what plug_init() found; "": nothing yet */

static void note_protocol(void)
{
	static const char *const ways[][2] = {{"data by RDMA write", "write"},
					      {"data by RDMA read", "read"},
					      {"data by messages", "send"}};

	for (int i = 0; i < 3; i++)
		if (plug_said(ways[i][0]))
			strcpy(protocol, ways[i][1]);
}

bool plug_goes_by(const char *name)
{
	const char *set = getenv("NCCL_EFA_PROTOCOL");

	return strcmp(protocol[0] ? protocol : set ? set : "", name) == 0;
}

/* ---- life ---- */

void plug_softefa(const char *settings)
{
	const char *old = getenv("SOFTEFA_SET"), *preload = getenv("LD_PRELOAD");
	char text[512];

	if (!preload || !strstr(preload, "softefa"))
		cr_skip("needs a softefa to be told: %s", settings);
	snprintf(text, sizeof(text), "%s%s%s", old ? old : "", old && *old ? "," : "", settings);
	setenv("SOFTEFA_SET", text, 1);
}

const char *plug_path(void)
{
	static char path[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	need(n > 0, "/proc/self/exe: %zd", n);
	path[n] = 0;
	for (int up = 0; up < 2; up++)
		*strrchr(path, '/') = 0;
	strcat(path, "/libnccl-net-efa.so");
	return path;
}

void plug_load(struct plug *p, int abi)
{
	int rc;

	memset(p, 0, sizeof(*p));
	rc = host_net_open(&p->net, plug_path(), abi);
	need(rc == 0, "%d", rc);
}

void plug_init(struct plug *p)
{
	struct nccl_net_config config = {.traffic_class = -1};
	enum nccl_net_result rc = p->net.init(&p->net, &p->ctx, 1, &config, listen_to, NULL);

	need(rc == NCCL_NET_OK, "%s", host_result_str(rc));
	p->ndev = -1;
	rc = p->net.devices(&p->ndev);
	need(rc == NCCL_NET_OK && p->ndev >= 0, "%s, %d devices", host_result_str(rc), p->ndev);
	note_protocol();
}

void plug_open(struct plug *p, int abi)
{
	plug_load(p, abi);
	plug_init(p);
	if (p->ndev)
		return;
	/* The process that Criterion knows skips the test, which ends this one. */
	while (need_is_forked())
		pause();
	host_net_close(&p->net);
	cr_skip("no EFA here: run below softefa");
}

void plug_close(struct plug *p)
{
	enum nccl_net_result rc = p->net.finalize(&p->net, p->ctx);

	need(rc == NCCL_NET_OK, "%s", host_result_str(rc));
	need(plug_warned() == 0, "%d warnings, the last: %s", plug_warned(), plug_warning());
	host_net_close(&p->net);
}

/* ---- connections ---- */

#define POISON ((void *)0x5a5a5a5a5a5a5a5a)

static enum nccl_net_result connect_try(struct plug *p, int dev, void *handle, void **comm)
{
	struct nccl_net_device_handle *dev_comm = NULL;
	enum nccl_net_result rc;

	*comm = POISON;
	rc = p->net.connect(&p->net, p->ctx, dev, handle, comm, &dev_comm);
	need(*comm != POISON, "the comm was not written, %s", host_result_str(rc));
	need(rc == NCCL_NET_OK || !*comm, "%s, but a comm", host_result_str(rc));
	need(!dev_comm, "a device handle on the host");
	return rc;
}

void *plug_connect_once(struct plug *p, int dev, void *handle)
{
	void *comm;
	enum nccl_net_result rc = connect_try(p, dev, handle, &comm);

	need(rc == NCCL_NET_OK, "%s: %s", host_result_str(rc), plug_warning());
	return comm;
}

void *plug_accept_once(struct plug *p, void *listen)
{
	struct nccl_net_device_handle *dev_comm = NULL;
	void *comm = POISON;
	enum nccl_net_result rc = p->net.accept(&p->net, listen, &comm, &dev_comm);

	need(rc == NCCL_NET_OK, "%s: %s", host_result_str(rc), plug_warning());
	need(comm != POISON, "the comm was not written");
	need(!dev_comm, "a device handle on the host");
	return comm;
}

void *plug_listen(struct plug *p, int dev, void *handle)
{
	void *listen = POISON;
	enum nccl_net_result rc = p->net.listen(&p->net, p->ctx, dev, handle, &listen);

	need(rc == NCCL_NET_OK, "%s: %s", host_result_str(rc), plug_warning());
	need(listen && listen != POISON, "no listen comm");
	return listen;
}

void *plug_connect(struct plug *p, int dev, void *handle)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;
	void *comm;

	while (!(comm = plug_connect_once(p, dev, handle))) {
		need(now_ms() < end, "no connection within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
	return comm;
}

void *plug_accept(struct plug *p, void *listen)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;
	void *comm;

	while (!(comm = plug_accept_once(p, listen))) {
		need(now_ms() < end, "no connection within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
	return comm;
}

enum nccl_net_result plug_connect_fails(struct plug *p, int dev, void *handle, int within_ms)
{
	int64_t end = now_ms() + within_ms;
	enum nccl_net_result rc;
	unsigned tries = 0;
	void *comm;

	while ((rc = connect_try(p, dev, handle, &comm)) == NCCL_NET_OK) {
		need(!comm, "a connection that should have failed");
		need(now_ms() < end, "no failure within %d ms", within_ms);
		relax(&tries);
	}
	return rc;
}

void plug_close_listen(struct plug *p, void *listen)
{
	enum nccl_net_result rc = p->net.close_listen(listen);

	need(rc == NCCL_NET_OK, "%s", host_result_str(rc));
}

void plug_close_send(struct plug *p, void *comm)
{
	enum nccl_net_result rc = p->net.close_send(comm);

	need(rc == NCCL_NET_OK, "%s", host_result_str(rc));
}

void plug_close_recv(struct plug *p, void *comm)
{
	enum nccl_net_result rc = p->net.close_recv(comm);

	need(rc == NCCL_NET_OK, "%s", host_result_str(rc));
}

/* ---- memory ---- */

void *plug_reg(struct plug *p, void *comm, void *at, size_t size)
{
	void *mh = POISON;
	enum nccl_net_result rc = p->net.reg_mr(&p->net, comm, at, size, NCCL_NET_PTR_HOST, &mh);

	need(rc == NCCL_NET_OK, "%s: %zu bytes: %s", host_result_str(rc), size, plug_warning());
	need(mh && mh != POISON, "no memory handle");
	return mh;
}

void plug_dereg(struct plug *p, void *comm, void *mh)
{
	enum nccl_net_result rc = p->net.dereg_mr(comm, mh);

	need(rc == NCCL_NET_OK, "%s", host_result_str(rc));
}

/* ---- data ---- */

void *plug_isend(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh)
{
	void *request = POISON;
	enum nccl_net_result rc = p->net.isend(&p->net, comm, at, size, tag, mh, NULL, &request);

	need(rc == NCCL_NET_OK, "%s: %s", host_result_str(rc), plug_warning());
	need(request != POISON, "the request was not written");
	return request;
}

static void *irecv(struct plug *p, void *comm, struct plug_group *g, void *was)
{
	void *request = was;
	enum nccl_net_result rc =
		p->net.irecv(&p->net, comm, g->n, g->at, g->size, g->tag, g->mh, NULL, &request);

	need(rc == NCCL_NET_OK, "%s: %s", host_result_str(rc), plug_warning());
	need(request != was, "the request was not written");
	return request;
}

void *plug_irecv_group(struct plug *p, void *comm, struct plug_group *g)
{
	return irecv(p, comm, g, POISON);
}

void *plug_irecv(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh)
{
	struct plug_group g = {.n = 1, .at[0] = at, .mh[0] = mh, .size[0] = size, .tag[0] = tag};

	return irecv(p, comm, &g, POISON);
}

void *plug_irecv_early(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh)
{
	struct plug_group g = {.n = 1, .at[0] = at, .mh[0] = mh, .size[0] = size, .tag[0] = tag};

	return irecv(p, comm, &g, p->net.abi >= 9 ? NCCL_NET_EARLY_RECV_HINT : POISON);
}

void *plug_send(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;
	void *request;

	while (!(request = plug_isend(p, comm, at, size, tag, mh))) {
		need(now_ms() < end, "a send does not start within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
	return request;
}

void *plug_recv(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;
	void *request;

	while (!(request = plug_irecv(p, comm, at, size, tag, mh))) {
		need(now_ms() < end, "a receive does not start within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
	return request;
}

/* @sizes: room for @n; NULL: not asked for. */
static enum nccl_net_result test_try(struct plug *p, void *request, int *done, int n, int *sizes)
{
	enum { UNWRITTEN = -7 };
	int out[9];
	enum nccl_net_result rc;

	for (int i = 0; i < 9; i++)
		out[i] = UNWRITTEN;
	*done = UNWRITTEN;
	rc = p->net.test(request, done, sizes ? out : NULL);
	need(*done == 0 || *done == 1, "done is %d, %s", *done, host_result_str(rc));
	need(out[n] == UNWRITTEN, "size %d of %d was written: %d", n, n, out[n]);
	need(rc == NCCL_NET_OK || !*done, "done, but %s", host_result_str(rc));
	for (int i = 0; *done && sizes && i < n; i++) {
		need(out[i] >= 0, "size %d is %d", i, out[i]);
		sizes[i] = out[i];
	}
	return rc;
}

static bool group_test(struct plug *p, void *request, int n, int *sizes)
{
	int done;
	enum nccl_net_result rc = test_try(p, request, &done, n, sizes);

	need(rc == NCCL_NET_OK, "%s: %s", host_result_str(rc), plug_warning());
	return done;
}

bool plug_test(struct plug *p, void *request, int *size)
{
	return group_test(p, request, 1, size);
}

void plug_wait_group(struct plug *p, void *request, int n, int *sizes)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;

	while (!group_test(p, request, n, sizes)) {
		need(now_ms() < end, "a request is not done within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
}

int plug_wait(struct plug *p, void *request)
{
	int size;

	plug_wait_group(p, request, 1, &size);
	return size;
}

enum nccl_net_result plug_test_fails(struct plug *p, void *request, int within_ms)
{
	int64_t end = now_ms() + within_ms;
	enum nccl_net_result rc;
	unsigned tries = 0;
	int done;

	while ((rc = test_try(p, request, &done, 1, NULL)) == NCCL_NET_OK && now_ms() < end) {
		need(!done, "done, where it should fail");
		relax(&tries);
	}
	return rc;
}
