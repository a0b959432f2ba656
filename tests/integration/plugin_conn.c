/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as NCCL makes them. Needs an EFA or softefa. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { HANDLE = NCCL_NET_HANDLE_BYTES };

#define ABIS() cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS)

ParameterizedTestParameters(conn, one_thread_that_alternates_connects_to_itself)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, conn, one_thread_that_alternates_connects_to_itself)
{
	struct plug p;
	struct link l;

	plug_open(&p, abi->v);
	link_open(&l, &p, 0, 0);
	link_message(&l, 1000, 1);
	link_close(&l);
	plug_close(&p);
}

ParameterizedTestParameters(conn, connect_may_come_long_before_accept)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, conn, connect_may_come_long_before_accept)
{
	struct plug p;
	struct link l = {.plug = &p};
	uint8_t handle[HANDLE];
	unsigned tries = 0;
	void *listen;
	int64_t end;

	plug_open(&p, abi->v);
	listen = plug_listen(&p, 0, handle);
	for (end = now_ms() + 50; now_ms() < end; tries++)
		need(!plug_connect_once(&p, 0, handle), "connected at try %u, without accept",
		     tries);
	while (!l.recv)
		l.recv = plug_accept_once(&p, listen);
	l.send = plug_connect(&p, 0, handle);
	link_message(&l, 1000, 2);
	link_close(&l);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

ParameterizedTestParameters(conn, accept_may_come_long_before_connect)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, conn, accept_may_come_long_before_connect)
{
	struct plug p;
	struct link l = {.plug = &p};
	uint8_t handle[HANDLE];
	unsigned tries = 0;
	void *listen;
	int64_t end;

	plug_open(&p, abi->v);
	listen = plug_listen(&p, 0, handle);
	for (end = now_ms() + 50; now_ms() < end; tries++)
		need(!plug_accept_once(&p, listen), "accepted at try %u, without connect", tries);
	tries = 0;
	while (!l.recv) {
		if (!l.send)
			l.send = plug_connect_once(&p, 0, handle);
		l.recv = plug_accept_once(&p, listen);
		relax(&tries);
	}
	if (!l.send)
		l.send = plug_connect(&p, 0, handle);
	link_message(&l, 1000, 3);
	link_close(&l);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

/* What is not written keeps the poison of every round. */
Test(conn, listen_writes_all_128_bytes_of_the_handle_and_no_more)
{
	static const uint8_t poison[] = {0x00, 0xff, 0x5a, 0xa5};
	bool written[HANDLE] = {false};
	struct plug p;

	plug_open(&p, 0);
	for (int round = 0; round < 4; round++) {
		uint8_t mem[64 + HANDLE + 64];
		void *listen;
		long bad;

		memset(mem, poison[round], sizeof(mem));
		listen = plug_listen(&p, 0, mem + 64);
		bad = bytes_differ_from(mem, 64, poison[round]);
		need(bad < 0, "written %ld bytes before the handle", 64 - bad);
		bad = bytes_differ_from(mem + 64 + HANDLE, 64, poison[round]);
		need(bad < 0, "written %ld bytes after the handle", bad + 1);
		for (int i = 0; i < HANDLE; i++)
			written[i] |= mem[64 + i] != poison[round];
		plug_close_listen(&p, listen);
	}
	for (int i = 0; i < HANDLE; i++)
		need(written[i], "byte %d of the handle is not written", i);
	plug_close(&p);
}

Test(conn, connect_writes_nothing_beside_the_handle)
{
	uint8_t mem[64 + HANDLE + 64];
	struct plug p;
	struct link l = {.plug = &p};
	void *listen;
	long bad;

	plug_open(&p, 0);
	memset(mem, MARK, sizeof(mem));
	listen = plug_listen(&p, 0, mem + 64);
	plug_connect_once(&p, 0, mem + 64);
	l.recv = plug_accept(&p, listen);
	l.send = plug_connect(&p, 0, mem + 64);
	bad = bytes_differ_from(mem, 64, MARK);
	need(bad < 0, "written %ld bytes before the handle", 64 - bad);
	bad = bytes_differ_from(mem + 64 + HANDLE, 64, MARK);
	need(bad < 0, "written %ld bytes after the handle", bad + 1);
	link_close(&l);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

/* NCCL ships the handle; the listener's copy is gone by then. */
Test(conn, copy_of_the_handle_at_an_odd_address_connects)
{
	uint8_t original[1 + HANDLE], copy[3 + HANDLE];
	struct plug p;
	struct link l = {.plug = &p};
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, original + 1);
	memcpy(copy + 3, original + 1, HANDLE);
	memset(original, 0xee, sizeof(original));
	plug_connect_once(&p, 0, copy + 3);
	l.recv = plug_accept(&p, listen);
	l.send = plug_connect(&p, 0, copy + 3);
	link_message(&l, 1000, 4);
	link_close(&l);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

Test(conn, pristine_copy_makes_a_second_connection)
{
	uint8_t pristine[HANDLE], handle[HANDLE];
	struct link a = {0}, b = {0};
	struct plug p;
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, pristine);
	a.plug = b.plug = &p;
	memcpy(handle, pristine, HANDLE);
	plug_connect_once(&p, 0, handle);
	a.recv = plug_accept(&p, listen);
	a.send = plug_connect(&p, 0, handle);
	memcpy(handle, pristine, HANDLE);
	plug_connect_once(&p, 0, handle);
	b.recv = plug_accept(&p, listen);
	b.send = plug_connect(&p, 0, handle);
	cr_assert(ne(ptr, a.send, b.send));
	cr_assert(ne(ptr, a.recv, b.recv));
	link_message(&b, 1000, 5);
	link_message(&a, 1000, 6);
	link_close(&a);
	link_message(&b, 1000, 7);
	link_close(&b);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

Test(conn, used_handle_connects_again)
{
	uint8_t handle[HANDLE];
	struct plug p;
	struct link l = {.plug = &p};
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	for (uint32_t round = 0; round < 2; round++) {
		plug_connect_once(&p, 0, handle);
		l.recv = plug_accept(&p, listen);
		l.send = plug_connect(&p, 0, handle);
		link_message(&l, 1000, 8 + round);
		plug_close_send(&p, l.send);
		plug_close_recv(&p, l.recv);
	}
	plug_close_listen(&p, listen);
	plug_close(&p);
}

enum { MANY = 4 };

/* A sender, and the message that it is to be known by. */
struct caller {
	void *send, *request;
	struct mem from;
	bool heard;
};

/* Is it the one that a receive was posted to? By reads its message waits for that. */
static bool calls(struct plug *p, struct caller *c)
{
	if (c->heard)
		return false;
	if (!c->request)
		c->request = plug_isend(p, c->send, c->from.at, 4, 0, c->from.mh);
	if (c->request)
		c->heard = plug_test(p, c->request, NULL);
	return c->heard;
}

/* Which of the callers @recv belongs to: the one whose message arrives. */
static int partner(struct plug *p, struct caller *caller, void *recv)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;
	struct mem to;
	int found = -1;
	void *r;

	mem_get(&to, p, recv, 4, 0);
	r = plug_recv(p, recv, to.at, 4, 0, to.mh);
	while (found < 0) {
		for (int i = 0; i < MANY && found < 0; i++)
			found = calls(p, &caller[i]) ? i : -1;
		need(now_ms() < end, "no connection leads to this comm");
		relax(&tries);
	}
	need(plug_wait(p, r) == 4, "not 4 bytes");
	need(!memcmp(to.at, &found, sizeof(found)), "sent by %d", found);
	mem_put(&to);
	return found;
}

Test(conn, several_connect_to_one_listen)
{
	uint8_t handle[MANY][HANDLE];
	struct caller caller[MANY] = {{NULL}};
	void *recv[MANY], *listen;
	unsigned partners = 0;
	struct plug p;

	setenv("NCCL_EFA_EAGER_MAX", "0", 1); /* what is sent, is received */
	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle[0]);
	for (int i = 1; i < MANY; i++)
		memcpy(handle[i], handle[0], HANDLE);
	for (int i = 0; i < MANY; i++)
		plug_connect_once(&p, 0, handle[i]);
	for (int i = 0; i < MANY; i++)
		recv[i] = plug_accept(&p, listen);
	for (int i = 0; i < MANY; i++) {
		caller[i].send = plug_connect(&p, 0, handle[i]);
		mem_get(&caller[i].from, &p, caller[i].send, 4, 0);
		memcpy(caller[i].from.at, &i, sizeof(i));
	}
	for (int i = 0; i < MANY; i++)
		partners |= 1u << partner(&p, caller, recv[i]);
	cr_assert(eq(u32, partners, (1u << MANY) - 1));
	for (int i = 0; i < MANY; i++) {
		mem_put(&caller[i].from);
		plug_close_send(&p, caller[i].send);
		plug_close_recv(&p, recv[i]);
	}
	plug_close_listen(&p, listen);
	plug_close(&p);
}

/* As NCCL does; the connector may not have looked yet. */
Test(conn, listen_may_be_closed_as_soon_as_accept_gives_the_comm)
{
	uint8_t handle[HANDLE];
	struct plug p;
	struct link l = {.plug = &p};
	void *listen;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	plug_connect_once(&p, 0, handle);
	l.recv = plug_accept(&p, listen);
	plug_close_listen(&p, listen);
	l.send = plug_connect(&p, 0, handle);
	link_message(&l, 1000, 9);
	link_close(&l);
	plug_close(&p);
}

Test(conn, listen_that_nobody_connects_to_closes)
{
	uint8_t handle[HANDLE];
	struct plug p;

	plug_open(&p, 0);
	plug_close_listen(&p, plug_listen(&p, 0, handle));
	plug_close(&p);
}

Test(conn, listen_with_a_pending_connection_closes)
{
	uint8_t handle[HANDLE];
	struct plug p;
	void *listen;
	int64_t end;

	plug_open(&p, 0);
	listen = plug_listen(&p, 0, handle);
	for (end = now_ms() + 50; now_ms() < end;)
		plug_connect_once(&p, 0, handle);
	plug_close_listen(&p, listen);
	cr_assert(eq(int, plug_connect_fails(&p, 0, handle, 10000), NCCL_NET_REMOTE_ERROR));
	plug_forget();
	plug_close(&p);
}

static void leave_all_open(struct twin *t, void *arg)
{
	uint8_t handle[HANDLE], other[HANDLE];
	struct plug p;
	struct link l;

	(void)t;
	(void)arg;
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	plug_listen(&p, 0, handle);
	plug_listen(&p, 0, other);
	plug_connect_once(&p, 0, other);
	exit(0);
}

Test(conn, process_may_exit_without_closing_anything)
{
	struct twin t;
	struct plug p;

	twin_start(&t, leave_all_open, NULL);
	plug_open(&p, 0);
	twin_end(&t);
	plug_close(&p);
}

Test(conn, devices_of_one_host_connect_to_each_other_both_ways)
{
	struct link there, back;
	struct plug p;

	plug_open(&p, 0);
	if (p.ndev < 2)
		cr_skip("needs two devices");
	link_open(&there, &p, 0, 1);
	link_open(&back, &p, 1, 0);
	link_message(&there, 70000, 10);
	link_message(&back, 70000, 11);
	link_close(&there);
	link_close(&back);
	plug_close(&p);
}

Test(conn, device_that_does_not_exist_is_refused_by_listen_and_connect)
{
	uint8_t handle[HANDLE] = {0};
	struct plug p;
	void *comm = &p, *listen;

	plug_open(&p, 0);
	cr_assert(eq(int, p.net.listen(&p.net, p.ctx, p.ndev, handle, &comm),
		     NCCL_NET_INVALID_ARGUMENT));
	cr_assert(eq(ptr, comm, NULL));
	comm = &p;
	cr_assert(
		eq(int, p.net.listen(&p.net, p.ctx, -1, handle, &comm), NCCL_NET_INVALID_ARGUMENT));
	cr_assert(eq(ptr, comm, NULL));
	listen = plug_listen(&p, 0, handle);
	cr_assert(eq(int, plug_connect_fails(&p, p.ndev, handle, 1000), NCCL_NET_INVALID_ARGUMENT));
	plug_close_listen(&p, listen);
	plug_close(&p);
}
