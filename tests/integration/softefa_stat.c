/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: each counts what it says, and softefa stat reads them whatever becomes of the rest. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/duo.h"
#include "../lib/faults.h"
#include "../lib/kids.h"

TestSuite(softefa_stat, .timeout = 60);

enum { LEN = 100, CANNOT_READ = 125 };

static struct cmd cmd;

static void stat_json(void)
{
	cmd_run(&cmd, 20, "$B/softefa stat --json");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
}

/* The part of the output that begins with @from says @text before the next device does. */
static bool says_of(unsigned dev, const char *text)
{
	char from[32];
	const char *at, *next, *found;

	snprintf(from, sizeof(from), "\"device\":\"efa_%u\"", dev);
	at = strstr(cmd.out, from);
	if (!at)
		return false;
	next = strstr(at + 1, "\"device\"");
	found = strstr(at, text);
	return found && (!next || found < next);
}

#define SAYS(dev, text) cr_assert(says_of(dev, text), "no %s in\n%s", text, cmd.out)

static uint8_t run(struct duo *d, enum raw_op op, uint32_t len)
{
	struct raw_wr wr = node_wr(&d->a, op, &d->to_b, d->ahn, 0, len, 0);

	return node_run(&d->a, &wr).status;
}

static void init(struct duo *d, const char *settings, const struct node_attr *attr)
{
	node_settings(settings);
	faults_init();
	duo_init(d, attr);
}

Test(softefa_stat, requests_and_bytes_are_counted_by_operation)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	stat_json();
	cr_assert(cmd_says(&cmd, "\"processes\":1,"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "\"devices\":[]"), "%s", cmd.out);
	for (unsigned i = 0; i < 3; i++) {
		node_recv(&d.b, 1, 0, LEN);
		cr_assert(zero(int, run(&d, RAW_SEND, LEN)));
		node_wait_status(&d.b.rcq, 0);
	}
	for (unsigned i = 0; i < 2; i++)
		cr_assert(zero(int, run(&d, RAW_WRITE, 5000)));
	cr_assert(zero(int, run(&d, RAW_READ, 1 << 20)));
	stat_json();
	SAYS(0, "\"requests\":{\"send\":3,\"read\":1,\"write\":2,\"other\":0}");
	SAYS(0, "\"low_latency\":{\"send\":0,\"read\":0,\"write\":0,\"other\":0}");
	SAYS(0, "\"bytes\":{\"send\":300,\"read\":1048576,\"write\":10000,\"other\":0}");
	SAYS(0, "\"completions\":{\"0\":6}");
	SAYS(0, "\"receives\":{\"0\":3}");
	SAYS(0, "\"received_bytes\":300,\"rnr\":0,\"duplicates\":0,\"reorders\":0,\"faults\":0}");
	duo_fini(&d);
}

Test(softefa_stat, requests_with_a_service_level_are_counted_once_more)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){.sl = 8});
	for (unsigned i = 0; i < 2; i++)
		cr_assert(zero(int, run(&d, RAW_WRITE, 5000)));
	cr_assert(zero(int, run(&d, RAW_READ, LEN)));
	stat_json();
	SAYS(0, "\"requests\":{\"send\":0,\"read\":1,\"write\":2,\"other\":0}");
	SAYS(0, "\"low_latency\":{\"send\":0,\"read\":1,\"write\":2,\"other\":0}");
	cmd_run(&cmd, 20, "$B/softefa stat");
	cr_assert(cmd_says(&cmd, "low latency   read 1  write 2\n"), "%s", cmd.out);
	duo_fini(&d);
}

Test(softefa_stat, completions_are_counted_by_status)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){.rnr = 1});
	faults_set(&d.a.dev, "status 13 nth=1\nstatus 200 nth=2\nstatus 201 nth=3");
	for (unsigned i = 0; i < 3; i++)
		run(&d, RAW_WRITE, LEN);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	wr.remote.key ^= 1;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 7));
	node_recv(&d.b, 1, 0, LEN - 1);
	cr_assert(eq(int, run(&d, RAW_SEND, LEN), 11));
	node_wait_status(&d.b.rcq, 6);
	raw_post(&d.a.qp, &wr);
	d.a.qp.sq[(d.a.qp.sq_prod - 1) % d.a.qp.sq_depth * 64 + 2] = 0x8f; /* no such operation */
	raw_ring(&d.a.qp);
	node_wait_status(&d.a.scq, 3);
	stat_json();
	SAYS(0, "\"requests\":{\"send\":1,\"read\":0,\"write\":4,\"other\":1}");
	SAYS(0, "\"completions\":{\"3\":1,\"7\":1,\"11\":1,\"13\":1,\"19\":2}");
	SAYS(0, "\"bytes\":{\"send\":0,\"read\":0,\"write\":0,\"other\":0}");
	SAYS(0, "\"receives\":{\"6\":1},\"received_bytes\":0");
	SAYS(0, "\"faults\":3");
	duo_fini(&d);
}

Test(softefa_stat, request_without_a_receive_counts_once_however_long_it_waits)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	node_post(&d.a, &wr);
	cr_assert(node_quiet(&d.a.scq, 50));
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	wr.imm_on = true;
	node_post(&d.a, &wr);
	cr_assert(node_quiet(&d.a.scq, 50));
	stat_json();
	SAYS(0, "\"rnr\":2");
	node_recv(&d.b, 1, 0, LEN);
	node_recv(&d.b, 2, 0, LEN);
	node_wait_status(&d.a.scq, 0);
	node_wait_status(&d.a.scq, 0);
	stat_json();
	SAYS(0, "\"rnr\":2");
	duo_fini(&d);
}

Test(softefa_stat, request_that_waits_in_vain_for_a_receive_counts_once)
{
	struct duo d;

	init(&d, "rnr_timer_us=10000", &(struct node_attr){.rnr = 3});
	cr_assert(eq(int, run(&d, RAW_SEND, LEN), 10));
	stat_json();
	SAYS(0, "\"rnr\":1");
	duo_fini(&d);
}

Test(softefa_stat, bytes_of_regions_are_counted)
{
	struct raw_mr mr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	cr_assert(zero(int, run(&d, RAW_WRITE, LEN)));
	MUST_0(raw_mr_reg(&mr, &d.a.dev, &d.a.pd, d.a.buf, 12345, 0));
	stat_json();
	SAYS(0, "\"registered\":2109497,\"deregistered\":0,"); /* and either end's MiB */
	MUST_0(raw_mr_dereg(&mr, &d.a.dev));
	stat_json();
	SAYS(0, "\"registered\":2109497,\"deregistered\":12345,");
	duo_fini(&d);
	stat_json();
	SAYS(0, "\"registered\":2109497,\"deregistered\":2109497,");
}

Test(softefa_stat, duplicates_and_reorders_are_counted)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	faults_set(&d.a.dev, "twice nth=2\ntwice nth=4");
	for (unsigned i = 0; i < 5; i++)
		cr_assert(zero(int, run(&d, RAW_WRITE, LEN)));
	stat_json();
	SAYS(0, "\"duplicates\":2,\"reorders\":0,\"faults\":2");
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	for (unsigned i = 0; i < 32; i++)
		raw_post(&d.a.qp, &wr);
	raw_ring(&d.a.qp);
	for (unsigned i = 0; i < 32; i++)
		node_wait_status(&d.a.scq, 0);
	stat_json();
	cr_assert(not(says_of(0, "\"reorders\":0,")), "%s", cmd.out);
	duo_fini(&d);
}

/* ---- the same by the names of the kernel ---- */

static long long counter(unsigned dev, const char *name)
{
	char path[128], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/efa_%u/ports/1/hw_counters/%s", dev,
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	MUST(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, "%s", path);
	MUST_0(close(fd));
	return strtoll(text, NULL, 10);
}

/* A is device 0, B device 1: what goes out here comes in there. */
Test(softefa_stat, counters_of_the_port_are_those_of_the_kernels_driver)
{
	static const struct {
		const char *name;
		long long a, b;
	} all[] = {
		{"tx_bytes", 5 * LEN, 5000},
		{"rx_bytes", 5000, 5 * LEN},
		{"rx_drops", 0, 0},
		{"send_bytes", 3 * LEN, 0},
		{"send_wrs", 3, 0},
		{"recv_bytes", 0, 3 * LEN},
		{"recv_wrs", 0, 3},
		{"rdma_read_wrs", 1, 0},
		{"rdma_read_bytes", 5000, 0},
		{"rdma_read_resp_bytes", 0, 5000},
		{"rdma_write_wrs", 2, 0},
		{"rdma_write_bytes", 2 * LEN, 0},
		{"rdma_write_recv_bytes", 0, 2 * LEN},
		{"unresponsive_remote_events", 0, 0},
	};
	struct node_addr to_a;
	struct duo d;

	node_settings(NULL);
	faults_init();
	node_init(&d.a, &(struct node_attr){.dev = 0});
	node_init(&d.b, &(struct node_attr){.dev = 1});
	d.to_b = node_addr(&d.b);
	d.ahn = node_ahn(&d.a, &d.to_b);
	to_a = node_addr(&d.a);
	node_ahn(&d.b, &to_a);
	for (unsigned i = 0; i < 3; i++) {
		node_recv(&d.b, i, 0, LEN);
		cr_assert(zero(int, run(&d, RAW_SEND, LEN)));
	}
	cr_assert(zero(int, run(&d, RAW_WRITE, LEN)));
	cr_assert(zero(int, run(&d, RAW_WRITE, LEN)));
	cr_assert(zero(int, run(&d, RAW_READ, 5000)));
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		cr_assert(eq(llong, counter(0, all[i].name), all[i].a), "%s", all[i].name);
		cr_assert(eq(llong, counter(1, all[i].name), all[i].b), "%s", all[i].name);
	}
	faults_set(&d.a.dev, "status 13");
	run(&d, RAW_WRITE, LEN);
	cr_assert(eq(llong, counter(0, "unresponsive_remote_events"), 1));
	cr_assert(eq(llong, counter(0, "rdma_write_bytes"), 2 * LEN));
	duo_fini(&d);
}

Test(softefa_stat, datagram_without_a_receive_is_a_drop)
{
	struct raw_wr wr;
	struct duo d;

	init(&d, NULL, &(struct node_attr){.type = RAW_UD});
	for (unsigned i = 0; i < 3; i++) {
		wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
		cr_assert(zero(int, node_run(&d.a, &wr).status));
	}
	for (int64_t end = now_ms() + 20000; counter(0, "rx_drops") < 3; nap_ms(1))
		MUST(now_ms() < end, "%lld drops", counter(0, "rx_drops"));
	cr_assert(zero(llong, counter(0, "recv_bytes")));
	duo_fini(&d);
}

/* Whoever opens the file of the tree gets the same, whatever folder of /sys leads there. */
Test(softefa_stat, counters_are_in_the_tree)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	cr_assert(zero(int, run(&d, RAW_WRITE, LEN)));
	cmd_run(&cmd, 20,
		"for f in $SYSFS_PATH/class/infiniband/*/ports/*/hw_counters/rdma_write_bytes "
		"$SYSFS_PATH/class/infiniband_verbs/uverbs0/device/infiniband/efa_0/ports/1/"
		"hw_counters/rdma_write_bytes; do cat $f; done | tr -d ' '");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	cr_assert(zero(int, strcmp(cmd.out, "100\n0\n0\n0\n100\n")), "%s", cmd.out);
	duo_fini(&d);
}

/* ---- devices and processes ---- */

static void work(void *arg)
{
	struct duo d;

	duo_init(&d, &(struct node_attr){.dev = *(unsigned *)arg});
	for (unsigned i = 0; i < 4; i++)
		MUST(run(&d, RAW_WRITE, LEN) == 0, "write");
	duo_fini(&d);
}

Test(softefa_stat, processes_add_up_also_when_they_have_left)
{
	unsigned dev = 3;
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	cr_assert(zero(int, run(&d, RAW_WRITE, LEN)));
	kids_join(kids_start(work, &dev));
	kids_join(kids_start(work, &dev));
	dev = 0;
	kids_join(kids_start(work, &dev));
	stat_json();
	cr_assert(cmd_says(&cmd, "\"processes\":1,"), "%s", cmd.out);
	SAYS(0, "\"write\":5,");
	SAYS(3, "\"write\":8,");
	cr_assert(not(says_of(1, "requests")));
	duo_fini(&d);
}

static void work_hard(void *arg)
{
	struct duo d;

	(void)arg;
	duo_init(&d, &(struct node_attr){0});
	for (unsigned i = 0; i < 200; i++) {
		struct raw_wr wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);

		for (unsigned k = 0; k < 32; k++)
			raw_post(&d.a.qp, &wr);
		raw_ring(&d.a.qp);
		for (unsigned k = 0; k < 32; k++)
			node_wait_status(&d.a.scq, 0);
	}
	duo_fini(&d);
}

Test(softefa_stat, processes_that_count_at_the_same_time_lose_nothing)
{
	pid_t kid[4];
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	for (unsigned i = 0; i < 4; i++)
		kid[i] = kids_start(work_hard, NULL);
	for (unsigned i = 0; i < 4; i++)
		kids_join(kid[i]);
	stat_json();
	SAYS(0, "\"write\":25600,");
	SAYS(0, "\"completions\":{\"0\":25600}");
	duo_fini(&d);
}

struct meeting {
	atomic_uint kid;
};

static void work_and_wait(void *arg)
{
	struct meeting *m = arg;
	struct duo d;

	duo_init(&d, &(struct node_attr){0});
	MUST(run(&d, RAW_WRITE, LEN) == 0, "write");
	m->kid = 1;
	pause();
}

Test(softefa_stat, people_are_told_in_words)
{
	struct duo d;

	init(&d, NULL, &(struct node_attr){0});
	cmd_run(&cmd, 20, "$B/softefa stat");
	cr_assert(zero(int, cmd.code));
	cr_assert(cmd_says(&cmd, ": 1 processes\nno traffic yet\n"), "%s", cmd.out);
	faults_set(&d.a.dev, "status 8 nth=2");
	run(&d, RAW_WRITE, LEN);
	run(&d, RAW_WRITE, LEN);
	cmd_run(&cmd, 20, "$B/softefa stat --domain %s", getenv("SOFTEFA_DOMAIN"));
	cr_assert(zero(int, cmd.code));
	cr_assert(cmd_says(&cmd, "efa_0\n  requests      write 2\n"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "completions   ok 1  status 8 1\n"), "%s", cmd.out);
	duo_fini(&d);
}

Test(softefa_stat, empty_domain_is_an_error_that_says_so)
{
	node_settings(NULL);
	cmd_run(&cmd, 20, "$B/softefa stat --domain nobody-%d", (int)getpid());
	cr_assert(eq(int, cmd.code, 1));
	cr_assert(cmd_says(&cmd, "nobody is in domain 'nobody-"), "%s", cmd.out);
	cmd_run(&cmd, 20, "$B/softefa stat --json file");
	cr_assert(eq(int, cmd.code, 2));
	cr_assert(cmd_says(&cmd, "stat takes no arguments"), "%s", cmd.out);
	cmd_run(&cmd, 20, "$B/softefa -- stat -c %%F /");
	cr_assert(zero(int, cmd.code));
	cr_assert(cmd_says(&cmd, "directory"), "%s", cmd.out);
}

/* Everybody is dead and nobody has noticed: what they did can still be read, damage is seen. */
Test(softefa_stat, dead_fabric_is_read_and_a_damaged_one_refused)
{
	struct meeting *m = kids_share(sizeof(*m));
	char dir[128], file[160];
	pid_t pid;

	node_settings(NULL);
	pid = kids_start(work_and_wait, m);
	kids_await(&m->kid, 1);
	kids_kill(pid);
	cmd_run(&cmd, 20, "$B/softefa stat");
	cr_assert(zero(int, cmd.code));
	cr_assert(cmd_says(&cmd, ": 0 processes, 1 died and"), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "write 1\n"), "%s", cmd.out);
	node_fabric_dir(dir, sizeof(dir));
	snprintf(file, sizeof(file), "%s/fabric", dir);
	cr_assert(zero(int, truncate(file, 1 << 20)));
	cmd_run(&cmd, 20, "$B/softefa stat");
	cr_assert(eq(int, cmd.code, CANNOT_READ));
	cr_assert(cmd_says(&cmd, "its shared memory is damaged"), "%s", cmd.out);
	unlink(file);
	cmd_run(&cmd, 20, "$B/softefa stat");
	cr_assert(eq(int, cmd.code, 1));
	rmdir(dir);
}

static void come_and_go(void *arg)
{
	atomic_uint *stop = arg;

	while (!*stop) {
		unsigned dev = 0;

		kids_join(kids_start(work, &dev));
	}
}

/* In the middle of making, leaving and removing the shared memory. */
Test(softefa_stat, fabric_that_comes_and_goes_is_there_or_not)
{
	atomic_uint *stop = kids_share(sizeof(*stop));
	pid_t pid;

	node_settings(NULL);
	pid = kids_start(come_and_go, stop);
	for (unsigned i = 0; i < 40; i++) {
		cmd_run(&cmd, 20, "$B/softefa stat --json");
		cr_assert(cmd.code == 0 || cmd.code == 1, "%d: %s", cmd.code, cmd.out);
		cr_assert(cmd_says(&cmd, cmd.code ? "nobody is in" : "\"devices\":["), "%s",
			  cmd.out);
	}
	*stop = 1;
	kids_join(pid);
}
