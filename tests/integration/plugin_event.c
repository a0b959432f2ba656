/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that say that they are broken, or that their port is down. Needs softefa. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/counters.h"
#include "../lib/faults.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { SIZE = 200000, AHEAD = 4 };

TestSuite(event, .timeout = 60);

/*
 * A comm whose receive waits, and one whose message makes the device say what @rule has it say.
 * Never closed: a device that is broken gives nothing back. Static, or it would count as leaked.
 */
struct scene {
	struct pipe idle;
	struct link busy;
	struct mem from, to;
	void *recv;
};

static void open_with(struct scene *s, const char *rails, const char *protocol)
{
	setenv("NCCL_EFA_RAILS", rails, 1);
	setenv("NCCL_EFA_PROTOCOL", protocol, 1);
	setenv("NCCL_EFA_MIN_STRIPE", "16384", 1);
	faults_init();
	pipe_open(&s->idle, 0, SIZE);
	link_open(&s->busy, &s->idle.plug, 0, 0);
	mem_get(&s->from, &s->idle.plug, s->busy.send, SIZE, 0);
	mem_get(&s->to, &s->idle.plug, s->busy.recv, SIZE, 0);
	s->recv = plug_recv(&s->idle.plug, s->idle.l.recv, s->idle.to.at, SIZE, 0, s->idle.to.mh);
	for (int i = 0; i < 1000; i++)
		need(!plug_test(&s->idle.plug, s->recv, NULL), "done before it was sent");
}

/* A message of the other comm, whose end is not waited for; the device may be broken before it. */
static void strike(struct scene *s, const char *rule)
{
	struct plug *p = &s->idle.plug;
	int64_t end = now_ms() + PLUG_WAIT_MS;
	void *request = NULL;
	struct mem command;

	faults_put(rule);
	mem_get(&command, p, s->busy.send, SIZE, 0); /* any command will do */
	mem_put(&command);
	plug_recv(p, s->busy.recv, s->to.at, SIZE, 0, s->to.mh);
	while (!request && p->net.isend(&p->net, s->busy.send, s->from.at, SIZE, 0, s->from.mh,
					NULL, &request) == NCCL_NET_OK)
		need(now_ms() < end, "no send within %d ms", PLUG_WAIT_MS);
}

/* Test the receive that waits until there is a warning. */
static void until_warned(struct scene *s)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;

	while (!plug_warned()) {
		need(!plug_test(&s->idle.plug, s->recv, NULL), "done before it was sent");
		need(now_ms() < end, "no warning within %d ms", PLUG_WAIT_MS);
	}
}

/* Send what the idle comm waits for. */
static void wake(struct scene *s, uint32_t seed)
{
	struct plug *p = &s->idle.plug;
	void *send;

	bytes_fill(s->idle.from.at, SIZE, seed);
	send = plug_send(p, s->idle.l.send, s->idle.from.at, SIZE, 0, s->idle.from.mh);
	cr_assert(eq(int, plug_wait(p, s->recv), SIZE));
	cr_assert(eq(int, plug_wait(p, send), SIZE));
	cr_assert(eq(long, bytes_differ(s->idle.to.at, SIZE, seed), -1));
}

/* Of device 1, whatever the operation. */
static long long requests(void)
{
	static const char *const ops[] = {"write", "read", "send"};
	struct counters c;
	long long n = 0;

	for (int i = 0; i < 3; i++) {
		counters_get(&c, ops[i]);
		n += c.n[1];
	}
	return n;
}

static struct protocol {
	char name[8];
} protocols[] = {{"write"}, {"read"}, {"send"}};

ParameterizedTestParameters(event, port_that_is_down_is_a_rail_less_for_a_comm_that_waits)
{
	return cr_make_param_array(struct protocol, protocols,
				   sizeof(protocols) / sizeof(protocols[0]));
}

ParameterizedTest(struct protocol *c, event, port_that_is_down_is_a_rail_less_for_a_comm_that_waits)
{
	static struct scene s;
	long long before;

	counters_apart();
	open_with(&s, "2", c->name);
	strike(&s, "event port_err dev=1 nth=1");
	until_warned(&s);
	need(plug_said("its port is down") && plug_said("1 rails go on"), "%s", plug_warning());
	wake(&s, 1);
	nap_ms(50); /* what was on its way there */
	before = requests();
	for (uint32_t i = 2; i < 12; i++) {
		s.recv =
			plug_recv(&s.idle.plug, s.idle.l.recv, s.idle.to.at, SIZE, 0, s.idle.to.mh);
		wake(&s, i);
	}
	cr_assert(eq(llong, requests() - before, 0));
	cr_assert(eq(int, plug_warned(), 1));
}

/* The first request of all is the line, without which there is no send. */
static struct end {
	char rails[2], failover[2], rule[40], text[40];
} ends[] = {
	{"1", "1", "event device_fatal dev=0 nth=2", "the device, by its own word"},
	{"1", "1", "event port_err dev=0 nth=1", "the port of the device"},
	{"2", "0", "event device_fatal dev=1 nth=1", "the device, by its own word"},
	{"2", "0", "event port_err dev=1 nth=1", "the port of the device"},
};

ParameterizedTestParameters(event, comm_that_waits_fails_where_no_other_rail_may_go_on)
{
	return cr_make_param_array(struct end, ends, sizeof(ends) / sizeof(ends[0]));
}

ParameterizedTest(struct end *e, event, comm_that_waits_fails_where_no_other_rail_may_go_on)
{
	static struct scene s;
	int64_t end;
	int done;

	plug_softefa("log=0");
	setenv("NCCL_EFA_FAILOVER", e->failover, 1);
	open_with(&s, e->rails, "write");
	strike(&s, e->rule);
	end = now_ms() + PLUG_WAIT_MS;
	while (s.idle.plug.net.test(s.recv, &done, NULL) == NCCL_NET_OK)
		need(now_ms() < end, "no error within %d ms", PLUG_WAIT_MS);
	need(plug_said(e->text) && !plug_said("rails go on"), "%s", plug_warning());
}

/* ---- what is new, then ---- */

/* Its device 1 is broken, which the comm that waits has heard of. */
static void break_one(struct scene *s, const char *protocol)
{
	counters_apart();
	open_with(s, "2", protocol);
	strike(s, "event device_fatal dev=1 nth=1");
	until_warned(s); /* by what was flushed, or by the device's word */
	plug_forget();
}

/* A message through @l in memory of its own. */
static void message(struct link *l, uint32_t seed)
{
	struct mem from, to;
	void *recv, *send;

	mem_get(&from, l->plug, l->send, SIZE, 0);
	mem_get(&to, l->plug, l->recv, SIZE, 0);
	bytes_fill(from.at, SIZE, seed);
	recv = plug_recv(l->plug, l->recv, to.at, SIZE, 0, to.mh);
	send = plug_send(l->plug, l->send, from.at, SIZE, 0, from.mh);
	cr_assert(eq(int, plug_wait(l->plug, recv), SIZE));
	cr_assert(eq(int, plug_wait(l->plug, send), SIZE));
	cr_assert(eq(long, bytes_differ(to.at, SIZE, seed), -1));
}

ParameterizedTestParameters(event, what_is_new_goes_by_the_devices_that_live)
{
	return cr_make_param_array(struct protocol, protocols,
				   sizeof(protocols) / sizeof(protocols[0]));
}

/* Between devices that live alike, and with one that has a rail more. */
ParameterizedTest(struct protocol *c, event, what_is_new_goes_by_the_devices_that_live)
{
	static struct scene s;
	struct plug *p = &s.idle.plug;
	static const int between[][2] = {{0, 0}, {0, 1}, {1, 0}};
	long long before;

	plug_softefa("log=0");
	break_one(&s, c->name);
	faults_put("refuse pd dev=1 error=5");
	wake(&s, 1);
	message(&s.idle.l, 2);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
	nap_ms(50);
	before = requests();
	for (uint32_t i = 0; i < 3; i++) {
		static struct link l[3];

		link_open(&l[i], p, between[i][0], between[i][1]);
		message(&l[i], i);
	}
	cr_assert(eq(llong, requests() - before, 0));
	cr_assert(eq(int, plug_warned(), 1));
	need(plug_said("_1 is left out of"), "%s", plug_warning());
}

/* ---- a listen from before ---- */

/* Both ends of a connection, whose outcome is not known; @own: one thread has both. */
struct attempt {
	struct plug *plug;
	void *listen, *send, *recv;
	enum nccl_net_result connected, accepted;
	atomic_bool over;
};

static void accept_once(struct attempt *t)
{
	struct nccl_net_device_handle *dev = NULL;

	if (!t->recv && !t->accepted)
		t->accepted = t->plug->net.accept(&t->plug->net, t->listen, &t->recv, &dev);
}

static void *accept_on(void *arg)
{
	struct attempt *t = arg;

	for (; !t->over; nap_ms(1))
		accept_once(t);
	return NULL;
}

static void attempt(struct attempt *t, uint8_t *handle, bool own)
{
	struct host_net *net = &t->plug->net;
	struct nccl_net_device_handle *dev = NULL;
	int64_t end = now_ms() + PLUG_WAIT_MS;
	pthread_t other;

	if (!own)
		need(pthread_create(&other, NULL, accept_on, t) == 0, "no thread");
	for (; !t->send && !t->connected && now_ms() < end; nap_ms(1)) {
		t->connected = net->connect(net, t->plug->ctx, 1, handle, &t->send, &dev);
		if (own)
			accept_once(t);
	}
	t->over = true;
	if (!own)
		pthread_join(other, NULL);
}

static struct late {
	char rule[40];
	bool own; /* the thread that accepts has comms of the device */
	char here[24], there[24];
} lates[] = {
	/* The one that requests do not come by. */
	{"event device_fatal dev=1 nth=1", true, "A new one serves", "refused by the peer"},
	{"event device_fatal dev=1 nth=1", false, "A new one serves", "refused by the peer"},
	{"event device_fatal dev=0 nth=2", true, "", "connect failed"},
};

ParameterizedTestParameters(event,
			    listen_from_before_a_device_broke_is_an_error_and_a_new_one_serves)
{
	return cr_make_param_array(struct late, lates, sizeof(lates) / sizeof(lates[0]));
}

ParameterizedTest(struct late *w, event,
		  listen_from_before_a_device_broke_is_an_error_and_a_new_one_serves)
{
	static struct scene s;
	static struct link l;
	struct attempt t = {.plug = &s.idle.plug};
	uint8_t handle[NCCL_NET_HANDLE_BYTES];

	plug_softefa("log=0");
	open_with(&s, "2", "write");
	t.listen = plug_listen(&s.idle.plug, 0, handle);
	strike(&s, w->rule);
	until_warned(&s);
	plug_forget();
	attempt(&t, handle, w->own);
	cr_assert(eq(int, t.connected, NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, t.accepted != NCCL_NET_OK, w->here[0] != 0));
	cr_assert(eq(ptr, t.recv, NULL));
	need(plug_said(w->there), "%s", plug_warning());
	need(!w->here[0] || plug_said(w->here), "%s", plug_warning());
	plug_forget();
	link_open(&l, &s.idle.plug, 1, 0);
	message(&l, 1);
}

Test(event, device_that_is_back_is_a_rail_of_what_is_new)
{
	static struct scene s;
	static struct link l;
	long long before;

	plug_softefa("log=0");
	break_one(&s, "write");
	before = requests();
	link_open(&l, &s.idle.plug, 0, 0);
	message(&l, 1);
	cr_assert(gt(llong, requests() - before, 0));
	wake(&s, 2);
	cr_assert(zero(int, plug_warned()), "%s", plug_warning());
}

Test(event, device_without_a_rail_that_lives_is_an_error_until_it_has_one)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	void *listen, *mh;
	static struct scene s;
	static struct link l;
	struct host_net *net = &s.idle.plug.net;
	int64_t end;
	int done;

	plug_softefa("log=0");
	open_with(&s, "1", "write");
	strike(&s, "event device_fatal dev=0 nth=2");
	for (end = now_ms() + PLUG_WAIT_MS; !net->test(s.recv, &done, NULL);)
		need(now_ms() < end, "no error within %d ms", PLUG_WAIT_MS);
	faults_put("refuse pd dev=0 error=5");
	plug_forget();
	cr_assert(ne(int, net->listen(net, s.idle.plug.ctx, 0, handle, &listen), NCCL_NET_OK));
	need(plug_said("_0 is left out of"), "%s", plug_warning());
	plug_forget();
	cr_assert(ne(int, net->reg_mr(net, s.idle.l.send, handle, 1, NCCL_NET_PTR_HOST, &mh),
		     NCCL_NET_OK));
	need(plug_said("all EFAs of the device are broken"), "%s", plug_warning());
	faults_put("");
	link_open(&l, &s.idle.plug, 0, 0);
	message(&l, 1);
}

/* Down and up again before anybody looked: nothing has happened. */
Test(event, port_that_is_back_is_as_it_was)
{
	static struct scene s;

	plug_softefa("log=0");
	open_with(&s, "1", "write");
	strike(&s, "event port_err nth=1\nevent port_active nth=2");
	for (int64_t end = now_ms() + 1000; now_ms() < end;)
		need(!plug_test(&s.idle.plug, s.recv, NULL), "done before it was sent");
	wake(&s, 1);
	cr_assert(eq(int, plug_warned(), 0), "%s", plug_warning());
}
