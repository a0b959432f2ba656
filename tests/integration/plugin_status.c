/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the device ends with an error: whichever it is, the comm hears of it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "srd.h"

enum { SIZE = 100000, SOON_MS = 10000 };

TestSuite(status, .timeout = 60);

static void open_with(struct pipe *p, const char *protocol)
{
	setenv("NCCL_EFA_PROTOCOL", protocol, 1);
	setenv("NCCL_EFA_RAILS", "1", 1);
	faults_init();
	pipe_open(p, 0, SIZE);
}

/* Messages until a call fails; NCCL_NET_OK: none did in time. */
static enum nccl_net_result run_dry(struct pipe *p, size_t bytes)
{
	int64_t end = now_ms() + SOON_MS;
	enum nccl_net_result rc = NCCL_NET_OK;
	struct host_net *net = &p->plug.net;
	void *send = NULL, *recv = NULL;
	unsigned tries = 0;

	while (rc == NCCL_NET_OK && now_ms() < end) {
		void *at = p->to.at, *mh = p->to.mh;
		size_t size = bytes;
		int tag = 0, done = 0;

		if (!recv)
			rc = net->irecv(net, p->l.recv, 1, &at, &size, &tag, &mh, NULL, &recv);
		if (!rc && !send)
			rc = net->isend(net, p->l.send, p->from.at, bytes, 0, p->from.mh, NULL,
					&send);
		if (!rc && recv)
			rc = net->test(recv, &done, NULL);
		recv = done ? NULL : recv;
		done = 0;
		if (!rc && send)
			rc = net->test(send, &done, NULL);
		send = done ? NULL : send;
		relax(&tries);
	}
	return rc;
}

/* ---- what is said ---- */

struct code {
	uint32_t status;
};

static struct code codes[] = {{1},  {2},  {3},  {4},  {5},  {6},  {7},  {8}, {9},
			      {10}, {11}, {12}, {13}, {14}, {15}, {16}, {18}};

ParameterizedTestParameters(status, warning_says_what_it_means_and_what_to_do)
{
	return cr_make_param_array(struct code, codes, sizeof(codes) / sizeof(codes[0]));
}

ParameterizedTest(struct code *c, status, warning_says_what_it_means_and_what_to_do)
{
	char rule[32], number[32];
	struct pipe p;

	plug_softefa("log=0");
	open_with(&p, "auto");
	snprintf(rule, sizeof(rule), "status %u op=write nth=7", c->status);
	snprintf(number, sizeof(number), "(status %u)", c->status);
	faults_put(rule);
	cr_assert(ne(int, run_dry(&p, SIZE), NCCL_NET_OK));
	cr_assert(eq(int, plug_warned(), 1), "%s", plug_warning());
	need(strstr(plug_warning(), number), "%s", plug_warning());
	need(strstr(plug_warning(), srd_status_str(c->status)), "%s", plug_warning());
	need(strstr(plug_warning(), srd_status_hint(c->status)), "%s", plug_warning());
	/* Public report 44. */
	if (c->status == 13 || c->status == 15)
		need(strstr(plug_warning(), "security group") &&
			     strstr(plug_warning(), "inbound and outbound"),
		     "%s", plug_warning());
	plug_forget();
	pipe_close(&p);
}

/* ---- whose request it was ---- */

/* Lines and data alternate: the one is struck or the other. */
static struct strike {
	char protocol[8], rule[32];
} strikes[] = {
	{"write", "status 8 op=write nth=20"}, {"write", "status 8 op=write nth=21"},
	{"read", "status 8 op=send nth=30"},   {"read", "status 8 op=send nth=31"},
	{"read", "status 8 op=send nth=32"},   {"read", "status 8 op=read nth=10"},
	{"send", "status 8 op=send nth=40"},   {"send", "status 8 op=send nth=41"},
	{"send", "status 8 op=send nth=65"},
};

ParameterizedTestParameters(status, no_request_fails_unheard)
{
	return cr_make_param_array(struct strike, strikes, sizeof(strikes) / sizeof(strikes[0]));
}

ParameterizedTest(struct strike *s, status, no_request_fails_unheard)
{
	struct pipe p;

	plug_softefa("log=0");
	open_with(&p, s->protocol);
	faults_put(s->rule);
	cr_assert(eq(int, run_dry(&p, SIZE), NCCL_NET_REMOTE_ERROR));
	need(plug_said("(status 8)"), "%s", plug_warning());
	plug_forget();
	pipe_close(&p);
}

/* There the message itself is the only send. */
Test(status, message_ahead_does_not_fail_unheard)
{
	struct pipe p;

	plug_softefa("log=0");
	open_with(&p, "write");
	faults_put("status 8 op=send nth=10");
	cr_assert(eq(int, run_dry(&p, 600), NCCL_NET_REMOTE_ERROR));
	need(plug_said("(status 8)"), "%s", plug_warning());
	plug_forget();
	pipe_close(&p);
}
