/* SPDX-License-Identifier: BSD-3-Clause */
/* init, finalize, loading and unloading. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { HANDLE = NCCL_NET_HANDLE_BYTES };

#define ABIS() cr_make_param_array(struct plug_abi, plug_abis, PLUG_ABIS)

static void carry_one_message(struct plug *p, uint32_t seed)
{
	struct link l;

	link_open(&l, p, 0, 0);
	link_message(&l, 2000, seed);
	link_close(&l);
}

static void finalize(struct plug *p)
{
	cr_assert(eq(int, p->net.finalize(&p->net, p->ctx), NCCL_NET_OK));
}

/* ---- life ---- */

ParameterizedTestParameters(life, init_twice_is_as_good_as_once)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, life, init_twice_is_as_good_as_once)
{
	struct plug p, again;

	plug_open(&p, abi->v);
	plug_load(&again, abi->v); /* the same library, with a table adapter of its own */
	plug_init(&again);
	cr_assert(eq(int, again.ndev, p.ndev));
	carry_one_message(&again, 1);
	finalize(&again);
	host_net_close(&again.net);
	carry_one_message(&p, 2);
	plug_close(&p);
}

Test(life, finalize_of_no_context_is_harmless)
{
	struct plug p;
	int fds;

	plug_open(&p, 11);
	carry_one_message(&p, 1);
	fds = entries("/proc/self/fd");
	cr_assert(eq(int, p.net.raw.finalize_v11(NULL), NCCL_NET_OK));
	cr_assert(eq(int, entries("/proc/self/fd"), fds), "it was not the last one");
	carry_one_message(&p, 2);
	plug_close(&p);
}

Test(life, finalize_more_often_than_init_is_harmless)
{
	struct plug p;
	int fds;

	plug_open(&p, 11);
	fds = entries("/proc/self/fd");
	carry_one_message(&p, 1);
	finalize(&p);
	finalize(&p);
	plug_init(&p);
	carry_one_message(&p, 2);
	finalize(&p);
	cr_assert(eq(int, entries("/proc/self/fd"), fds), "the last one was not taken for one");
	host_net_close(&p.net);
}

Test(life, init_after_finalize_starts_anew)
{
	struct plug p;

	plug_open(&p, 11);
	carry_one_message(&p, 1);
	finalize(&p);
	plug_init(&p);
	cr_assert(gt(int, p.ndev, 0));
	carry_one_message(&p, 2);
	plug_close(&p);
}

Test(life, comm_that_is_open_survives_finalize)
{
	struct plug p;
	struct link l;

	plug_open(&p, 11);
	link_open(&l, &p, 0, 0);
	finalize(&p);
	link_message(&l, 2000, 1);
	link_close(&l);
	plug_init(&p);
	plug_close(&p);
}

Test(life, listen_that_is_open_survives_finalize)
{
	uint8_t handle[HANDLE];
	struct plug p;
	struct link l = {.plug = &p};
	void *listen;

	plug_open(&p, 11);
	listen = plug_listen(&p, 0, handle);
	finalize(&p);
	plug_init(&p);
	plug_connect_once(&p, 0, handle);
	l.recv = plug_accept(&p, listen);
	l.send = plug_connect(&p, 0, handle);
	link_message(&l, 2000, 1);
	link_close(&l);
	plug_close_listen(&p, listen);
	plug_close(&p);
}

struct order {
	bool first_made_first;
};

static struct order orders[] = {{true}, {false}};

ParameterizedTestParameters(life, two_contexts_live_at_once_and_end_in_any_order)
{
	return cr_make_param_array(struct order, orders, 2);
}

ParameterizedTest(struct order *o, life, two_contexts_live_at_once_and_end_in_any_order)
{
	struct nccl_net_config config = {.traffic_class = 3};
	struct plug p;
	void *first, *second = NULL;
	struct link l;

	plug_open(&p, 11);
	first = p.ctx;
	cr_assert(eq(int, p.net.init(&p.net, &second, 2, &config, NULL, NULL), NCCL_NET_OK));
	link_open(&l, &p, 0, 0);
	p.ctx = o->first_made_first ? second : first;
	cr_assert(
		eq(int, p.net.finalize(&p.net, o->first_made_first ? first : second), NCCL_NET_OK));
	link_message(&l, 2000, 1);
	link_close(&l);
	carry_one_message(&p, 2);
	plug_close(&p);
}

Test(life, library_may_be_unloaded_and_loaded_again)
{
	struct plug p;

	for (uint32_t i = 0; i < 3; i++) {
		plug_open(&p, 0);
		carry_one_message(&p, i);
		plug_close(&p);
	}
}

/* NCCL unloads some libraries too early; comms must not lose their code. */
Test(life, code_stays_when_the_library_is_closed)
{
	struct plug p, again;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	again = p;
	host_net_close(&p.net); /* forgets what it knew */
	p = again;
	link_message(&l, 2000, 1);
	link_close(&l);
}

Test(life, tables_of_two_versions_share_one_plugin)
{
	uint8_t handle[HANDLE];
	struct plug old, new;
	struct mem from, to;
	void *listen, *send, *recv, *r;

	plug_open(&old, 8);
	plug_open(&new, 11);
	listen = plug_listen(&old, 0, handle);
	plug_connect_once(&new, 0, handle);
	recv = plug_accept(&old, listen);
	send = plug_connect(&new, 0, handle);
	mem_get(&to, &old, recv, 5000, 0);
	mem_get(&from, &new, send, 5000, 0);
	bytes_fill(from.at, 5000, 1);
	r = plug_recv(&old, recv, to.at, 5000, 0, to.mh);
	plug_wait(&new, plug_send(&new, send, from.at, 5000, 0, from.mh));
	cr_assert(eq(int, plug_wait(&old, r), 5000));
	cr_assert(eq(long, bytes_differ(to.at, 5000, 1), -1));
	mem_put(&from);
	mem_put(&to);
	plug_close_send(&new, send);
	plug_close_recv(&old, recv);
	plug_close_listen(&old, listen);
	plug_close(&new);
	plug_close(&old);
}

/* As system() in a training script does, while comms are open. */
Test(life, process_may_fork_and_exec_beside_open_comms)
{
	struct plug p;
	struct link l;

	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	for (uint32_t i = 0; i < 5; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		link_message(&l, 100000, i);
		need(waitpid(pid, &status, 0) == pid && status == 0, "status %#x",
		     (unsigned)status);
	}
	link_close(&l);
	plug_close(&p);
}

static void *end_process(void *arg)
{
	(void)arg;
	exit(0);
}

static void end_in_a_thread(struct twin *t, void *arg)
{
	pthread_t thread;
	struct plug p;
	struct link l;

	(void)t;
	(void)arg;
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	pthread_create(&thread, NULL, end_process, NULL);
	pthread_join(thread, NULL);
}

Test(life, process_may_exit_from_another_thread_than_that_of_init)
{
	struct twin t;
	struct plug p;

	twin_start(&t, end_in_a_thread, NULL);
	plug_open(&p, 0);
	twin_end(&t);
	plug_close(&p);
}

Test(life, last_finalize_closes_the_devices)
{
	struct plug p;
	int fds;

	plug_load(&p, 11);
	plug_init(&p);
	if (!p.ndev)
		cr_skip("no EFA here: run below softefa");
	fds = entries("/proc/self/fd");
	carry_one_message(&p, 1);
	cr_assert(gt(int, entries("/proc/self/fd"), fds));
	finalize(&p);
	cr_assert(eq(int, entries("/proc/self/fd"), fds));
	host_net_close(&p.net);
}
