/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device thread costs when there is nothing to do, in wake-ups: unlike their time, their
 * number does not depend on the machine. One takes 20 ... 70 us, so 50 a second are some 0.3 % of a
 * core.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_idle, .timeout = 60);

enum { SECOND_US = 1000000, WAKES_PER_S = 55 };

static FILE *open_of_thread(const char *id, const char *file)
{
	char path[300];

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", id, file);
	return fopen(path, "r");
}

static bool is_device_thread(const char *id)
{
	FILE *f = open_of_thread(id, "comm");
	char name[16] = "";
	bool is = f && fscanf(f, "%15s", name) == 1 && strcmp(name, "softefa") == 0;

	if (f)
		fclose(f);
	return is;
}

static long sleeps_of_thread(const char *id)
{
	FILE *f = open_of_thread(id, "status");
	char line[128];
	long n = -1;

	cr_assert(ne(ptr, f, NULL));
	while (n < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) != 1)
			n = -1;
	fclose(f);
	return n;
}

/* How often the device thread of this process went to sleep. */
static long naps(void)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *e;
	long n = -1;

	cr_assert(ne(ptr, threads, NULL));
	while (n < 0 && (e = readdir(threads)))
		if (is_device_thread(e->d_name))
			n = sleeps_of_thread(e->d_name);
	closedir(threads);
	cr_assert(ge(long, n, 0), "no device thread");
	return n;
}

static long naps_in(long us)
{
	long before = naps();
	int64_t end = kids_now_us() + us;

	while (kids_now_us() < end)
		kids_nap_us((long)(end - kids_now_us()));
	return naps() - before;
}

Test(softefa_idle, queue_pairs_at_rest_cost_fifty_wake_ups_a_second)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 8, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(gt(long, naps_in(5 * SECOND_US / 2), 50)); /* it goes to rest by steps */
	cr_assert(le(long, naps_in(2 * SECOND_US), 2 * WAKES_PER_S));
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	duo_fini(&d);
}

Test(softefa_idle, without_queue_pairs_it_sleeps)
{
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	MUST_0(raw_qp_destroy(&d.a.qp, &d.a.dev));
	MUST_0(raw_qp_destroy(&d.b.qp, &d.b.dev));
	kids_nap_us(100000);
	cr_assert(le(long, naps_in(SECOND_US), 1));
	cr_assert(ge(long, naps_in(5 * SECOND_US), 1)); /* a wake-up may be lost */
	duo_fini(&d);
}
