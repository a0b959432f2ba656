/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that cannot be made: an error in bounded time, and nothing left behind. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { HANDLE = NCCL_NET_HANDLE_BYTES };

/* Where the fields of a handle are; plugin/proto.h. */
enum {
	MAGIC = 0,
	VERSION = 4,
	GID = 7,
	QPN = 23,
	LISTEN_ID = 31,
	TOKEN = 35,
	NRAILS = 44,
	IID = 49,
};

static void assert_healthy(struct plug *p)
{
	struct link l;

	link_open(&l, p, 0, 0);
	link_message(&l, 5000, 1);
	link_close(&l);
}

Test(refuse, connect_to_a_closed_listen_is_refused)
{
	uint8_t handle[HANDLE];
	struct plug p;

	plug_open(&p, 0);
	plug_close_listen(&p, plug_listen(&p, 0, handle));
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	need(plug_warned() == 1, "%d warnings", plug_warned());
	need(strstr(plug_warning(), "refused"), "%s", plug_warning());
	plug_forget();
	assert_healthy(&p);
	plug_close(&p);
}

static void listen_and_close(struct twin *t, void *arg)
{
	uint8_t handle[HANDLE], other[HANDLE];
	struct plug p;
	void *listen, *closed;

	(void)arg;
	plug_open(&p, 0);
	listen = plug_listen(&p, 0, other);
	closed = plug_listen(&p, 0, handle);
	plug_close_listen(&p, closed);
	twin_put(t, handle, sizeof(handle));
	for (unsigned tries = 0; !twin_speaks(t); relax(&tries)) /* polls for the other listen */
		need(!plug_accept_once(&p, listen), "an accept out of nothing");
	twin_meet(t);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

Test(refuse, connect_to_a_closed_listen_of_another_process_is_refused)
{
	uint8_t handle[HANDLE];
	struct twin t;
	struct plug p;

	twin_start(&t, listen_and_close, NULL);
	plug_open(&p, 0);
	twin_get(&t, handle, sizeof(handle));
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	plug_forget();
	twin_meet(&t);
	twin_end(&t);
	assert_healthy(&p);
	plug_close(&p);
}

static void listen_and_exit(struct twin *t, void *arg)
{
	uint8_t handle[HANDLE];
	struct plug p;

	(void)arg;
	plug_open(&p, 0);
	plug_listen(&p, 0, handle);
	twin_put(t, handle, sizeof(handle));
}

static void listen_and_wait(struct twin *t, void *arg)
{
	listen_and_exit(t, arg);
	twin_meet(t);
}

Test(refuse, connect_to_a_process_that_is_gone_fails)
{
	uint8_t handle[HANDLE];
	struct twin t;
	struct plug p;

	twin_start(&t, listen_and_exit, NULL);
	plug_open(&p, 0);
	twin_get(&t, handle, sizeof(handle));
	twin_end(&t);
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	need(plug_warned() == 1, "%d warnings", plug_warned());
	plug_forget();
	assert_healthy(&p);
	plug_close(&p);
}

/* ---- bad handles ---- */

struct damage {
	uint8_t at, len, value;
};

static struct damage damages[] = {
	{MAGIC, 4, 0},      {MAGIC + 3, 1, 'i'}, {VERSION, 2, 0},   {VERSION + 1, 1, 3},
	{VERSION, 2, 0xff}, {GID, 16, 0},        {QPN, 2, 1},       {TOKEN, 8, 0},
	{NRAILS, 1, 0},     {NRAILS, 1, 9},      {NRAILS, 1, 0xff}, {0, HANDLE, 0},
	{0, HANDLE, 0xff},  {0, HANDLE, 0x45},   {0, NRAILS, 'E'},
};

ParameterizedTestParameters(refuse, damaged_handle_is_refused_at_once)
{
	return cr_make_param_array(struct damage, damages, sizeof(damages) / sizeof(damages[0]));
}

ParameterizedTest(struct damage *d, refuse, damaged_handle_is_refused_at_once)
{
	struct nccl_net_device_handle *dev_comm = NULL;
	uint8_t handle[HANDLE];
	enum nccl_net_result rc;
	struct plug p;
	void *listen, *comm = &p;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	memset(handle + d->at, d->value, d->len);
	rc = p.net.connect(&p.net, p.ctx, 0, handle, &comm, &dev_comm);
	need(rc != NCCL_NET_OK, "%d x %#x at %d is accepted", d->len, d->value, d->at);
	cr_assert(eq(ptr, comm, NULL));
	need(plug_warned() == 1, "%d warnings", plug_warned());
	plug_forget();
	plug_close_listen(&p, listen);
	assert_healthy(&p);
	plug_close(&p);
}

/* Well-formed, but of no listen that there is. */
static struct damage strangers[] = {{TOKEN, 1, 0}, {TOKEN + 7, 1, 0}, {LISTEN_ID + 3, 1, 0}};

ParameterizedTestParameters(refuse, handle_with_the_wrong_secret_is_refused_by_the_listener)
{
	return cr_make_param_array(struct damage, strangers, 3);
}

ParameterizedTest(struct damage *d, refuse, handle_with_the_wrong_secret_is_refused_by_the_listener)
{
	uint8_t handle[HANDLE];
	struct plug p;
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	handle[d->at] ^= 0x55;
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	need(plug_warned() == 1, "%d warnings", plug_warned());
	plug_forget();
	need(!plug_accept_once(&p, listen), "the listener accepts it");
	plug_close_listen(&p, listen);
	assert_healthy(&p);
	plug_close(&p);
}

/* Handles of noise: the first byte alone lets one in 256 past it, so half of them have it right. */
Test(refuse, random_handles_are_refused)
{
	uint8_t good[HANDLE], handle[HANDLE];
	struct nccl_net_device_handle *dev_comm = NULL;
	uint64_t seed = 7;
	struct plug p;
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, good);
	for (int i = 0; i < 1000; i++) {
		enum nccl_net_result rc;
		void *comm = &p;

		bytes_fill(handle, HANDLE, bytes_random(&seed));
		if (i % 2)
			memcpy(handle, good, NRAILS);
		handle[NRAILS] |= 0x10;
		rc = p.net.connect(&p.net, p.ctx, 0, handle, &comm, &dev_comm);
		need(rc != NCCL_NET_OK && !comm, "round %d: result %d", i, rc);
	}
	plug_forget();
	plug_close_listen(&p, listen);
	assert_healthy(&p);
	plug_close(&p);
}

/* ---- nobody answers ---- */

/* softefa knows a host by its GID; another one is unreachable. The rails' halves must agree. */
Test(refuse, unreachable_host_is_an_error_that_speaks_of_the_security_group)
{
	int64_t start = now_ms();
	uint8_t handle[HANDLE];
	struct plug p;
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	handle[GID + 9] ^= 0x11;
	handle[IID + 1] ^= 0x11;
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 20000), NCCL_NET_REMOTE_ERROR));
	need(now_ms() - start < 15000, "%d ms", (int)(now_ms() - start));
	need(plug_warned() == 1, "%d warnings", plug_warned());
	need(strstr(plug_warning(), "security group"), "%s", plug_warning());
	plug_forget();
	plug_close_listen(&p, listen);
	assert_healthy(&p);
	plug_close(&p);
}

/* What only one way may take, as by a security group that lacks one of its two rules. */
static struct one_way {
	char rule[40];
	int warnings;
} one_ways[] = {
	{"status 15 op=send dev=0", 1}, /* the request */
	{"status 15 op=send dev=1", 2}, /* the answer; who asked does not get it */
};

ParameterizedTestParameters(refuse, way_that_leads_in_one_direction_is_an_error_at_both_ends)
{
	return cr_make_param_array(struct one_way, one_ways, 2);
}

ParameterizedTest(struct one_way *w, refuse,
		  way_that_leads_in_one_direction_is_an_error_at_both_ends)
{
	enum nccl_net_result connect = NCCL_NET_OK, accept = NCCL_NET_OK;
	struct nccl_net_device_handle *dev_comm = NULL;
	int64_t end = now_ms() + 10000;
	void *listen, *send = NULL, *recv = NULL;
	bool asks = strstr(w->rule, "dev=0");
	uint8_t handle[HANDLE];
	unsigned tries = 0;
	struct plug p;

	plug_softefa("log=0");
	setenv("NCCL_EFA_CONNECT_TIMEOUT", "2", 1);
	faults_init();
	plug_open(&p, 0);
	if (p.ndev < 2)
		cr_skip("needs two devices");
	listen = plug_listen(&p, 1, handle);
	faults_put(w->rule);
	while (!connect || (!accept && !asks)) {
		if (!connect)
			connect = p.net.connect(&p.net, p.ctx, 0, handle, &send, &dev_comm);
		if (!accept)
			accept = p.net.accept(&p.net, listen, &recv, &dev_comm);
		need(!send && !recv, "a comm");
		need(now_ms() < end, "connect %d, accept %d", connect, accept);
		relax(&tries);
	}
	cr_assert(eq(int, connect, NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, accept, asks ? NCCL_NET_OK : NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, plug_warned(), w->warnings), "%s", plug_warning());
	need(plug_said("security group"), "%s", plug_warning());
	plug_forget();
	plug_close_listen(&p, listen);
	faults_put("");
	assert_healthy(&p);
	plug_close(&p);
}

/* The request is there, and nobody is left to answer. */
Test(refuse, connect_to_a_process_that_is_killed_before_it_accepts_fails)
{
	uint8_t handle[HANDLE];
	struct twin t;
	struct plug p;

	twin_start(&t, listen_and_wait, NULL);
	plug_open(&p, 0);
	twin_get(&t, handle, sizeof(handle));
	for (int64_t end = now_ms() + 500; now_ms() < end;)
		need(!plug_connect_once(&p, 0, handle), "connected without accept");
	twin_kill(&t);
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 40000), NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	plug_forget();
	assert_healthy(&p);
	plug_close(&p);
}

Test(refuse, connect_timeout_is_honoured_when_nobody_accepts)
{
	int64_t start;
	uint8_t handle[HANDLE];
	struct plug p;
	void *listen;

	setenv("NCCL_EFA_CONNECT_TIMEOUT", "1", 1);
	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	start = now_ms();
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	need(now_ms() - start >= 900, "%d ms", (int)(now_ms() - start));
	need(plug_warned() == 1, "%d warnings", plug_warned());
	plug_forget();
	plug_close_listen(&p, listen);
	assert_healthy(&p);
	plug_close(&p);
}

/* The request is still on its way to a process that stands still, when its sender is gone. */
Test(refuse, connect_that_times_out_before_its_request_arrived_leaves_nothing)
{
	uint8_t handle[HANDLE];
	struct twin t;
	struct plug p;

	setenv("NCCL_EFA_CONNECT_TIMEOUT", "1", 1);
	twin_start(&t, listen_and_wait, NULL);
	plug_open(&p, 0);
	twin_get(&t, handle, sizeof(handle));
	twin_stop(&t);
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	plug_forget();
	twin_kill(&t);
	for (int i = 0; i < 10; i++) {
		nap_ms(20);
		assert_healthy(&p);
	}
	plug_close(&p);
}

/* The late comm has nobody to talk to: it fails or waits for ever. */
Test(refuse, accept_after_the_connector_gave_up_leads_nowhere_and_harms_nobody)
{
	enum nccl_net_result rc;
	uint8_t handle[HANDLE];
	struct mem to;
	struct plug p;
	void *listen, *recv, *request;

	setenv("NCCL_EFA_CONNECT_TIMEOUT", "1", 1);
	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	plug_connect_fails(&p, 0, handle, 10000);
	plug_forget();
	recv = plug_accept(&p, listen);
	mem_get(&to, &p, recv, 100, 0);
	request = plug_recv(&p, recv, to.at, 100, 0, to.mh);
	rc = plug_test_fails(&p, request, 500);
	need(rc == NCCL_NET_OK || rc == NCCL_NET_REMOTE_ERROR, "result %d", rc);
	assert_healthy(&p);
	mem_unharmed(&to, 0);
	plug_forget();
	mem_put(&to);
	plug_close_recv(&p, recv);
	plug_close_listen(&p, listen);
	assert_healthy(&p);
	plug_close(&p);
}

Test(refuse, bad_connect_timeout_is_one_warning_and_the_default)
{
	struct plug p;

	setenv("NCCL_EFA_CONNECT_TIMEOUT", "soon", 1);
	plug_open(&p, 0);
	assert_healthy(&p);
	need(plug_warned() == 1, "%d warnings", plug_warned());
	need(strstr(plug_warning(), "NCCL_EFA_CONNECT_TIMEOUT") && strstr(plug_warning(), "soon"),
	     "%s", plug_warning());
	plug_forget();
	plug_close(&p);
}
