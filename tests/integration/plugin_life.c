/* SPDX-License-Identifier: BSD-3-Clause */
/* init, finalize, loading and unloading, devices and their properties. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/need.h"
#include "../lib/twin.h"

enum { HANDLE = NCCL_NET_HANDLE_BYTES };

static struct plug_abi abis[] = {{8}, {9}, {10}, {11}};

#define ABIS() cr_make_param_array(struct plug_abi, abis, sizeof(abis) / sizeof(abis[0]))

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

/* ---- properties ---- */

ParameterizedTestParameters(life, name_is_the_same_in_all_versions)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, life, name_is_the_same_in_all_versions)
{
	struct plug p;

	plug_load(&p, abi->v);
	need(!strcmp(p.net.name, "EFA"), "%s", p.net.name);
	host_net_close(&p.net);
}

/* NCCL's struct of a version ends where the next begins: what is behind it is not ours. */
static size_t props_size(int abi)
{
	if (abi == 8)
		return sizeof(struct nccl_net_props_v8);
	return abi < 11 ? sizeof(struct nccl_net_props_v9) : sizeof(struct nccl_net_props_v11);
}

static enum nccl_net_result raw_properties(struct plug *p, int dev, void *props)
{
	if (p->net.abi == 8)
		return p->net.raw.get_properties_v8(dev, props);
	if (p->net.abi < 11)
		return p->net.raw.get_properties_v9(dev, props);
	return p->net.raw.get_properties_v11(dev, props);
}

ParameterizedTestParameters(life, properties_fill_their_struct_and_nothing_behind_it)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, life, properties_fill_their_struct_and_nothing_behind_it)
{
	_Alignas(8) uint8_t mem[256], zero[256] = {0};
	size_t size = props_size(abi->v);
	struct plug p;
	long bad;

	plug_open(&p, abi->v);
	memset(mem, MARK, sizeof(mem));
	cr_assert(eq(int, raw_properties(&p, 0, mem), NCCL_NET_OK));
	bad = bytes_differ_from(mem + size, sizeof(mem) - size, MARK);
	need(bad < 0, "%ld bytes behind the struct are written", bad + 1);
	cr_assert(eq(int, raw_properties(&p, 0, zero), NCCL_NET_OK));
	for (size_t i = 0; i < size; i++)
		need(mem[i] == zero[i], "byte %zu of %zu keeps what was there", i, size);
	plug_close(&p);
}

static struct nccl_net_props_v12 properties(struct plug *p, int dev)
{
	struct nccl_net_props_v12 props;

	memset(&props, MARK, sizeof(props));
	need(p->net.get_properties(&p->net, dev, &props) == NCCL_NET_OK, "device %d", dev);
	return props;
}

static void assert_sensible(const struct nccl_net_props_v12 *props, int abi, int dev)
{
	struct stat st;
	char path[512];

	need(props->name && props->name[0], "device %d has no name", dev);
	cr_assert(ne(ptr, props->pci_path, NULL));
	snprintf(path, sizeof(path), "%s/subsystem", props->pci_path);
	need(stat(path, &st) == 0 && S_ISDIR(st.st_mode), "%s", path);
	cr_assert(ne(u64, props->guid, 0));
	cr_assert(eq(int, props->ptr_support, NCCL_NET_PTR_HOST));
	cr_assert(eq(int, props->reg_is_global, 0));
	need(props->speed >= 1000 && props->speed <= 1000000, "%d Mbit/s", props->speed);
	need(isfinite(props->latency) && props->latency >= 0, "%f us", (double)props->latency);
	need(props->max_comms >= 1024, "%d comms", props->max_comms);
	cr_assert(eq(int, props->max_recvs, abi >= 9 ? 8 : 1));
	cr_assert(eq(int, props->device_type, 0));
	cr_assert(eq(int, props->device_version, 0));
	cr_assert(eq(int, props->force_flush, 0));
	cr_assert(eq(int, props->vdev.ndevs, 1));
	cr_assert(eq(int, props->vdev.devs[0], dev));
	need(props->max_p2p_bytes > 0 && props->max_p2p_bytes <= 1ull << 40, "%zu",
	     props->max_p2p_bytes);
	need(props->max_coll_bytes > 0 && props->max_coll_bytes <= 1ull << 40, "%zu",
	     props->max_coll_bytes);
}

ParameterizedTestParameters(life, properties_are_what_nccl_accepts)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, life, properties_are_what_nccl_accepts)
{
	struct plug p;

	plug_open(&p, abi->v);
	for (int dev = 0; dev < p.ndev; dev++) {
		struct nccl_net_props_v12 props = properties(&p, dev);

		assert_sensible(&props, abi->v, dev);
		for (int other = 0; other < dev; other++) {
			struct nccl_net_props_v12 o = properties(&p, other);

			cr_assert(ne(str, (char *)props.name, (char *)o.name));
			cr_assert(ne(u64, props.guid, o.guid));
		}
	}
	plug_close(&p);
}

ParameterizedTestParameters(life, properties_are_equal_in_all_versions)
{
	return ABIS();
}

ParameterizedTest(struct plug_abi *abi, life, properties_are_equal_in_all_versions)
{
	struct nccl_net_props_v12 a, b;
	struct plug p, newest;

	plug_open(&newest, 11);
	plug_open(&p, abi->v);
	cr_assert(eq(int, p.ndev, newest.ndev));
	for (int dev = 0; dev < p.ndev; dev++) {
		a = properties(&newest, dev);
		b = properties(&p, dev);
		cr_assert(eq(str, (char *)a.name, (char *)b.name));
		cr_assert(eq(str, (char *)a.pci_path, (char *)b.pci_path));
		cr_assert(eq(u64, a.guid, b.guid));
		cr_assert(eq(int, a.ptr_support, b.ptr_support));
		cr_assert(eq(int, a.speed, b.speed));
		cr_assert(eq(int, a.port, b.port));
		cr_assert(eq(flt, a.latency, b.latency));
		cr_assert(eq(int, a.max_comms, b.max_comms));
		cr_assert(eq(int, b.max_recvs, abi->v >= 9 ? a.max_recvs : 1));
		cr_assert(eq(sz, a.max_p2p_bytes, b.max_p2p_bytes));
	}
	plug_close(&p);
	plug_close(&newest);
}

struct dev {
	int index;
};

static struct dev none[] = {{-1}, {64}, {1 << 20}, {-1 - 0x7fffffff}, {0x7fffffff}};

ParameterizedTestParameters(life, properties_of_no_device_are_an_error)
{
	return cr_make_param_array(struct dev, none, sizeof(none) / sizeof(none[0]));
}

ParameterizedTest(struct dev *dev, life, properties_of_no_device_are_an_error)
{
	struct nccl_net_props_v11 props;
	struct plug p;

	plug_open(&p, 11);
	cr_assert(ne(int, p.net.raw.get_properties_v11(dev->index, &props), NCCL_NET_OK));
	cr_assert(ne(int, p.net.raw.get_properties_v11(p.ndev, &props), NCCL_NET_OK));
	plug_close(&p);
}

static struct plug shared;
static struct nccl_net_props_v12 want;

static void *ask_often(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		struct nccl_net_props_v12 got = properties(&shared, 0);

		need(got.guid == want.guid && got.speed == want.speed && got.name == want.name &&
			     got.pci_path == want.pci_path && got.max_comms == want.max_comms,
		     "call %d of one thread: another answer", i);
	}
	return arg;
}

Test(life, properties_are_stable_whoever_else_asks)
{
	pthread_t thread[8];

	plug_open(&shared, 0);
	want = properties(&shared, 0);
	for (int i = 0; i < 8; i++)
		cr_assert(zero(int, pthread_create(&thread[i], NULL, ask_often, NULL)));
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	plug_close(&shared);
}

Test(life, devices_answers_the_same_at_each_call)
{
	struct plug p;
	int ndev = -1;

	plug_open(&p, 0);
	for (int i = 0; i < 100; i++) {
		cr_assert(eq(int, p.net.devices(&ndev), NCCL_NET_OK));
		cr_assert(eq(int, ndev, p.ndev));
	}
	plug_close(&p);
}
