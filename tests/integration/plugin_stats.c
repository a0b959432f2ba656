/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of counters: what is in it, when it is written, what happens when it cannot be. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/link.h"
#include "../lib/need.h"

enum { BIG = 1 << 20, SMALL = 1000, N = 7 };

TestSuite(stats, .timeout = 60);

static char dir[64], file[96];

static void use_file(void)
{
	char name[96];

	snprintf(dir, sizeof(dir), "/tmp/stats-%d", (int)getpid());
	snprintf(file, sizeof(file), "%s/%d.json", dir, (int)getpid());
	snprintf(name, sizeof(name), "%s/%%p.json", dir);
	setenv("NCCL_EFA_STATS", name, 1);
	setenv("NCCL_EFA_RAILS", "2", 1);
}

static void make_dir(void)
{
	cmd_run(&(struct cmd){0}, 10, "rm -rf %s; mkdir %s", dir, dir);
}

static void remove_dir(void)
{
	cmd_run(&(struct cmd){0}, 10, "rm -rf %s", dir);
}

/* What a program that reads JSON finds there. */
static char *at(const char *path)
{
	static struct cmd cmd;

	cmd_run(&cmd, 20, "python3 -c 'import json; d = json.load(open(\"%s\")); print(%s)'", file,
		path);
	cmd.out[strcspn(cmd.out, "\n")] = '\0';
	return cmd.out;
}

static void message(struct plug *p, struct link *l, struct mem *from, struct mem *to, size_t size)
{
	void *recv = plug_recv(p, l->recv, to->at, BIG, 0, to->mh);

	plug_wait(p, plug_send(p, l->send, from->at, size, 0, from->mh));
	plug_wait(p, recv);
}

static void traffic(struct plug *p)
{
	struct mem from, to;
	struct link l;

	link_open(&l, p, 0, 0);
	mem_get(&from, p, l.send, BIG, 0);
	mem_get(&to, p, l.recv, BIG, 0);
	for (int i = 0; i < N; i++)
		message(p, &l, &from, &to, SMALL);
	message(p, &l, &from, &to, BIG);
	message(p, &l, &from, &to, 0);
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
}

static struct mode {
	char name[8];
} modes[] = {{"write"}, {"read"}, {"send"}};

ParameterizedTestParameters(stats, messages_are_counted_by_protocol_and_size)
{
	return cr_make_param_array(struct mode, modes, sizeof(modes) / sizeof(modes[0]));
}

ParameterizedTest(struct mode *m, stats, messages_are_counted_by_protocol_and_size)
{
	char path[128], want[32];
	struct plug p;

	use_file();
	make_dir();
	setenv("NCCL_EFA_PROTOCOL", m->name, 1);
	plug_open(&p, 0);
	traffic(&p);
	plug_close(&p);
	snprintf(path, sizeof(path), "d[\"devices\"][0][\"%s\"][\"sends\"]", m->name);
	cr_assert(eq(str, at(path), (char *)"{'0': 1, '512': 7, '1048576': 1}"));
	snprintf(path, sizeof(path), "d[\"devices\"][0][\"%s\"][\"recvs\"]", m->name);
	cr_assert(eq(str, at(path), (char *)"{'0': 1, '512': 7, '1048576': 1}"));
	snprintf(path, sizeof(path), "d[\"devices\"][0][\"%s\"][\"recv_bytes\"]", m->name);
	snprintf(want, sizeof(want), "%d", N * SMALL + BIG);
	cr_assert(eq(str, at(path), want));
	snprintf(path, sizeof(path),
		 "min(r[\"bytes\"] for r in d[\"devices\"][0][\"%s\"][\"rails\"]) >= %d", m->name,
		 BIG / 2);
	cr_assert(eq(str, at(path), (char *)"True"));
	cr_assert(eq(str, at("d[\"devices\"][0][\"connections\"]"), (char *)"2"));
	cr_assert(eq(str, at("d[\"devices\"][0][\"registrations\"][\"made\"]"), (char *)"2"));
	cr_assert(eq(str, at("d[\"devices\"][1][\"connections\"]"), (char *)"0"));
	snprintf(want, sizeof(want), "%d", (int)getpid());
	cr_assert(eq(str, at("d[\"pid\"]"), want));
	remove_dir();
}

/* Nobody tells how large they were. */
Test(stats, receives_that_are_done_early_are_counted_apart)
{
	struct mem from, to;
	struct plug p;
	struct link l;

	use_file();
	make_dir();
	setenv("NCCL_EFA_EAGER_MAX", "0", 1);
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, BIG, 0);
	mem_get(&to, &p, l.recv, BIG, 0);
	for (int i = 0; i < N; i++) {
		plug_wait(&p, plug_irecv_early(&p, l.recv, to.at, BIG, 0, to.mh));
		plug_wait(&p, plug_send(&p, l.send, from.at, SMALL, 0, from.mh));
	}
	message(&p, &l, &from, &to, SMALL);
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
	cr_assert(eq(str, at("d[\"devices\"][0][\"write\"][\"sends\"]"), (char *)"{'512': 8}"));
	cr_assert(eq(str, at("d[\"devices\"][0][\"write\"][\"recvs\"]"), (char *)"{'512': 1}"));
	cr_assert(eq(str, at("d[\"devices\"][0][\"write\"][\"quiet\"]"), (char *)"{'recvs': 7}"));
	remove_dir();
}

/* A process that is killed leaves what it was at a second before. */
Test(stats, file_is_written_while_there_is_traffic)
{
	struct mem from, to;
	struct plug p;
	struct link l;
	int64_t end;

	use_file();
	make_dir();
	plug_open(&p, 0);
	link_open(&l, &p, 0, 0);
	mem_get(&from, &p, l.send, BIG, 0);
	mem_get(&to, &p, l.recv, BIG, 0);
	for (end = now_ms() + 3000; now_ms() < end && access(file, R_OK);) {
		void *recv = plug_recv(&p, l.recv, to.at, BIG, 0, to.mh);

		for (int i = 0; i < 100000; i++)
			need(!plug_test(&p, recv, NULL), "it is done");
		plug_wait(&p, plug_send(&p, l.send, from.at, SMALL, 0, from.mh));
		plug_wait(&p, recv);
	}
	cr_assert(zero(int, access(file, R_OK)));
	cr_assert(eq(str, at("len(d[\"devices\"])"), (char *)"2"));
	mem_put(&from);
	mem_put(&to);
	link_close(&l);
	plug_close(&p);
	remove_dir();
}

Test(stats, file_that_cannot_be_written_is_one_warning)
{
	struct plug p;

	use_file();
	plug_open(&p, 0);
	traffic(&p);
	traffic(&p);
	cr_assert(eq(int, plug_warned(), 1));
	need(plug_said("NCCL_EFA_STATS") && plug_said(file), "%s", plug_warning());
	plug_forget();
	plug_close(&p);
}
