/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening and dispatch. */
#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "fabric.h"
#include "host.h"
#include "log.h"
#include "pull.h"
#include "real.h"
#include "requester.h"
#include "responder.h"
#include "settings.h"

#define BACKLOG 256

/* ---- frames ---- */

/* Where is the QP? No room for the answer: later. */
static bool asked(int slot, const struct se_ask *q)
{
	struct se_ask a = *q;
	int owner = SE_NO_SLOT;

	if (q->dev < SE_MAX_DEV)
		owner = se_fabric_qpn_owner(q->dev, q->qpn);
	a.port = owner == SE_NO_SLOT ? 0 : se_fabric_port(owner);
	return se_conn_send(slot, SE_FRAME_TOLD, &a, sizeof(a));
}

static bool message(int slot, const struct se_frame *f, const void *payload, bool *ok)
{
	struct se_msg m;
	const void *bytes;

	*ok = se_frame_message(f, payload, &m, &bytes) == 0;
	if (!*ok)
		return true;
	if (m.type == SE_MSG_REQUEST)
		return se_responder_request(&m, bytes, slot);
	se_requester_answer(&m, slot);
	return true;
}

/* *@ok false: it breaks the rules. */
static bool dispatch(int slot, const struct se_frame *f, const void *payload, bool *ok)
{
	struct se_pull pull;
	struct se_ask ask;

	switch (f->type) {
	case SE_FRAME_ASK:
	case SE_FRAME_TOLD:
		*ok = f->len == sizeof(ask);
		if (!*ok)
			return true;
		memcpy(&ask, payload, sizeof(ask));
		if (f->type == SE_FRAME_ASK)
			return asked(slot, &ask);
		se_host_told(slot, &ask);
		return true;
	case SE_FRAME_MESSAGE:
		return message(slot, f, payload, ok);
	case SE_FRAME_PULL:
		*ok = f->len == sizeof(pull);
		if (*ok) {
			memcpy(&pull, payload, sizeof(pull));
			*ok = se_pull_asked(slot, &pull);
		}
		return true;
	case SE_FRAME_DATA:
		*ok = se_pull_data(slot, payload, f->len);
		return true;
	default:
		*ok = false;
		return true;
	}
}

static bool handle(int slot, const struct se_frame *f, const void *payload)
{
	bool ok = true, done = dispatch(slot, f, payload, &ok);

	if (ok)
		return done;
	se_log(SE_LOG_ERROR, "connection %d: frame of type %u with %u bytes makes no sense", slot,
	       f->type, f->len);
	se_conn_close(slot, SE_CONN_LOST);
	return false;
}

static void closed(int slot)
{
	se_pull_closed(slot);
	se_host_closed(slot);
}

unsigned se_tcp_poll(void)
{
	return se_settings()->port ? se_pull_serve() + se_conn_poll() : 0;
}

/* ---- listening ---- */

/* Port 0: any. All members listen at the same one. The port, or -errno. */
static int listen_at(uint16_t port)
{
	const struct se_settings *s = se_settings();
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, rc;

	if (fd < 0)
		return -errno;
	memcpy(&a.sin_addr, s->address, sizeof(s->address));
	if ((port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&a, &len)) {
		rc = -errno;
		se_log(SE_LOG_ERROR, "listening at %u.%u.%u.%u port %u: %s", s->address[0],
		       s->address[1], s->address[2], s->address[3], port, strerror(-rc));
		se_real.close(fd);
		return rc;
	}
	rc = se_conn_listen(fd);
	return rc ? rc : ntohs(a.sin_port);
}

int se_tcp_start(void)
{
	uint16_t port = se_settings()->port;
	int rc;

	if (!port)
		return 0;
	rc = se_conn_start(handle, closed);
	if (rc == 0)
		rc = listen_at(0);
	if (rc > 0) {
		se_fabric_set_port((uint16_t)rc);
		rc = listen_at(port);
	}
	if (rc < 0)
		se_tcp_forget();
	return rc < 0 ? rc : 0;
}

void se_tcp_stop(void)
{
	if (se_settings()->port)
		se_conn_stop();
	se_tcp_forget();
}

void se_tcp_forget(void)
{
	se_conn_forget();
	se_host_forget_all();
	se_pull_forget_all();
}
