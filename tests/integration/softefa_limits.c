/* SPDX-License-Identifier: BSD-3-Clause */
/* Many contexts, and no files left: what there is works on, what is too much fails cleanly. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../lib/ear.h"
#include "../lib/kids.h"

TestSuite(softefa_limits, .timeout = 100);

enum { MANY = 300, LEN = 64 };

static void files(rlim_t most)
{
	struct rlimit l;

	MUST(getrlimit(RLIMIT_NOFILE, &l) == 0, "limit");
	l.rlim_cur = most;
	MUST(setrlimit(RLIMIT_NOFILE, &l) == 0, "%d files", (int)most);
}

static void to_itself(struct node *n, uint32_t seed)
{
	struct node_addr self = node_addr(n);
	struct raw_wr wr = node_wr(n, RAW_SEND, &self, node_ahn(n, &self), 0, LEN, 0);

	node_fill(n->buf, LEN, seed);
	node_recv(n, 0, LEN, LEN);
	MUST(node_run(n, &wr).status == 0, "send");
	node_wait_status(&n->rcq, 0);
	MUST(node_filled(n->buf + LEN, LEN, seed), "bytes");
}

Test(softefa_limits, hundreds_of_contexts_work_side_by_side)
{
	static struct node n[MANY];
	unsigned before;

	node_settings(NULL);
	files(2 * MANY);
	before = open_files();
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < MANY; i++)
			node_init(&n[i], &(struct node_attr){.dev = i % 4, .bytes = 2 * LEN});
		for (unsigned i = 0; i < MANY; i++)
			to_itself(&n[i], i);
		for (unsigned i = 0; i < MANY; i++)
			node_fini(&n[i]);
	}
	/* Nothing is left open but what the process has once. */
	cr_assert(le(uint, open_files(), before + 2));
}

/* All numbers are taken but @spare. */
static void fill(unsigned spare)
{
	int fd, last = -1;

	files(64);
	while ((fd = open("/dev/null", O_RDWR)) >= 0)
		last = fd;
	MUST(errno == EMFILE, "%s", strerror(errno));
	for (unsigned i = 0; i < spare; i++)
		close(last - (int)i);
}

Test(softefa_limits, context_that_finds_no_file_is_emfile_and_the_others_work_on)
{
	struct raw_dev d[3];
	struct ear e;

	node_settings("log=0");
	ear_init(&e);
	ear_works(&e); /* the first message makes a ring, which is a file for a moment */
	fill(2);
	MUST_0(raw_open(&d[0], &raw_libc, 0));
	MUST_0(raw_open(&d[1], &raw_libc, 0));
	cr_assert(eq(int, raw_open(&d[2], &raw_libc, 0), -EMFILE));
	ear_works(&e);
	raw_close(&d[0]);
	MUST_0(raw_open(&d[0], &raw_libc, 0));
	ear_works(&e);
}

/* A channel takes two files: neither one nor none may be left over of it. */
Test(softefa_limits, channel_that_finds_no_file_is_emfile_and_takes_none)
{
	struct node n;
	unsigned before;
	int fd, rc;

	node_settings("log=0");
	node_init(&n, &(struct node_attr){0});
	to_itself(&n, 1);
	fill(0);
	for (int spare = 0; spare < 3; spare++) {
		before = open_files();
		rc = raw_channel(&n.dev, &fd);
		cr_assert(eq(int, rc, spare < 2 ? -EMFILE : 0), "%d to spare", spare);
		if (rc)
			cr_assert(eq(uint, open_files(), before));
		close(63 - spare);
	}
	to_itself(&n, 1);
}
