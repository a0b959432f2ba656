/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that run out of something while a connection is made: an error, nothing left behind, and
 * the same again at the next try. Needs softefa, which has as little as it is told.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "../lib/link.h"
#include "../lib/need.h"

enum { ROUNDS = 10 };

/* A device each: others of this domain would use up what is counted. */
struct shortage {
	char settings[16];
	int dev;
	char says[24]; /* one of the warnings */
};

/* Listening takes a CQ, a QP and a region; connecting a CQ, 2 QPs, a region; accepting a region. */
static struct shortage shortages[] = {{"max_cq=1", 0, "efadv_create_cq"},
				      {"max_qp=1", 1, "create_qp"},
				      {"max_qp=2", 2, "create_qp"},
				      {"max_mr=2", 3, "RLIMIT_MEMLOCK is "}};

struct outcome {
	enum nccl_net_result listen, connect, accept;
	bool connected, accepted;
};

/* Both sides have come to an end, well or not. */
static bool decided(const struct outcome *o)
{
	return (o->connect || o->connected) && (o->accept || o->accepted || o->connect);
}

static void try_once(struct plug *p, int dev, struct outcome *o)
{
	struct nccl_net_device_handle *dev_comm = NULL;
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	void *listen = p, *send = NULL, *recv = NULL;
	int64_t end = now_ms() + 10000;
	unsigned tries = 0;

	memset(o, 0, sizeof(*o));
	o->listen = p->net.listen(&p->net, p->ctx, dev, handle, &listen);
	need(!o->listen == !!listen, "result %d", o->listen);
	if (o->listen)
		return;
	while (!decided(o)) {
		if (!o->connected && !o->connect)
			o->connect = p->net.connect(&p->net, p->ctx, dev, handle, &send, &dev_comm);
		if (!o->accepted && !o->accept)
			o->accept = p->net.accept(&p->net, listen, &recv, &dev_comm);
		o->connected = send != NULL;
		o->accepted = recv != NULL;
		need(!(o->connect && send) && !(o->accept && recv), "an error and a comm");
		need(now_ms() < end, "connect %d, accept %d: undecided", o->connect, o->accept);
		relax(&tries);
	}
	if (send)
		plug_close_send(p, send);
	if (recv)
		plug_close_recv(p, recv);
	plug_close_listen(p, listen);
}

ParameterizedTestParameters(shortage, connection_fails_with_an_error_again_and_again)
{
	return cr_make_param_array(struct shortage, shortages,
				   sizeof(shortages) / sizeof(shortages[0]));
}

ParameterizedTest(struct shortage *s, shortage, connection_fails_with_an_error_again_and_again)
{
	struct outcome first, again;
	struct plug p;

	plug_softefa(s->settings);
	plug_open(&p, 0);
	if (p.ndev <= s->dev)
		cr_skip("needs %d devices", s->dev + 1);
	try_once(&p, s->dev, &first);
	need(!first.listen, "%s: listen: %d", s->settings, first.listen);
	need(first.connect || first.accept, "%s is no shortage", s->settings);
	need(plug_warned() > 0 && plug_warned() <= 4, "%d warnings, the last: %s", plug_warned(),
	     plug_warning());
	need(plug_said(s->says), "nothing of %s: %s", s->says, plug_warning());
	for (int i = 1; i < ROUNDS; i++) {
		try_once(&p, s->dev, &again);
		need(again.listen == first.listen && again.connect == first.connect &&
			     again.accept == first.accept,
		     "round %d: listen %d, connect %d, accept %d; at first %d, %d, %d", i,
		     again.listen, again.connect, again.accept, first.listen, first.connect,
		     first.accept);
	}
	plug_forget();
	plug_close(&p); /* without a warning: nothing was left */
}
